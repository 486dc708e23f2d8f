"""Agents: the threads of a simulated GPU, and who touched which element since the last barrier.

Two accesses of an element by different threads, one of them a write, are a data race unless a
barrier of their block stands between them; threads of different blocks never wait for each other.
Threads that do the same statement and store the same value do not race: work that all of them do
alike is wasted, not wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mlcnb.codegen.interp.memory import View
from mlcnb.codegen.interp.told import ROUNDS, race_error, remedy
from mlcnb.core.errors import DataRaceError, ExecutionError
from mlcnb.tir.stmt import Stmt

#: threads of a warp
WARP = 32


class Agent:
    """One thread of one block: where it stands, how many barriers it has passed."""

    __slots__ = (
        "axes", "block", "clock", "copies", "epoch", "moment", "number", "warp", "warp_epoch",
        "written",
    )  # fmt: skip

    def __init__(self, block: ThreadBlock, number: int, axes: dict[str, int]) -> None:
        self.block = block
        self.number = number
        self.axes = axes
        self.warp = number // WARP
        self.epoch = 0
        self.warp_epoch = 0
        #: how often others may have learned of it at an `mbarrier`; what it has learned there: of
        #: another the last such moment
        self.moment = 0
        self.clock: dict[Agent, int] = {}
        #: elements of its own memory that it has written
        self.written: set[int] = set()
        #: groups of asynchronous copies that have not arrived, the open one last
        self.copies: list[list[Callable[[], Any]]] = [[]]

    @property
    def lane(self) -> int:
        """Its place in its warp."""
        return self.number % WARP

    #: what it is called
    called = "thread"

    def __str__(self) -> str:
        return f"{self.called} (" + ", ".join(f"{k} = {v}" for k, v in self.axes.items()) + ")"

    # accesses

    def reads(self, view: View, at: int, site: Stmt) -> None:
        """It reads an element that other threads may touch."""
        element = self.element(view, at)
        other = element.read_by(self, site)
        if other is not None:
            raise race(view, at, other, Event(self, site, self.warp_epoch, False, self.moment))

    def writes(self, view: View, at: int, site: Stmt, value: Any) -> None:
        """It writes an element that other threads may touch."""
        element = self.element(view, at)
        other = element.written_by(self, site, value)
        if other is not None:
            raise race(view, at, other, Event(self, site, self.warp_epoch, True, self.moment))

    # asynchronous copies

    def commit(self) -> None:
        """What it has begun to copy since the last time is a group."""
        self.copies.append([])

    def wait(self, number: int) -> None:
        """All but its last `number` groups arrive: as late as it may be, and no later."""
        while len(self.copies) > number + 1:
            for arrive in self.copies.pop(0):
                arrive()

    def begins(self, view: View, at: int, site: Stmt) -> None:
        """It begins a copy in bulk that will write an element."""
        other = self.element(view, at).begun_by(self, site)
        if other is not None:
            raise race(view, at, other, Event(self, site, self.warp_epoch, True, self.moment))

    def updates(self, view: View, at: int, site: Stmt) -> None:
        """It updates an element that other threads may touch, with none of them in between."""
        element = self.element(view, at)
        if view.buffer.scope != "global" and not element.ever_written:
            self.block.unwritten.append((self, view, at, site))
        other = element.written_by(self, site, None, is_atomic=True)
        if other is not None:
            raise race(view, at, other, Event(self, site, self.warp_epoch, True, self.moment))

    def updates_own(self, view: View, at: int, site: Stmt) -> None:
        """It updates an element of its own memory."""
        self.reads_own(view, at, site)

    def element(self, view: View, at: int) -> Element:
        """What is known of an element."""
        is_global = view.buffer.scope == "global"
        known = self.block.launch_elements if is_global else self.block.elements
        address = view.address(at)
        found = known.get(address)
        if found is None:
            found = known[address] = Element()
        return found

    def reads_shared(self, view: View, at: int, site: Stmt) -> None:
        """As `reads`, of memory that begins empty with each block.

        What nobody has written yet may be written by another thread before the next barrier: that
        is a race then, and said to be one.
        """
        if not self.element(view, at).ever_written:
            self.block.unwritten.append((self, view, at, site))
        self.reads(view, at, site)

    def reads_own(self, view: View, at: int, site: Stmt) -> None:
        """It reads an element of its own memory."""
        if view.address(at) not in self.written:
            raise uninitialised(self, view, at, site)

    def writes_own(self, view: View, at: int, site: Stmt, value: Any) -> None:
        """It writes an element of its own memory."""
        self.written.add(view.address(at))


class Round(Agent):
    """One round of a parallel loop, which waits for no other."""

    __slots__ = ()
    called = "round"


@dataclass
class ThreadBlock:
    """A block of threads: its shared memory, and what its threads did to memory."""

    #: memory by what allocates it (and the warp, or the virtual threads that it is for)
    memory: dict[Any, Any]
    #: elements of shared memory by address
    elements: dict[int, Element]
    #: elements of global memory by address: one table for all blocks of a launch
    launch_elements: dict[int, Element]
    #: reads of shared memory that nobody had written, since the last barrier
    unwritten: list[tuple[Agent, View, int, Stmt]] = field(default_factory=list)
    #: its `mbarrier`s by number; None: nobody has said how many threads it counts
    barriers: list[Any] = field(default_factory=list)

    def check(self, warp: int | None = None) -> None:
        """At a barrier (of a warp), and at the end: what was read had been written.

        Raises:
            ExecutionError: it had not.
        """
        for agent, view, at, site in self.unwritten:
            if warp is None or agent.warp == warp:
                raise uninitialised(agent, view, at, site)


@dataclass(frozen=True, slots=True)
class Event:
    """An access: who, where in the program, after how many barriers of its warp, and arrivals."""

    agent: Agent
    site: Stmt
    warp_epoch: int
    is_write: bool
    moment: int = 0

    def before(self, agent: Agent) -> bool:
        """True if a barrier of the warp, or the order of the program, stands between."""
        if self.agent is agent or agent.clock.get(self.agent, -1) >= self.moment:
            return True
        return self.agent.warp == agent.warp and self.warp_epoch != agent.warp_epoch


#: what a write does, so that two that do the same are known: its statement and the value
Deed = tuple[Stmt | None, Any]
#: what all atomic updates do
UPDATE: Deed = (None, 0)


def is_same(one: Deed | None, two: Deed | None) -> bool:
    """True if it does not matter which of two comes last; None is several that differ."""
    if one is None or two is None or one[0] is not two[0]:
        return False
    return bool(one[1] == two[1] or (one[1] != one[1] and two[1] != two[1]))


@dataclass(frozen=True, slots=True)
class Left:
    """What of accesses that are over matters to whom no barrier orders with them.

    A write, what they all do (None: they differ), one who reads what it had not written itself.
    """

    write: Event | None
    deed: Deed | None
    read: Event | None

    def joined(self, more: Left | None) -> Left:
        """Both."""
        if more is None:
            return self
        both = self.deed if is_same(self.deed, more.deed) else None
        deed = both if self.write and more.write else self.deed if self.write else more.deed
        return Left(self.write or more.write, deed, self.read or more.read)


#: events by warp, up to two of each, which is enough: another thread differs from one of them; of a
#: block with an `mbarrier`, which orders threads one by one, the last one of each
Events = dict[Any, list[Event]]


def keep(events: Events, event: Event) -> None:
    """Add an event; what a barrier of its warp orders with it goes."""
    if event.agent.block.barriers:
        events[event.agent] = [event]
        return
    known = events.setdefault(event.agent.warp, [])
    if known and known[0].warp_epoch != event.warp_epoch:
        known.clear()
    if len(known) < 2 and not (known and known[0].agent is event.agent):
        known.append(event)


def unordered(events: Events, agent: Agent) -> Event | None:
    """An event that nothing orders with what an agent does now."""
    for known in events.values():
        for event in known:
            if not event.before(agent):
                return event
    return None


@dataclass(slots=True)
class Element:
    """The accesses of one element that later ones may race with."""

    block: ThreadBlock | None = None
    epoch: int = 0
    #: what the last writes since the barrier do, all of them the same, and who made them
    deed: Deed | None = None
    writes: Events = field(default_factory=dict)
    writers: set[Agent] = field(default_factory=set)
    #: the last write before them that did anything else
    past: Event | None = None
    #: who read what others left there, and who read what it had written itself
    readers: Events = field(default_factory=dict)
    own_readers: Events = field(default_factory=dict)
    #: what its block did before the barrier, and what other blocks did
    earlier: Left | None = None
    foreign: Left | None = None
    ever_written: bool = False
    #: a copy in bulk that will write it
    flying: Event | None = None

    def enter(self, agent: Agent) -> None:
        """Forget what a barrier orders; keep what other blocks did."""
        if self.block is agent.block and self.epoch == agent.epoch:
            return
        self.earlier = self.left()
        if self.block is not agent.block:
            left = self.earlier
            self.foreign = left.joined(self.foreign) if left else self.foreign
            self.block, self.earlier = agent.block, None
        self.epoch, self.deed, self.past = agent.epoch, None, None
        for events in self.events():
            events.clear()
        self.writers.clear()

    def left(self) -> Left | None:
        """What its block did, up to now."""
        write = next((known[0] for known in self.writes.values()), None)
        read = next((known[0] for known in self.readers.values()), None)
        if write is None and read is None:
            return self.earlier
        return Left(write, None if self.past else self.deed, read).joined(self.earlier)

    def read_by(self, agent: Agent, site: Stmt) -> Event | None:
        """Note a read; gives the access that it races with."""
        self.enter(agent)
        if self.flying is not None:
            return self.flying
        event = Event(agent, site, agent.warp_epoch, False, agent.moment)
        if agent in self.writers:  # whoever else writes does the same, and no matter when
            keep(self.own_readers, event)
            return None
        if self.foreign is not None and self.foreign.write is not None:
            return self.foreign.write
        other = unordered(self.writes, agent)
        if other is None:
            keep(self.readers, event)
        return other

    def written_by(
        self, agent: Agent, site: Stmt, value: Any, is_atomic: bool = False
    ) -> Event | None:
        """Note a write; gives the access that it races with: no atomic one, if it is atomic."""
        self.enter(agent)
        deed = UPDATE if is_atomic else (site, value)
        other = self.flying or self.differing(agent, deed) or unordered(self.readers, agent)
        if other is not None:
            return other
        if not is_same(self.deed, deed):
            self.change(deed)
        keep(self.writes, Event(agent, site, agent.warp_epoch, True, agent.moment))
        if not is_atomic:
            self.writers.add(agent)
        self.ever_written = True
        return None

    def begun_by(self, agent: Agent, site: Stmt) -> Event | None:
        """Note that a copy in bulk will write it; gives the access that it races with."""
        self.enter(agent)
        other = self.flying or next(
            filter(None, (unordered(x, agent) for x in self.events())), None
        )
        self.flying = Event(agent, site, agent.warp_epoch, True, agent.moment)
        self.ever_written = True
        return other

    def landed_by(self, carrier: Agent, site: Stmt) -> None:
        """The copy has written it: all that was before it came before it began."""
        self.enter(carrier)
        for events in self.events():
            events.clear()
        self.writers.clear()
        self.flying = self.deed = self.past = None
        keep(self.writes, Event(carrier, site, 0, True, carrier.moment))

    def events(self) -> tuple[Events, Events, Events]:
        """All that may matter since the barrier."""
        return self.writes, self.readers, self.own_readers

    def differing(self, agent: Agent, deed: Deed) -> Event | None:
        """A write that does anything else, or who reads what it does, and nothing orders them."""
        if not is_same(self.deed, deed):
            other = unordered(self.writes, agent) or unordered(self.own_readers, agent)
        else:
            other = None if self.past is None or self.past.before(agent) else self.past
        if other is not None or self.foreign is None:
            return other
        if self.foreign.write is not None and not is_same(self.foreign.deed, deed):
            return self.foreign.write
        return self.foreign.read

    def change(self, deed: Deed) -> None:
        """From now on writes do anything else; all so far come before the one that begins it."""
        written = [event for known in self.writes.values() for event in known]
        self.past = max(written, key=lambda x: x.warp_epoch, default=self.past)
        for known in self.own_readers.values():
            for event in known:
                keep(self.readers, event)
        self.writes.clear()
        self.own_readers.clear()
        self.writers.clear()
        self.deed = deed


def named(view: View, at: int) -> str:
    """An element as it is written: S[2, 3]."""
    return f"{view.buffer.name}[{', '.join(map(str, view.index(at)))}]"


def uninitialised(agent: Agent, view: View, at: int, site: Stmt) -> ExecutionError:
    """The error of reading what was never written."""
    whose = "it" if view.buffer.scope == "local" else "any thread of its block"
    return ExecutionError(
        f"uninitialised: {agent} reads {named(view, at)} in {view.buffer.scope} memory before "
        f"{whose} has written it",
        where=site,
        hint="each thread has local memory of its own, each block shared memory of its own, and "
        "both begin empty",
    )


def race(view: View, at: int, first: Event, second: Event) -> DataRaceError:
    """The error of two accesses that nothing orders."""
    one, two = first.agent, second.agent
    is_round, same_block = isinstance(one, Round), one.block is two.block
    return race_error(
        view.buffer.name, view.index(at), view.buffer.scope,
        [(str(x.agent), x.agent.axes, x.is_write, x.site) for x in (first, second)],
        ROUNDS if is_round else remedy(view.buffer.scope, same_block),
    )  # fmt: skip
