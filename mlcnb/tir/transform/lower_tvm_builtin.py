"""LowerTVMBuiltin: memory of a device that the host allocates is asked of the runtime.

T.attr("default", "device_type", 2)             …
T.attr("default", "device_id", 0)               A: T.handle("float32") = \
A = T.allocate([16], "float32")          ->         T.TVMBackendAllocWorkspace(2, 0, 64, 2, 32)
use A                                           T.attr(A, "storage_alignment", 64)
                                                if T.isnullptr(A): T.tvm_throw_last_error()
                                                use A
                                                if T.TVMBackendFreeWorkspace(2, 0, A) != 0:
                                                    T.tvm_throw_last_error()

In functions of the host only: bound to a CPU, or marked `tir.is_host_func`. Memory of the CPU stays
an allocation, and calls of packed functions stay calls: the code generators take them as they are.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies
from mlcnb.tir.stmt import Allocate, AttrStmt, Evaluate, IfThenElse, LetStmt, Stmt, seq
from mlcnb.tir.transform.bind_target import IS_HOST
from mlcnb.tir.transform.device_regions import target_of
from mlcnb.tir.transform.make_unpacked_api import device_type
from mlcnb.tir.transform.packed_tensors import type_code

#: DLPack's number of the CPU
CPU = 1
#: bytes to which the runtime aligns
ALIGNMENT = 64


def lower_builtins(func: PrimFunc) -> PrimFunc:
    """`func` with memory of devices asked of the runtime.

    Raises:
        PassError: the device of an allocation is not known.
    """
    target = target_of(func)
    kind = None if target is None else p.const(device_type(target))
    return func.with_body(_Lowerer(func).visit(func.body, {"device_type": kind}))


class _Lowerer:
    """One walk that knows the device of each place."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func

    def visit(self, n: Any, device: dict[str, Any]) -> Any:
        """A statement; `device` is what the attributes around it say, which are used up here."""
        if isinstance(n, AttrStmt) and n.attr_key in ("device_type", "device_id"):
            inside = {**device, n.attr_key: p.as_expr(n.value)}
            return self.visit(n.body, inside)
        new = map_bodies(n, lambda x: self.visit(x, device))
        return self.allocated(new, device) if isinstance(new, Allocate) else new

    def allocated(self, n: Allocate, device: dict[str, Any]) -> Stmt:
        """An allocation, as the device has it."""
        kind = self.known(n, device, "device_type")
        if p.as_int(kind) == CPU:
            return n
        number, data = self.known(n, device, "device_id"), n.buffer_var
        size: PrimExpr = p.const(n.dtype.nbytes, "uint64")
        for extent in n.extents:
            size = p.multiply(size, p.cast("uint64", extent))
        code, bits = p.const(type_code(n.dtype)), p.const(n.dtype.bits)
        asked = _call("handle", "TVMBackendAllocWorkspace", kind, number, size, code, bits)
        freed = _call("int32", "TVMBackendFreeWorkspace", kind, number, data)
        failed = Evaluate(_call("int32", "tvm_throw_last_error"))
        body = seq(
            IfThenElse(_call("bool", "isnullptr", data), failed),
            n.body,
            IfThenElse(p.not_equal(freed, 0), failed),
        )
        body = AttrStmt(data, "storage_alignment", ALIGNMENT, body)
        return LetStmt(data, asked, body)

    def known(self, n: Allocate, device: dict[str, Any], key: str) -> PrimExpr:
        """What the attributes around an allocation say of its device."""
        found: PrimExpr | None = device.get(key)
        if found is None:
            raise PassError(
                f"LowerTVMBuiltin: {n.buffer_var.name} is allocated where no {key} is known",
                where=n,
                root=self.func,
                hint=f'put T.attr("default", "{key}", …) around it, or run BindTarget first',
            )
        return found


def _call(kind: str | DType, name: str, *args: PrimExpr) -> PrimExpr:
    return Call(dtype(str(kind)), f"tir.{name}", args)


class LowerTVMBuiltin(PrimFuncPass):
    """Ask the runtime for memory of a device that the host allocates."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `lower_builtins`; a function of a device stays."""
        target = target_of(func)
        is_host = bool(func.attrs.get(IS_HOST)) or (target is not None and target.is_cpu)
        return lower_builtins(func) if is_host else func
