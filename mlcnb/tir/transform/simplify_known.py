"""Simplify under what is known at each place: the tests around it, the variables that were bound.

if i == n:                                      if i == n:
    if i == n:                           ->         A[i] = 0
        A[i] = 0

A test that reads memory says nothing of what follows, which may have written there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import reduce
from itertools import islice
from typing import Any

from mlcnb.core.node import children, map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.buffer import Buffer, reads_memory
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import AttrStmt, Block, BufferStore, LetStmt, Stmt
from mlcnb.tir.transform.remove_no_op import stores_what_it_read
from mlcnb.tir.transform.simplify import Simplifier, chosen

Known = tuple[e.PrimExpr, bool]


class KnowingSimplifier(Simplifier):
    """What `tir.Simplify` does beyond the standard lowering; `options` as of the pass's config."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.options = options
        self.known: list[Known] = []
        self.lets: dict[e.Var, e.PrimExpr] = {}
        self.equalities: list[e.PrimExpr] = []

    def visit_attr_stmt_(self, n: AttrStmt) -> Stmt:
        """As of the base; a thread axis is bound."""
        if bound_axis(n) is not None:
            known = isinstance(n.value, e.PrimExpr)
            extent = self.visit_expr(n.value) if known else n.value
            self.analyzer.bind(n.node.var, e.Range(p.const(0, extent.dtype), extent))
            return replace(n, value=extent, body=self.child(n.body))
        return self.visit_inside(n)

    def visit_buffer_store_(self, n: BufferStore) -> Stmt | None:
        """As of the base; a store of what was just read is nothing."""
        done = self.visit_inside(n)
        return None if stores_what_it_read(done) else done

    def decided(self, condition: e.PrimExpr) -> bool | None:
        """As of the base, also from the values of variables."""
        if not isinstance(condition, e.IntImm) and self.lets:
            condition = self.visit_expr(substitute(condition, self.lets))
        return super().decided(condition)

    def visit_let_stmt_(self, n: LetStmt) -> Stmt | None:
        """The value of an integer is put in; a variable that stays is remembered with its value."""
        value = self.child(n.value)
        if is_put_in(n, value):
            return self.visit_stmt(substitute(n.body, {n.var: value}))
        if not has_effect(value) and not reads_memory(value):
            self.lets[n.var] = value
        done = super().visit_let_stmt_(replace(n, value=value))
        self.lets.pop(n.var, None)
        return done

    @contextmanager
    def given(self, condition: e.PrimExpr) -> Iterator[None]:
        """Inside, the condition holds."""
        parts = [x for x in conjuncts(condition) if not reads_memory(x) and not has_effect(x)]
        parts = [self.analyzer.simplify(x) if isinstance(x, e.Not) else x for x in parts]
        opposites = [self.analyzer.simplify(p.logical_not(part)) for part in parts]
        with ExitStack() as stack:
            for part in parts:
                if isinstance(part, e.CmpOp | e.Not) and not isinstance(part, e.EQ):
                    stack.enter_context(self.analyzer.constraint(part))
            depth, equal = len(self.known), len(self.equalities)
            for part, opposite in zip(parts, opposites, strict=True):
                self.known += [(part, True), (opposite, False)]
            self.equalities += [part for part in parts if isinstance(part, e.EQ)]
            try:
                yield
            finally:
                del self.known[depth:], self.equalities[equal:]

    def under_equalities(self, n: e.PrimExpr) -> e.PrimExpr | None:
        """A test decided by `i == 5` and the like; they decide, and are not put in for `i`."""
        if not self.equalities or not isinstance(n, e.CmpOp):
            return None
        with self.analyzer.constraint(*self.equalities):
            found = super().visit_expr(n)
        return found if isinstance(found, e.IntImm) else None

    def visit_expr(self, n: e.PrimExpr) -> e.PrimExpr:
        """As of the base, with tests that are known put in; a choice's sides under its test."""
        if n.dtype.is_bool:
            n = self.with_known(n) if self.known else n
            decided = self.under_equalities(n)
            if decided is not None:
                return decided
        folded = folded_call(n)
        if folded is not None:
            return folded
        if isinstance(n, _COMPARISONS):
            return self.comparison(n)
        match n:
            case e.And() | e.Or() if self.options["apply_constraints_to_boolean_branches"]:
                return self.either(super().visit_expr(n))
            case e.And() | e.Or() if self.options["convert_boolean_to_and_of_ors"]:
                return as_and_of_ors(super().visit_expr(n), super().visit_expr)
            case e.Call(_, "tir.if_then_else", (test, yes, no)):
                return self.choice(n, test, yes, no)
            case e.BinaryOp() if self.known and any(map(_chooses, (n.a, n.b))):
                n = map_children(n, self.visit_expr)
        return super().visit_expr(n)

    def comparison(self, n: Any) -> e.PrimExpr:
        """A comparison, strict where it was; `a <= b` where `b <= a` is known says `a == b`."""
        found = as_strict_as(n, super().visit_expr(n))
        for fact, held in self.known:
            narrower = narrowed(found, fact) if held else None
            if narrower is not None:
                return narrower
        return found

    def with_known(self, n: e.PrimExpr) -> e.PrimExpr:
        """A condition with every part that is known to hold, or not to, put in its place."""
        for fact, held in self.known:
            if _same(n, fact):
                return p.const(held)
        if isinstance(n, e.And | e.Or | e.Not):
            return map_children(n, self.with_known)
        return n

    def choice(self, n: Any, test: e.PrimExpr, yes: e.PrimExpr, no: e.PrimExpr) -> e.PrimExpr:
        """`if_then_else`: each value under its test."""
        condition = self.visit_expr(test)
        decided = self.decided(condition)
        if decided is not None:
            return self.visit_expr(yes if decided else no)
        with self.given(condition):
            one = self.visit_expr(yes)
        with self.given(p.logical_not(condition)):
            two = self.visit_expr(no)
        made = map_children(n, {test: condition, yes: one, no: two}.get)
        return chosen(made)

    def either(self, n: e.PrimExpr) -> e.PrimExpr:
        """`a and b`: each matters where the other holds; `a or b`: where the other does not."""
        if not isinstance(n, e.And | e.Or):
            return n
        build = p.logical_and if isinstance(n, e.And) else p.logical_or
        with self.given(n.a if isinstance(n, e.And) else p.logical_not(n.a)):
            b = self.visit_expr(n.b)
        with self.given(b if isinstance(n, e.And) else p.logical_not(b)):
            a = self.visit_expr(n.a)
        return n if a is n.a and b is n.b else build(a, b)


