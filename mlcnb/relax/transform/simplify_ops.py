"""SimplifyOps: operators that do nothing, or undo each other, go.

lv = R.nn.dropout(x)[0]                          ->   x
lv = R.permute_dims(x, axes=[1, 0])
lv1 = R.permute_dims(lv, axes=[1, 0])            ->   x
lv = R.reshape(R.reshape(x, (6,)), (2, 3))       ->   R.reshape(x, (2, 3))
lv = R.multiply(x, R.const(1.0))                 ->   x
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.ir.span import merge
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.expr import Call, Constant, Function, Op, Tuple, TupleGetItem, Var
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import attrs_of, call_arguments, make_call
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings


class SimplifyOps(FunctionPass):
    """Remove operators that do nothing, and pairs that undo each other."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """All rules, once, in the order of the bindings."""
        simplifier = _Simplifier(mod.functions)
        made = simplifier.rewrite(func)
        if made is func:
            return func
        ctx.note(f"{simplifier.count} operators simplified")
        return remove_unused_bindings(made, mod.functions)


class _Simplifier(Mutator):
    count = 0

    def visit_call(self, call: Call, var: Var) -> Any:
        """By the rule of the operator's name."""
        found = _RULES.get(call.op.name) if isinstance(call.op, Op) else None
        new = found(self, call) if found is not None else None
        self.count += new is not None
        return new

    def visit_item(self, item: TupleGetItem, var: Var) -> Any:
        """A field of a tuple that a rule made."""
        value = self.value_of(item.tuple_value)
        return value.fields[item.index] if isinstance(value, Tuple) else None

    def inner(self, x: Any, name: str) -> Any:
        """The call of operator `name` that x is bound to, or None."""
        value = self.value_of(x)
        named = isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == name
        return value if named else None


Rule = Callable[[_Simplifier, Call], Any]


@rule("SimplifyOps")
def _dropout(s: _Simplifier, call: Call) -> Any:
    """The input, and a mask that is left for dead code elimination where nobody wants it."""
    x: Any = call.args[0]
    ones = op.ones_like(x)
    return Tuple((x, ones))


@rule("SimplifyOps")
def _same_shape(s: _Simplifier, call: Call) -> Any:
    """reshape, broadcast_to, astype … to what the operand is already."""
    return _unchanged(call)


@rule("SimplifyOps")
def _astype(s: _Simplifier, call: Call) -> Any:
    """astype to what the operand is; of what was made wider before, where nothing is lost."""
    unchanged, before = _unchanged(call), s.inner(call.args[0], "relax.astype")
    if unchanged is not None or before is None:
        return unchanged
    x: Any = before.args[0]
    if not _holds(before.struct_info.dtype, x.struct_info.dtype):
        return None
    return x if same_known(x.struct_info, call.struct_info) else _with_operand(call, x, before)


def _with_operand(call: Call, x: Any, before: Call) -> Call:
    """The call on `x`, where `before` stood between."""
    span = merge(before.span, call.span)
    return Call(call.op, (x, *call.args[1:]), call.attrs, (), call.struct_info, span)


#: dtype -> those floats whose values all are values of it
_HOLDS = {
    "float64": ("float16", "bfloat16", "float32"),
    "float32": ("float16", "bfloat16"),
}


def _holds(wide: Any, narrow: Any) -> bool:
    return str(narrow) in _HOLDS.get(str(wide), ())


def _unchanged(call: Call) -> Any:
    """The operand, where the result has its shape and dtype."""
    x: Any = call.args[0]
    return x if same_known(x.struct_info, call.struct_info) else None


@rule("SimplifyOps")
def _strided_slice(s: _Simplifier, call: Call) -> Any:
    """All of the operand, in steps of one."""
    strides = call_arguments(call)[4]
    values = () if strides is None else getattr(strides, "values", (None,))
    return _unchanged(call) if all(as_int(v) == 1 for v in values) else None


@rule("SimplifyOps")
def _reshape(s: _Simplifier, call: Call) -> Any:
    """reshape of what is a reshape: only the last shape counts."""
    unchanged = _unchanged(call)
    if unchanged is not None:
        return unchanged
    for name in _RESHAPES:
        before = s.inner(call.args[0], name)
        if before is not None and same_known(before.args[0].struct_info, call.struct_info):
            return before.args[0]
        if before is not None:
            return _with_operand(call, before.args[0], before)
    return None


_RESHAPES = tuple(f"relax.{n}" for n in ("reshape", "expand_dims", "squeeze", "flatten"))


@rule("SimplifyOps")
def _permute_dims(s: _Simplifier, call: Call) -> Any:
    """The permutation that changes nothing; two in a row as one."""
    x: Any = call.args[0]
    ndim = x.struct_info.ndim
    if ndim < 0:
        return None
    order = attrs_of(call).order(ndim)  # type: ignore[attr-defined]
    if order == tuple(range(ndim)):
        return x
    before = s.inner(x, call.op.name)
    if before is None:
        return None
    first = attrs_of(before).order(ndim)  # type: ignore[attr-defined]
    both = tuple(first[i] for i in order)
    made = make_call(type(attrs_of(call)), before.args[0], axes=both)
    return before.args[0] if both == tuple(range(ndim)) else made


def _neutral(value: float, sides: str) -> Rule:
    """The rule `x op value` is x; and `value op x`, if `sides` is "both"; shape and dtype kept."""

    @rule("SimplifyOps", "neutral")
    def neutral(s: _Simplifier, call: Call) -> Any:
        """x + 0, x - 0, x * 1, x / 1 and x ** 1 are x."""
        a, b = call.args
        if _is_full_of(b, value) and _like(a, call):
            return a
        return b if sides == "both" and _is_full_of(a, value) and _like(b, call) else None

    return neutral


def _is_full_of(x: Any, value: float) -> bool:
    """True for a constant whose elements all are `value` (looked for in small ones only)."""
    return isinstance(x, Constant) and 0 < x.data.size <= 4096 and bool(np.all(x.data == value))


def _like(x: Any, call: Call) -> bool:
    return same_known(x.struct_info, call.struct_info)


@rule("SimplifyOps")
def _idempotent(s: _Simplifier, call: Call) -> Any:
    """relu of a relu."""
    return call.args[0] if s.inner(call.args[0], call.op.name) is not None else None


@rule("SimplifyOps")
def _concat(s: _Simplifier, call: Call) -> Any:
    """The concatenation of one tensor."""
    parts = s.value_of(call.args[0])
    single = isinstance(parts, Tuple) and len(parts.fields) == 1
    return parts.fields[0] if single else None


_RULES: dict[str, Rule] = {
    "relax.nn.dropout": _dropout,
    "relax.reshape": _reshape,
    "relax.expand_dims": _same_shape,
    "relax.squeeze": _same_shape,
    "relax.flatten": _same_shape,
    "relax.broadcast_to": _same_shape,
    "relax.astype": _astype,
    "relax.strided_slice": _strided_slice,
    "relax.permute_dims": _permute_dims,
    "relax.add": _neutral(0, "both"),
    "relax.subtract": _neutral(0, "right"),
    "relax.multiply": _neutral(1, "both"),
    "relax.divide": _neutral(1, "right"),
    "relax.power": _neutral(1, "right"),
    "relax.nn.relu": _idempotent,
    "relax.concat": _concat,
}
