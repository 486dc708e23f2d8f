"""Reductions as bags of terms: what was added up, in whatever order.

    C[i] = 0                                      the value of S1[i, 5] is the sum of the bag
    for k in range(6):                  ->            A[i, k] * B[k, j]   for 0 <= k <= 5
        C[i] = C[i] + A[i, k] * B[k, j]               (0, where it started, changes nothing)

Two sums are equal if there is a one-to-one correspondence between their terms under which terms
are equal. It is guessed, from the elements of inputs that terms use and from the axes of their
blocks, and then checked: a wrong guess proves nothing. A term that is itself the result of a
reduction of the same kind (rfactor) stands for its terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mlcnb.arith import isl
from mlcnb.arith.isl import Undecided, target_name
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.reducers import Reducer
from mlcnb.tir.schedule.legality.polyhedral.flow import Flow, Source, kind_of
from mlcnb.tir.schedule.legality.polyhedral.program import Statement

#: reductions of reductions of ... that are looked into
DEEPEST = 12


@dataclass(frozen=True)
class Term:
    """One kind of term: context -> keys of its terms, key -> instance.

    Its value is an expression of `statement`; or (without `expr`) what that writes; or (without
    both) what is in memory before the call.
    """

    statement: Statement | None
    expr: e.PrimExpr | None
    memory: str
    keys: Any
    instances: Any


@dataclass
class Bag:
    """All terms of a reduction, over a context of points."""

    flow: Flow
    reducer: Reducer
    terms: list[Term]

    @staticmethod
    def of(flow: Flow, reducer: Reducer, statement: Statement, instances: Any) -> Bag:
        """The terms of the values that a statement writes; `instances`: context -> statement."""
        bag = Bag(flow, reducer, [])
        identity = instances.range().identity()
        if kind_of(statement) == reducer.name:
            bag._collect(statement, instances, identity, 0)
        else:
            bag._add(statement, statement.store.value, instances, identity, 0)
        return bag

    def _collect(self, update: Statement, keys: Any, at: Any, depth: int) -> None:
        """The terms up to and with an update; keys: context -> K, at: K -> update."""
        if depth > DEEPEST:
            raise Undecided(f"more than {DEEPEST} reductions stand in one another")
        for other in self.flow.writers(target_name(update.written)):
            if kind_of(other) == self.reducer.name:
                chain = at.apply_range(_chain(self.flow, update, other, at.range())).coalesce()
                self._wrap(other, other.update[1], keys, chain, depth)  # type: ignore[index]
        for base in self.flow.bases(update):
            chain = at.apply_range(base.map)
            if base.writer is None:
                self._keep(None, None, base.memory, keys, chain)
            else:
                self._wrap(base.writer, base.writer.store.value, keys, chain, depth)

    def _wrap(self, statement: Statement, x: e.PrimExpr, keys: Any, found: Any, depth: int) -> None:
        """Terms at `found`: K -> statement: each pair is a key of its own."""
        if not found.is_empty():
            inner = keys.apply_range(found.domain_map().reverse())
            self._add(statement, x, inner, found.range_map(), depth)

    def _add(self, statement: Statement, x: e.PrimExpr, keys: Any, at: Any, depth: int) -> None:
        """A term: choices are split, reductions looked into, what changes nothing left out."""
        if keys.intersect_range(at.domain()).is_empty():
            return
        found = statement.choice(x)
        if found is not None:
            holds, first, second = found
            self._add(statement, first, *_restricted(keys, at, holds), depth)
            self._add(statement, second, *_restricted(keys, at, holds, True), depth)
            return
        if _is_number(x, self.reducer.identity(x.dtype)):
            return
        if isinstance(x, BufferLoad):
            for source in self.flow.sources(statement, x):
                self._look_into(source, keys, at, depth)
        else:
            self._keep(statement, x, "", keys, at)

    def _look_into(self, source: Source, keys: Any, at: Any, depth: int) -> None:
        chain = at.apply_range(source.map)
        if chain.is_empty():
            return
        inner, where = keys.apply_range(chain.domain_map().reverse()), chain.range_map()
        if source.writer is None:
            self._keep(None, None, source.memory, inner, where)
        elif kind_of(source.writer) == self.reducer.name:
            self._collect(source.writer, inner, where, depth + 1)
        elif _is_passed(source.writer):
            self._add(source.writer, source.writer.store.value, inner, where, depth + 1)
        else:
            self._keep(source.writer, None, "", inner, where)

    def _keep(self, statement: Statement | None, x: Any, memory: str, keys: Any, at: Any) -> None:
        kept = keys.intersect_range(at.domain())
        if not kept.is_empty():
            self.terms.append(Term(statement, x, memory, kept, at))


def _chain(flow: Flow, update: Statement, other: Statement, where: Any) -> Any:
    """The updates `other` that instances of `update` (those in `where`) stand on, themselves too.

    They update the same element, not later, and nothing but updates comes in between.
    """
    elements = update.written.intersect_domain(where)
    same = elements.apply_range(other.written.reverse())
    order = update.time.intersect_domain(where).coalesce().lex_ge_map(other.time).intersect(same)
    found = order.subtract(order)
    for x in flow.bases(update):
        for y in flow.bases(other):
            if x.writer is y.writer and x.memory == y.memory:
                base = x.map.intersect_domain(where)
                found = found.union(base.apply_range(y.map.reverse()).intersect(order))
    return found.coalesce()


def _is_passed(writer: Statement) -> bool:
    """True for a copy, and for a choice between values."""
    value = writer.store.value
    return isinstance(value, BufferLoad) or writer.choice(value) is not None


def _restricted(keys: Any, at: Any, holds: Any, otherwise: bool = False) -> tuple[Any, Any]:
    """Keys and instances where a condition holds (or does not)."""
    kept = at.subtract_range(holds) if otherwise else at.intersect_range(holds)
    return keys.intersect_range(kept.domain()), kept


def _is_number(x: e.PrimExpr, value: e.PrimExpr) -> bool:
    return (
        isinstance(x, e.IntImm | e.FloatImm) and type(x) is type(value) and x.value == value.value  # type: ignore[attr-defined]
    )


# -- correspondences ------------------------------------------------------------

#: what identifies a term: for a statement and an expression, named maps from its instances
Marks = Callable[[Flow, Term], list[tuple[str, Any]]]
Marked = tuple[Term, list[tuple[str, Any]]]


def pairings(old: Bag, new: Bag) -> Iterator[list[tuple[Any, Any, Any]]]:
    """One-to-one correspondences of the terms of two bags: values, and pairs of instances."""
    tried: list[list[str]] = []
    for marks in (_leaves, _inputs, _leaves_and_axes, _axes):
        left, right = (_marked(bag, marks) for bag in (old, new))
        names = [name for _, found in (*left, *right) for name in ("", *(n for n, _ in found))]
        if names in tried:  # the same marks again
            continue
        tried.append(names)
        found = _matched(left, right)
        if found is not None:
            yield found


def _marked(bag: Bag, marks: Marks) -> list[Marked]:
    return [(term, marks(bag.flow, term)) for term in bag.terms]


def _matched(left: list[Marked], right: list[Marked]) -> list[tuple[Any, Any, Any]] | None:
    from mlcnb.tir.schedule.legality.polyhedral.equal import Value

    whole, made = [], []
    for a, marks_a in left:
        for b, marks_b in right:
            if not _may_match(a, b):
                continue
            pairs = _pairs(a, b, marks_a, marks_b)
            if pairs is None or pairs.is_empty():
                continue
            whole.append(pairs)
            matched = _of_instances(a, b, pairs)
            values = [Value(t.statement, t.expr, t.memory) for t in (a, b)]
            made.append((values[0], values[1], matched))
    if not whole:
        return [] if not left and not right else None
    pairing = isl.union(whole)
    sides = [isl.disjoint_union(t.keys.wrap() for t, _ in some) for some in (left, right)]
    if sides[0] is None or sides[1] is None or not pairing.is_bijective():
        return None
    if not (pairing.domain().is_equal(sides[0]) and pairing.range().is_equal(sides[1])):
        return None
    return made


def _may_match(a: Term, b: Term) -> bool:
    """False for a number and something else, for different numbers, for different memory."""
    numbers = [isinstance(t.expr, e.IntImm | e.FloatImm) for t in (a, b)]
    if any(numbers):
        return all(numbers) and a.expr.value == b.expr.value  # type: ignore[union-attr]
    return a.memory == b.memory


def _pairs(a: Term, b: Term, marks_a: list[Any], marks_b: list[Any]) -> Any:
    """[context -> key] -> [context -> key] where context and marks agree."""
    here, there = a.keys.domain_map(), b.keys.domain_map()
    pairs = here.apply_range(there.reverse())
    for x, y in _common(marks_a, marks_b):
        left = a.keys.range_map().apply_range(a.instances.apply_range(x))
        right = b.keys.range_map().apply_range(b.instances.apply_range(y))
        pairs = pairs.intersect(left.apply_range(right.reverse()))
    return pairs


def _common(marks_a: list[tuple[str, Any]], marks_b: list[tuple[str, Any]]) -> Iterator[Any]:
    """Marks of the same name, in order."""
    rest = list(marks_b)
    for name, x in marks_a:
        for n, (other, y) in enumerate(rest):
            if other == name:
                del rest[n]
                yield x, y
                break


def _of_instances(a: Term, b: Term, pairs: Any) -> Any:
    left = a.keys.range_map().apply_range(a.instances)
    right = b.keys.range_map().apply_range(b.instances)
    return left.reverse().apply_range(pairs).apply_range(right)


def _inputs(flow: Flow, term: Term) -> list[tuple[str, Any]]:
    """The elements of inputs that a term uses."""
    return [(name, m) for name, m in _leaves(flow, term) if not name.startswith("block ")]


def _leaves_and_axes(flow: Flow, term: Term) -> list[tuple[str, Any]]:
    return _leaves(flow, term) + _axes(flow, term)


def _axes(flow: Flow, term: Term) -> list[tuple[str, Any]]:
    """The axes of the block that a term stands in."""
    return [] if term.statement is None else [_axes_of(term.statement, "own ")]


def _axes_of(statement: Statement, prefix: str) -> tuple[str, Any]:
    axes = statement.place.axes
    name = statement.block.name_hint if statement.block is not None else ""
    return f"{prefix}{name}/{len(axes)}", statement.map(f"[{', '.join(axes)}]")


def _leaves(flow: Flow, term: Term) -> list[tuple[str, Any]]:
    """The elements of inputs, and the instances of other blocks, that a term uses."""
    if term.statement is None:
        return [(term.memory, term.instances.range().identity())]
    found = [_axes_of(term.statement, "block ")] if term.expr is None else []
    inside = set(walk(term.statement.store.value if term.expr is None else term.expr))
    instances = term.instances.range()
    for load, where in term.statement.loads:
        if load in inside and instances.is_subset(where):
            leaf = _leaf(flow, term.statement, load)
            if leaf is not None:
                found.append(leaf)
    return found


def _leaf(flow: Flow, statement: Statement, load: BufferLoad) -> tuple[str, Any] | None:
    """Where the value of a load comes from, copies followed; None where that is several places."""
    sources = flow.sources(statement, load)
    at = None
    while len(sources) == 1:
        source = sources[0]
        at = source.map if at is None else at.apply_range(source.map)
        if source.writer is None:
            return source.memory, at
        value = source.writer.store.value
        if not isinstance(value, BufferLoad):
            name, axes = _axes_of(source.writer, "block ")
            return name, at.apply_range(axes)
        sources = flow.sources(source.writer, value)
    return None
