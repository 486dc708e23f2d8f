"""What the threads of a block do with barriers and copies in bulk, written out step by step.

for k in range(3):                              wait(0, 0) by threads 0 to 255
    if w < 8:                                   arrive(2)  by threads 0 to 255
        wait(k % 2, k // 2 % 2)         ->      wait(1, 0) by threads 0 to 255
        arrive(k % 2 + 2)                       …

So far as it follows from the numbers of threads and from loops; shared memory that is touched
stands with the steps, from the first element that a statement may touch to the last one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlcnb.arith.evaluate import Frame, Unknown, evaluate
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import Access, InLoop
from mlcnb.tir.analysis.bulk import (
    BARRIERS,
    BULKS,
    CREATE,
    EXPECT,
    INIT,
    WAIT,
    bytes_of,
    number_of,
    parity_of,
)
from mlcnb.tir.analysis.kernels import SHARED_SCOPES, launches_in, numbered
from mlcnb.tir.analysis.wgmma import WGMMA
from mlcnb.tir.functor import StmtFunctor, bodies, heads

#: statements that are followed, each time that threads come by
MOST = 200_000
#: elements of a statement whose places are asked one by one
_FEW = 1 << 16
MEET = "tir.tvm_storage_sync"
#: what is followed
_CALLS = frozenset((*BARRIERS, *BULKS, MEET))
#: instructions whose elements are numbered from where they begin
_RUNS = frozenset((*BULKS, WGMMA))


class Unproved(Exception):
    """Something about barriers is not known, or wrong: what, and at which statement."""


class Place(NamedTuple):
    """Elements of a buffer that a step touches, from one to another."""

    memory: Var
    first: float
    last: float
    is_write: bool


class Step(NamedTuple):
    """What some threads do: a call with barriers, or accesses."""

    op: str
    who: int
    stmt: s.Stmt
    barrier: int = 0
    value: int = 0
    places: tuple[Place, ...] = ()


class Steps(StmtFunctor):
    """Writes a kernel out, for all threads of a block at once.

    steps: in the order of the program; masks: the threads that come by, by the number in a step.
    """

    def __init__(self, kernel: s.Stmt, known: Reading) -> None:
        self.threads, self.frame = numbered(launches_in(kernel))
        self.known = known
        self.steps: list[Step] = []
        self.masks: list[np.ndarray] = []
        self.numbers: dict[bytes, int] = {}
        self.active = np.ones(self.threads, bool)
        self.visited = 0
        self.has_calls: dict[int, bool] = {}
        self.read: dict[int, tuple[Access, ...]] = {}

    def visit_inside(self, n: Any) -> None:
        """Statements in statements, in order; one without barriers as a whole."""
        self.visited += 1
        if self.visited > MOST:
            raise Unproved(f"more than {MOST:,} steps", n)
        if not self.follows(n):
            self.touch(n, n)
            return
        for head in heads(n):
            self.touch(n, head)
        for part in bodies(n):
            self.visit_stmt(part)

    def follows(self, n: Any) -> bool:
        """True if barriers or copies stand in a statement."""
        if id(n) not in self.has_calls:
            calls = (x for x in walk(n) if isinstance(x, e.Call))
            self.has_calls[id(n)] = any(x.op in _CALLS for x in calls)
        return self.has_calls[id(n)]

    def visit_for_(self, n: s.For) -> None:
        """Rounds, each for the threads that run it."""
        if not self.follows(n):
            self.visit_inside(n)
            return
        first, count = (self.number(x, n, "a loop") for x in (n.min, n.extent))
        for i in range(count):
            self.frame[n.loop_var] = first + i
            self.visit_stmt(n.body)

    def visit_while_(self, n: s.While) -> None:
        """How often it runs is not known."""
        if self.follows(n):
            raise Unproved("a `while` around barriers", n)
        self.visit_inside(n)

    def visit_let_stmt_(self, n: s.LetStmt) -> None:
        """A value, where it is known."""
        self.touch(n, n.value)
        self.frame[n.var] = evaluate(n.value, self.frame, None)
        self.visit_stmt(n.body)

    def visit_if_then_else_(self, n: s.IfThenElse) -> None:
        """Some threads go one way, the others the other one."""
        if not self.follows(n):
            self.visit_inside(n)
            return
        self.touch(n, n.condition)
        try:
            holds = np.broadcast_to(evaluate(n.condition, self.frame), self.threads)
        except Unknown as error:
            raise Unproved(f"a condition around barriers is not known: {n.condition}", n) from error
        outer = self.active
        for part, mask in ((n.then_case, outer & holds), (n.else_case, outer & ~holds)):
            self.active = mask
            if part is not None and mask.any():
                self.visit_stmt(part)
        self.active = outer

    def visit_evaluate_(self, n: s.Evaluate) -> None:
        """What threads do with barriers."""
        call: Any = n.value
        if not self.follows(n):
            self.visit_inside(n)
            return
        if call.op == CREATE:
            return
        if call.op == MEET:
            if getattr(call.args[0], "value", "") in SHARED_SCOPES:
                self.note(call.op, n)
            return
        value = {
            INIT: lambda: self.number(call.args[1], n, "a count"),
            EXPECT: lambda: self.number(call.args[1], n, "a number of bytes"),
            WAIT: lambda: self.number(parity_of(call), n, "a parity") % 2,
        }.get(call.op, lambda: bytes_of(call) if call.op in BULKS else 0)()
        barrier = self.number(number_of(call), n, "a barrier")
        self.note(call.op, n, barrier, value, self.places(n, n))

    def number(self, x: Any, n: s.Stmt, what: str) -> int:
        """A number that is the same for all threads that come by."""
        try:
            found = np.broadcast_to(evaluate(x, self.frame), self.threads)[self.active]
        except Unknown as error:
            raise Unproved(f"{what} is not known: {x}", n) from error
        if (found != found[0]).any():
            raise Unproved(f"{what} differs by thread: {x}", n)
        return int(found[0])

    def note(self, op: str, n: s.Stmt, *more: Any) -> None:
        """One more step of the threads that come by."""
        key = self.active.tobytes()
        if key not in self.numbers:
            self.numbers[key] = len(self.masks)
            self.masks.append(self.active)
        self.steps.append(Step(op, self.numbers[key], n, *more))

    def touch(self, n: s.Stmt, part: Any) -> None:
        """What a part of a statement reads and writes of shared memory."""
        places = self.places(n, part)
        if places:
            self.note("", n, 0, 0, places)

    def places(self, n: s.Stmt, part: Any) -> tuple[Place, ...]:
        """Where it does."""
        if id(part) not in self.read:
            found = Reading(part, outer=self.known).accesses
            self.read[id(part)] = tuple(x for x in found if x.buffer.scope in SHARED_SCOPES)
        return tuple(dict.fromkeys(map(self.place, self.read[id(part)])))

    def place(self, access: Access) -> Place:
        """The elements of an access, by all threads and loops that are not written out."""
        first, last = float("-inf"), float("inf")
        data = self.known.pointer(access.buffer.data)
        if access.indices is not None and len(access.indices) == 1:
            try:
                found = evaluate(access.indices[0], self.inner(access))
                first, last = float(np.min(found)), float(np.max(found))
            except Unknown:
                pass
        return Place(data, first, last, access.is_write)

    def inner(self, access: Access) -> Frame:
        """Values of the variables of an access: a row for each thread, flat."""
        frame = {
            var: x[self.active] if isinstance(x, np.ndarray) else x for var, x in self.frame.items()
        }
        rows = int(self.active.sum())
        loops = [x for x in access.scope.around() if isinstance(x, InLoop)]
        for scope in loops:
            if scope.var is None or scope.domain is None:
                raise Unknown("a `while`")
            low, extent = (evaluate(x, frame) for x in (scope.domain.min, scope.domain.extent))
            if np.ndim(low) or np.ndim(extent):
                raise Unknown("a loop that differs by thread")
            counted = np.arange(low, low + extent)
            if scope is loops[-1] and getattr(access.node, "op", None) in _RUNS:
                counted = counted[[0, -1]]  # what it touches lies in a row
            rows *= len(counted)
            if not 0 < rows <= _FEW:
                raise Unknown("many elements")
            frame = {
                var: np.repeat(x, len(counted)) if isinstance(x, np.ndarray) else x
                for var, x in frame.items()
            }
            frame[scope.var] = np.resize(counted, rows)
        return frame
