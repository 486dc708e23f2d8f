"""C as LLVM IR, by the clang of this machine.

ll_code = clang.create_llvm(c_code, output="kernel.ll")
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from mlcnb.compat.contrib.cc import run
from mlcnb.compat.contrib.utils import tempdir
from mlcnb.core.errors import MissingDependencyError


def find_clang(required: bool = True) -> list[str]:
    """The paths of clang that are found, plain "clang" first.

    Raises:
        MissingDependencyError: there is none, and `required` is True.
    """
    names = ["clang", *(f"clang-{n}" for n in range(24, 10, -1))]
    found = [path for n in names if (path := shutil.which(n))]
    if required and not found:
        raise MissingDependencyError(
            "no clang on this machine: it makes LLVM IR of C",
            hint="install clang, or call a function of Python: R.call_dps_packed, T.call_packed",
        )
    return found


def create_llvm(
    inputs: str | Sequence[str],
    output: str | None = None,
    options: Sequence[str] = (),
    cc: str | None = None,
) -> str:
    """The LLVM IR of C (or C++) code, or of files that hold it; written to `output` too.

    Raises:
        MissingDependencyError: there is no clang.
        MLCError: it refuses the code, with what it says.
    """
    compiler = cc or find_clang()[0]
    temp = tempdir()
    path = output or temp.relpath("output.ll")
    sources = []
    for number, given in enumerate([inputs] if isinstance(inputs, str) else inputs):
        if re.search(r"\.(c|cc|cpp)$", given):
            sources.append(given)
        else:
            sources.append(temp.relpath(f"input{number}.cc"))
            Path(sources[-1]).write_text(given)
    run([compiler, "-S", "-emit-llvm", "-O3", *options, *sources, "-o", path])
    return Path(path).read_text()
