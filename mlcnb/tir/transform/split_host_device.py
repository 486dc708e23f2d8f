"""SplitHostDevice: each kernel becomes a function of its own, which the host launches.

def main(A, B):                                        def main(A, B):
    bx = T.launch_thread("blockIdx.x", 4)                  T.call_packed("main_kernel", B, A, 4, 8)
    tx = T.launch_thread("threadIdx.x", 8)     ->      def main_kernel(B, A):
    B[bx * 8 + tx] = A[bx * 8 + tx]                        bx = T.launch_thread("blockIdx.x", 4)
                                                           ...

The last arguments of the call are the extents of the axes that `tir.kernel_launch_params` of the
kernel names, and the bytes of dynamic shared memory where it uses some.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.core.node import FrozenDict, map_children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import is_launch, launch_of
from mlcnb.tir.analysis.structure import allocations
from mlcnb.tir.analysis.variables import undefined_vars
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.op.calls import call_packed
from mlcnb.tir.transform.split_regions import has_regions, split_regions

#: attribute of a kernel: what the last arguments of its launch are
LAUNCH_PARAMS = "tir.kernel_launch_params"
#: the name of the bytes of dynamic shared memory among them
DYNAMIC_SHARED = "tir.use_dyn_shared_memory"
#: attribute of a function that others call by its symbol
IS_KERNEL = "tir.is_global_func"


def split_host_device(func: PrimFunc, name: str = "main") -> tuple[PrimFunc, dict[str, PrimFunc]]:
    """The host's part of a function, and its kernels by name: NAME_kernel, NAME_kernel_1, …"""
    kernels: dict[str, PrimFunc] = {}

    def visit(n: Any) -> Any:
        if is_launch(n):
            number = f"_{len(kernels)}" if kernels else ""
            symbol = f"{name}_kernel{number}"
            kernels[symbol] = _kernel(func, symbol, n)
            return _launched(kernels[symbol], symbol, n)
        return map_children(n, visit) if isinstance(n, s.Stmt) else n

    return func.with_body(visit(func.body)), kernels


def _kernel(func: PrimFunc, symbol: str, kernel: s.Stmt) -> PrimFunc:
    launch = launch_of(kernel)
    body = launch.body
    for buffer in reversed(list(_foreign_buffers(body))):
        body = s.DeclBuffer(buffer, body)
    for axis in reversed(launch.axes.values()):
        body = s.AttrStmt(axis, "thread_extent", axis.dom.extent, body)
    tags: tuple[str, ...] = tuple(launch.axes)
    if dynamic_shared_bytes(launch.body) is not None:
        tags = (*tags, DYNAMIC_SHARED)
    attrs = {"global_symbol": symbol, LAUNCH_PARAMS: tags, IS_KERNEL: True}
    if func.attrs.get("tir.noalias"):
        attrs["tir.noalias"] = True
    return PrimFunc(_parameters(func, body), body, None, FrozenDict(), FrozenDict(attrs))


def _foreign_buffers(body: s.Stmt) -> Iterator[Buffer]:
    """Buffers that a kernel uses and does not declare, in order of first use."""
    declared = {n.buffer for n in walk(body) if isinstance(n, s.DeclBuffer)}
    used = (n.buffer for n in walk(body) if isinstance(n, BufferLoad | s.BufferStore))
    yield from (b for b in dict.fromkeys(used) if b not in declared)


def _parameters(func: PrimFunc, body: s.Stmt) -> tuple[Var, ...]:
    """Pointers first, in the order of the function's parameters, then numbers."""
    free = undefined_vars(body)
    order = [b.data for b in func.buffers]
    pointers = [v for v in free if v.dtype.is_handle]
    known = [v for v in order if v in pointers]
    return (*known, *(v for v in pointers if v not in known),
            *(v for v in free if not v.dtype.is_handle))  # fmt: skip


def _launched(kernel: PrimFunc, symbol: str, n: s.Stmt) -> s.Stmt:
    launch = launch_of(n)
    extents: list[PrimExpr] = [axis.dom.extent for axis in launch.axes.values()]
    size = dynamic_shared_bytes(launch.body)
    if size is not None:
        extents.append(size)
    return s.Evaluate(call_packed(symbol, *kernel.params, *extents))


def dynamic_shared_bytes(body: s.Stmt) -> PrimExpr | None:
    """Bytes of a kernel's `shared.dyn` memory, each part a multiple of 16; None: it has none."""
    parts = [n for n in allocations(body) if is_dynamic(n.buffer_var)]
    if not parts:
        return None
    total: PrimExpr = p.const(0)
    for part in parts:
        total = p.add(total, aligned_bytes(part))
    return total


def is_dynamic(data: Var) -> bool:
    """True for a pointer to dynamic shared memory."""
    return data.pointee is not None and data.pointee[1] == "shared.dyn"


def aligned_bytes(n: s.Allocate) -> PrimExpr:
    """Bytes of an allocation, up to the next multiple of 16."""
    size: PrimExpr = p.const(n.dtype.nbytes)
    for extent in n.extents:
        size = p.multiply(size, p.fitted("int32", extent))
    return p.multiply(p.floordiv(p.add(size, 15), 16), 16)


class SplitHostDevice(ModulePass):
    """Make each kernel a function of its own, which the host launches."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """Every loop function with launches in it, split; one with marked parts along those."""
        if any(map(has_regions, mod.of_kind(PrimFunc).values())):
            return split_regions(mod)
        changed: dict[Any, Any] = {}
        for key, func in mod.of_kind(PrimFunc).items():
            if func.attrs.get(IS_KERNEL):
                continue
            host, kernels = split_host_device(func, key.name_hint)
            if kernels:
                changed[key] = host
                changed.update((e.GlobalVar(name), kernel) for name, kernel in kernels.items())
        return mod.with_functions(changed)
