"""An object for every class that has a page, with any name put wherever a name can be.

page("Schedule")      the page of the sample of this class
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mlcnb as mlc
from mlcnb.codegen.cuda.backend import CudaKernel
from mlcnb.codegen.cuda.linked import CudaLinked
from mlcnb.codegen.llvm.linked import Linked
from mlcnb.core.errors import ScheduleError
from mlcnb.meta_schedule import ModelTuning
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets.base import Interactive
from tests.view.samples import (
    copied,
    named_loops,
    named_module,
    passes,
    replayed,
    scheduled,
    searched,
    tuned,
)


def refused(name: str) -> ScheduleError:
    """A step that the program does not allow, with the two iterations that say so."""
    sch = Schedule(named_loops(name))
    try:
        sch.vectorize(sch.get_loops(name)[2])
    except ScheduleError as error:
        return error
    raise AssertionError("a reduction was vectorized")


@cache
def executable(name: str) -> Any:
    """A graph of these names, compiled."""
    return mlc.compile(named_module(name), target="llvm")


@cache
def kernel(name: str) -> Any:
    """Loops of these names, compiled."""
    return mlc.compile(named_loops(name), target="llvm").kernels[0]


@cache
def gpu_kernel(name: str) -> Any:
    """A copy by threads of these names, for a GPU."""
    return CudaKernel(name, copied(name), Target("cuda"))


SAMPLES: dict[str, Callable[[str], Any]] = {
    "Schedule": scheduled,
    "PrimFunc": named_loops,
    "ScheduleError": refused,
    "CompiledKernel": kernel,
    "CudaKernel": gpu_kernel,
    "CudaLinked": lambda name: CudaLinked(gpu_kernel(name)),
    "Linked": lambda name: Linked(kernel(name)),
    "Executable": executable,
    "Kernels": lambda name: executable(name).kernels,
    "PassTrace": passes,
    "PassStep": lambda name: passes(name)["FuseOps"],
    "IRModule": named_module,
    "Function": lambda name: named_module(name)["main"],
    "Replay": replayed,
    "AccessReplay": lambda name: mlc.observe.accesses(named_loops(name), cache="1K/2way/64B"),
    "WarpLens": lambda name: mlc.observe.warp_lens(copied(name)),
    "Tuning": searched,
    "ModelTuning": lambda name: ModelTuning([(searched(name), 2)] * 2, [name], tuned(name), 3.0),
    "WarpRun": lambda name: mlc.observe.warp_lens(copied(name)).runs[0],
}


def page(kind: str, name: str = "x") -> Interactive:
    """The page of the sample of a class, with this name in it."""
    return mlc.explore(SAMPLES[kind](name))
