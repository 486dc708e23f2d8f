"""From expressions to their normal form, and whole expressions simplified.

`Normalizer.poly(e)` is the polynomial of an int32 or int64 expression; `Normalizer.simplify(e)` is
any expression with everything integer in it in its short form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.arith import division, extrema, truncation
from mlcnb.arith.conditions import compare
from mlcnb.arith.context import EVERYTHING, Context
from mlcnb.arith.emission import emit, size_of
from mlcnb.arith.forms import alike, decided, flattened, multiplies_out, reads_data
from mlcnb.arith.interval import bounds_of
from mlcnb.arith.learning import NEGATED, Learner
from mlcnb.arith.ranges import bounds_by_operator, limits, limits_of_call
from mlcnb.arith.sum import Sum, is_index
from mlcnb.arith.vectors import vector_rule
from mlcnb.core.errors import IntegerRangeError
from mlcnb.core.node import Node, identical, map_children
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import COMPARISONS, DIVIDING, DIVISIONS, SUMS, TRUNCATED, folded_call

#: bits of the whole numbers that a float holds exactly
_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
#: calls whose limits follow from those of their operands
_BY_OPERANDS = ("tir.bitwise_and", "tir.shift_right", "tir.clz", "tir.popcount")
#: a product of sums with more terms than this is left as it is
_MANY_TERMS = 24


class Normalizer(Learner):
    """Simplifies under what `ctx` knows. Results are kept for as long as nothing new is learned."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    # integers

    def poly(self, x: PrimExpr) -> Sum:
        """The polynomial of an int32 or int64 expression."""
        if type(x) is e.IntImm:
            return Sum(x.value)
        found = self.ctx.polys.get(id(x))
        if found is None:
            try:
                found = _POLY.get(type(x), Normalizer._other)(self, x)
            except IntegerRangeError:  # a part of it has a number that its dtype has not
                limits = (x.dtype.min_value, x.dtype.max_value)
                found = self._opaque(self._of_simple(x), "within", limits)
            self.ctx.polys[id(x)] = found
            self.ctx.alive.append(x)
        return found

    def _var(self, x: e.Var) -> Sum:
        given = self.ctx.values.get(x)
        if given is not None:
            return given
        atom = self.ctx.var(x)
        low, high = self.ctx.bounds.get(atom, EVERYTHING)
        return Sum(int(low)) if low == high else Sum(0, {atom: 1})

    def _add(self, x: e.Add) -> Sum:
        return division.recombine(self.ctx, self.poly(x.a).plus(self.poly(x.b)))

    def _sub(self, x: e.Sub) -> Sum:
        return division.recombine(self.ctx, self.poly(x.a).minus(self.poly(x.b)))

    def _mul(self, x: e.Mul) -> Sum:
        a, b = self.poly(x.a), self.poly(x.b)
        if (len(a.terms) + 1) * (len(b.terms) + 1) > _MANY_TERMS and a.terms and b.terms:
            return self._opaque(e.Mul(emit(a, x.dtype), emit(b, x.dtype)), "opaque", (a, b))
        return division.recombine(self.ctx, a.times(b))

    def _of_two(self, x: Any) -> Sum:
        return _OF_TWO[type(x)](self.ctx, self.poly(x.a), self.poly(x.b), x.dtype)

    def _select(self, x: e.Select) -> Sum:
        return self._cases(x, x.condition, x.true_value, x.false_value)

    def _call(self, x: e.Call) -> Sum:
        if x.op == "tir.if_then_else":
            return self._cases(x, *x.args)
        if x.op == "tir.likely":
            return self.poly(x.args[0])
        rebuilt: Any = folded_call(self._rebuilt(x))
        if isinstance(rebuilt, e.IntImm):
            return Sum(rebuilt.value)
        if x.op in ("tir.shift_left", "tir.shift_right"):
            by = p.as_int(rebuilt.args[1])
            if by is not None and 0 <= by < x.dtype.bits:
                return self._shift(rebuilt, by)
        polys = self._polys(rebuilt) if x.op in _BY_OPERANDS else None
        if polys is not None:
            bits = () if len(polys) == 2 else (Sum(rebuilt.args[0].dtype.bits),)
            return self._opaque(rebuilt, x.op[4:], (*polys, *bits))
        return self._opaque(rebuilt, "within", limits_of_call(rebuilt))

    def _polys(self, x: e.Call) -> tuple[Sum, ...] | None:
        """The operands as polynomials, where these do not wrap around."""
        if not all(is_index(a.dtype) for a in x.args):
            return None
        found = tuple(map(self.poly, x.args))
        exact = (division.is_exact(self.ctx, a, x.dtype) for a in found)
        return found if all(exact) else None

    def _shift(self, x: e.Call, by: int) -> Sum:
        value = self.poly(x.args[0])
        if x.op == "tir.shift_right":
            return division.floordiv(self.ctx, value, Sum(1 << by), x.dtype)
        if division.is_exact(self.ctx, value.scaled(1 << by), x.dtype):
            return value.scaled(1 << by)
        return self._opaque(x, "opaque", ())

    def _cast(self, x: e.Cast) -> Sum:
        inner = self.simplify(x.value)
        folded = p.cast(x.dtype, inner)
        if not isinstance(folded, e.Cast):
            return self.poly(folded)
        source = inner.dtype
        limits: tuple[float, float] = (x.dtype.min_value, x.dtype.max_value)
        if is_index(source):
            return self._opaque(folded, "cast", (self.poly(inner), source, x.dtype))
        if source.is_float and isinstance(inner, e.Cast):  # an integer that a float holds exactly
            source = inner.value.dtype
            low, high = self.bounds(inner.value) if source.is_integer else limits
            if max(-low, high) <= 1 << _MANTISSA.get(inner.dtype, 0):
                limits = (max(low, limits[0]), min(high, limits[1]))
        elif source.is_integer or source.is_bool:
            low, high = self.bounds(inner)
            if limits[0] <= low and high <= limits[1]:
                limits = (low, high)
        return self._opaque(folded, "within", limits)

    def _cases(self, x: Any, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> Sum:
        chosen = self._choose(condition, yes, no)
        if len(chosen) == 1:
            return self.poly(chosen[0])
        condition, yes, no = chosen
        if isinstance(x, e.Select):
            rebuilt: PrimExpr = e.Select(condition, yes, no)
        else:
            rebuilt = e.Call(x.dtype, x.op, (condition, yes, no), x.span)
        return self._opaque(rebuilt, "cases", (self.poly(yes), self.poly(no)))

    def _other(self, x: PrimExpr) -> Sum:
        rebuilt = self._rebuilt(x)
        return self._opaque(rebuilt, "within", (x.dtype.min_value, x.dtype.max_value))

    def _opaque(self, x: Any, kind: str, args: tuple) -> Sum:
        """An atom for an expression whose children are simplified already."""
        atom = self.ctx.atom(("opaque", self._built(x)), kind, args, x, reads_data(x))
        return Sum(0, {atom: 1})

    def bounds(self, x: PrimExpr) -> tuple[float, float]:
        """Between which numbers an integer or bool expression lies."""
        if not is_index(x.dtype):
            return bounds_by_operator(self.ctx, x, self.bounds)
        poly = self.poly(x)
        exact = division.is_exact(self.ctx, poly, x.dtype)
        return bounds_of(self.ctx, poly) if exact else limits(x.dtype)

    # anything

    def simplify(self, x: Any) -> Any:
        """`x` with everything integer in it in its short form."""
        found = self.ctx.exprs.get(id(x))
        if found is None:
            found = self._fresh(x)
            self.ctx.exprs[id(x)] = found
            self.ctx.alive.append(x)
        return found

    def _fresh(self, x: Any) -> Any:
        if isinstance(x, e.IntImm | e.FloatImm | e.StringImm) or not isinstance(x, PrimExpr):
            return x
        if is_index(x.dtype):
            try:
                return self._shorter(x, emit(self.poly(x), x.dtype))
            except IntegerRangeError:  # e.g. i * 2**20 * 2**20: it stays as it is written
                return self._of_simple(x)
        found = _SIMPLIFY.get(type(x), Normalizer._rebuilt)(self, x)
        return self._known(found) if self.ctx.truths and x.dtype == "bool" else found

    def _shorter(self, old: Any, new: PrimExpr) -> PrimExpr:
        """`new`, or `old` with its operands simplified where that is shorter.

        A product of sums that stands in a sum is multiplied out all the same: addresses are sums.
        """
        if alike(old, new):
            return old
        if isinstance(new, e.Var | e.IntImm):
            return new
        build = _BUILD.get(type(old))
        if build is not None and size_of(new) > size_of(old) and not multiplies_out(old):
            a, b = self.simplify(old.a), self.simplify(old.b)
            if p.is_const(b, 0) and isinstance(old, DIVIDING):
                return new  # which has no value
            kept = old if a is old.a and b is old.b else build(a, b)
            return kept if size_of(kept) < size_of(new) else new
        return new

    def _of_simple(self, x: Any) -> Any:
        """`x` itself, of simplified parts: for a sum with a number that the dtype cannot hold."""
        return map_children(x, self._child)

    def _rebuilt(self, x: Any) -> Any:
        """`x` with its scalar operands simplified, folded where they became constants."""
        if isinstance(x, e.Let):
            return self._let(x)
        new = map_children(x, self._child)
        if new is x:
            return x
        fold = SUMS.get(type(new))
        if fold is not None and new.a.dtype == new.b.dtype:
            return fold(new.a, new.b)
        return new

    def _child(self, x: Node) -> Node:
        return self.simplify(x) if isinstance(x, PrimExpr) else x

    def _let(self, x: e.Let) -> e.Let:
        value, body = self.simplify(x.value), self.simplify(x.body)
        return x if value is x.value and body is x.body else e.Let(x.var, value, body)

    # conditions

    def _comparison(self, x: Any) -> PrimExpr:
        if is_index(x.a.dtype):
            try:
                found = compare(self.ctx, type(x), self.poly(x.a), self.poly(x.b), x.a.dtype)
                return self._shorter(x, found)
            except IntegerRangeError:  # n - 2**31 == 0: no int32 can stand on the other side
                return self._of_simple(x)
        a, b = self.simplify(x.a), self.simplify(x.b)
        decided = self._decided(type(x), a, b) if a.dtype.lanes == 1 else None
        if decided is not None:
            return p.const(decided)
        return x if a is x.a and b is x.b else COMPARISONS[type(x)](a, b)

    def _decided(self, kind: type, a: PrimExpr, b: PrimExpr) -> bool | None:
        """Whether a comparison of narrow or unsigned integers holds, where their bounds tell."""
        if not a.dtype.is_integer:
            return None
        if self.key(a) == self.key(b):
            return kind in (e.EQ, e.LE, e.GE)
        (low, high), (first, last) = self.bounds(a), self.bounds(b)
        return decided(kind, low - last, high - first)

    def _known(self, x: PrimExpr) -> PrimExpr:
        """True or False where the condition, or its negation, holds already."""
        if isinstance(x, e.IntImm):
            return x
        found = self.ctx.truths.get(self.key(x))
        return x if found is None else p.const(found)

    def _and(self, x: e.And) -> PrimExpr:
        return self._chain(x, e.And, True)

    def _or(self, x: e.Or) -> PrimExpr:
        return self._chain(x, e.Or, False)

    def _chain(self, x: PrimExpr, kind: type, neutral: bool) -> PrimExpr:
        """a and b and …: each is simplified where the ones before it hold (for `or`: do not)."""
        if x.dtype.lanes != 1:
            return self._rebuilt(x)
        kept: list[PrimExpr] = []
        with self.ctx.layer():
            for part in flattened(x, kind):
                new = self.simplify(part)
                if isinstance(new, e.IntImm):
                    if bool(new.value) is neutral:
                        continue
                    return new
                kept.append(new)
                self.assume(new, neutral)
        join = p.all_of if kind is e.And else p.any_of
        return join(*kept) if kept else p.const(neutral)

    def _not(self, x: e.Not) -> PrimExpr:
        inner: Any = self.simplify(x.a)
        if type(inner) in COMPARISONS and is_index(inner.a.dtype):
            return self.simplify(NEGATED[type(inner)](inner.a, inner.b))
        if isinstance(inner, e.And | e.Or) and inner.dtype.lanes == 1:
            build = e.Or if isinstance(inner, e.And) else e.And
            moved = self.simplify(build(p.logical_not(inner.a), p.logical_not(inner.b)))
            if size_of(moved) <= size_of(inner) + 1:
                return moved
        return x if inner is x.a else p.logical_not(inner)

    def _likely_or_choice(self, x: e.Call) -> PrimExpr:
        if x.op == "tir.if_then_else":
            chosen = self._choose(*x.args)
            if len(chosen) == 1:
                return chosen[0]
            return x if identical(chosen, x.args) else e.Call(x.dtype, x.op, chosen, x.span)
        if x.op == "tir.likely":
            inner = self.simplify(x.args[0])
            return inner if isinstance(inner, e.IntImm) else e.Call(x.dtype, x.op, (inner,))
        return folded_call(self._rebuilt(x))

    def _select_any(self, x: e.Select) -> PrimExpr:
        chosen = self._choose(x.condition, x.true_value, x.false_value)
        if len(chosen) == 1:
            return chosen[0]
        return e.Select(*chosen)

    def _choose(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> tuple[PrimExpr, ...]:
        """(value,) where the condition is decided, else the three simplified.

        Each value is simplified where the condition holds, or does not.
        """
        condition = self.simplify(condition)
        if isinstance(condition, e.IntImm):
            return (self.simplify(yes if condition.value else no),)
        if condition.dtype.lanes != 1:
            return condition, self.simplify(yes), self.simplify(no)
        kept = no
        with self.ctx.layer():
            self.assume(condition, True)
            yes = self.simplify(yes)
            is_other = isinstance(condition, e.EQ) and self._is_same(yes, no)
        with self.ctx.layer():
            self.assume(condition, False)
            no = self.simplify(no)
        if is_other:  # i == 0 ? 0 : i
            return (self.simplify(kept),)
        if self._is_same(yes, no):
            return (yes,)
        return condition, yes, no

    def _is_same(self, a: PrimExpr, b: PrimExpr) -> bool:
        return is_index(a.dtype) and self.poly(a).is_same(self.poly(b))

    # keys

    def key(self, x: Any) -> Any:
        """Hashable; equal for expressions that mean the same, as far as normal forms tell."""
        if isinstance(x, e.Var):
            return id(x)
        if isinstance(x, e.IntImm | e.FloatImm):
            return (x.dtype, x.value)
        if isinstance(x, PrimExpr):
            return (x.dtype, self.poly(x).key) if is_index(x.dtype) else self._built(x)
        if isinstance(x, Node):
            self.ctx.alive.append(x)
            return id(x)
        if isinstance(x, tuple):
            return tuple(map(self.key, x))
        return x

    def _built(self, x: PrimExpr) -> Any:
        """The key of an expression by what it is built of."""
        self.ctx.alive.append(x)
        fields = (getattr(x, name) for name in x.child_fields)
        return (type(x).__name__, *map(self.key, fields))


_OF_TWO: dict[type, Callable[..., Sum]] = {
    e.FloorDiv: division.floordiv, e.FloorMod: division.floormod, e.Div: truncation.truncdiv,
    e.Mod: truncation.truncmod, e.Min: extrema.minimum, e.Max: extrema.maximum,
}  # fmt: skip

_POLY: dict[type, Callable[[Normalizer, Any], Sum]] = {
    e.Var: Normalizer._var,
    e.SizeVar: Normalizer._var,
    e.Add: Normalizer._add,
    e.Sub: Normalizer._sub,
    e.Mul: Normalizer._mul,
    **dict.fromkeys(_OF_TWO, Normalizer._of_two),
    e.Select: Normalizer._select,
    e.Call: Normalizer._call,
    e.Cast: Normalizer._cast,
}

#: how an expression is built again from simplified operands
_BUILD = {**SUMS, **DIVISIONS, **TRUNCATED, **COMPARISONS}

_SIMPLIFY: dict[type, Callable[[Normalizer, Any], PrimExpr]] = {
    **dict.fromkeys(COMPARISONS, Normalizer._comparison),
    e.And: Normalizer._and,
    e.Or: Normalizer._or,
    e.Not: Normalizer._not,
    e.Select: Normalizer._select_any,
    e.Call: Normalizer._likely_or_choice,
    e.Add: vector_rule(p.add),
    e.Sub: vector_rule(p.subtract),
    e.Mul: vector_rule(p.multiply),
}
