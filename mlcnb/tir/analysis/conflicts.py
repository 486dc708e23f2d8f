"""Conflicts of threads: may two threads of a block touch the same element, one of them writing?

    S[tx] = …    … = S[tx]         no: each thread has an element of its own
    S[tx] = …    … = S[7 - tx]     yes, for tx = 0 and 7

Decided exactly (islpy) where indices are affine in threads and loops; any other index may be
anything, so that "no" is sure, and "yes" may be overcautious.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlcnb.arith.isl import ask, read_set
from mlcnb.arith.presburger import Translator
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer


@dataclass(frozen=True)
class Access:
    """A read or write of memory, with the loops and conditions that it stands under.

    indices: None where a pointer is passed on, which may be used for any element; carried: the loop
    of which this is an earlier iteration; adjacent: the one just before.
    """

    data: Var
    buffer: Buffer
    indices: tuple[PrimExpr, ...] | None
    writes: bool
    where: s.Stmt
    loops: tuple[s.Stmt, ...] = ()
    guards: tuple[PrimExpr, ...] = ()
    carried: s.Stmt | None = None
    adjacent: bool = False

    def from_earlier(self, loop: s.Stmt, adjacent: bool) -> Access:
        """The access as an earlier iteration of a loop made it."""
        return replace(self, carried=loop, adjacent=adjacent)


class Threads:
    """The threads of one block: tells whether two accesses of theirs may conflict."""

    def __init__(self, extents: Mapping[Var, PrimExpr]) -> None:
        #: the axes of the threads of a block, with their extents
        self.extents = dict(extents)
        #: variables of `let`: another thread or iteration may have another value
        self.lets: set[Var] = set()

    def conflict(self, first: Access, second: Access) -> bool:
        """True if two different threads may touch the same element, and one of them writes it."""
        if first.data is not second.data or not (first.writes or second.writes):
            return False
        if first.indices is None or second.indices is None or first.buffer is not second.buffer:
            return True
        return not _Question(self, first, second).is_impossible()


class _Question:
    """Two accesses as a set of integer points; the set is empty where they do not conflict."""

    def __init__(self, threads: Threads, first: Access, second: Access) -> None:
        self.threads = threads
        self.names: dict[Any, str] = {}
        self.conditions: list[str] = []
        shared = self.shared_loops(first, second)
        one, two = _Side(self, "a", shared), _Side(self, "b", shared)
        for side, access in ((one, first), (two, second)):
            for var, extent in threads.extents.items():
                side.bound(var, p.const(0, var.dtype), extent)
            for loop in access.loops:
                if isinstance(loop, s.For):
                    side.bound(loop.loop_var, loop.min, loop.extent)
            for guard in access.guards:
                self.conditions.append(side.condition(guard))
        if isinstance(first.carried, s.For) and first.carried in second.loops:
            var = first.carried.loop_var
            step = "+ 1 =" if first.adjacent else "<"
            self.conditions.append(f"{one.variable(var)} {step} {two.variable(var)}")
        for i, j in zip(first.indices or (), second.indices or (), strict=True):
            self.conditions.append(f"{one.value(i)} = {two.value(j)}")
        self.conditions += [*one.facts, *two.facts]
        others = [f"{one.variable(v)} != {two.variable(v)}" for v in threads.extents]
        self.conditions.append(f"({' or '.join(others)})" if others else "1 = 0")

    def shared_loops(self, first: Access, second: Access) -> set[Var]:
        """Variables that have one value for both: loops around both, in the same iteration."""
        found: set[Var] = set()
        for one, two in zip(first.loops, second.loops, strict=False):
            if one is not two or one is first.carried:
                break
            if isinstance(one, s.For):
                found.add(one.loop_var)
        return found

    def fresh(self, key: Any) -> str:
        return self.names.setdefault(key, f"x{len(self.names)}")

    def is_impossible(self) -> bool:
        space = ", ".join(self.names.values())
        text = f"{{ [{space}] : {' and '.join(self.conditions)} }}"
        return bool(ask(lambda: read_set(text).is_empty()))


class _Side(Translator):
    """One of the two accesses: its variables by name, its expressions as isl's text."""

    def __init__(self, question: _Question, side: str, shared: set[Var]) -> None:
        super().__init__()
        self.question = question
        self.side = side
        self.shared = shared
        self.own: set[Var] = set(question.threads.extents)

    def variable(self, x: Var) -> str:
        """What a variable is called: each side has threads and inner loops of its own."""
        own = x in self.own or x in self.question.threads.lets
        return self.question.fresh((x, self.side) if own else x)

    def new(self, x: PrimExpr | None = None) -> str:
        """A variable of the whole question."""
        return self.question.fresh((self.side, len(self.question.names)))

    def bound(self, var: Var, start: PrimExpr, extent: PrimExpr) -> None:
        """A loop, or a thread, that each side has for itself."""
        if var not in self.shared:
            self.own.add(var)
        low, name = self.value(start), self.variable(var)
        self.question.conditions.append(f"{low} <= {name} < {low} + {self.value(extent)}")


def any_conflict(threads: Threads, before: Iterable[Access], now: Iterable[Access]) -> bool:
    """True if one of the accesses conflicts with one of those before."""
    now = list(now)
    return any(threads.conflict(a, b) for a in before for b in now)
