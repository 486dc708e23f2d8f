"""The C compiler of this machine.

cc.get_cc()                                     "/usr/bin/g++", or None
cc.create_shared("kernel.so", ["kernel.c"])     a shared library of sources and objects
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import MissingDependencyError, MLCError


def get_cc() -> str | None:
    """The path of the C++ (else C) compiler: $CXX, g++, clang++, $CC, gcc, clang; None: there is
    none.
    """
    names = (os.environ.get("CXX"), "g++", "clang++", os.environ.get("CC"), "gcc", "clang", "cc")
    return next((found for n in names if n and (found := shutil.which(n))), None)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Make a shared library of C sources or objects.

    Raises:
        MissingDependencyError: there is no compiler.
        MLCError: it refuses the sources, with what it says.
    """
    compiler = cc or get_cc()
    if compiler is None:
        raise MissingDependencyError("no C compiler on this machine", hint="install g++ or clang")
    given = [objects] if isinstance(objects, str) else list(objects)
    run([compiler, "-shared", "-fPIC", "-O2", "-o", output, *given, *options])


def run(command: Sequence[Any]) -> None:
    """Run a compiler.

    Raises:
        MLCError: it fails, with what it says.
    """
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise MLCError(f"{command[0]} failed: {said}")
