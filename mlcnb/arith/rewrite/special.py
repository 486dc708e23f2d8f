"""Rewrites that compute with numbers, where no pattern says what comes out.

Ramp(x * 8 + 1, 1, 4) // 8      ->  Broadcast(x, 4)           all lanes fall into one block
(x * 360 + y) // 16             ->  x * 22                    where what is left over is below 16
x + 5 < y + 2                   ->  x + 3 < y
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mlcnb.arith import division
from mlcnb.arith.interval import bounds_of, modular_of
from mlcnb.arith.known import CompareResult, Extension
from mlcnb.arith.proof import is_nonnegative
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import DIVISIONS, TRUNCATED


def _value(x: Any) -> int | None:
    return x.value if isinstance(x, e.IntImm) else None


def index(self: Any, x: Any) -> PrimExpr | None:
    """Divisions, minima and maxima of indices."""
    rule = _INDEX.get(type(x))
    return None if rule is None else rule(self, x)


def _scaled(x: PrimExpr) -> tuple[PrimExpr, int, PrimExpr] | None:
    """(v, c, rest) of v * c, v * c + rest or rest + v * c."""
    if isinstance(x, e.Add):
        for term, rest in ((x.a, x.b), (x.b, x.a)):
            found = _scaled(term) if isinstance(term, e.Mul) else None
            if found is not None:
                return found[0], found[1], rest
    if isinstance(x, e.Mul) and (factor := _value(x.b)) is not None:
        return x.a, factor, p.const(0, x.dtype)
    return None


def _floordiv(self: Any, x: e.FloorDiv) -> PrimExpr | None:
    by, parts = _value(x.b), _scaled(x.a)
    if not by or parts is None:
        return None
    var, factor, rest = parts
    left = p.floordiv(p.add(p.multiply(var, factor % by), p.floormod(rest, by)), by)
    low, high = self.analyzer.const_bounds(left)
    whole = p.floordiv(rest, by)
    if self.equal(whole, 0):
        whole = p.const(0, x.dtype)
    if low == high:
        return p.add(p.multiply(var, factor // by), p.add(whole, int(low)))
    if factor > 0 and by > 0 and by % factor == 0 and self.less(p.floormod(rest, by), factor):
        return p.add(p.floordiv(var, by // factor), whole)
    return None


def _remainder(self: Any, x: Any) -> PrimExpr | None:
    """x % c where c divides what x is a multiple of, or where x is in 0..c already."""
    by = _value(x.b)
    if by is None or by <= 0 or _scaled(x.a) is not None:
        return None
    return remainder(self, x, by)


def remainder(self: Any, x: Any, by: int) -> PrimExpr | None:
    """x % by by what is known of x alone."""
    if isinstance(x, e.Mod) and not self.nonneg(x.a):
        return None
    step, base = self.modular(x.a)
    if step % by == 0:
        return p.const(base % by, x.dtype)
    low, high = self.analyzer.const_bounds(x.a)
    return x.a if isinstance(x, e.FloorMod) and low >= 0 and high < by else None


def _extremum(self: Any, x: Any) -> PrimExpr | None:
    """min or max of two of which one is never the smaller."""
    first, second = self.analyzer.const_bounds(x.a), self.analyzer.const_bounds(x.b)
    if isinstance(x, e.Max):
        ahead = first[0] >= second[1], second[0] >= first[1]
    else:
        ahead = first[1] <= second[0], second[1] <= first[0]
    if any(ahead):
        return x.a if ahead[0] else x.b
    (one, a), (two, b) = _offset(x.a), _offset(x.b)
    same = (
        one is not None
        and two is not None
        and self.normalizer.poly(one).is_same(self.normalizer.poly(two))
    )
    if same and a != b:
        return x.a if (a < b) == isinstance(x, e.Min) else x.b
    if self.scalable(x):
        known = self.compare(x.a, x.b)
        if known in (CompareResult.LT, CompareResult.LE, CompareResult.EQ):
            return x.a if isinstance(x, e.Min) else x.b
        if known in (CompareResult.GT, CompareResult.GE):
            return x.b if isinstance(x, e.Min) else x.a
    return None


def _offset(x: PrimExpr) -> tuple[PrimExpr | None, int]:
    """(v, c) of v + c; (0 - v, c) of c - v; (v, 0) of v."""
    if isinstance(x, e.Add) and (const := _value(x.b)) is not None:
        return x.a, const
    if isinstance(x, e.Sub) and (const := _value(x.a)) is not None:
        return e.Sub(p.const(0, x.dtype), x.b), const
    return (None, 0) if isinstance(x, e.IntImm) else (x, 0)


_INDEX: dict[type, Callable[[Any, Any], PrimExpr | None]] = {
    e.FloorDiv: _floordiv, e.FloorMod: _remainder, e.Mod: _remainder, e.Min: _extremum,
    e.Max: _extremum,
}  # fmt: skip


def merged_constants(x: e.LT) -> PrimExpr | None:
    """Constants of both sides on one side, and `<` as `<=` where that takes them away."""
    (a, left), (b, right) = _shift(x.a), _shift(x.b)
    if left == 0 and right == 0:
        return None
    by = right - left
    if by in (0, 1):
        return p.less(a, b) if by == 0 else p.less_equal(a, b)
    if by < 0 and right != 0:
        return p.less(p.add(a, -by), b)
    if by > 0 and left != 0:
        return p.less(a, p.add(b, by))
    return None


def _shift(x: PrimExpr) -> tuple[PrimExpr, int]:
    """(v, c) of v + c or v - c."""
    if isinstance(x, e.Add | e.Sub) and (const := _value(x.b)) is not None:
        return x.a, const if isinstance(x, e.Add) else -const
    return x, 0


# vectors


def vector_division(self: Any, x: Any) -> PrimExpr | None:
    """A ramp divided by a number, where the lanes stay evenly spaced."""
    build = _DIVIDE.get(type(x))
    if build is None or not (isinstance(x.a, e.Ramp) and isinstance(x.b, e.Broadcast)):
        return None
    base, step, by, lanes = x.a.base, _value(x.a.stride), _value(x.b.value), x.a.lanes
    if step is None or by is None or by == 0 or x.dtype.is_float:
        return None
    quotient = isinstance(x, e.Div | e.FloorDiv)
    exact = not isinstance(x, e.Div | e.Mod) or self.nonneg(base)
    if step % by == 0:
        if quotient:
            whole = e.Ramp(build(base, by), p.const(step // by, base.dtype), lanes)
            return whole if exact or step == 0 else None
        return e.Broadcast(build(base, by), lanes) if exact or step == 0 else None
    if by < 0 or not exact or base.dtype.lanes != 1:
        return None
    coefficient, start = self.modular(base)
    if not isinstance(lanes, int):
        return None if quotient else _less_of_base(x, coefficient, start, by)
    last = start + (lanes - 1) * step
    if start // by == last // by:
        if coefficient % by == 0:
            if quotient:
                return e.Broadcast(build(base, by), lanes)
            return e.Ramp(p.const(start % by, base.dtype), x.a.stride, lanes)
        if by % coefficient == 0 and 0 <= last < coefficient:
            rest = build(base, by)
            return e.Broadcast(rest, lanes) if quotient else e.Ramp(rest, x.a.stride, lanes)
    return None if quotient else _less_of_base(x, coefficient, start, by)


def _less_of_base(x: Any, coefficient: int, start: int, by: int) -> PrimExpr | None:
    """Ramp(x * 8 + 1, 15, 4) % 8 has no need of x."""
    if coefficient % by or isinstance(x.a.base, e.IntImm):
        return None
    rest = e.Ramp(p.const(start % by, x.a.base.dtype), x.a.stride, x.a.lanes)
    return type(x)(rest, x.b)


_DIVIDE = {**DIVISIONS, **TRUNCATED}


def zero_of_floats(x: Any) -> PrimExpr:
    """x + 0.0 and x * 0.0 of floats that were integers: neither -0.0, infinity nor NaN."""
    if not x.dtype.is_float:
        return x
    for zero, other in ((x.a, x.b), (x.b, x.a)):
        if p.is_const(zero, 0.0) and _was_integer(other):
            if isinstance(x, e.Add):
                return other
            if isinstance(x, e.Mul):
                return zero
    return x


def _was_integer(x: Any) -> bool:
    if isinstance(x, e.Broadcast):
        return _was_integer(x.value)
    return isinstance(x, e.Cast) and not x.value.dtype.is_float


# calls


def nested_choice(x: e.Call) -> PrimExpr:
    """One choice for two where both end in the same constant."""
    condition, yes, no = x.args
    if not (isinstance(yes, e.Call) and yes.op == "tir.if_then_else"):
        return x
    inner, chosen, other = yes.args
    same = isinstance(no, e.IntImm) and isinstance(other, e.IntImm) and no.value == other.value
    return e.Call(x.dtype, x.op, (p.logical_and(condition, inner), chosen, no)) if same else x


# products against sums


_SIGNS = {0: CompareResult.EQ, 1: CompareResult.GT, -1: CompareResult.LT}


def compare(self: Any, a: PrimExpr, b: PrimExpr) -> CompareResult:
    """What is known of two index expressions."""
    ctx, one, two = self.normalizer.ctx, self.normalizer.poly(a), self.normalizer.poly(b)
    if not all(division.is_exact(ctx, x, a.dtype) for x in (one, two)):
        return CompareResult.EQ if one.is_same(two) else CompareResult.UNKNOWN
    diff = one.minus(two)
    if diff.is_const:
        return _SIGNS[(diff.const > 0) - (diff.const < 0)]
    low, high = bounds_of(ctx, diff)
    known = CompareResult.UNKNOWN
    if low > 0 or is_nonnegative(ctx, diff.shifted(-1)):
        return CompareResult.GT
    if high < 0 or is_nonnegative(ctx, diff.scaled(-1).shifted(-1)):
        return CompareResult.LT
    if low >= 0 or is_nonnegative(ctx, diff):
        known = CompareResult.GE
    if high <= 0 or is_nonnegative(ctx, diff.scaled(-1)):
        known = CompareResult.EQ if known is CompareResult.GE else CompareResult.LE
    if known is CompareResult.UNKNOWN and modular_of(ctx, diff)[1] != 0:
        return CompareResult.NE
    if known is CompareResult.UNKNOWN and Extension.ComparisonOfProductAndSum in self.extensions:
        return product_and_sum(self, a, b)
    return known


def product_and_sum(self: Any, a: PrimExpr, b: PrimExpr) -> CompareResult:
    """(A + B) * C against A * B * D, all positive: 1 / C against 1 / (A * D) + 1 / (B * D)."""
    found = _product_of_sum(self, self.visit(p.subtract(a, b)))
    if found is None:
        return CompareResult.UNKNOWN
    bounds = [self.analyzer.const_bounds(x) for x in found]
    upper = bounds[3][1] < 0
    if upper:
        bounds[2:] = map(_negative, bounds[2:])
    if bounds[2][1] < 0:
        bounds[:3] = map(_negative, bounds[:3])
    (low_a, most_a), (low_b, most_b), (low_c, _), (low_d, most_d) = bounds
    if min(low_a, low_b, low_c, low_d) <= 0 or most_d == math.inf:
        return CompareResult.UNKNOWN
    sure = min(most_a, most_b) * most_d <= low_c
    if not sure and math.inf not in (most_a, most_b):
        sure = most_a * most_b * most_d < low_c * (most_a + most_b)
    if not sure:
        return CompareResult.UNKNOWN
    return CompareResult.LT if upper else CompareResult.GT


def _negative(bound: tuple[float, float]) -> tuple[float, float]:
    return -bound[1], -bound[0]


def _product_of_sum(self: Any, x: PrimExpr) -> tuple[PrimExpr, ...] | None:
    """(A, B, C, D) of (A + B) * C - (A * B) * D, however it is written."""
    form = self.normalizer.poly(x)
    atoms = {atom for atom in form.atoms() if atom.kind == "var"}
    if form.const or len(form.terms) != 3 or len(atoms) != 2:
        return None
    one, two = sorted(atoms, key=lambda atom: atom.serial)
    pair = next((x for x in form.terms if x is one.by(two)), None)
    sums = [form.terms.get(atom) for atom in (one, two)]
    if pair is None or None in sums or sums[0] != sums[1]:
        return None
    kind = x.dtype
    return one.expr, two.expr, p.const(sums[0], kind), p.const(-form.terms[pair], kind)
