"""Do two programs compute the same? Proved by following values back from the outputs.

    before   B[v] = A[v] * 2                      C[4] comes from  S1[4] = S0[4] + 1 = A[4] * 2 + 1
             C[v] = B[v] + 1
    after    C[v] = A[v] * 2 + 1                  C[4] comes from  S0[4] = A[4] * 2 + 1

Each output element is the value of one instance of a statement, in both programs. Two instances
have the same value if their expressions do, and the loads in these come from instances that have
the same value, or from the same element of an input. Sets of pairs of instances are followed, not
single ones, so that sizes do not matter; a pair that is met again is taken as equal, which is
sound because each step goes back in time (Verdoolaege, Janssens, Bruynooghe, Equivalence checking
of static affine programs using widening to handle recurrences, 2012). Terms of one reduction may
come in another order (`terms`); everything else must be the same to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlcnb.arith.isl import Undecided, is_identity
from mlcnb.arith.presburger import NotAffine
from mlcnb.core import display
from mlcnb.core.node import children
from mlcnb.ir import expr as e
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule.legality.polyhedral.flow import Flow, Source, kind_of
from mlcnb.tir.schedule.legality.polyhedral.program import Statement
from mlcnb.tir.schedule.legality.polyhedral.terms import Bag, pairings
from mlcnb.tir.schedule.legality.polyhedral.writing import index

#: how deep values are followed through statements before giving up
DEPTH = 100


@dataclass(frozen=True)
class Value:
    """What an instance has: an expression of it, or (where `expr` is None) what it writes.

    Where there is no statement: what was in memory before the call, one value for each element.
    """

    statement: Statement | None
    expr: e.PrimExpr | None = None
    memory: str = ""

    @staticmethod
    def of(source: Source) -> Value:
        """The value that a source gives."""
        return Value(source.writer, None, source.memory)

    def opened(self) -> Value:
        """What an instance writes, as the expression that it evaluates."""
        return Value(self.statement, self.statement.store.value)  # type: ignore[union-attr]

    def label(self, flow: Flow) -> str:
        """For messages."""
        if self.statement is None:
            return f"an element of {flow.program.buffers[self.memory].name}"
        if self.expr is None:
            return self.statement.label()
        return f"{display.text(self.expr)} of {self.statement.label()}"


class Mismatch(Undecided):
    """Two values that could not be shown to be equal."""


@dataclass
class Comparison:
    """The proof for two programs: what has been taken as equal so far."""

    before: Flow
    after: Flow
    assumed: dict[tuple[Statement, Statement], Any] = field(default_factory=dict)
    depth: int = 0

    def outputs(self) -> None:
        """Show that all outputs are equal.

        Raises:
            Undecided: they differ, or it could not be shown; says where.
        """
        old, new = self.before.program, self.after.program
        for name, buffer in old.buffers.items():
            is_written = self.before.writers(name) or self.after.writers(name)
            if not old.memories[buffer.data].is_parameter or not is_written:
                continue
            other = new.buffers[name]
            if not _same_shape(buffer.shape, other.shape):
                raise Undecided(f"the shape of {buffer.name}, a parameter, changes")
            for x in self.before.last(name, buffer.shape):
                for y in self.after.last(name, other.shape):
                    pairs = x.map.reverse().apply_range(y.map).coalesce()
                    self.same(Value.of(x), Value.of(y), pairs)

    def same(self, x: Value, y: Value, pairs: Any) -> None:
        """Show that `x` and `y` are equal for all pairs of instances."""
        if pairs.is_empty():
            return
        if self._split(x, y, pairs) or self._followed(x, y, pairs):
            return
        if x.expr is None and y.expr is None:
            if x.statement is None or y.statement is None:
                self._initial(x, y, pairs)
            else:
                self._instances(x.statement, y.statement, pairs)
        elif x.expr is None and x.statement is not None:
            self.same(x.opened(), y, pairs)
        elif y.expr is None and y.statement is not None:
            self.same(x, y.opened(), pairs)
        elif x.expr is None or y.expr is None:
            raise self._differ(x, y, pairs)
        else:
            self._expressions(x, y, pairs)

    # -- conditions and loads ------------------------------------------------------------

    def _split(self, x: Value, y: Value, pairs: Any) -> bool:
        """Cases of an affine condition, each on its own."""
        found = _cases(x)
        if found is not None:
            holds, first, second = found
            self.same(first, y, pairs.intersect_domain(holds))
            self.same(second, y, pairs.subtract_domain(holds))
            return True
        found = _cases(y)
        if found is not None:
            holds, first, second = found
            self.same(x, first, pairs.intersect_range(holds))
            self.same(x, second, pairs.subtract_range(holds))
            return True
        return False

    def _followed(self, x: Value, y: Value, pairs: Any) -> bool:
        """A load is what its sources gave."""
        if isinstance(x.expr, BufferLoad) and x.statement is not None:
            for source in self.before.sources(x.statement, x.expr):
                self.same(Value.of(source), y, source.map.reverse().apply_range(pairs))
            return True
        if isinstance(y.expr, BufferLoad) and y.statement is not None:
            for source in self.after.sources(y.statement, y.expr):
                self.same(x, Value.of(source), pairs.apply_range(source.map))
            return True
        return False

    def _initial(self, x: Value, y: Value, pairs: Any) -> None:
        """What was in memory: the same element of the same parameter."""
        if x.statement is not None:
            self.same(x.opened(), y, pairs)
        elif y.statement is not None:
            self.same(x, y.opened(), pairs)
        else:
            known = self.before.program.memories.values()
            is_parameter = any(m.name == x.memory and m.is_parameter for m in known)
            if x.memory != y.memory or not is_parameter or not is_identity(pairs):
                raise self._differ(x, y, pairs)

    # -- instances ------------------------------------------------------------

    def _instances(self, x: Statement, y: Statement, pairs: Any) -> None:
        """Show that pairs of instances write equal values."""
        key = (x, y)
        if key in self.assumed:
            pairs = pairs.subtract(self.assumed[key])
            if pairs.is_empty():
                return
            self.assumed[key] = self.assumed[key].union(pairs)
        else:
            self.assumed[key] = pairs
        self.depth += 1
        if self.depth > DEPTH:
            raise Undecided(f"values go back through more than {DEPTH} statements")
        try:
            self._values(x, y, pairs)
        finally:
            self.depth -= 1

    def _values(self, x: Statement, y: Statement, pairs: Any) -> None:
        if _is_transparent(x):
            self.same(Value(x, x.store.value), Value(y), pairs)
        elif _is_transparent(y):
            self.same(Value(x), Value(y, y.store.value), pairs)
        elif kind_of(x) or kind_of(y):
            self._reductions(x, y, pairs)
        else:
            self.same(Value(x, x.store.value), Value(y, y.store.value), pairs)

    def _reductions(self, x: Statement, y: Statement, pairs: Any) -> None:
        """Show that two reductions have the same terms, in any order."""
        update = x.update or y.update
        if update is None or {kind_of(x), kind_of(y)} - {None, update[0].name}:
            raise self._differ(Value(x), Value(y), pairs)
        old = Bag.of(self.before, update[0], x, pairs.domain_map())
        new = Bag.of(self.after, update[0], y, pairs.range_map())
        reason: Undecided | None = None
        for pairing in pairings(old, new):
            taken = dict(self.assumed)
            try:
                for a, b, matched in pairing:
                    self.same(a, b, matched)
                return
            except Undecided as error:
                self.assumed = taken
                reason = error
        raise reason or self._differ(Value(x), Value(y), pairs)

    # -- expressions ------------------------------------------------------------

    def _expressions(self, x: Value, y: Value, pairs: Any) -> None:
        a, b = x.expr, y.expr
        if a is None or b is None or a.dtype != b.dtype:
            raise self._differ(x, y, pairs)
        if isinstance(a, e.IntImm | e.FloatImm | e.StringImm):
            if type(a) is type(b) and a.value == b.value:  # type: ignore[attr-defined]
                return
            if not a.dtype.is_int:
                raise self._differ(x, y, pairs)
        if a.dtype.is_int and self._numbers(x, y, pairs):
            return
        if type(a) is not type(b) or _operator(a) != _operator(b):
            raise self._differ(x, y, pairs)
        parts, others = _operands(a), _operands(b)
        if len(parts) != len(others) or not parts:
            raise self._differ(x, y, pairs)
        for part, other in zip(parts, others, strict=True):
            self.same(Value(x.statement, part), Value(y.statement, other), pairs)

    def _numbers(self, x: Value, y: Value, pairs: Any) -> bool:
        """True if both are affine and equal."""
        try:
            left = x.statement.map(f"[{index(x.expr, x.statement.place.names)}]")  # type: ignore
            right = y.statement.map(f"[{index(y.expr, y.statement.place.names)}]")  # type: ignore
        except NotAffine:
            return False
        return bool(pairs.is_subset(left.apply_range(right.reverse())))

    def _differ(self, x: Value, y: Value, pairs: Any) -> Mismatch:
        return Mismatch(
            f"{x.label(self.before)} before and {y.label(self.after)} after could not be shown to "
            f"be equal, first where {_first(pairs)}"
        )


def compare(before: Flow, after: Flow) -> None:
    """Show that two programs compute the same outputs from the same inputs.

    Raises:
        Undecided: they do not, or it could not be shown; says where.
    """
    Comparison(before, after).outputs()


def _cases(value: Value) -> tuple[Any, Value, Value] | None:
    """Where an affine condition holds, and both cases; None for any other value."""
    x, statement = value.expr, value.statement
    if statement is None:
        return None
    if isinstance(x, e.Select):
        found = statement.cases(x.condition, x.true_value, x.false_value)
    else:
        found = statement.choice(x)
    if found is None:
        return None
    holds, first, second = found
    return holds, Value(statement, first), Value(statement, second)


def _is_transparent(statement: Statement) -> bool:
    """True for a copy, and for a choice between values."""
    value = statement.store.value
    return isinstance(value, BufferLoad) or _cases(Value(statement, value)) is not None


def _operator(x: e.PrimExpr) -> Any:
    return x.op if isinstance(x, e.Call) else type(x)


def _operands(x: e.PrimExpr) -> list[e.PrimExpr]:
    return [part for part in children(x) if isinstance(part, e.PrimExpr)]


def _same_shape(a: tuple[e.PrimExpr, ...], b: tuple[e.PrimExpr, ...]) -> bool:
    return [display.text(x) for x in a] == [display.text(y) for y in b]


def _first(pairs: Any) -> str:
    """The smallest pair, for messages."""
    point = str(pairs.lexmin().sample())
    return point[point.find("{") + 1 : point.rfind("}")].strip()
