"""Conditions that hold: what follows for bounds, residues and other conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd
from typing import Any

from mlcnb.arith import division
from mlcnb.arith.context import Context
from mlcnb.arith.interval import bounds_of, ceil_divide, floor_divide
from mlcnb.arith.sum import Atom, Sum, is_index
from mlcnb.ir import expr as e
from mlcnb.ir.expr import PrimExpr

#: comparison -> the one that holds where it does not
NEGATED: dict[type, type] = {
    e.LT: e.GE,
    e.LE: e.GT,
    e.GT: e.LE,
    e.GE: e.LT,
    e.EQ: e.NE,
    e.NE: e.EQ,
}


class Learner:
    """The part of the Normalizer that takes conditions as given."""

    ctx: Context

    def poly(self, x: PrimExpr) -> Sum:
        """The polynomial of an expression (see Normalizer)."""
        raise NotImplementedError

    def simplify(self, x: Any) -> Any:
        """An expression in its short form (see Normalizer)."""
        raise NotImplementedError

    def key(self, x: Any) -> Any:
        """The meaning of an expression, hashable (see Normalizer)."""
        raise NotImplementedError

    def assume(self, condition: Any, holds: bool = True) -> None:
        """Take it as given that a condition holds (or that it does not)."""
        if isinstance(condition, e.Not):
            self.assume(condition.a, not holds)
        elif isinstance(condition, e.Call) and condition.op == "tir.likely":
            self.assume(condition.args[0], holds)
        elif isinstance(condition, e.And if holds else e.Or):
            self.assume(condition.a, holds)
            self.assume(condition.b, holds)
        elif type(condition) in NEGATED and is_index(condition.a.dtype):
            kind = type(condition) if holds else NEGATED[type(condition)]
            self._assume_comparison(kind, condition)
        else:
            self.ctx.truths[self.key(condition)] = holds
            self.ctx.forget()

    def _assume_comparison(self, kind: type, condition: Any) -> None:
        a, b = self.poly(condition.a), self.poly(condition.b)
        dtype = condition.a.dtype
        if not (division.is_exact(self.ctx, a, dtype) and division.is_exact(self.ctx, b, dtype)):
            return
        if kind in (e.LT, e.LE):
            self.learn(b.minus(a).shifted(-1 if kind is e.LT else 0))
        elif kind in (e.GT, e.GE):
            self.learn(a.minus(b).shifted(-1 if kind is e.GT else 0))
        elif kind is e.EQ:
            self._learn_residue(a.minus(b))
            self.learn(a.minus(b))
            self.learn(b.minus(a))
        else:
            self._learn_different(a.minus(b))

    def learn(self, x: Sum) -> None:
        """Note that `x` >= 0."""
        ctx = self.ctx
        if x.is_const or bounds_of(ctx, x)[0] >= 0:
            return
        ctx.constraints.append(x)
        limits = []
        for atom, factor in x.terms.items():
            if atom.kind != "product":
                limits.append((atom, factor, bounds_of(ctx, x.without(atom))[1]))
        for atom, factor, most in limits:
            _limit(ctx, atom, factor, most)
        ctx.forget()

    def _learn_residue(self, difference: Sum) -> None:
        """v % c == k says v = c * something + k."""
        if len(difference.terms) != 1:
            return
        ((atom, factor),) = difference.terms.items()
        if abs(factor) != 1:
            return
        by = None
        if atom.kind == "split" and atom.args[1] == 1:
            by = atom.args[2]
        elif atom.kind == "truncmod" and atom.args[1].is_const:
            by = abs(atom.args[1].const)
        inner = atom.args[0].only_atom if by else None
        if by and inner is not None:
            known = self.ctx.modular.get(inner, (1, 0))
            residue = -difference.const * factor % by
            self.ctx.modular[inner] = _both_residues(known, (by, residue))

    def _learn_different(self, difference: Sum) -> None:
        """x != 0 where x >= 0 says x >= 1."""
        low, high = bounds_of(self.ctx, difference)
        if low == 0:
            self.learn(difference.shifted(-1))
        elif high == 0:
            self.learn(difference.scaled(-1).shifted(-1))

    @contextmanager
    def assuming(self, *conditions: PrimExpr) -> Iterator[None]:
        """Inside the `with`, the conditions hold."""
        with self.ctx.layer():
            for condition in conditions:
                self.assume(self.simplify(condition), True)
            yield


def _both_residues(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    """What two residues say together (the Chinese remainder); `two` where they contradict."""
    (step, start), (by, base) = one, two
    if step == 0:
        return one
    common = gcd(step, by)
    if (base - start) % common:
        return two
    whole = step // common * by
    times = (base - start) // common * pow(step // common, -1, by // common)
    return whole, (start + step * times) % whole


def _limit(ctx: Context, atom: Atom, factor: int, most: float) -> None:
    """factor * atom + (at most `most`) >= 0"""
    if factor > 0:
        ctx.tighten(atom, ceil_divide(-most, factor), float("inf"))
    else:
        ctx.tighten(atom, float("-inf"), floor_divide(most, -factor))
