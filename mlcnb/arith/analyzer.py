"""Analyzer: questions about integer expressions, answered under what is known of the variables.

analyzer = Analyzer()
analyzer.bind(i, Range(0, 4)); analyzer.bind(j, (0, 3))
analyzer.simplify((i * 4 + j) // 4)                    # i
analyzer.can_prove(i * 4 + j < 16)                     # True
with analyzer.constraint(i < n):
    analyzer.can_prove(i + 1 <= n)                     # True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from mlcnb.arith import division
from mlcnb.arith.context import Context
from mlcnb.arith.extrema import without_common_factors
from mlcnb.arith.interval import bounds_of, modular_of
from mlcnb.arith.known import (
    CompareResult,
    ConstIntBound,
    Extension,
    ModularSet,
    ProofStrength,
    RewriteSimplifyStats,
)
from mlcnb.arith.normal import Normalizer
from mlcnb.arith.proof import equals, is_nonnegative
from mlcnb.arith.sum import Atom, Sum, is_index
from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import rewrite, walk
from mlcnb.core.recursion import roomy
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var

if TYPE_CHECKING:
    from mlcnb.arith.rewrite.rewriter import Rewriter


class Analyzer:
    """Simplifies, bounds and proves. Integer arithmetic of indices is assumed not to overflow."""

    def __init__(self, bounds: Mapping[Var, Any] | None = None) -> None:
        self.context = Context()
        self.normalizer = Normalizer(self.context)
        self._rewriter: Rewriter | None = None
        for var, bound in (bounds or {}).items():
            self.bind(var, bound)

    def bind(self, var: Var, bound: Any, allow_override: bool = True) -> None:
        """Say what a variable is.

        Args:
            var: the variable.
            bound: a Range, a pair (smallest, largest) with both included (None: unknown), or an
                expression that the variable equals.
            allow_override: whether a new bound may replace another one.

        Raises:
            ArgumentError: the variable has another bound already, which may not be replaced.
        """
        if not allow_override:
            self._refuse_another(var, bound)
        self._bind(var, bound)

    def _refuse_another(self, var: Var, bound: Any) -> None:
        """Look at the new bound in a layer of its own."""
        known = self._known_of(var)
        with self.context.layer():
            self._bind(var, bound)
            wanted = self._known_of(var)
        if known not in (wanted, (None, None, ()), (None, (0, inf), ())):
            raise ArgumentError(
                f"bind: {var.name} has another bound already",
                hint="allow_override=True, or a variable of its own",
            )

    def _known_of(self, var: Var) -> tuple[Any, Any, tuple[Any, ...]]:
        """What was bound of a variable, to be compared."""
        ctx, atom = self.context, self.context.var(var)
        value, limits = ctx.values.get(var), ctx.symbolic.get(atom, ())
        return (
            None if value is None else value.key,
            ctx.bounds.get(atom),
            tuple(None if x is None else x.key for x in limits),
        )

    def _bind(self, var: Var, bound: Any) -> None:
        atom = self.context.var(var)
        self.context.values.pop(var, None)
        numbers = _numbers(bound)
        if numbers is not None:
            self.context.symbolic.pop(atom, None)
            self.context.bounds[atom] = numbers
            self.context.forget()
            return
        low: Sum | None
        high: Sum | None
        if isinstance(bound, Range):
            start = self.normal_form(bound.min)
            low, high = start, start.plus(self.normal_form(bound.extent)).shifted(-1)
            if low.is_same(high):
                bound = low
        elif isinstance(bound, tuple):
            low, high = (self.normal_form(x) if _is_limit(x) else None for x in bound)
        else:
            bound = self.normal_form(bound)
        if isinstance(bound, Sum):
            self.context.values[var] = bound
            self.context.forget()
            return
        self._bind_limits(atom, low, high)

    def normal_form(self, x: Any) -> Sum:
        """The polynomial of an int32 or int64 expression."""
        return self.normalizer.poly(p.as_expr(x))

    def _bind_limits(self, atom: Atom, low: Sum | None, high: Sum | None) -> None:
        ctx = self.context
        ctx.bounds.pop(atom, None)
        ctx.symbolic.pop(atom, None)
        least = -inf if low is None else bounds_of(ctx, low)[0]
        most = inf if high is None else bounds_of(ctx, high)[1]
        ctx.bounds[atom] = (least, most)
        if (low is not None and low.terms) or (high is not None and high.terms):
            ctx.symbolic[atom] = (low, high)
        ctx.forget()

    def mark_nonnegative(self, *variables: Var) -> None:
        """Say that variables (symbolic dimensions) are >= 0."""
        for var in variables:
            self.context.tighten(self.context.var(var), 0, inf)
        self.context.forget()

    @contextmanager
    def constraint(self, *conditions: PrimExpr) -> Iterator[None]:
        """Inside the `with`, the conditions hold (TVM: `constraint_scope`)."""
        with self.normalizer.assuming(*conditions):
            yield

    constraint_scope = constraint

    @contextmanager
    def scope(self, bounds: Mapping[Var, Any] | None = None) -> Iterator[None]:
        """What is bound inside the `with`, `bounds` first, is forgotten after it."""
        with self.context.layer():
            for var, bound in (bounds or {}).items():
                self.bind(var, bound)
            yield

    def simplify(self, x: Any, steps: int = 2) -> Any:
        """The expression in its short form, of the same value.

        It is never longer, but where a product of sums that stands in a sum is multiplied out.
        steps: kept for TVM's sake; one normal form does what TVM's two simplifiers do in turns.
        """
        return self.normalizer.simplify(p.as_expr(x))

    canonical_simplify = simplify

    @property
    def rewriter(self) -> Rewriter:
        """What `rewrite_simplify` works with."""
        if self._rewriter is None:
            from mlcnb.arith.rewrite.rewriter import Rewriter

            self._rewriter = Rewriter(self)
        return self._rewriter

    def rewrite_simplify(self, x: Any) -> Any:
        """The expression after rewriting by rules, in the normal form of TVM's simplifier."""
        return self.rewriter.simplify(p.as_expr(x))

    @property
    def enabled_extensions(self) -> Extension:
        """What `rewrite_simplify` does beyond its rules."""
        return self.rewriter.extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: int) -> None:
        self.rewriter.extensions = Extension(flags)

    @property
    def rewrite_simplify_stats(self) -> RewriteSimplifyStats:
        """How much work `rewrite_simplify` did since the start, or the last reset."""
        return replace(self.rewriter.stats)

    def reset_rewrite_simplify_stats(self) -> None:
        """Count from zero again."""
        self.rewriter.stats = RewriteSimplifyStats()

    def set_maximum_rewrite_steps(self, maximum: int) -> None:
        """Let `rewrite_simplify` raise after this many rewrites; 0: never."""
        self.rewriter.most_steps = maximum

    def simplify_range(self, x: Range) -> Range:
        """A Range with both parts in short form."""
        return Range(self.simplify(x.min), self.simplify(x.extent))

    def const_bounds(self, x: Any) -> tuple[float, float]:
        """(smallest, largest) value of an integer expression, both included.

        Ints where known, `math.inf` or `-math.inf` where not.
        """
        return self.normalizer.bounds(_inlined(p.as_expr(x)))

    def const_int_bound(self, x: Any) -> ConstIntBound:
        """`const_bounds`, by TVM's name."""
        return ConstIntBound(*self.const_bounds(x))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """True if something is known of a variable: a bound or a value."""
        return var in self.context.values or self.context.var(var) in self.context.bounds

    def modular_set(self, x: Any) -> ModularSet:
        """(coeff, base): x = coeff * something + base; coeff 0: x is base."""
        x = _inlined(p.as_expr(x))
        if not is_index(x.dtype):
            low, high = self.const_bounds(x)
            return ModularSet(0, int(low)) if low == high else ModularSet(1, 0)
        return ModularSet(*modular_of(self.context, self.normal_form(x)))

    def update(self, var: Var, info: Any, override: bool = False) -> None:
        """Add what is known of a variable: a ConstIntBound or pair, a ModularSet, or what `bind`
        takes.

        override: forget what was known of it before (else both hold).
        """
        atom = self.context.var(var)
        if isinstance(info, ModularSet):
            self.context.modular[atom] = (info.coeff, info.base)
        elif override or not isinstance(info, tuple):
            self.bind(var, info)
        else:
            low, high = (-inf if info[0] is None else info[0], inf if info[1] is None else info[1])
            self.context.tighten(atom, low, high)
        self.context.forget()

    def try_compare(self, a: Any, b: Any) -> CompareResult:
        """What is known of a and b: the strongest relation that always holds."""
        a, b = p.match_dtypes(a, b)
        for result, condition in (
            (CompareResult.EQ, p.equal(a, b)),
            (CompareResult.LT, p.less(a, b)),
            (CompareResult.GT, p.less(b, a)),
            (CompareResult.LE, p.less_equal(a, b)),
            (CompareResult.GE, p.less_equal(b, a)),
            (CompareResult.NE, p.not_equal(a, b)),
        ):
            if self.can_prove(condition):
                return result
        return CompareResult.UNKNOWN

    def can_prove(self, condition: Any, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """True if a condition holds for all values of its variables; False if that is not known.

        strength: kept for TVM's sake; every proof is tried as hard as can be.
        """
        condition = p.as_expr(condition)
        if isinstance(condition, e.And):
            return self.can_prove(condition.a) and self.can_prove(condition.b)
        simple = self.simplify(condition)
        return isinstance(simple, e.IntImm) and bool(simple.value)

    def int_set(self, x: Any, dom_map: Mapping[Var, Any] | None = None) -> Any:
        """The interval that `x` stays in while the variables of `dom_map` run.

        Args:
            x: the expression.
            dom_map: variable -> IntSet or Range; by default every variable that has constant
                bounds here runs over them.
        """
        from mlcnb.arith.int_set import interval_of

        return interval_of(x, dom_map, self)

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """True if two expressions are equal for all values of their variables."""
        a, b = p.match_dtypes(a, b)
        if not is_index(a.dtype):
            return self.normalizer.key(self.simplify(a)) == self.normalizer.key(self.simplify(b))
        one, two = self.normal_form(a), self.normal_form(b)
        if one.is_same(two):
            return True
        if not (self._is_exact(one, a) and self._is_exact(two, b)):
            return False
        return equals(self.context, one, two) or equals(
            self.context, *(without_common_factors(self.context, x) for x in (one, two))
        )

    def _is_exact(self, x: Sum, of: PrimExpr) -> bool:
        return division.is_exact(self.context, x, of.dtype)

    def can_prove_greater_equal(self, a: Any, b: Any) -> bool:
        """True if a >= b always."""
        a, b = p.match_dtypes(a, b)
        one, two = self.normal_form(a), self.normal_form(b)
        exact = self._is_exact(one, a) and self._is_exact(two, b)
        return exact and is_nonnegative(self.context, one.minus(two))

    def can_prove_less(self, a: Any, b: Any) -> bool:
        """True if a < b always."""
        a, b = p.match_dtypes(a, b)
        return self.can_prove_greater_equal(b, a + 1)


def _numbers(bound: Any) -> tuple[float, float] | None:
    """The ends of a bound that is made of numbers, else None."""
    if isinstance(bound, Range):
        start, extent = bound.min, bound.extent
        if isinstance(start, e.IntImm) and isinstance(extent, e.IntImm):
            return start.value, start.value + extent.value - 1
        return None
    if not isinstance(bound, tuple):
        return None
    low, high = bound
    if isinstance(low, int | float | None) and isinstance(high, int | float | None):
        return -inf if low is None else low, inf if high is None else high
    return None


def _inlined(x: PrimExpr) -> PrimExpr:
    """`x` with every let's value where its variable stands."""
    if not any(isinstance(n, e.Let) for n in walk(x)):
        return x

    def inline(n: Any) -> Any:
        if not isinstance(n, e.Let):
            return None
        return rewrite(n.body, lambda m: n.value if m is n.var else None)

    return rewrite(x, inline)


def _is_limit(x: Any) -> bool:
    return x is not None and not (isinstance(x, float) and x in (inf, -inf))


@roomy
def simplify(x: Any, bounds: Mapping[Var, Any] | None = None) -> Any:
    """An expression in its short form, of the same value.

    bounds: what is known of variables, as in `Analyzer.bind`: Range or (smallest, largest).
    """
    return Analyzer(bounds).simplify(x)


def can_prove(condition: Any, bounds: Mapping[Var, Any] | None = None) -> bool:
    """True if a condition always holds."""
    return Analyzer(bounds).can_prove(condition)


def can_prove_equal(a: Any, b: Any, bounds: Mapping[Var, Any] | None = None) -> bool:
    """True if two expressions are always equal."""
    return Analyzer(bounds).can_prove_equal(a, b)


def const_bounds(x: Any, bounds: Mapping[Var, Any] | None = None) -> tuple[float, float]:
    """(smallest, largest) value of an integer expression, both included."""
    return Analyzer(bounds).const_bounds(x)
