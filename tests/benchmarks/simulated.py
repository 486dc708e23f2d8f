"""Every kernel of the ten models without a GPU: simulated, and as machine code of three GPUs.

python -m tests.benchmarks simulated [NAME …]    seconds of each model, compiled cold, run, and how
                                                 far it is from ONNX Runtime on the CPU
python -m tests.benchmarks cubins [NAME …]       what NVRTC gives each kernel, and which spill

seconds      by the clock; of processors: of this process and of those that compile beside it
error        the largest difference of an output, by the largest of its values
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from typing import Any

import numpy as np
import onnx

import mlcnb as mlc
from mlcnb.codegen.cuda import nvrtc
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.target.cpus import available_cores
from tests.benchmarks import models
from tests.benchmarks.case import Case

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")


@dataclass(frozen=True)
class Simulated:
    """One model on the simulated GPU: the executable, what it gave, what ONNX Runtime gives."""

    case: Case
    executable: Any
    outputs: list[np.ndarray]

    @staticmethod
    def of(case: Case) -> Simulated:
        """Compile a model, and run it once."""
        ex = mlc.compile(mlc.from_onnx(case.path), target="cuda-sim")
        made = ex(*case.inputs)
        return Simulated(case, ex, [*made] if isinstance(made, tuple | list) else [made])

    @cached_property
    def wanted(self) -> list[np.ndarray]:
        """What ONNX Runtime computes on the CPU."""
        session = onnxruntime_session(self.case.path, 1)
        names = [i.name for i in session.get_inputs()]
        found: list[np.ndarray] = session.run(None, dict(zip(names, self.case.inputs, strict=True)))
        return found

    @property
    def error(self) -> float:
        """The largest difference of an output, by the largest of its values."""
        pairs = zip(self.outputs, self.wanted, strict=True)
        return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def ten(names: list[str]) -> Iterator[Case]:
    """The cases of the ten models, or of those whose names hold one of `names`."""
    return models.cases(names=tuple(names) or tuple(models.model_files()))


@dataclass(frozen=True)
class Row:
    """What one model took."""

    name: str
    kernels: int
    seconds: float
    processors: float
    error: float


def row(name: str) -> Row:
    """Compile and run one model on the simulated GPU, and compare."""
    for case in ten([name]):
        start, before = time.perf_counter(), _processors()
        made = Simulated.of(case)
        took, used = time.perf_counter() - start, _processors() - before
        return Row(case.name, len(made.executable.kernels), took, used, made.error)
    raise ValueError(name)


def run(args: argparse.Namespace) -> None:
    """A line for each model, as many at a time as there are cores, the largest first; and the sums,
    but for the clock: from the first model's begin to the last one's end.
    """
    print(f"{'model':<20}{'kernels':>8}{'seconds':>9}{'of processors':>15}{'error':>10}")
    files = {
        name: path
        for name, path in models.model_files().items()
        if not args.names or any(x in name for x in args.names)
    }
    wanted = sorted(files, key=lambda name: -len(onnx.load(files[name]).graph.node))
    start, found = time.perf_counter(), list[Row]()
    with ProcessPoolExecutor(available_cores(), get_context("spawn"), _of_one_thread) as pool:
        for done in as_completed([pool.submit(row, name) for name in wanted]):
            x = done.result()
            found.append(x)
            print(f"{x.name:<20}{x.kernels:>8}{x.seconds:>9.1f}{x.processors:>15.1f}"
                  f"{x.error:>10.1e}", flush=True)  # fmt: skip
    whole = time.perf_counter() - start
    kernels, used = sum(x.kernels for x in found), sum(x.processors for x in found)
    print(f"{'all':<20}{kernels:>8}{whole:>9.1f}{used:>15.1f}")


def _of_one_thread() -> None:
    """Leave the other cores to the other models: no threads, and no processes that compile."""
    os.environ["MLCNB_NUM_THREADS"] = "1"


def _processors() -> float:
    """Seconds of processors so far, of this process and those that it started and that ended."""
    used = [resource.getrusage(x) for x in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(x.ru_utime + x.ru_stime for x in used)


def resources(case: Case, arch: str) -> dict[str, Mapping[str, nvrtc.Resources]]:
    """Kernel -> what ptxas gives each of its functions, for one architecture."""
    ex = mlc.compile(mlc.from_onnx(case.path), target=f"cuda -arch={arch}")
    return {name: kernel.resources for name, kernel in ex.kernels.items()}


def spilling(found: Mapping[str, Mapping[str, nvrtc.Resources]]) -> list[str]:
    """Kernels that keep registers, or anything else of a thread, in memory."""
    return [
        name
        for name, functions in found.items()
        if any(r.spill_stores or r.spill_loads or r.stack for r in functions.values())
    ]


def cubins(args: argparse.Namespace) -> None:
    """A line for each model and architecture."""
    print(f"{'model':<20}{'gpu':<8}{'kernels':>8}{'functions':>10}{'registers':>10}  spilling")
    for case in ten(args.names):
        for arch in ARCHITECTURES:
            found = resources(case, arch)
            functions = [r for x in found.values() for r in x.values()]
            most = max(r.registers for r in functions)
            print(f"{case.name:<20}{arch:<8}{len(found):>8}{len(functions):>10}{most:>10}  "
                  f"{', '.join(spilling(found)) or 'none'}", flush=True)  # fmt: skip
