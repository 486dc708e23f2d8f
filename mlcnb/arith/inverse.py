"""Indices solved for the variables in them.

y0 = v0, y1 = v1 + 1                    v0 = y0, v1 = y1 - 1
y0 = v // 16, y1 = v % 16               v = y0 * 16 + y1
y = v0 * 8 + v1      with v1 in 0..8    v0 = y // 8, v1 = y % 8

`solved` reads sums with numbers for factors, and finds out whether they can be solved; where the
indices are known to be an iteration map, `inverse_affine_iter_map` has symbolic factors too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.digits import Digit, digit_of
from mlcnb.arith.iter_sum import IterMap, IterMark, IterSum
from mlcnb.arith.reading import divided, remainder
from mlcnb.arith.sum import ZERO, Bounds, Quotient, Remainder, Sum, mentions_any
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p

#: what was found of a number: its digits with their values
Found = dict[Digit, Sum]


def solved(
    indices: Sequence[Sum],
    values: Sequence[Sum],
    variables: Mapping[e.Var, Bounds],
    known: Mapping[e.Var, Bounds],
) -> dict[e.Var, Sum] | None:
    """Each variable as a function of `values`, given that `indices` take those values.

    Args:
        indices: sums over the variables (and others, which count as fixed).
        values: what each index is.
        variables: the unknowns with their bounds; those with one value only need no equation.
        known: bounds of everything, for simplification.

    Returns:
        None where a variable does not follow from the indices, or they are not sums of digits.
    """
    solver = _Solver(variables, known)
    for index, value in zip(indices, values, strict=True):
        if not solver.learn(index, value):
            return None
    for var, (lo, hi) in variables.items():
        if var not in solver.variables and lo is not None and lo == hi:
            solver.variables[var] = Sum(lo)
    return solver.variables if all(v in solver.variables for v in variables) else None


class _Solver:
    def __init__(self, unknown: Mapping[e.Var, Bounds], known: Mapping[e.Var, Bounds]) -> None:
        self.unknown = unknown
        self.known = known
        self.bounds = {**known, **unknown}
        self.variables: dict[e.Var, Sum] = {}
        self.digits: dict[Any, tuple[Sum, Found]] = {}

    def learn(self, index: Sum, value: Sum) -> bool:
        """index = value; False if the index is no sum of digits, largest steps apart."""
        varying = [(c, t) for t, c in index.terms.items() if mentions_any(t, self.unknown)]
        fixed = {t: c for t, c in index.terms.items() if not mentions_any(t, self.unknown)}
        rest = value.minus(Sum(index.const, fixed))
        if len(varying) == 1 and abs(varying[0][0]) == 1:
            return self._atom(varying[0][1], rest.scaled(varying[0][0]))
        varying.sort(key=lambda pair: pair[0])
        return self._sum(varying, rest)

    def _sum(self, varying: list[tuple[int, Any]], rest: Sum) -> bool:
        """The digits of `rest`, from the smallest step up."""
        for n, (step, atom) in enumerate(varying):
            lo, hi = Sum(0, {atom: 1}).bounds(self.bounds)
            following = varying[n + 1][0] if n + 1 < len(varying) else None
            if step <= 0 or lo != 0:
                return False
            if following is not None and (hi is None or step * (hi + 1) > following):
                return False
            low_part = rest if following is None else remainder(rest, following, self.known)
            if not self._atom(atom, divided(low_part, step, self.known)):
                return False
            if following is not None:
                rest = divided(rest, following, self.known).scaled(following)
        return True

    def _atom(self, atom: Any, value: Sum) -> bool:
        if isinstance(atom, e.Var):
            self.variables.setdefault(atom, value)
            return True
        if not isinstance(atom, Quotient | Remainder):
            return False
        number, digit = digit_of(atom)
        key = number.key
        found = self.digits.setdefault(key, (number, {}))[1]
        found[digit] = value
        whole = self._put_together(number, found)
        return True if whole is None else self.learn(number, whole)

    def _put_together(self, number: Sum, found: Found) -> Sum | None:
        """number = the sum of its digits, once all of them are known."""
        lo, hi = number.bounds(self.bounds)
        if lo is None or lo < 0:
            return None
        parts: list[tuple[Sum, int]] = []
        place = 1
        while hi is None or place <= hi:
            fitting = [(upper, value) for (lower, upper), value in found.items() if lower == place]
            if not fitting:
                return None
            upper, value = fitting[0]
            parts.insert(0, (value, place))
            if upper is None:
                break
            place = upper
        total = ZERO
        for value, step in parts:
            total = total.plus(value, step)
        return total


def inverse_affine_iter_map(
    iter_map: IterMap | Sequence[IterSum], outputs: Sequence[e.PrimExpr]
) -> dict[e.Var, e.PrimExpr]:
    """Loop variables as expressions of what the indices of a bijective map are.

    A variable that is missing takes one value only.
    """
    sums = iter_map.indices if isinstance(iter_map, IterMap) else iter_map
    given = dict(zip(sums, outputs, strict=True))
    #: where the digits of a number stand: the sum, and which of its splits
    places: dict[IterMark, list[tuple[IterSum, int]]] = {}
    #: the number that a sum is, where it is no index
    whole: dict[IterSum, IterMark] = {}

    def number(mark: IterMark) -> e.PrimExpr:
        first, *others = (digit(*place) for place in places[mark])
        return sum(others, first)

    def digit(made: IterSum, at: int) -> e.PrimExpr:
        """A split's share of the number that it is cut out of."""
        if made not in given:
            given[made] = number(whole[made])
        value, split = given[made], made.splits[at]
        kind = value.dtype
        part = p.floordiv(value - p.cast(kind, made.base), p.cast(kind, split.scale))
        if at:  # nothing stands above the first
            part = p.floormod(part, p.cast(kind, split.extent))
        return part * p.cast(kind, split.lower)

    queue = [*sums]
    for made in queue:
        for at, split in enumerate(made.splits):
            places.setdefault(split.mark, []).append((made, at))
            inner = split.mark.source
            if isinstance(inner, IterSum) and inner not in whole:
                whole[inner] = split.mark
                queue.append(inner)
    simplify = Analyzer().simplify
    return {m.source: simplify(number(m)) for m in places if not isinstance(m.source, IterSum)}
