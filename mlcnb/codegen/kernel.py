"""Kernels: what a backend makes of a PrimFunc, so that who runs or shows one need not ask which.

    kernel.name, .func, .scheduled, .signature        of each
    kernel.run(args, dims)                            of one that is called from Python
    kernel.address                                    of one that is native: `i32 kernel(ptr argv)`
    backend_of("llvm").build(funcs, target)           the kernels of some functions, by name

`argv` is an array of 8-byte slots that `Signature` describes. A backend is a folder beside this
file whose name is the target's kind ("cuda-sim": `cuda_sim`), with a `backend.py` that has `build`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from mlcnb import codegen
from mlcnb.core import above, display
from mlcnb.core.errors import TargetError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType, dtype
from mlcnb.target import Target
from mlcnb.tir.buffer import Buffer, layout_variables
from mlcnb.tir.function import PrimFunc


@dataclass(frozen=True)
class Signature:
    """What the slots of argv hold, in order.

    params: for each parameter its Buffer, or the scalar Var; dims: symbolic dimensions that follow;
    sizes: numbers that follow these, for code that several functions share; workspace: bytes of
    scratch memory behind the next slot (0: no such slot); result: dtype of the number that is
    returned, to where the last slot points (None: no such slot).
    """

    params: tuple[Any, ...]
    dims: tuple[e.Var, ...]
    workspace: int
    result: DType | None = None
    sizes: tuple[int, ...] = ()

    @property
    def slots(self) -> int:
        """Number of 8-byte slots."""
        more = bool(self.workspace) + (self.result is not None)
        return len(self.params) + len(self.dims) + len(self.sizes) + more


class Backend(Protocol):
    """What a `backend.py` has."""

    def build(
        self,
        funcs: Mapping[str, PrimFunc],
        target: Target,
        schedule: Callable[[PrimFunc, Target], Any] | None = None,
        progress: Callable[[float], Any] | None = None,
        **host: Any,
    ) -> dict[str, Any]:
        """The kernels of PrimFuncs, by name.

        Args:
            funcs: by name.
            target: of the backend's kind.
            schedule: (func, target) -> Schedule, PrimFunc or None; what makes a function fast.
            progress: called with the part of a kernel that was done: 1 in all for each.
            host: `symbols` and `workers` of the process, for a backend that compiles for it,
                `later`, the functions that nobody is going to call, and `trusted`, True where
                nothing is to be looked at (`bounds="trust"`).

        Raises:
            CodegenError: a function that cannot become code.
        """


def backend_of(kind: str) -> Backend:
    """The backend of a target's kind.

    Raises:
        TargetError: there is none.
    """
    folders = sorted(found.name for found in pkgutil.iter_modules(codegen.__path__) if found.ispkg)
    known = [folder.replace("_", "-") for folder in folders]
    if kind not in known:
        raise TargetError(f"no backend compiles for {kind!r}", hint=f"there are {', '.join(known)}")
    made: Any = importlib.import_module(f"mlcnb.codegen.{kind.replace('-', '_')}.backend")
    return made


class Kernel(display.Shown):
    """A PrimFunc that was compiled, by whichever backend.

    func: as it was given; scheduled: as it was compiled; signature: its parameters, and the
    symbolic sizes among them.
    """

    name: str
    func: PrimFunc
    scheduled: PrimFunc
    signature: Signature

    #: machine code of this CPU, which has an address and assembly, and which a native graph calls
    is_native: ClassVar[bool] = False
    #: its code is there; False of one that nobody calls, which waits until somebody asks
    is_made: ClassVar[bool] = True
    #: runs in the memory of a device, where a graph's tensors stay from one kernel to the next
    is_on_device: ClassVar[bool] = False

    def run(self, args: Sequence[Any], dims: Mapping[e.Var, int]) -> Any:
        """Run on arrays (read and written in place) and scalars.

        Args:
            args: one for each parameter, checked already.
            dims: the sizes of symbolic dimensions.

        Returns:
            The number that it returns, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} is called by its address")

    def gpu_report(self, device: str = "A100") -> Any:
        """What a GPU would make of it, where it is bound to threads: `mlcnb.observe.gpu_report`.

        Raises:
            MLCError: it is not, or its shapes are open.
        """
        return above.ask("gpu_report")(self, device)


def scheduled_by(schedule: Any, func: PrimFunc) -> PrimFunc:
    """The function that rules made: a PrimFunc, the one that a Schedule works on, or as it was."""
    if schedule is None:
        return func
    if isinstance(schedule, PrimFunc):
        return schedule
    made: PrimFunc = schedule.mod[schedule.func_working_on]
    return made


def signature_of(func: PrimFunc, workspace: int) -> Signature:
    """The signature of a function, scheduled, lowered or neither, and its workspace in bytes."""
    params = [func.buffer_map.get(v, v) for v in func.params]
    known = {x.data if isinstance(x, Buffer) else x for x in params}
    return Signature(tuple(params), tuple(_dimensions(func, known)), workspace, result_of(func))


def result_of(func: PrimFunc) -> DType | None:
    """The dtype of the number that a function returns."""
    return None if func.ret_type is None else dtype(func.ret_type)


def _dimensions(func: PrimFunc, known: set[e.Var]) -> list[e.Var]:
    """Symbolic dimensions of the parameters' buffers, in order of first appearance."""
    found = dict.fromkeys(v for buffer in func.buffers for v in layout_variables(buffer))
    return [v for v in found if v not in known and not v.dtype.is_handle]
