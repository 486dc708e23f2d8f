"""Bounds of integers that no polynomial is made for: narrow and unsigned ones, and vectors.

Operator by operator; what may wrap around can be anything of its dtype. Of a vector, the bounds of
all its lanes.

    x: uint8         x // 2 + 1        in 1 .. 128
    x: int8          x + 1             in -128 .. 127      (it may wrap around)
    a in 0 .. 9      Ramp(a, 2, 4)     in 0 .. 15
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.arith import interval
from mlcnb.arith.atoms import times
from mlcnb.arith.context import EVERYTHING, Bound, Context
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import as_int

#: asks for the bounds of an operand
Ask = Callable[[PrimExpr], Bound]
#: how many times 128 bits (RISC-V: 64) long a machine's vectors may be
_VSCALE = (1, 1024)


def limits(dtype: DType) -> Bound:
    """The smallest and the largest number of an integer dtype."""
    kind = dtype.element
    return kind.min_value, kind.max_value


def limits_of_call(x: e.Call) -> Bound:
    """Between which numbers the result of a call lies, whatever its operands are."""
    if x.op == "tir.bitwise_and":
        masks = [m for m in map(as_int, x.args) if m is not None and m >= 0]
        if masks:
            return 0, min(masks)
    if x.op == "tir.vscale":
        return _VSCALE
    if x.op == "tir.check_index" and (extent := as_int(x.args[1])) is not None:
        return 0, max(0, extent - 1)
    if x.op in ("tir.clz", "tir.popcount"):
        return 0, x.args[0].dtype.bits
    return x.dtype.min_value, x.dtype.max_value


def bounds_by_operator(ctx: Context, x: Any, ask: Ask) -> Bound:
    """Bounds of an expression of integers or bools; `ask` gives those of operands."""
    full = limits(x.dtype)
    rule = RULES.get(type(x))
    if isinstance(x, e.Var):
        given = ctx.bounds.get(ctx.var(x), EVERYTHING)
        return max(full[0], given[0]), min(full[1], given[1])
    if rule is None:
        return full
    found = rule(x, ask)
    return found if full[0] <= found[0] and found[1] <= full[1] else full


def _of_two(rule: Callable[[Bound, Bound], Bound]) -> Callable[[Any, Ask], Bound]:
    return lambda x, ask: rule(ask(x.a), ask(x.b))


def _product(a: Bound, b: Bound) -> Bound:
    corners = [times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _ramp(x: e.Ramp, ask: Ask) -> Bound:
    if not isinstance(x.lanes, int):
        return EVERYTHING
    base, run = ask(x.base), _product(ask(x.stride), (0, x.lanes - 1))
    return base[0] + run[0], base[1] + run[1]


def _choice(x: e.Select, ask: Ask) -> Bound:
    yes, no = ask(x.true_value), ask(x.false_value)
    return min(yes[0], no[0]), max(yes[1], no[1])


def _cast(x: e.Cast, ask: Ask) -> Bound:
    kind = x.value.dtype
    return ask(x.value) if kind.is_integer or kind.is_bool else EVERYTHING


#: class of expression -> its bounds from those of its operands
RULES: dict[type, Callable[[Any, Ask], Bound]] = {
    e.IntImm: lambda x, _ask: (x.value, x.value),
    e.Broadcast: lambda x, ask: ask(x.value),
    e.Ramp: _ramp,
    e.Select: _choice,
    e.Cast: _cast,
    e.Add: _of_two(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    e.Sub: _of_two(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    e.Mul: _of_two(_product),
    e.Min: _of_two(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    e.Max: _of_two(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    e.FloorDiv: _of_two(interval.floordiv_bounds),
    e.FloorMod: _of_two(interval.floormod_bounds),
    e.Div: _of_two(interval.truncdiv_bounds),
    e.Mod: _of_two(interval.truncmod_bounds),
}