_COMPARISONS = (e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE)


def as_strict_as(given: Any, found: Any) -> e.PrimExpr:
    """A bound in the way in which it was given: `i <= 0` and `i < 1` are the same."""
    match found:
        case e.LT(x, e.IntImm(limit, dtype=kind)) if isinstance(given, e.LE | e.GE):
            return e.LE(x, p.const(limit - 1, kind)) if limit > kind.min_value else found
        case e.LE(e.IntImm(limit, dtype=kind), x) if isinstance(given, e.LT | e.GT):
            return e.LT(p.const(limit - 1, kind), x) if limit > kind.min_value else found
    return found  # type: ignore[no-any-return]


def narrowed(n: e.PrimExpr, fact: e.PrimExpr) -> e.PrimExpr | None:
    """What is left to say of a comparison where another one of the same two holds."""
    sides = _sides(n), _sides(fact)
    if None in sides:
        return None
    (kind, a, b), (known, c, d) = sides  # type: ignore[misc]
    same = structural_equal(a, c) and structural_equal(b, d)
    turned = structural_equal(a, d) and structural_equal(b, c)
    match kind, known:
        case e.LE, e.LE if turned:
            return e.EQ(b, a) if isinstance(a, e.IntImm) else e.EQ(a, b)
        case e.LE, e.NE if same or turned:
            return e.LT(a, b)
        case e.NE, e.LE if same or turned:
            return e.LT(c, d)
    return None


def _sides(n: Any) -> tuple[type, e.PrimExpr, e.PrimExpr] | None:
    """A comparison of integers as `a <= b` or `a != b`."""
    if not isinstance(n, _COMPARISONS) or not n.a.dtype.is_integer:
        return None
    if isinstance(n, e.GE):
        return e.LE, n.b, n.a
    return (type(n), n.a, n.b) if isinstance(n, e.LE | e.NE) else None


#: a value of more nodes than this stays in its variable: put in again and again, it would only grow
LONG = 64


def is_put_in(n: LetStmt, value: e.PrimExpr) -> bool:
    """True for a variable of which nothing else than its value has to know.

    It stays where a buffer is declared by it, or a block would see loops other than by its axes.
    """
    if not isinstance(value, e.Var):
        if not value.dtype.is_integer or has_effect(value) or reads_memory(value):
            return False
    if sum(1 for _ in islice(walk(value), LONG)) == LONG:
        return False
    return not any(isinstance(x, Block) or _declares(x, n.var) for x in walk(n.body))


def _declares(n: Any, var: e.Var) -> bool:
    """True for a buffer whose place or size is told by a variable."""
    return isinstance(n, Buffer) and any(x is var for part in children(n) for x in walk(part))


def _chooses(n: e.PrimExpr) -> bool:
    """True if a choice stands in an expression."""
    return any(isinstance(x, e.Call) and x.op == "tir.if_then_else" for x in walk(n))


def sizes_of(func: PrimFunc) -> Iterator[e.PrimExpr]:
    """What holds of the sizes of a function's buffers: none is negative."""
    for buffer in func.buffers:
        for extent in buffer.shape:
            if not isinstance(extent, e.IntImm):
                yield p.greater_equal(extent, p.const(0, extent.dtype))


