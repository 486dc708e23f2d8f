"""MakePackedAPI: a function that is called from outside reads its arguments from one packed array.

def main(n: T.int32) -> T.int32:       def main(self_handle, args, num_args, result) -> T.int32:
    return n + 1                 ->        assert num_args == 1, "main: num_args should be 1"
                                           n_type_index: T.int32 = T.tvm_struct_get(args, 0, 13, …)
                                           assert n_type_index == 1 or …, "… to be int"
                                           n: T.int32 = T.Cast("int32", T.tvm_struct_get(args, …))
                                           with T.attr(0, "compute_scope", "main_compute_"):
                                               T.tvm_struct_set(result, 0, 15, …)
                                               return 0

The layout of the arguments is that of TVM 0.21's C interface: of each a type index, and a value of
64 bits. Of a tensor the number of dimensions, the dtype, the shape, the strides and the device are
checked before its data is touched (`mlcnb.tir.transform.packed_tensors`). Functions without the
attribute `global_symbol` are called from inside only, and stay.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import EMPTY, Node, replace, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr, Var
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.target import Target
from mlcnb.tir import op
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING, callee, nested
from mlcnb.tir.stmt import AssertStmt, AttrStmt, Evaluate, LetStmt, Stmt, flattened, seq
from mlcnb.tir.transform.lower_device_kernel_launch import C_PACKED_FUNC, CALLING_CONV
from mlcnb.tir.transform.make_unpacked_api import declared, exposed_target, on_device
from mlcnb.tir.transform.packed_tensors import Binder, struct_get

#: fields of a packed argument
TYPE_INDEX, ZERO_PADDING, VALUE = 13, 14, 15
#: what an argument may be
NONE, INT, BOOL, FLOAT, OPAQUE, DLTENSOR, FIRST_OBJECT, TENSOR = 0, 1, 2, 3, 4, 7, 64, 70
#: bytes before the DLTensor in a tensor object
_HEADER = 24


class MakePackedAPI(ModulePass):
    """Make functions that are called from outside read their arguments from one packed array."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """The module with these functions changed, and what calls them.

        Raises:
            PassError: a function is bound to no target.
        """
        found = {k: exposed_target(f, "MakePackedAPI") for k, f in mod.items()}
        symbols = {
            k.name_hint: str(mod[k].attrs["global_symbol"])
            for k, target in found.items()
            if target is not None
        }
        changed: dict[Any, Any] = {}
        for key, func in mod.of_kind(PrimFunc).items():
            target = found[key]
            called = func.with_body(_by_symbol(func, symbols))
            changed[key] = called if target is None else _packed(called, target)
        return mod.with_functions(changed)


def _by_symbol(func: PrimFunc, symbols: dict[str, str]) -> Stmt:
    """Functions that take packed arguments are called with such."""

    def rule(n: Node) -> Node | None:
        symbol = symbols.get(callee(n) or "")
        if isinstance(n, Call) and symbol is not None:
            name = e.StringImm(symbol)
            return Call(n.dtype, "tir.tvm_call_cpacked", (name, *n.args))
        return None

    return rewrite(func.body, rule)


def _packed(func: PrimFunc, target: Target) -> PrimFunc:
    name = str(func.attrs["global_symbol"])
    void, handle = ("void", "global"), dtype("handle")
    args, result = Var("args", handle), Var("result", handle, void)
    count = Var("num_args", dtype("int32"))
    scopes = [
        _check(p.equal(count, len(func.params)), f"num_args should be {len(func.params)}", name)
    ]
    if func.params:
        scopes.append(_check(_is_not_null(args), "args pointer is NULL", name))
    values: list[LetStmt] = []
    for i, param in enumerate(func.params):
        kind = Var(f"{param.name}_type_index", dtype("int32"))
        scopes.append(LetStmt(kind, struct_get("int32", args, i, TYPE_INDEX), NOTHING))
        allowed, word, value = _argument(param, kind, args, i)
        scopes.append(_check(p.any_of(*allowed), f"Expect arg[{i}] to be {word}", name))
        values.append(LetStmt(param, value, NOTHING))
    binder = Binder(name, func.params)
    for param in func.params:
        if param in func.buffer_map:
            binder.bind(param, func.buffer_map[param])
    body: Stmt = AttrStmt(p.const(0), "compute_scope", f"{name}_compute_", _returning(func, result))  # type: ignore[arg-type]
    body = declared(func, seq(body, Evaluate(op.ret(p.const(0)))))
    if func.buffers:
        body = on_device(body, *binder.device(target))
    body = rewrite(nested([*scopes, *values, *binder.scopes], body), flattened)
    params = (Var("self_handle", handle), args, count, result)
    made = replace(func, params=params, buffer_map=EMPTY, body=body, ret_type="int32")
    attrs = {"target": target.host or target, CALLING_CONV: C_PACKED_FUNC}
    return made.with_attr(attrs)


def _check(condition: PrimExpr, message: str, name: str) -> Stmt:
    return AssertStmt(condition, f"{name}: {message}", NOTHING)


def _is_not_null(pointer: PrimExpr) -> PrimExpr:
    return p.logical_not(Call(dtype("bool"), "tir.isnullptr", (pointer,)))


def _argument(param: Var, kind: Var, args: Var, i: int) -> tuple[list[PrimExpr], str, PrimExpr]:
    """Which type indices a parameter takes, what they are called, and its value."""

    def value(to: str) -> PrimExpr:
        return struct_get(to, args, i, VALUE)

    def one_of(*indices: int) -> list[PrimExpr]:
        return [p.equal(kind, index) for index in indices]

    to = param.dtype
    if to.is_handle:
        pointer = value("handle")
        offset = Call(dtype("handle"), "tir.handle_add_byte_offset", (pointer, p.const(_HEADER)))
        inside = e.Select(p.equal(kind, TENSOR), offset, pointer)
        objects = p.greater_equal(kind, FIRST_OBJECT)
        return [*one_of(NONE, OPAQUE, DLTENSOR), objects], "pointer", inside
    if to.is_bool:
        return one_of(BOOL, INT), "boolean", p.cast("bool", value("int64"))
    if to.is_float:
        number = p.cast(to, value("float64"))
        whole = p.cast(to, value("int64"))
        chosen = e.Select(p.equal(kind, FLOAT), number, whole)
        return one_of(FLOAT, INT, BOOL), "float", chosen
    return one_of(INT, BOOL), "int", p.cast(to, value("int64"))


def _returning(func: PrimFunc, result: Var) -> Stmt:
    """The body, which writes what it returns to `result`, and returns 0."""

    def rule(n: Node) -> Node | None:
        match n:
            case Evaluate(Call(_, "tir.ret", (value,))):
                index, wide = _returned(value.dtype)
                stored = [(TYPE_INDEX, p.const(index)), (ZERO_PADDING, p.const(0))]
                stored.append((VALUE, p.cast(wide, value)))
                return seq(*(_set(result, *x) for x in stored), Evaluate(op.ret(p.const(0))))
        return flattened(n)

    return rewrite(func.body, rule)


def _returned(kind: DType) -> tuple[int, str]:
    """The type index of a returned value, and the dtype that it is written in."""
    if kind.is_float:
        return FLOAT, "float64"
    if kind.is_handle:
        return OPAQUE, "handle"
    return (BOOL if kind.is_bool else INT), "int64"


def _set(result: Var, field: int, value: PrimExpr) -> Stmt:
    args = (result, p.const(0), p.const(field), value)
    return Evaluate(Call(dtype("int32"), "tir.tvm_struct_set", args))
