"""Builders: from a program to what a runner runs.

    builder.build([BuilderInput(mod, target)]) -> [BuilderResult(artifact_path, error_msg)]

`LocalBuilder` compiles in processes beside this one: a crash costs one candidate. Its artifact is a
file with the program as JSON; the object that was compiled waits in the cache on disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.json import save_json
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.child import do_job
from mlcnb.meta_schedule.part import Part
from mlcnb.runtime.threads import default_num_threads
from mlcnb.target import Target


@dataclass
class BuilderInput:
    """A scheduled module, and what it is for."""

    mod: IRModule
    target: Target
    params: Any = None


@dataclass
class BuilderResult:
    """Where the artifact is, or why there is none."""

    artifact_path: str | None
    error_msg: str | None = None


class Builder(Part):
    """A builder; `PyBuilder` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.builder"

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """An artifact of each module, or the reason why there is none."""
        raise NotImplementedError(f"{type(self).__name__}.build")


PyBuilder = Builder


class LocalBuilder(Builder):
    """Processes beside this one, one for each core.

    Args:
        max_workers: how many; default: one for each core.
        timeout_sec: after so long a compilation is given up.
        f_build: (mod, target) -> anything: called here first, to refuse or to look.
        f_export, initializer: taken for TVM's callers.
    """

    kind = "local"

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: Callable[[IRModule, Target], Any] | None = None,
        f_export: Any = None,
        initializer: Any = None,
    ) -> None:
        self.max_workers, self.timeout_sec = max_workers, timeout_sec
        self.f_build = f_build

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """An artifact of each module; errors are told, not raised."""
        with ThreadPoolExecutor(self.max_workers or default_num_threads()) as pool:
            return list(pool.map(self._built, build_inputs))

    def _built(self, one: BuilderInput) -> BuilderResult:
        text = save_json(one.mod)
        try:
            if self.f_build is not None:
                self.f_build(one.mod, one.target)
        except (MLCError, ArithmeticError, LookupError, TypeError, ValueError, OSError) as error:
            return BuilderResult(None, f"{type(error).__name__}: {error}")
        job = {"do": "build", "mod": text, "target": str(one.target)}
        answer = do_job(job, self.timeout_sec)
        if "error" in answer:
            return BuilderResult(None, answer["error"])
        folder = Path(tempfile.mkdtemp(prefix="mlcnb-candidate-"))
        path = folder / "program.json"
        path.write_text(text)
        return BuilderResult(str(path))
