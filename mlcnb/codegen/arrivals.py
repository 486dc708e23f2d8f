"""Asynchronous copies that are used before they have certainly arrived, found without running.

T.ptx_cp_async("float32", S, tx, A.data, tx, 4)     issued: the next group's
T.ptx_commit_group()                                its group is closed
T.ptx_wait_group(1)                                 all groups but the last one have arrived
T.tvm_storage_sync("shared")                        and all threads know

The queue is followed in the order in which a kernel runs. Of a loop that fills and waits some
rounds are looked at, from its first one on and from any one on: a copy is then a number of rounds
old, exactly. What stands under a condition orders nothing for sure, and after such a loop nothing
is said of its copies: what is told here is a race, what is not told need not be none.
Semantics: PTX ISA, "cp.async.wait_group".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mlcnb.core.node import Node, walk
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.threads import Pending
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.async_pipeline import ASYNC_SCOPE
from mlcnb.tir.transform.inject_ptx_async_copy import ASYNC_COPY, ASYNC_QUEUE
from mlcnb.tir.transform.thread_sync import MAY_NOT_RUN, Planner, Waiting, is_barrier, is_call

COMMIT, WAIT = ASYNC_QUEUE
#: more rounds of a loop than this are not looked at
_ROUNDS = 8


def copies_by_hand(func: PrimFunc) -> bool:
    """True if a function itself says when asynchronous copies are issued, and waited for in groups;
    of those in bulk it is proved (`tir.access.phases`).
    """
    names = (ASYNC_COPY, *ASYNC_QUEUE)
    calls = [n for n in statements(func.body) if isinstance(n, s.Evaluate)]
    return any(is_call(n, name) for n in calls for name in names)


@dataclass
class _Copy:
    """A copy that was issued.

    access: its write; round: of the loop that is followed, None before it; later: groups that were
    closed after its own, -1 while that is open; arrived: its own thread has waited for it.
    """

    access: Pending
    round: int | None
    later: int = -1
    arrived: bool = False


class Arrivals(Planner):
    """Walks a kernel with its copies that are on their way.

    late: is told of a copy and of what touches shared memory before it has certainly arrived.
    """

    def __init__(
        self, func: PrimFunc, kernel: s.Stmt, late: Callable[[Pending, Pending], None]
    ) -> None:
        super().__init__(func, kernel, "shared")
        self.late = late
        self.flying: list[_Copy] = []
        self.issued = {id(x) for n in walk(kernel) for x in _copies(n)}
        waits = [p.as_int(n.value.args[0]) for n in walk(kernel) if is_call(n, WAIT)]  # type: ignore[attr-defined, arg-type]
        self.rounds = min(_ROUNDS, max((n or 0 for n in waits), default=0) + 2)
        #: the loop whose rounds are followed, the one that runs, counted from its first one
        self.loop_followed: s.For | None = None
        self.number = 0
        self.from_first = True

    def told(self) -> None:
        """Tell of all."""
        if self.issued:
            self.scan(self.kernel, ())

    def scan(self, n: s.Stmt, pending: Waiting) -> Waiting:
        """One statement."""
        if is_call(n, COMMIT):
            for copy in self.flying:
                copy.later += 1
        elif is_call(n, WAIT):
            number = p.as_int(n.value.args[0])  # type: ignore[attr-defined]
            for copy in self.flying:
                copy.arrived = copy.arrived or number is None or copy.later >= number
        elif is_barrier(n, "shared"):
            self.flying = [copy for copy in self.flying if not copy.arrived]
        elif not any(map(_orders, walk(n))):
            self.touch(n)
        elif isinstance(n, s.For):
            self.follow(n)
        elif isinstance(n, MAY_NOT_RUN):
            self.flying = []
        else:
            for part, scope in self.parts(n):
                self.inside(scope, part, ())
        return ()

    def touch(self, n: s.Stmt) -> None:
        """What a statement reads and writes; what it issues is on its way then."""
        found = self.accesses(n)
        for copy in self.flying:
            for access in found:
                self.ask(copy, access)
        number = self.number if self.loop_followed is not None else None
        made = [x for x in found if x.access.is_write and id(x.access.stmt) in self.issued]
        self.flying += [_Copy(x, number) for x in made]

    def ask(self, copy: _Copy, now: Pending) -> None:
        """A copy and what is done before it has certainly arrived."""
        loop, first = self.loop_followed, copy.access
        if loop is not None and copy.round is not None and copy.round < self.number:
            first = replace(first, carried=loop, apart=self.number - copy.round)
        if loop is not None and self.from_first:
            now = replace(now, at=(loop, self.number))
        self.late(first, now)

    def follow(self, n: s.For) -> None:
        """Some rounds of a loop: its first ones, then any ones."""
        if self.loop_followed is None and not self.varies(n.min, n.extent):
            extent = p.as_int(n.extent)
            rounds = range(self.rounds if extent is None else min(extent, self.rounds))
            ((_, scope),) = self.parts(n)
            self.loop_followed = n
            for from_first in (True, False):
                self.from_first = from_first
                for number in rounds:
                    self.number = number
                    self.inside(scope, n.body, ())
                self.flying = []
            self.loop_followed = None
        self.flying = []


def _copies(n: Node) -> list[Any]:
    """Statements that issue a copy."""
    if isinstance(n, s.AttrStmt) and n.attr_key == ASYNC_SCOPE:
        return [x for x in walk(n.body) if isinstance(x, s.BufferStore)]
    return [n] if isinstance(n, s.Stmt) and is_call(n, ASYNC_COPY) else []


def _orders(n: Node) -> bool:
    return isinstance(n, s.Stmt) and (
        is_call(n, COMMIT) or is_call(n, WAIT) or is_barrier(n, "shared")
    )