#: functions of a double that have one result everywhere, to within their last bit
_EXACT: dict[str, Callable[[float], float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "log2": math.log2,
}


def _same(a: e.PrimExpr, b: e.PrimExpr) -> bool:
    """The same test, also with the sides of `==` and `!=` exchanged."""
    if structural_equal(a, b):
        return True
    if type(a) is not type(b) or not isinstance(a, e.EQ | e.NE):
        return False
    return structural_equal(a.a, b.b) and structural_equal(a.b, b.a)  # type: ignore[attr-defined]


def _of_constant(x: e.PrimExpr) -> e.PrimExpr:
    return p.cast(x.dtype, x.value) if isinstance(x, e.Cast) else x


def folded_call(n: e.PrimExpr) -> e.PrimExpr | None:
    """`T.Cast("int32", T.ceil(T.log2(T.float64(14))))` is 4."""
    if isinstance(n, e.Cast):
        inner = folded_call(n.value)
        return None if inner is None else p.cast(n.dtype, inner)
    if not isinstance(n, e.Call) or n.dtype != "float64" or len(n.args) != 1:
        return None
    function = _EXACT.get(str(n.op).removeprefix("tir."))
    folded = folded_call(n.args[0])
    value = _of_constant(n.args[0]) if folded is None else folded
    if function is None or not isinstance(value, e.FloatImm) or not 0 < value.value < math.inf:
        return None
    return p.const(float(function(value.value)), "float64")


def conjuncts(condition: e.PrimExpr) -> Iterable[e.PrimExpr]:
    """The parts that all hold where the condition does, negations moved inwards."""
    match condition:
        case e.And(a, b):
            return [*conjuncts(a), *conjuncts(b)]
        case e.Not(e.Or(a, b)):
            return [*conjuncts(p.logical_not(a)), *conjuncts(p.logical_not(b))]
        case e.Call(_, "tir.likely", (inner,)):
            return [condition, *conjuncts(inner)]
    return [condition]


Group = list[e.PrimExpr]


def as_and_of_ors(condition: e.PrimExpr, simplify: Any) -> e.PrimExpr:
    """`a or (b and c)` as `(a or b) and (a or c)`; a group that another one implies is left out."""
    groups: list[Group] = []
    for group in _groups(condition):
        shorter = _united(group, simplify)
        if shorter is not None:
            groups.append(shorter)
    changed = True
    while changed:
        changed = _merge_two(groups, simplify)
    made = [reduce(p.logical_or, group) for group in groups]
    return reduce(p.logical_and, made) if made else p.const(True)


def _groups(n: e.PrimExpr) -> list[Group]:
    """The groups, of which each must hold; a group holds where one of its parts does."""
    if isinstance(n, e.And):
        return [*_groups(n.a), *_groups(n.b)]
    if isinstance(n, e.Or):
        return [[*a, *b] for a in _groups(n.a) for b in _groups(n.b)]
    return [[n]]


def _united(group: Group, simplify: Any) -> Group | None:
    """A group with parts that follow from others left out; None where it always holds."""
    parts = list(group)
    for i in range(len(parts)):
        for j in range(i + 1, len(parts)):
            if parts[i] is None or parts[j] is None:
                continue
            found = simplify(p.logical_or(parts[i], parts[j]))
            if isinstance(found, e.IntImm):
                return None if found.value else []
            if not isinstance(found, e.Or):
                keep, drop = (j, i) if structural_equal(found, parts[j]) else (i, j)
                parts[keep], parts[drop] = found, None  # type: ignore[call-overload]
    return [x for x in parts if x is not None]


def _merge_two(groups: list[Group], simplify: Any) -> bool:
    """Two groups that differ in one part, whose `and` is one test, become one group."""
    for i, one in enumerate(groups):
        for j, two in enumerate(groups):
            if i == j:
                continue
            if _implies(one, two):
                del groups[j]
                return True
            merged = _merged(one, two, simplify)
            if merged is not None:
                first, last = min(i, j), max(i, j)
                groups[last if len(one) != len(two) else first] = merged
                del groups[first if len(one) != len(two) else last]
                return True
    return False


def _implies(one: Group, two: Group) -> bool:
    return all(any(structural_equal(a, b) for b in two) for a in one)


def _merged(one: Group, two: Group, simplify: Any) -> Group | None:
    only = [a for a in one if not any(structural_equal(a, b) for b in two)]
    other = [b for b in two if not any(structural_equal(a, b) for a in one)]
    if len(only) != 1 or len(other) != 1:
        return None
    found = simplify(p.logical_and(only[0], other[0]))
    if isinstance(found, e.And):
        return None
    last = two if any(structural_equal(found, b) for b in other) else one
    return [found if x is only[0] or x is other[0] else x for x in last]
