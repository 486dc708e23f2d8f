"""Conflicts of threads: may two threads of a block touch the same element, one of them writing?

    S[tx] = …    … = S[tx]         no: each thread has an element of its own
    S[tx] = …    … = S[7 - tx]     yes, for tx = 0 and 7: `meeting` says which, and where

Decided exactly (islpy) where indices are affine in threads and loops; any other index may be
anything, so that "no" is sure, and "yes" may be overcautious. Of one access whose element says
which thread it is of, own arithmetic knows the answer sooner (and where islpy is not installed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.isl import ask, first_point, read_set
from mlcnb.arith.presburger import Translator
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.apart import names_thread
from mlcnb.tir.access.scope import Access, InBlock, InLoop, Named, Scope, Under


@dataclass(frozen=True)
class Pending:
    """An access since the last barrier.

    carried: the loop of which an earlier iteration made it; apart: so many before, 0: any;
    any_time: threads run that loop, and what is in it, each at its own pace; at: a loop around it,
    and in which iteration, counted from 0, it is made.
    """

    access: Access
    carried: s.Stmt | None = None
    apart: int = 0
    any_time: bool = False
    at: tuple[s.For, int] | None = None


@dataclass(frozen=True)
class Meeting:
    """Two threads at one element.

    index: the element; sides: of each thread the values of its axes and of the loops around; exact:
    they do meet (for some sizes), False: it is not proved that they do not.
    """

    index: tuple[int, ...]
    sides: tuple[dict[Var, int], dict[Var, int]]
    exact: bool


class Threads:
    """The threads of one block: tells whether two accesses of theirs may conflict.

    extents: of the axes in a block; grid: of those of the blocks.
    """

    def __init__(
        self, extents: Mapping[Var, PrimExpr], grid: Mapping[Var, PrimExpr] | None = None
    ) -> None:
        self.extents = dict(extents)
        self.grid = dict(grid or {})
        self._conflicts: dict[tuple[Pending, Pending], bool] = {}

    def conflict(self, first: Pending, second: Pending) -> bool:
        """True if two different threads may touch the same element, and one of them writes it."""
        a, b = first.access, second.access
        if a.buffer.data is not b.buffer.data or not (a.is_write or b.is_write):
            return False
        if a.is_atomic and b.is_atomic:
            return False
        if a.indices is None or b.indices is None or a.buffer is not b.buffer:
            return True
        key = first, second
        if key not in self._conflicts:
            apart = a.node is b.node and names_thread(a, self.extents, self.extents, self.grid)
            self._conflicts[key] = not (
                apart or _asked(first, second, self.extents, self.extents).is_impossible()
            )
        return self._conflicts[key]

    def meeting(
        self,
        first: Pending,
        second: Pending,
        across: bool = False,
        differing: Sequence[PrimExpr] | None = None,
    ) -> Meeting | None:
        """Two threads that touch the same element of one buffer; None: there are none.

        across: threads of different blocks, not of one; differing: expressions of the first and
        second access of which one has to differ (what decides the value that both store).
        """
        own = {**self.grid, **self.extents} if across else self.extents
        apart, fixed = (self.grid, {}) if across else (self.extents, self.grid)
        a, b = first.access, second.access
        if a.node is b.node and names_thread(a, own, apart, fixed):
            return None
        return _asked(first, second, own, apart, fixed, differing).answer()


def _asked(*given: Any) -> _Question:
    """The question, said bit by bit where there are bits and it is not answered without them."""
    roughly = _Question(False, *given)
    has_bits = any(side.has_bits for side in roughly.sides)
    return _Question(True, *given) if has_bits and not roughly.is_impossible() else roughly


class _Question:
    """Two accesses as a set of integer points; the set is empty where they do not conflict.

    own: axes that each side has for itself; apart: those of which one differs; fixed: axes that
    have one value for both; differing: see `Threads.meeting`; by_bits: see `Translator`.
    """

    def __init__(
        self,
        by_bits: bool,
        first: Pending,
        second: Pending,
        own: Mapping[Var, PrimExpr],
        apart: Mapping[Var, PrimExpr],
        fixed: Mapping[Var, PrimExpr] | None = None,
        differing: Sequence[PrimExpr] | None = None,
    ) -> None:
        self.own = set(own)
        self.names: dict[Any, str] = {}
        self.conditions: list[str] = []
        shared = self.shared_loops(first, second)
        one, two = self.sides = _Side(self, "a", shared), _Side(self, "b", shared)
        one.by_bits = two.by_bits = by_bits
        for var, extent in (fixed or {}).items():
            one.bound(var, e.Range(p.const(0, var.dtype), extent), is_own=False)
        for side, pending in ((one, first), (two, second)):
            for var, extent in own.items():
                side.bound(var, e.Range(p.const(0, var.dtype), extent))
            for scope in pending.access.scope.around():
                side.enter(scope)
        carried = first.carried
        if isinstance(carried, s.For) and carried in second.access.loops and not first.any_time:
            var = carried.loop_var
            step = f"+ {first.apart} =" if first.apart else "<"
            self.conditions.append(f"{one.variable(var)} {step} {two.variable(var)}")
        if second.at is not None:
            loop, number = second.at
            self.conditions.append(
                f"{two.variable(loop.loop_var)} = {two.value(loop.min)} + {number}"
            )
        pairs = zip(*(x.access.indices or () for x in (first, second)), strict=True)
        self.places = [(one.value(i), two.value(j)) for i, j in pairs]
        self.conditions += [
            f"{one.value(i)} = {two.value(j)}" for i, j in _numbers(first.access, second.access)
        ]
        self.conditions.append(one_of((one.variable(v), two.variable(v)) for v in apart))
        #: what is asked where the rest is possible: mostly it is not, and that is known sooner
        self.last = ""
        if differing is not None:
            self.last = one_of((one.value(x), two.value(x)) for x in differing)
        self.conditions += [*one.facts, *two.facts]
        masked = first.access.is_masked or second.access.is_masked
        self.exact = one.exact and two.exact and not masked

    def shared_loops(self, first: Pending, second: Pending) -> set[Var]:
        """Variables that have one value for both: loops around both, in the same iteration."""
        found: set[Var] = set()
        for one, two in zip(first.access.loops, second.access.loops, strict=False):
            if one is not two or one is first.carried:
                break
            if isinstance(one, s.For):
                found.add(one.loop_var)
        return found

    def fresh(self, key: Any) -> str:
        return self.names.setdefault(key, f"x{len(self.names)}")

    def text(self, *more: str) -> str:
        space = ", ".join([*self.names.values(), *more])
        same = [f"{name} = {i}" for name, (i, _) in zip(more, self.places, strict=False)]
        return f"{{ [{space}] : {' and '.join([*self.conditions, *same])} }}"

    def is_impossible(self) -> bool:
        if _is_empty(self.text()):
            return True
        if not self.last:
            return False
        self.conditions.append(self.last)
        return _is_empty(self.text())

    def answer(self) -> Meeting | None:
        if self.is_impossible():
            return None
        elements = [f"e{n}" for n in range(len(self.places))]
        points = ask(lambda: read_set(self.text(*elements)))
        point = None if points is None else first_point(points)
        if point is None:
            return Meeting((), ({}, {}), False)
        values = dict(zip(self.names, point.values, strict=False))
        return Meeting(
            point.values[len(values) :],
            ({**_of(values, "a")}, {**_of(values, "b")}),
            self.exact,
        )


def _numbers(first: Access, second: Access) -> list[tuple[PrimExpr, PrimExpr]]:
    """Pairs of integers, all of which are the same where the indices of two accesses are.

    Indices that are digits of a number are one pair: `i // 28` and `i % 28` are `i`. Of what isl
    is asked most, questions with divisions take it twenty times as long.
    """
    pairs = list(zip(first.indices or (), second.indices or (), strict=True))
    if len(pairs) < 2 or first.buffer is not second.buffer or _divisions(*pairs[-1]) == 0:
        return pairs
    analyzer, found = Analyzer(), pairs[:1]
    for pair, extent in zip(pairs[1:], first.buffer.shape[1:], strict=True):
        joined = _joined(found[-1], pair, p.as_int(extent), analyzer)
        found[-1:] = [found[-1], pair] if joined is None else [joined]
    return found


def _joined(
    before: tuple[PrimExpr, PrimExpr],
    pair: tuple[PrimExpr, PrimExpr],
    extent: int | None,
    analyzer: Analyzer,
) -> tuple[PrimExpr, PrimExpr] | None:
    """Two indices of each access as one number, of which the second is the last digit; None where
    it may be none, or divisions would not become fewer.
    """
    if extent is None or not _divisions(*before) or not _divisions(*pair):
        return None
    for x in pair:
        low, high = analyzer.const_bounds(x)
        if low < 0 or high >= extent:
            return None
    one, two = (analyzer.simplify(a * extent + b) for a, b in zip(before, pair, strict=True))
    return (one, two) if _divisions(one, two) < _divisions(*before, *pair) else None


def _divisions(*values: PrimExpr) -> int:
    return sum(isinstance(n, e.FloorDiv | e.FloorMod) for x in values for n in walk(x))


def one_of(pairs: Iterable[tuple[str, str]]) -> str:
    """The condition that one of the pairs differs; none does that is the same text twice."""
    found = dict.fromkeys(f"{one} != {two}" for one, two in pairs if one != two)
    return f"({' or '.join(found)})" if found else "1 = 0"


def _of(values: Mapping[Any, int], side: str) -> dict[Var, int]:
    """The values of variables that both sides share, or that one has for itself."""
    found = {key: value for key, value in values.items() if isinstance(key, Var)}
    own = {key[0]: n for key, n in values.items() if isinstance(key, tuple) and key[1] == side}
    return {**found, **own}


@lru_cache(maxsize=4096)
def _is_empty(text: str) -> bool:
    """True if a set surely has no point; statements of one kind ask the same again and again."""
    return bool(ask(lambda: read_set(text).is_empty()))


class _Side(Translator):
    """One of the two accesses: its variables by name, its expressions as isl's text."""

    def __init__(self, question: _Question, side: str, shared: set[Var]) -> None:
        super().__init__()
        self.question = question
        self.side = side
        self.shared = shared
        self.own: set[Var] = set(question.own)

    def variable(self, x: Var) -> str:
        """What a variable is called: each side has threads, inner loops and values of its own."""
        self.exact = self.exact and x not in self.loose
        return self.names.get(x) or self.question.fresh((x, self.side) if x in self.own else x)

    def new(self, x: PrimExpr | None = None) -> str:
        """A variable of the whole question."""
        return self.question.fresh((self.side, len(self.question.names)))

    def enter(self, scope: Scope) -> None:
        """What holds in a scope. Threads are known already."""
        match scope:
            case InLoop(node=s.For(), var=Var() as var, domain=e.Range() as domain):
                self.bound(var, domain)
            case Under(condition=condition, holds=holds):
                self.question.conditions.append(self.condition(condition, holds))
            case Named(var=var, value=value) if var.dtype.is_integer:
                self.bind(var, value)
            case InBlock(node=n):
                for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
                    self.bind(axis.var, value)
            case InLoop(node=s.While()):
                self.exact = False

    def bound(self, var: Var, domain: e.Range, is_own: bool = True) -> None:
        """A loop, or a thread, that each side has for itself."""
        if is_own and var not in self.shared:
            self.own.add(var)
        low, name = self.value(domain.min), self.variable(var)
        self.question.conditions.append(f"{low} <= {name} < {low} + {self.value(domain.extent)}")


def any_conflict(threads: Threads, before: Iterable[Pending], now: Iterable[Pending]) -> bool:
    """True if one of the accesses conflicts with one of those before."""
    now = list(now)
    return any(threads.conflict(a, b) for a in before for b in now)
