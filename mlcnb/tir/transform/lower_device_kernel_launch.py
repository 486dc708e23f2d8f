"""LowerDeviceKernelLaunch: a call from the host to a function of a device becomes a launch.

def main(A):            # target: llvm           def main(A):
    cls.kernel(A.data)                               T.call_packed("kernel", A.data, 16)
def kernel(A_data):     # target: cuda     ->    def kernel(A_data):
    tx = T.launch_thread("threadIdx.x", 16)          tx = T.launch_thread("threadIdx.x", 16)
    ...                                              ...

The last arguments are what `tir.kernel_launch_params` of the kernel names. A function of another
code generator for the same device is called by its symbol, as an external one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, rewrite, visit, walk
from mlcnb.ir.expr import Call, GlobalVar, PrimExpr
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.target import Target
from mlcnb.tir import op
from mlcnb.tir.analysis.kernels import is_launch
from mlcnb.tir.analysis.variables import undefined_vars
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import callee, substitute
from mlcnb.tir.stmt import AttrStmt
from mlcnb.tir.transform.device_regions import target_of
from mlcnb.tir.transform.split_host_device import (
    DYNAMIC_SHARED,
    IS_KERNEL,
    LAUNCH_PARAMS,
    dynamic_shared_bytes,
)

#: attribute of a function: how it is called from outside
CALLING_CONV = "calling_conv"
#: its values, as in TVM: by packed arguments, and as a kernel
C_PACKED_FUNC, DEVICE_KERNEL_LAUNCH = 1, 2


@dataclass(frozen=True)
class _Kernel:
    """What a caller has to know of a function."""

    func: PrimFunc
    target: Target
    symbol: str
    launch: dict[str, PrimExpr]


class LowerDeviceKernelLaunch(ModulePass):
    """Launch functions of a device where the host calls them; call those of other generators."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """The module with such calls lowered, and the functions marked that are called so.

        Raises:
            PassError: the number of threads is not known where the kernel is launched.
        """
        known = {k: _read(k, f) for k, f in mod.of_kind(PrimFunc).items()}
        by_name = {key.name_hint: kernel for key, kernel in known.items()}
        called: dict[str, bool] = {}
        bodies = {k: _lowered(x, by_name, called) for k, x in known.items() if x is not None}
        changed: dict[Any, Any] = {}
        for key, body in bodies.items():
            kernel = by_name[key.name_hint]
            assert kernel is not None
            func = kernel.func.with_body(body) if body is not kernel.func.body else kernel.func
            if key.name_hint in called:
                func = func.with_attr(_marks(kernel, called[key.name_hint]))
            changed[key] = func
        return mod.with_functions(changed)


def _read(key: GlobalVar, func: PrimFunc) -> _Kernel | None:
    """A function that is bound to a target; None for others."""
    target = target_of(func)
    if target is None:
        return None
    symbol = str(func.attrs.get("global_symbol", key.name_hint))
    return _Kernel(func, target, symbol, _launch_params(func))


def _launch_params(func: PrimFunc) -> dict[str, PrimExpr]:
    """The extents of the threads, by axis in the order of the program, and dynamic memory."""
    found: dict[str, PrimExpr] = {}

    def note(n: Node) -> None:
        if isinstance(n, AttrStmt) and is_launch(n):
            found.setdefault(n.node.thread_tag, n.value)

    visit(func.body, note)
    size = dynamic_shared_bytes(func.body)
    return found if size is None else {**found, DYNAMIC_SHARED: size}


def _lowered(caller: _Kernel, known: dict[str, _Kernel | None], called: dict[str, bool]) -> Any:
    """The caller's body, with calls of other targets lowered; notes whom it calls in `called`."""

    def rule(n: Any) -> Node | None:
        kernel = known.get(callee(n) or "")
        if kernel is None or kernel.target == caller.target:
            return None
        if kernel.target.kind == caller.target.kind:
            return None
        launched = kernel.target.is_cpu != caller.target.is_cpu
        called[n.op.name_hint] = launched
        if not launched:
            return op.call_extern(str(n.dtype), kernel.symbol, *n.args)
        return op.call_packed(kernel.symbol, *n.args, *_launch_args(kernel, n))

    return rewrite(caller.func.body, rule)


def _launch_args(kernel: _Kernel, call: Call) -> list[PrimExpr]:
    """The extents as the caller knows them."""
    values = dict(zip(kernel.func.params, call.args, strict=True))
    for axis, extent in kernel.launch.items():
        names = [n.buffer.name for n in walk(extent) if isinstance(n, BufferLoad)]
        names += [v.name for v in undefined_vars(extent) if v not in values]
        for unknown in names:
            raise PassError(
                f"LowerDeviceKernelLaunch: {kernel.symbol} runs on {display.text(extent)} of "
                f"{axis}: {unknown} is not known where it is launched",
                where=extent,
                root=kernel.func,
            )
    return [substitute(extent, values) for extent in kernel.launch.values()]


def _marks(kernel: _Kernel, launched: bool) -> dict[str, Any]:
    """The attributes of a function that others call by its symbol."""
    marks: dict[str, Any] = {"global_symbol": kernel.symbol, IS_KERNEL: True}
    if launched:
        marks[CALLING_CONV] = DEVICE_KERNEL_LAUNCH
        marks[LAUNCH_PARAMS] = tuple(kernel.launch)
    return marks
