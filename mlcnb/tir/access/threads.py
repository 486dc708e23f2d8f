"""Conflicts of threads: may two threads of a block touch the same element, one of them writing?

    S[tx] = …    … = S[tx]         no: each thread has an element of its own
    S[tx] = …    … = S[7 - tx]     yes, for tx = 0 and 7

Decided exactly (islpy) where indices are affine in threads and loops; any other index may be
anything, so that "no" is sure, and "yes" may be overcautious.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.isl import ask, read_set
from mlcnb.arith.presburger import Translator
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.scope import Access, InBlock, InLoop, Named, Scope, Under


@dataclass(frozen=True)
class Pending:
    """An access since the last barrier.

    carried: the loop of which an earlier iteration made it; adjacent: the one just before.
    """

    access: Access
    carried: s.Stmt | None = None
    adjacent: bool = False


class Threads:
    """The threads of one block: tells whether two accesses of theirs may conflict."""

    def __init__(self, extents: Mapping[Var, PrimExpr]) -> None:
        #: the axes of the threads of a block, with their extents
        self.extents = dict(extents)

    def conflict(self, first: Pending, second: Pending) -> bool:
        """True if two different threads may touch the same element, and one of them writes it."""
        a, b = first.access, second.access
        if a.buffer.data is not b.buffer.data or not (a.is_write or b.is_write):
            return False
        if a.indices is None or b.indices is None or a.buffer is not b.buffer:
            return True
        return not _Question(self, first, second).is_impossible()


class _Question:
    """Two accesses as a set of integer points; the set is empty where they do not conflict."""

    def __init__(self, threads: Threads, first: Pending, second: Pending) -> None:
        self.threads = threads
        self.names: dict[Any, str] = {}
        self.conditions: list[str] = []
        shared = self.shared_loops(first, second)
        one, two = _Side(self, "a", shared), _Side(self, "b", shared)
        for side, pending in ((one, first), (two, second)):
            for var, extent in threads.extents.items():
                side.bound(var, e.Range(p.const(0, var.dtype), extent))
            for scope in pending.access.scope.around():
                side.enter(scope)
        if isinstance(first.carried, s.For) and first.carried in second.access.loops:
            var = first.carried.loop_var
            step = "+ 1 =" if first.adjacent else "<"
            self.conditions.append(f"{one.variable(var)} {step} {two.variable(var)}")
        for i, j in zip(*(x.access.indices or () for x in (first, second)), strict=True):
            self.conditions.append(f"{one.value(i)} = {two.value(j)}")
        self.conditions += [*one.facts, *two.facts]
        others = [f"{one.variable(v)} != {two.variable(v)}" for v in threads.extents]
        self.conditions.append(f"({' or '.join(others)})" if others else "1 = 0")

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
        """What a variable is called: each side has threads, inner loops and values of its own."""
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

    def bound(self, var: Var, domain: e.Range) -> None:
        """A loop, or a thread, that each side has for itself."""
        if var not in self.shared:
            self.own.add(var)
        low, name = self.value(domain.min), self.variable(var)
        self.question.conditions.append(f"{low} <= {name} < {low} + {self.value(domain.extent)}")


def any_conflict(threads: Threads, before: Iterable[Pending], now: Iterable[Pending]) -> bool:
    """True if one of the accesses conflicts with one of those before."""
    now = list(now)
    return any(threads.conflict(a, b) for a in before for b in now)
