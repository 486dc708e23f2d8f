"""Barriers with phases (`mbarrier`) followed without running: is memory that copies in bulk fill
ordered by them alone, so that no barrier of the block is needed?

for k in range(n):                              a ring of S stages, stage = k % S
    if w == 8:  the producer (or one of the threads that also consume)
        wait(EMPTY + stage, (k // S + 1) % 2)       the stage is given back; at first it is free
        expect(FULL + stage, bytes); copies         they come in phase k // S of FULL
    else:       the consumers
        wait(FULL + stage, k // S % 2)              the tile has come
        reads of the stage
        arrive(EMPTY + stage)                       of so many threads as EMPTY counts

What each thread does with barriers is written out, as far as it follows from its number and the
loops; threads that do the same are a group. The groups are then run against each other, each with
what it knows: who waits for a phase knows what those who arrived in it knew.

**Proved** is a buffer, for every order in which threads may run, where
- each thread that arrives in phase p of a barrier knows that phase p - 1 is over, and exactly as
  many arrive as it counts: no thread can arrive in a phase that is another's;
- each thread that waits for phase p knows that phase p - 1 is over (so it cannot go on too early,
  for the phase before that has the same parity), and phase p + 1 ends only when it has gone on;
- bytes are announced, by the one thread that starts their copies, before these, and all of them
  come; every copy is waited for;
- of two accesses of one place, of which one writes, the later one knows that the earlier is over:
  a copy, that its phase has ended; what other threads read, by a phase that they arrived in after.
**Refused** (`Ordered.why` says what) is all else: a number of rounds, of a barrier or a parity that
is not known, or differs between threads that come by; copies by several threads; memory that
threads write as well (copies go another way, so that a barrier of the block is needed); more than
`barrier_steps.MOST` steps. A program that hangs or races is among them: a missing arrive or first
release, a wrong parity or count, a stage too few.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.errors import PassError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.analysis.barrier_steps import MEET, Place, Step, Steps, Unproved
from mlcnb.tir.analysis.bulk import BULKS, CREATE, EXPECT, INIT, WAIT
from mlcnb.tir.function import PrimFunc


class Ordered(NamedTuple):
    """What phases of barriers order.

    Attributes:
        memory: pointers of buffers whose accesses are all in order.
        why: what is missing for the others, in words; "" where nothing is.
        where: the statement that it is about.
    """

    memory: frozenset[Var] = frozenset()
    why: str = ""
    where: s.Stmt | None = None

    def refuse(self, func: PrimFunc) -> None:
        """Refuse a function in which something is missing: barriers of the block do not help, since
        a copy goes on while threads stand there.

        Raises:
            PassError: what is not proved, and the statement.
        """
        if self.why:
            raise PassError(
                f"ThreadSync: copies in bulk are not proved to be ordered by their barriers: "
                f"{self.why}",
                where=self.where,
                root=func,
                hint='target="interp" finds by running what is wrong; barriers, parities and '
                "rounds are to be numbers, and each copy is waited for before it is used, and what "
                "used its place before it begins",
            )


def ordered_by_phases(kernel: s.Stmt, known: Reading) -> Ordered:
    """Buffers of a kernel that copies in bulk fill, and whose accesses phases of barriers order.

    known: the reading of the kernel.
    """
    calls = {x.op for x in walk(kernel) if isinstance(x, e.Call)}
    if CREATE not in calls or not calls & {*BULKS}:
        return Ordered()
    steps = Steps(kernel, known)
    if not steps.threads:
        return Ordered(frozenset(), "the number of threads is not known", kernel)
    try:
        steps.visit_stmt(kernel)
        run = _Run(steps)
        run.through()
    except Unproved as error:
        return Ordered(frozenset(), *error.args)
    why, where = next(iter(run.unordered.values()), ("", None))
    return Ordered(frozenset(run.filled - run.unordered.keys()), why, where)


# groups of threads against each other


@dataclass
class _Known:
    """What is known to be over: of each group so many steps, of each barrier so many phases."""

    steps: dict[int, int] = field(default_factory=dict)
    phases: dict[int, int] = field(default_factory=dict)

    def learn(self, more: _Known) -> None:
        """And all that is known elsewhere."""
        for mine, theirs in ((self.steps, more.steps), (self.phases, more.phases)):
            for key, value in theirs.items():
                mine[key] = max(mine.get(key, 0), value)


@dataclass
class _Group:
    """Threads that do the same; of its own steps it knows what its other threads have done."""

    number: int
    size: int
    steps: list[int]
    at: int = 0
    known: _Known = field(default_factory=_Known)


@dataclass
class _Phased:
    """A barrier.

    maker: the group and step that made it; pending, missing: threads and announced bytes that the
    phase has not got; free: of a group what it announced and has not yet begun to copy; gathered:
    what those know who arrived in this phase; heard: in those before; waited: who went on after the
    phase before this one, at which step.
    """

    count: int
    maker: tuple[int, int]
    pending: int
    phase: int = 0
    missing: int = 0
    free: dict[int, int] = field(default_factory=dict)
    gathered: _Known = field(default_factory=_Known)
    heard: _Known = field(default_factory=_Known)
    waited: dict[int, int] = field(default_factory=dict)


class _Touched(NamedTuple):
    """An access: by a group in a step, or by a copy in a phase of a barrier."""

    place: Place
    stmt: s.Stmt
    group: int
    step: int
    barrier: int = -1
    phase: int = 0


class _Run:
    """The groups of a kernel, run against each other."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps.steps
        rows = np.array(steps.masks, bool).reshape(len(steps.masks), steps.threads)
        kinds, sizes = np.unique(rows, axis=1, return_counts=True)
        self.groups = [
            _Group(n, int(size), [i for i, x in enumerate(self.steps) if kinds[x.who, n]])
            for n, size in enumerate(sizes)
        ]
        self.barriers: dict[int, _Phased] = {}
        #: of each buffer what has been done there, of each kind the last
        self.touched: dict[Var, dict[Any, _Touched]] = {}
        self.filled: set[Var] = set()
        self.unordered: dict[Var, tuple[str, s.Stmt]] = {}
        self.whole = {n for n, mask in enumerate(steps.masks) if mask.all()}

    def through(self) -> None:
        """All of them, to the end.

        Raises:
            Unproved: they may hang, or what they do may depend on who comes first.
        """
        waiting, idle = deque(self.groups), 0
        while waiting and idle < len(waiting):
            group = waiting.popleft()
            idle = 0 if self.forward(group) else idle + 1
            if group.at < len(group.steps):
                waiting.append(group)
        if waiting:
            group = waiting[0]
            raise Unproved("threads may wait for good", self.steps[group.steps[group.at]].stmt)
        for x in (x for touched in self.touched.values() for x in touched.values()):
            told = (g.known.phases.get(x.barrier, 0) > x.phase for g in self.groups)
            if x.barrier >= 0 and not any(told):
                raise Unproved("nobody waits for a copy", x.stmt)

    def forward(self, group: _Group) -> bool:
        """A group as far as it comes; False if it waits where it is."""
        begin = group.at
        while group.at < len(group.steps) and self.does(group, self.steps[group.steps[group.at]]):
            group.at += 1
        return group.at > begin

    def does(self, group: _Group, step: Step) -> bool:
        """One step; False if it has to wait."""
        if step.op == MEET:
            return self.meet(group, step)
        if step.op == INIT:
            return self.init(group, step)
        barrier = self.barrier(group, step) if step.op else None
        if step.op == WAIT:
            return self.wait(group, step, barrier)
        copied = (step.barrier, barrier.phase) if barrier and step.op in BULKS else ()
        for place in step.places:
            self.touch(group, _Touched(place, step.stmt, group.number, group.at, *copied))
        if step.op in BULKS:
            self.copy(group, step, barrier)
        elif barrier is not None:
            self.arrive(group, step, barrier)
        return True

    # barriers

    def meet(self, group: _Group, step: Step) -> bool:
        """A barrier of the block: when all are there, all know all."""
        if step.who not in self.whole:
            raise Unproved("a barrier of the block that not all threads come by", step.stmt)
        if group.known.steps.get(group.number, 0) > group.at:
            return True  # the last one has come
        here = group.steps[group.at]
        if any(x.at >= len(x.steps) or x.steps[x.at] != here for x in self.groups):
            return False
        both = _Known({x.number: x.at + 1 for x in self.groups})
        for x in self.groups:
            both.learn(x.known)
        for x in self.groups:
            x.known.learn(both)
        return True

    def init(self, group: _Group, step: Step) -> bool:
        """One thread makes a barrier."""
        if step.barrier in self.barriers or group.size > 1:
            raise Unproved(f"barrier {step.barrier} is made more than once", step.stmt)
        made = _Phased(step.value, (group.number, group.at), step.value)
        self.barriers[step.barrier] = made
        return True

    def barrier(self, group: _Group, step: Step) -> _Phased:
        """A barrier that a group knows to be there."""
        found = self.barriers.get(step.barrier)
        if found is not None:
            maker, at = found.maker
            if maker == group.number or group.known.steps.get(maker, 0) > at:
                return found
        raise Unproved(f"barrier {step.barrier} is used before it is certainly made", step.stmt)

    def wait(self, group: _Group, step: Step, barrier: Any) -> bool:
        """Go on after the phase of a parity, if none of the same parity may be taken for it."""
        if barrier.phase % 2 == step.value:
            return False
        before = barrier.phase - 1
        if group.known.phases.get(step.barrier, 0) < before:
            raise Unproved(
                f"a wait for phase {before} of barrier {step.barrier} may go on after phase "
                f"{before - 2}", step.stmt,
            )  # fmt: skip
        group.known.learn(barrier.heard)
        group.known.learn(_Known({}, {step.barrier: barrier.phase}))
        barrier.waited[group.number] = group.at
        return True

    def arrive(self, group: _Group, step: Step, barrier: _Phased) -> None:
        """All threads of a group arrive, in this phase and no other."""
        phase = f"phase {barrier.phase} of barrier {step.barrier}"
        if group.known.phases.get(step.barrier, 0) < barrier.phase:
            raise Unproved(f"threads that arrive in {phase} may come before it begins", step.stmt)
        if group.size > barrier.pending:
            raise Unproved(f"more than {barrier.count} threads arrive in {phase}", step.stmt)
        barrier.gathered.learn(group.known)
        barrier.gathered.learn(_Known({group.number: group.at}))
        barrier.pending -= group.size
        if step.op == EXPECT:
            if group.size > 1:
                raise Unproved("bytes are announced by several threads", step.stmt)
            barrier.missing += step.value
            barrier.free[group.number] = barrier.free.get(group.number, 0) + step.value
        self.end(step, barrier)

    def copy(self, group: _Group, step: Step, barrier: Any) -> None:
        """A copy begins, whose bytes its thread has announced."""
        if barrier.free.get(group.number, 0) < step.value or group.size > 1:
            raise Unproved("a copy of bytes that its thread has not announced", step.stmt)
        barrier.free[group.number] -= step.value
        barrier.missing -= step.value
        self.end(step, barrier)

    def end(self, step: Step, barrier: _Phased) -> None:
        """The next phase begins, if nothing is missing in this one."""
        if barrier.pending or barrier.missing:
            return
        for number, at in barrier.waited.items():
            if barrier.gathered.steps.get(number, 0) <= at:
                raise Unproved(
                    f"phase {barrier.phase} of barrier {step.barrier} may end while threads still "
                    f"wait for phase {barrier.phase - 1}", step.stmt,
                )  # fmt: skip
        barrier.heard.learn(barrier.gathered)
        barrier.phase, barrier.pending = barrier.phase + 1, barrier.count
        barrier.gathered, barrier.waited = _Known(), {}

    # memory

    def touch(self, group: _Group, now: _Touched) -> None:
        """An access, held against those before."""
        place = now.place
        known = self.touched.setdefault(place.memory, {})
        if now.barrier >= 0:
            self.filled.add(place.memory)
        elif place.is_write:
            self.unordered.setdefault(place.memory, ("threads write there too", now.stmt))
        for x in known.values():
            if (
                (x.place.is_write or place.is_write)
                and x.place.first <= place.last and place.first <= x.place.last
                and not self.is_over(x, group, now.barrier >= 0)
            ):  # fmt: skip
                what = "a copy may overwrite what is read" if now.barrier >= 0 else "a copy is read"
                told = f"{what} in {place.memory.name}: nothing orders them"
                self.unordered.setdefault(place.memory, (told, now.stmt))
        known[now.stmt, place, now.group, now.barrier] = now

    def is_over(self, x: _Touched, group: _Group, by_copy: bool) -> bool:
        """True if a group knows that an access is over; of its own a copy, which goes another way
        to memory, knows by a barrier only.
        """
        if x.barrier >= 0:
            return group.known.phases.get(x.barrier, 0) > x.phase
        is_own = x.group == group.number and group.size == 1 and not by_copy
        return is_own or group.known.steps.get(x.group, 0) > x.step
