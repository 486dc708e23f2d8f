"""GPU kernels without a GPU: the same thread-bound PrimFunc, its threads as loops of this CPU.

ex = mlc.compile(sch, target="cuda-sim")
ex.kernels[0].simulated      the loops that stand for the threads, as a PrimFunc
ex.kernels[0].source         the CUDA C++ that a GPU would run
ex(a, b, c)                  runs on NumPy's arrays

Blocks run in parallel on the cores, the threads of a block one after the other between two places
where they meet. So a result is that of a program without races: one that is proved to race is
refused (`mlcnb.codegen.races`), one that races for some values in memory only is not seen here, but
by `target="interp"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from mlcnb.codegen.arrivals import copies_by_hand
from mlcnb.codegen.cuda.backend import CudaKernel, check_bound
from mlcnb.codegen.cuda_sim.threads import threads_to_loops
from mlcnb.codegen.kernel import scheduled_by
from mlcnb.codegen.llvm import backend as llvm
from mlcnb.codegen.races import refuse_races
from mlcnb.core import above
from mlcnb.target import Target
from mlcnb.tir.analysis.safety import CHECKED, DONE
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits, assert_gpu_code
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.lower import Lowering, lower

Schedule = Callable[[PrimFunc, Target], Any]
#: of LLVM, where the target does not say: at level 3 the loops run no faster; written out they run
#: faster (VGG-19 in 0.7 of the time), and take three times as long to compile: what is simulated a
#: few times wins by this, long runs by `-unroll-loops=1`
QUICK = {"opt-level": 2, "unroll-loops": 0}


class SimulatedKernel(llvm.CompiledKernel):
    """One function for a GPU, as loops for the CPU that LLVM compiled.

    scheduled: the function on threads; simulated: the loops that stand for them.
    """

    def __init__(self, made: llvm.CompiledKernel, target: Target, schedule: Any) -> None:
        super().__init__(made.name, made.func, target, schedule, made.given)

    @cached_property
    def simulated(self) -> PrimFunc:
        """The loops that stand for the threads."""
        return simulated(self.scheduled, self.target)

    @cached_property
    def lowered(self) -> PrimFunc:
        """The loops as LLVM was given them."""
        return lower(self.simulated)

    @property
    def steps(self) -> Lowering:
        """What every lowering pass made of the function on threads."""
        return lower(self.scheduled, steps=True)

    @cached_property
    def cuda(self) -> CudaKernel:
        """The same function for a GPU: its CUDA C++, PTX, registers."""
        gpu = Target({"kind": "cuda", **self.target.attrs})
        return CudaKernel(self.name, self.func, gpu, self.scheduled)

    @property
    def source(self) -> str:
        """The CUDA C++ that a GPU would run."""
        return self.cuda.source


def build(
    funcs: Mapping[str, PrimFunc],
    target: Target,
    schedule: Schedule | None = None,
    progress: Callable[[float], Any] | None = None,
    **host: Any,
) -> dict[str, SimulatedKernel]:
    """Kernels of PrimFuncs bound to threads, that run on this CPU.

    Raises:
        CodegenError: a function that is not bound to threads, or whose threads wait for each other
            where not all of them come by.
        PassError: a kernel that no GPU of the target can run.
        DataRaceError: two threads touch an element, one writes it, and nothing orders them.
    """
    quick = Target({"kind": target.kind, **QUICK, **target.attrs})
    made = llvm.build(funcs, quick, _loops_of(schedule), progress, **host)
    return {name: SimulatedKernel(kernel, target, schedule) for name, kernel in made.items()}


def _loops_of(schedule: Schedule | None) -> Schedule:
    """What makes loops for the CPU of a function: by mlcnb's own rules, which LLVM's backend knows
    by name (its cache and its workers ask for one), or by a person's.
    """
    if schedule is None:
        return simulated
    if schedule is above.ask("schedules for GPUs"):
        return by_rules
    return lambda func, target: simulated(scheduled_by(schedule(func, target), func), target)


def by_rules(func: PrimFunc, target: Target) -> PrimFunc:
    """A function as mlcnb's rules for GPUs schedule it, as loops."""
    return simulated(scheduled_by(above.ask("schedules for GPUs")(func, target), func), target)


def simulated(func: PrimFunc, target: Target) -> PrimFunc:
    """A function on threads as loops, if a GPU of the target can run it."""
    check_bound(str(func.attrs.get("global_symbol", "the function")), func)
    steps = lower(func, steps=True)
    refuse_races(steps["ThreadSync"].after, copies=copies_by_hand(func))
    assert_gpu_code(steps.result, GpuLimits.of(target))
    made = threads_to_loops(steps.result)
    return made.with_attr(CHECKED, DONE) if CHECKED in made.attrs else made
