"""A condition without some of its variables, that holds only where the condition holds for all they
may be.

    i > n, n in 0 .. 7               i > 7
    i == n                           i <= 0 and 7 <= i
    (i + n) // 4 > 0                 (i + 0) // 4 > 0
    A[i] > n or i <= n               False or i <= 0

A comparison takes the smallest value of one side and the largest of the other, each operation by
the direction in which it grows. What does not grow in one direction (`%`, a product of two
variables, what memory holds) makes its comparison False: nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var


class _Unknown(Exception):
    """An expression whose smallest or largest value is not known."""


def narrow_predicate_expression(condition: PrimExpr, free: Mapping[Var, Range]) -> PrimExpr:
    """A condition that says nothing of the variables `free`, and implies the given one.

    Args:
        condition: of dtype bool.
        free: variables, and what they run over; a range must not be empty.

    Returns:
        The condition with bounds in their places, otherwise as it is written (nothing is
        simplified); False in place of each comparison of which nothing is known.
    """
    return _Narrower(free).condition(p.as_expr(condition), True)


class _Narrower:
    def __init__(self, free: Mapping[Var, Range]) -> None:
        analyzer = Analyzer()
        self.ends = {
            var: (x.min, analyzer.simplify(x.min + x.extent - p.const(1, x.min.dtype)))
            for var, x in free.items()
        }

    def condition(self, x: PrimExpr, for_all: bool) -> PrimExpr:
        """What implies `x` for all values of the variables; else what `x` for one value implies."""
        if isinstance(x, e.And | e.Or):
            return type(x)(self.condition(x.a, for_all), self.condition(x.b, for_all))
        if isinstance(x, e.Not):
            inner = self.condition(x.a, not for_all)
            return p.const(p.is_const(inner, 0), "bool") if p.is_const(inner) else e.Not(inner)
        try:
            return self._atom(x, for_all)
        except _Unknown:
            return p.const(not for_all, "bool")

    def _atom(self, x: PrimExpr, for_all: bool) -> PrimExpr:
        if self._is_fixed(x):
            return x
        if isinstance(x, e.EQ | e.NE | e.LT | e.LE | e.GT | e.GE):
            (a0, a1), (b0, b1) = (self._both(side) for side in (x.a, x.b))
            if not for_all:
                a0, a1, b0, b1 = a1, a0, b1, b0
            return _COMPARED[type(x)](a0, a1, b0, b1)
        raise _Unknown

    def _both(self, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        return self._end(x, 0), self._end(x, 1)

    def _is_fixed(self, x: PrimExpr) -> bool:
        """True if nothing but variables that stay and constants is in an expression."""
        return all(isinstance(n, _PLAIN) and n not in self.ends for n in walk(x))

    def _end(self, x: PrimExpr, side: int) -> PrimExpr:
        """The smallest (side 0) or largest (1) value of an expression."""
        if x in self.ends:
            return self.ends[x][side]  # type: ignore[index]
        if self._is_fixed(x) and not any(isinstance(n, e.FloorMod) for n in walk(x)):
            return x
        if isinstance(x, e.Add | e.Min | e.Max):
            return type(x)(self._end(x.a, side), self._end(x.b, side))
        if isinstance(x, e.Sub):
            return e.Sub(self._end(x.a, side), self._end(x.b, 1 - side))
        if isinstance(x, e.Mul | e.FloorDiv):
            return self._scaled(x, side)
        raise _Unknown

    def _scaled(self, x: e.Mul | e.FloorDiv, side: int) -> PrimExpr:
        """A product with a constant, or what is divided by one."""
        a, b = (x.b, x.a) if isinstance(x, e.Mul) and p.is_const(x.a) else (x.a, x.b)
        factor = p.as_int(b)
        if not factor:
            raise _Unknown
        return type(x)(self._end(a, side if factor > 0 else 1 - side), b)


#: what a number is made of that is the same whenever it is asked for
_PLAIN = (
    *(Var, e.IntImm, e.FloatImm, e.Cast, e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max),
    *(e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or, e.Not),
)

#: comparison -> what holds for all values of both sides, by their ends
_COMPARED: dict[type, Callable[[Any, Any, Any, Any], PrimExpr]] = {
    e.EQ: lambda a0, a1, b0, b1: e.And(e.LE(a1, b0), e.LE(b1, a0)),
    e.NE: lambda a0, a1, b0, b1: e.Or(e.LT(a1, b0), e.LT(b1, a0)),
    e.LT: lambda a0, a1, b0, b1: e.LT(a1, b0),
    e.LE: lambda a0, a1, b0, b1: e.LE(a1, b0),
    e.GT: lambda a0, a1, b0, b1: e.GT(a0, b1),
    e.GE: lambda a0, a1, b0, b1: e.GE(a0, b1),
}
