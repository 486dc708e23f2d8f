"""From expressions to their normal form (`of`), and expressions simplified through it
(`simplified`).

`Context` holds what is known of variables: constant bounds, and values to put in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, inf
from typing import Any

from mlcnb.arith.atoms import Extreme, Opaque
from mlcnb.arith.forms import decided, reads_data
from mlcnb.arith.sum import ZERO, Bounds, Quotient, Remainder, Sum, is_index
from mlcnb.core.node import map_children
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import COMPARISONS, folded_choice


class Context:
    """What is known of variables: `bounds` (constants, inclusive) and `values` that replace
    them.
    """

    __slots__ = ("bounds", "values")

    def __init__(
        self,
        bounds: Mapping[e.Var, Bounds] | None = None,
        values: Mapping[e.Var, Sum] | None = None,
    ) -> None:
        self.bounds = bounds or {}
        self.values = values or {}


EMPTY = Context()


def of(x: Any, context: Context = EMPTY) -> Sum:
    """The normal form of an integer expression (or a Python int)."""
    reader = _READERS.get(type(x))
    if reader is not None:
        return reader(x, context)
    if isinstance(x, e.Var):
        return _variable(x, context)
    if isinstance(x, int):
        return Sum(x)
    return _opaque(x, context)


def _variable(x: e.Var, context: Context) -> Sum:
    return context.values[x] if x in context.values else Sum(0, {x: 1})


def _opaque(x: e.PrimExpr, context: Context) -> Sum:
    if context.values:
        x = simplified(x, context, inside=True, in_index=True)
    inner = None
    if isinstance(x, e.Cast) and x.dtype.is_integer and is_index(x.value.dtype):
        inner = of(x.value, context)
    return Sum(0, {Opaque(x, inner): 1})


def _mul(x: e.Mul, context: Context) -> Sum:
    a, b = of(x.a, context), of(x.b, context)
    if b.value is not None:
        return a.scaled(b.value)
    if a.value is not None:
        return b.scaled(a.value)
    return Sum(0, {Opaque(e.Mul(a.expr(x.dtype), b.expr(x.dtype)), factors=(a, b)): 1})


def _division(x: Any, context: Context) -> Sum:
    a, by = of(x.a, context), of(x.b, context)
    if by.value is None or by.value <= 0:
        return Sum(0, {Opaque(type(x)(a.expr(x.dtype), by.expr(x.dtype))): 1})
    part = divided if isinstance(x, e.FloorDiv) else remainder
    return part(a, by.value, context.bounds)


_READERS: dict[type, Callable[[Any, Context], Sum]] = {
    e.Var: _variable,
    e.IntImm: lambda x, _context: Sum(x.value),
    e.Add: lambda x, context: of(x.a, context).plus(of(x.b, context)),
    e.Sub: lambda x, context: of(x.a, context).plus(of(x.b, context), -1),
    e.Mul: _mul,
    e.FloorDiv: _division,
    e.FloorMod: _division,
    e.Min: lambda x, c: smaller(of(x.a, c), of(x.b, c), c.bounds),
    e.Max: lambda x, c: larger(of(x.a, c), of(x.b, c), c.bounds),
}


def smaller(a: Sum, b: Sum, known: Mapping[e.Var, Bounds]) -> Sum:
    """min(a, b), decided where the bounds decide it."""
    lo, hi = a.minus(b).bounds(known)
    if hi is not None and hi <= 0:
        return a
    if lo is not None and lo >= 0:
        return b
    return Sum(0, {Extreme(True, a, b): 1})


def larger(a: Sum, b: Sum, known: Mapping[e.Var, Bounds]) -> Sum:
    """max(a, b), decided where the bounds decide it."""
    lo, hi = a.minus(b).bounds(known)
    if lo is not None and lo >= 0:
        return a
    if hi is not None and hi <= 0:
        return b
    return Sum(0, {Extreme(False, a, b): 1})


def _parts(a: Sum, by: int) -> tuple[Sum, Sum]:
    """a as whole * by + rest, with the constant of rest in 0..by."""
    whole, rest = {}, {}
    for atom, coefficient in a.terms.items():
        if coefficient % by:
            rest[atom] = coefficient
        else:
            whole[atom] = coefficient // by
    return Sum(a.const // by, whole), Sum(a.const % by, rest)


def _folded(a: Sum, by: int) -> tuple[Sum, Sum]:
    """a as whole * by + rest, with the constant and each coefficient of rest in 0..by.

    (v * 45) // 2 is v * 22 + v // 2, and that is v * 22 where v is 0 or 1
    """
    whole = Sum(a.const // by, {x: c // by for x, c in a.terms.items() if c // by})
    return whole, Sum(a.const % by, {x: c % by for x, c in a.terms.items() if c % by})


def divided(a: Sum, by: int, known: Mapping[e.Var, Bounds]) -> Sum:
    """a // by, for by > 0."""
    if by == 1:
        return a
    whole, rest = _parts(a, by)
    lo, hi = rest.bounds(known)
    if lo is not None and hi is not None and lo // by == hi // by:
        return whole.shifted(lo // by)
    common = gcd(by, *rest.terms.values())
    if common > 1:
        rest = rest.divided(common)
        by //= common
        if by == 1:
            return whole.plus(rest)
        return whole.plus(divided(rest, by, known))
    if any(coefficient > by for coefficient in rest.terms.values()):
        more, left = _folded(rest, by)
        lo, hi = left.bounds(known)
        if lo is not None and hi is not None and lo // by == hi // by:
            return whole.plus(more).shifted(lo // by)
    inner = next(iter(rest.terms))
    if len(rest.terms) == 1 and rest.terms[inner] == 1 and isinstance(inner, Quotient):
        return whole.plus(divided(inner.inner.shifted(rest.const * inner.by), inner.by * by, known))
    return whole.plus(Sum(0, {Quotient(rest, by): 1}))


def remainder(a: Sum, by: int, known: Mapping[e.Var, Bounds]) -> Sum:
    """a % by, for by > 0."""
    if by == 1:
        return ZERO
    rest = _parts(_without_remainders(a, by), by)[1]
    lo, hi = rest.bounds(known)
    if lo is not None and hi is not None and lo // by == hi // by:
        return rest.shifted(-(lo // by) * by)
    common = gcd(by, *rest.terms.values())
    if common > 1:
        inner = remainder(rest.divided(common), by // common, known)
        return inner.scaled(common).shifted(rest.const % common)
    digit = next(iter(rest.terms))
    if len(rest.terms) == 1 and rest.terms[digit] == 1 and isinstance(digit, Quotient):
        # X // a % b is X % (a * b) // a: TVM's form, and the one that puts digits together again
        inside = digit.inner.shifted(rest.const * digit.by)
        return divided(remainder(inside, digit.by * by, known), digit.by, known)
    return Sum(0, {Remainder(rest, by): 1})


def _without_remainders(a: Sum, by: int) -> Sum:
    """X % m is as good as X for a remainder by a divisor of m."""
    for atom, coefficient in a.terms.items():
        if isinstance(atom, Remainder) and atom.by % by == 0:
            return _without_remainders(a.without(atom).plus(atom.inner, coefficient), by)
    return a


def simplified(
    x: Any, context: Context = EMPTY, inside: bool = False, in_index: bool = False
) -> Any:
    """An expression with every integer part in normal form and every decided condition decided.

    Numbers that come from memory, and narrow dtypes, may wrap around: of these, only what stands in
    them is simplified. What stands in an index (`in_index`) does not wrap, whatever it reads.
    `inside` keeps the top node from being read as a sum again (it is opaque to the normal form).
    """
    if isinstance(x, e.Var):
        return context.values[x].expr(x.dtype) if x in context.values else x
    if isinstance(x, e.IntImm | e.FloatImm | e.StringImm):
        return x
    if not inside and type(x) in _READERS and _is_exact(x, in_index):
        return of(x, context).expr(x.dtype)
    if isinstance(x, e.CmpOp):
        return _condition(x, context, in_index)
    if isinstance(x, e.Let):
        value, body = (simplified(part, context, in_index=in_index) for part in (x.value, x.body))
        return type(x)(x.var, value, body)
    return _mapped(x, context, in_index)


def _is_exact(x: e.PrimExpr, in_index: bool) -> bool:
    """True for what cannot wrap around."""
    return is_index(x.dtype) and (in_index or not reads_data(x))


def _condition(x: Any, context: Context, in_index: bool) -> e.PrimExpr:
    a, b = (simplified(part, context, in_index=in_index) for part in (x.a, x.b))
    if isinstance(x, e.And):
        joined = _rejoined(a, b, context)
        return p.logical_and(a, b) if joined is None else joined
    if isinstance(x, e.Or):
        return p.logical_or(a, b)
    if _is_exact(a, in_index) and _is_exact(b, in_index):
        lo, hi = of(a).minus(of(b)).bounds(context.bounds)
        known = decided(type(x), -inf if lo is None else lo, inf if hi is None else hi)
        if known is not None:
            return p.const(known, "bool")
    return COMPARISONS[type(x)](a, b)


def _rejoined(a: e.PrimExpr, b: e.PrimExpr, context: Context) -> e.PrimExpr | None:
    """x // 4 == 3 and 2 <= x % 4 is 14 <= x, where x stays below 16."""
    match a, b:
        case e.EQ(e.FloorDiv(x, size), tile), e.LE(first, e.FloorMod(y, modulus)):
            place, step, n, rest = of(x), of(size).value, of(tile).value, of(first).value
            if step is None or n is None or rest is None or of(modulus).value != step:
                return None
            if step <= 0 or rest < 0:
                return None
            high = place.bounds(context.bounds)[1]
            if not place.is_same(of(y)) or high is None or high >= (n + 1) * step:
                return None
            return simplified(p.less_equal(p.const(n * step + rest, x.dtype), x), context)
    return None


_NEGATED: dict[type, Callable[[Any, Any], e.PrimExpr]] = {
    e.LT: lambda a, b: p.less_equal(b, a),
    e.LE: lambda a, b: p.less(b, a),
    e.GT: lambda a, b: p.less_equal(a, b),
    e.GE: lambda a, b: p.less(a, b),
    e.EQ: p.not_equal,
    e.NE: p.equal,
    e.And: lambda a, b: p.logical_or(negated(a), negated(b)),
    e.Or: lambda a, b: p.logical_and(negated(a), negated(b)),
}


def negated(x: e.PrimExpr) -> e.PrimExpr:
    """The opposite of a condition, as comparisons again where it is made of them."""
    build = _NEGATED.get(type(x))
    return p.logical_not(x) if build is None else build(x.a, x.b)  # type: ignore[attr-defined]


def _mapped(x: Any, context: Context, in_index: bool) -> Any:
    exact = in_index or hasattr(x, "indices")

    def part(n: Any) -> Any:
        return simplified(n, context, in_index=exact) if isinstance(n, e.PrimExpr) else n

    new = map_children(x, part)
    made = None if new is x else folded_choice(new)
    return new if made is None else made
