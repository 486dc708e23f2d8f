"""MakeUnpackedAPI: a function that is called from C takes pointers and numbers, and returns 0.

def main(A: T.Buffer((8,), "float32")):            def main(A_data: T.handle("float32")) -> T.int32:
    cls.other(A.data)                       ->         T.attr("default", "device_id", 0)
                                                       T.attr("default", "device_type", 1)
                                                       cls.other(A_data)
                                                       T.ret(0)

Functions without the attribute `global_symbol` are called from inside only, and stay.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import EMPTY, Node, replace, rewrite, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Call
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.target import Target
from mlcnb.tir import op
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import callee
from mlcnb.tir.stmt import AttrStmt, BufferStore, DeclBuffer, Evaluate, Stmt, seq
from mlcnb.tir.transform.device_regions import target_of
from mlcnb.tir.transform.lower_device_kernel_launch import CALLING_CONV

#: DLPack's numbers of the devices that targets are for; all others are CPUs
DEVICE_TYPES = {"cuda": 2}


def device_type(target: Target) -> int:
    """DLPack's number of the device of a target: 1 for a CPU, 2 for CUDA."""
    return DEVICE_TYPES.get(target.kind, 1)


def exposed_target(func: Any, name: str) -> Target | None:
    """The target of a function that is to get a signature for callers from outside; None: not it.

    Raises:
        PassError: it is called from outside and bound to no target.
    """
    if not isinstance(func, PrimFunc) or CALLING_CONV in func.attrs:
        return None
    if "global_symbol" not in func.attrs:
        return None
    target = target_of(func)
    if target is None:
        raise PassError(
            f"{name} required the function to be annotated with tvm::attr::kTarget: "
            f"{func.attrs['global_symbol']} has no attribute 'target'",
            where=func,
            root=func,
            hint="run BindTarget first",
        )
    return target


def accessed_buffers(func: PrimFunc) -> list[Buffer]:
    """The buffers of the parameters that the body loads from or stores to."""
    used = {n.buffer for n in walk(func.body) if isinstance(n, BufferLoad | BufferStore)}
    return [b for b in func.buffers if b in used]


def declared(func: PrimFunc, body: Stmt) -> Stmt:
    """The body with the buffers of the parameters declared, where the function uses them."""
    for buffer in reversed(accessed_buffers(func)):
        body = DeclBuffer(buffer, body)
    return body


class MakeUnpackedAPI(ModulePass):
    """Make functions that are called from outside take pointers and numbers, and return 0."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """The module with these functions changed, and what calls them.

        Raises:
            PassError: a function is bound to no target.
        """
        changed: dict[Any, Any] = {}
        for key, func in mod.items():
            target = exposed_target(func, "MakeUnpackedAPI")
            if target is not None:
                changed[key] = _unpacked(func, target)  # type: ignore[arg-type]
        exposed = {key.name_hint for key in changed}
        if not exposed:
            return mod
        return mod.with_functions(
            {k: f.with_body(_by_data(f, exposed)) for k, f in changed.items()}
        )


def _unpacked(func: PrimFunc, target: Target) -> PrimFunc:
    params = [func.buffer_map[x].data if x in func.buffer_map else x for x in func.params]
    body = declared(func, seq(func.body, Evaluate(op.ret(p.const(0)))))
    if func.buffer_map:
        body = on_device(body, device_type(target), 0)
    func = replace(func, params=tuple(params), buffer_map=EMPTY, body=body, ret_type="int32")
    return func.with_attr("target", target.host or target)


def on_device(body: Stmt, kind: Any, number: Any) -> Stmt:
    """A body, marked with the device that its memory is on."""
    body = AttrStmt("default", "device_type", kind, body)  # type: ignore[arg-type]
    return AttrStmt("default", "device_id", number, body)  # type: ignore[arg-type]


def _by_data(func: PrimFunc, exposed: set[str]) -> Stmt:
    """A function that took an array takes its pointer now."""

    def rule(n: Any) -> Node | None:
        if callee(n) not in exposed:
            return None
        return replace(n, dtype=dtype("int32"), args=tuple(map(_data_of, n.args)))

    return rewrite(func.body, rule)


def _data_of(n: Any) -> Any:
    """The pointer of an array that is made on the stack; anything else itself."""
    if isinstance(n, Call) and n.op == "tir.tvm_stack_make_array":
        return n.args[0]
    return n
