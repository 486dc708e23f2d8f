"""The walk of the rewrite simplifier: bottom up, by rules, under the conditions on the way.

Rewriter(analyzer).simplify(min(x, y - z) + z)        min(x + z, y)

What is asked of numbers (is x >= 0? what divides it?) the analyzer answers by normal forms, so a
rule fires where any part of the analyzer can prove its condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from mlcnb.arith.forms import reads_data
from mlcnb.arith.interval import modular_of
from mlcnb.arith.known import CompareResult, Extension, RewriteSimplifyStats
from mlcnb.arith.learning import is_index
from mlcnb.arith.rewrite import divisions, extrema, logic, special, sums
from mlcnb.arith.rewrite.pattern import Rule, by_root
from mlcnb.core.errors import MLCError
from mlcnb.core.node import identical, map_children, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import COMPARISONS, DIVIDING, DIVISIONS, SUMS, TRUNCATED, folded_call

#: how deep results of rules are simplified again
_DEPTH = 5
Rules = dict[type, list[Rule]]


@cache
def _tables() -> tuple[Rules, Rules, Rules, Rules]:
    """The rules of vectors, of index arithmetic, of all integers, and of conditions."""
    return (
        by_root(sums.VECTORS, divisions.VECTORS, extrema.VECTORS, logic.VECTORS),
        by_root(
            sums.ADD, sums.SUBTRACT, sums.MULTIPLY, divisions.TRUNCATED, divisions.FLOOR,
            extrema.ROUNDED, extrema.MINIMA, extrema.MAXIMA, sums.CHOICE, logic.EQUAL, logic.LESS,
        ),
        by_root(sums.CANCEL, sums.CHOICE),
        by_root(logic.NOT, logic.AND, logic.OR),
    )  # fmt: skip


class Rewriter:
    """Simplifies by rules. `analyzer` knows the variables and the conditions that hold."""

    def __init__(self, analyzer: Any) -> None:
        self.analyzer = analyzer
        self.normalizer = analyzer.normalizer
        self.extensions = Extension.NoExtensions
        self.stats = RewriteSimplifyStats()
        self.most_steps = 0
        self.depth = 0

    def simplify(self, x: PrimExpr) -> PrimExpr:
        """`x` rewritten until nothing changes, twice at most."""
        for _ in range(2):
            new = self.visit(x)
            if new is x:
                break
            x = new
        return x

    def visit(self, x: PrimExpr) -> PrimExpr:
        """`x` with its operands simplified and the rules applied."""
        self.stats.nodes_visited += 1
        return _VISIT.get(type(x), Rewriter._generic)(self, x)

    def again(self, x: PrimExpr) -> PrimExpr:
        """The result of a rule simplified, unless rules called each other too deep."""
        self.stats.num_recursive_rewrites += 1
        if self.depth >= _DEPTH:
            return x
        self.depth += 1
        self.stats.max_recursive_depth = max(self.stats.max_recursive_depth, self.depth)
        try:
            return self.visit(x)
        finally:
            self.depth -= 1

    # questions, which rules ask too

    def nonneg(self, x: PrimExpr) -> bool:
        """True if x >= 0 can be proved."""
        return self.analyzer.can_prove_greater_equal(x, 0)

    def less(self, x: PrimExpr, y: Any) -> bool:
        """True if x < y can be proved."""
        return self.analyzer.can_prove_less(x, y)

    def equal(self, x: PrimExpr, y: Any) -> bool:
        """True if x == y can be proved."""
        return self.analyzer.can_prove_equal(x, y)

    def scalable(self, x: PrimExpr) -> bool:
        """True if `x` counts in vectors whose length the machine decides."""
        return any(isinstance(n, e.Call) and n.op == "tir.vscale" for n in walk(x))

    def modular(self, x: PrimExpr) -> tuple[int, int]:
        """(coefficient, base) of an index expression."""
        return modular_of(self.normalizer.ctx, self.normalizer.poly(x))

    def compare(self, a: PrimExpr, b: PrimExpr) -> CompareResult:
        """What is known of two index expressions."""
        return special.compare(self, a, b)

    # rules

    def rewritten(self, x: PrimExpr, tables: tuple[Rules, ...]) -> PrimExpr:
        """`x` after the first rule that matches; `x` itself where none does."""
        for table in tables:
            for rule in table.get(type(x), ()):
                self.stats.rewrites_attempted += 1
                new = rule.apply(x, self)
                if new is not None:
                    return self._counted(self.again(new) if rule.again else new)
        return x

    def _counted(self, x: PrimExpr) -> PrimExpr:
        self.stats.rewrites_performed += 1
        if 0 < self.most_steps < self.stats.rewrites_performed:
            raise MLCError(
                f"rewrite_simplify: more than {self.most_steps} rewrites",
                hint="set_maximum_rewrite_steps(0) takes the limit away",
            )
        return x

    # expressions

    def _generic(self, x: PrimExpr) -> PrimExpr:
        if isinstance(x, e.IntImm | e.FloatImm | e.StringImm):
            return x
        return map_children(x, lambda n: self.visit(n) if isinstance(n, PrimExpr) else n)

    def _var(self, x: e.Var) -> PrimExpr:
        if x in self.normalizer.ctx.values:
            return self.normalizer.simplify(x)
        return self._literal(x) if x.dtype == "bool" else x

    def _literal(self, x: PrimExpr) -> PrimExpr:
        """True or False where a condition is one that holds, or its negation is."""
        known = self.normalizer.ctx.truths
        found = known.get(self.normalizer.key(x)) if known else None
        return x if found is None else p.const(found)

    def _arithmetic(self, x: Any) -> PrimExpr:
        x, folded = self._operands(x)
        if folded:
            return x
        if is_index(x.dtype) and reads_data(x):  # it may wrap around
            return self.normalizer.simplify(x)
        if x.dtype.lanes != 1:
            new = special.vector_division(self, x)
            return new if new is not None else self._by_rules(x, vector=True)
        if is_index(x.dtype):
            new = special.index(self, x)
            return new if new is not None else self._by_rules(x)
        return self._by_rules(x)

    def _by_rules(self, x: PrimExpr, vector: bool = False) -> PrimExpr:
        vectors, indices, integers, _conditions = _tables()
        if vector:
            found = self.rewritten(x, (vectors,))
            return special.zero_of_floats(x) if found is x else found
        if is_index(x.dtype):
            return self.rewritten(x, (indices,))
        return special.zero_of_floats(x) if x.dtype.is_float else self.rewritten(x, (integers,))

    def _operands(self, x: Any) -> tuple[Any, bool]:
        """`x` with its operands simplified; whether constants made it something else."""
        a, b = self.visit(x.a), self.visit(x.b)
        if isinstance(x, DIVIDING) and p.is_const(b, 0) and x.dtype.lanes == 1:
            return (x if a is x.a and b is x.b else type(x)(a, b)), True
        if isinstance(x, e.Div | e.Mod) and x.dtype.is_float:
            new: Any = p.div(a, b) if isinstance(x, e.Div) else type(x)(a, b)
        else:
            new = _FOLD[type(x)](a, b)
        if type(new) is not type(x):
            return new, True
        return (x if a is x.a and b is x.b else type(x)(a, b)), False

    # comparisons

    def _is_plain(self, x: Any) -> bool:
        """True for a comparison of indices, which do not wrap around."""
        return is_index(x.a.dtype) and not reads_data(x)

    def _greater(self, x: Any) -> PrimExpr:
        return self.visit((e.LT if isinstance(x, e.GT) else e.LE)(x.b, x.a))

    def _equality(self, x: e.EQ) -> PrimExpr:
        x, folded = self._operands(x)
        return x if folded else self._equal_rules(x)

    def _equal_rules(self, x: PrimExpr) -> PrimExpr:
        if not isinstance(x, e.EQ):
            return x
        if x.dtype.lanes != 1:
            return self.rewritten(x, _tables()[:1])
        if not self._is_plain(x):
            same = not x.a.dtype.is_float and self.analyzer.can_prove_equal(x.a, x.b)
            return p.const(True) if same else self._literal(x)
        known = self.compare(x.a, x.b)
        if known is CompareResult.EQ:
            return p.const(True)
        if known in (CompareResult.NE, CompareResult.GT, CompareResult.LT):
            return p.const(False)
        return self.rewritten(self._literal(x), _tables()[1:2])

    def _different(self, x: e.NE) -> PrimExpr:
        x, folded = self._operands(x)
        if folded:
            return x
        if is_index(x.a.dtype):
            known = self.compare(x.a, x.b)
            if known in (CompareResult.NE, CompareResult.GT, CompareResult.LT):
                return p.const(True)
            if known is CompareResult.EQ:
                return p.const(False)
            if known in (CompareResult.GE, CompareResult.LE):
                ends = (x.b, x.a) if known is CompareResult.GE else (x.a, x.b)
                return self._less_rules(e.LT(*ends))
        return self._not_rules(p.logical_not(self._equal_rules(e.EQ(x.a, x.b))))

    def _at_most(self, x: e.LE) -> PrimExpr:
        x, folded = self._operands(x)
        if folded or x.a.dtype.is_float:
            return x if folded else self._literal(x)
        found = self._not_rules(p.logical_not(self._less_rules(e.LT(x.b, x.a))))
        if not isinstance(found, e.LE) or not is_index(found.a.dtype):
            return found
        known = self.compare(found.a, found.b)
        if known in (CompareResult.LE, CompareResult.LT, CompareResult.EQ):
            return p.const(True)
        if known is CompareResult.GT:
            return p.const(False)
        if known is CompareResult.NE:
            return self._less_rules(e.LT(found.a, found.b))
        if known is CompareResult.GE:
            return self._equal_rules(e.EQ(found.a, found.b))
        return found

    def _less(self, x: e.LT) -> PrimExpr:
        x, folded = self._operands(x)
        return x if folded else self._less_rules(x)

    def _less_rules(self, x: PrimExpr) -> PrimExpr:
        if not isinstance(x, e.LT):
            return x
        if x.dtype.lanes != 1:
            return self.rewritten(x, _tables()[:1])
        if not self._is_plain(x):
            return self._literal(x)
        known = self.compare(x.a, x.b)
        if known is CompareResult.LT:
            return p.const(True)
        if known in (CompareResult.EQ, CompareResult.GT, CompareResult.GE):
            return p.const(False)
        found = self.rewritten(x, _tables()[1:2])
        if found is not x:
            return found
        new = special.merged_constants(x)
        if new is None:
            new = self._without_factor(x)
        return x if new is None else self._counted(self.again(new))

    def _without_factor(self, x: e.LT) -> PrimExpr | None:
        """8 * x < 4 * y + 4 is 2 * x < y + 1."""
        factor = math.gcd(*self.modular(x.a), *self.modular(x.b))
        if factor <= 1:
            return None
        return p.less(p.floordiv(x.a, factor), p.floordiv(x.b, factor))

    # conditions

    def _not(self, x: e.Not) -> PrimExpr:
        a = self.visit(x.a)
        return self._not_rules(x if a is x.a else p.logical_not(a))

    def _not_rules(self, x: PrimExpr) -> PrimExpr:
        return self._condition_rules(self._literal(x) if isinstance(x, e.Not) else x, e.Not)

    def _condition_rules(self, x: PrimExpr, kind: type) -> PrimExpr:
        if not isinstance(x, kind) or _compares_floats(x):
            return x
        vectors, _, _, conditions = _tables()
        return self.rewritten(x, (vectors, conditions) if x.dtype.lanes != 1 else (conditions,))

    def _and(self, x: e.And) -> PrimExpr:
        return self._chain(x, e.And, p.logical_and)

    def _or(self, x: e.Or) -> PrimExpr:
        return self._chain(x, e.Or, p.logical_or)

    def _chain(self, x: Any, kind: type, join: Callable[[Any, Any], PrimExpr]) -> PrimExpr:
        if Extension.ApplyConstraintsToBooleanBranches in self.extensions:
            a, b = self._each_under_the_other(x, kind is e.And)
        else:
            a, b = self.visit(x.a), self.visit(x.b)
        new = join(a, b)
        if type(new) is not kind:
            return new
        return self._condition_rules(x if a is x.a and b is x.b else new, kind)

    def _each_under_the_other(self, x: Any, holds: bool) -> tuple[PrimExpr, PrimExpr]:
        """Both sides, each simplified where the other one holds (for `or`: does not)."""
        sides, unchanged = [x.a, x.b], 0
        for i in range(4):
            other = sides[1 - i % 2]
            with self.analyzer.constraint(other if holds else p.logical_not(other)):
                new = self.visit(sides[i % 2])
            unchanged = 0 if new is not sides[i % 2] else unchanged + 1
            sides[i % 2] = new
            if unchanged >= 2:
                break
        return sides[0], sides[1]

    # choices, calls, casts

    def _branches(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> tuple[PrimExpr, ...]:
        """(value,) where the condition is decided, else the three simplified."""
        condition = self.visit(condition)
        if isinstance(condition, e.IntImm):
            return (self.visit(yes if condition.value else no),)
        if condition.dtype.lanes != 1:
            return condition, self.visit(yes), self.visit(no)
        self.stats.constraints_entered += 2
        with self.analyzer.constraint(condition):
            yes = self.visit(yes)
        with self.analyzer.constraint(p.logical_not(condition)):
            no = self.visit(no)
        return condition, yes, no

    def _select(self, x: e.Select) -> PrimExpr:
        found = self._branches(x.condition, x.true_value, x.false_value)
        if len(found) == 1:
            return found[0]
        old = (x.condition, x.true_value, x.false_value)
        same = identical(found, old)
        return self.rewritten(x if same else e.Select(*found), _tables()[1:2])

    def _call(self, x: e.Call) -> PrimExpr:
        if x.op == "tir.if_then_else":
            found = self._branches(*x.args)
            if len(found) == 1:
                return found[0]
            same = identical(found, x.args)
            return special.nested_choice(x if same else e.Call(x.dtype, x.op, found, x.span))
        new: Any = self._generic(x)
        return folded_call(new)

    def _cast(self, x: e.Cast) -> PrimExpr:
        value = self.visit(x.value)
        new = p.cast(x.dtype, value)
        return x if isinstance(new, e.Cast) and value is x.value else new

    def _let(self, x: e.Let) -> PrimExpr:
        value = self.visit(x.value)
        if isinstance(value, e.IntImm | e.FloatImm | e.Var):
            return self.visit(rewrite(x.body, lambda n: value if n is x.var else None))
        body = self.visit(x.body)
        return x if value is x.value and body is x.body else e.Let(x.var, value, body)


def _compares_floats(x: Any) -> bool:
    """True where NaN would tell `not (a < b)` from `b <= a`."""
    parts = (x.a,) if isinstance(x, e.Not) else (x.a, x.b)
    return any(isinstance(n, e.CmpOp) and n.a.dtype.is_float for n in parts)


_FOLD = {**SUMS, **DIVISIONS, **TRUNCATED, **COMPARISONS}

_VISIT: dict[type, Callable[[Rewriter, Any], PrimExpr]] = {
    **dict.fromkeys((*SUMS, *DIVIDING), Rewriter._arithmetic),
    e.Var: Rewriter._var, e.SizeVar: Rewriter._var, e.EQ: Rewriter._equality,
    e.NE: Rewriter._different, e.LT: Rewriter._less, e.LE: Rewriter._at_most,
    e.GT: Rewriter._greater, e.GE: Rewriter._greater, e.Not: Rewriter._not, e.And: Rewriter._and,
    e.Or: Rewriter._or, e.Select: Rewriter._select, e.Call: Rewriter._call,
    e.Cast: Rewriter._cast, e.Let: Rewriter._let,
}  # fmt: skip
