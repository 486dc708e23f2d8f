"""Agents: the threads of a simulated GPU, and who touched which element since the last barrier.

Two accesses of an element by different threads, one of them a write, are a data race unless a
barrier of their block stands between them; threads of different blocks never wait for each other.
Threads that do the same statement and store the same value do not race: work that all of them do
alike is wasted, not wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlcnb.codegen.interp.memory import View
from mlcnb.core import display
from mlcnb.core.errors import DataRaceError, ExecutionError
from mlcnb.tir.stmt import Stmt

#: threads of a warp
WARP = 32


class Agent:
    """One thread of one block: where it stands, how many barriers it has passed."""

    __slots__ = ("axes", "block", "copies", "epoch", "number", "warp", "warp_epoch", "written")

    def __init__(self, block: ThreadBlock, number: int, axes: dict[str, int]) -> None:
        self.block = block
        self.number = number
        self.axes = axes
        self.warp = number // WARP
        self.epoch = 0
        self.warp_epoch = 0
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
            raise race(view, at, other, Event(self, site, self.warp_epoch, False))

    def writes(self, view: View, at: int, site: Stmt, value: Any) -> None:
        """It writes an element that other threads may touch."""
        element = self.element(view, at)
        other = element.written_by(self, site, value)
        if other is not None:
            raise race(view, at, other, Event(self, site, self.warp_epoch, True))

    # asynchronous copies

    def commit(self) -> None:
        """What it has begun to copy since the last time is a group."""
        self.copies.append([])

    def wait(self, number: int) -> None:
        """All but its last `number` groups arrive: as late as it may be, and no later."""
        while len(self.copies) > number + 1:
            for arrive in self.copies.pop(0):
                arrive()

    def updates(self, view: View, at: int, site: Stmt) -> None:
        """It updates an element that other threads may touch, with none of them in between."""
        element = self.element(view, at)
        if view.buffer.scope != "global" and not element.ever_written:
            self.block.unwritten.append((self, view, at, site))
        other = element.written_by(self, site, None, is_atomic=True)
        if other is not None:
            raise race(view, at, other, Event(self, site, self.warp_epoch, True))

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

    def check(self, warp: int | None = None) -> None:
        """At a barrier (of a warp), and at the end: what was read had been written.

        Raises:
            ExecutionError: it had not.
        """
        for agent, view, at, site in self.unwritten:
            if warp is None or agent.warp == warp:
                raise uninitialised(agent, view, at, site)


@dataclass(frozen=True)
class Event:
    """An access: who, where in the program, after how many barriers of its warp."""

    agent: Agent
    site: Stmt
    warp_epoch: int
    is_write: bool
    is_atomic: bool = False

    def before(self, agent: Agent) -> bool:
        """True if a barrier of the warp, or the order of the program, stands between."""
        if self.agent is agent:
            return True
        return self.agent.warp == agent.warp and self.warp_epoch != agent.warp_epoch


@dataclass
class Element:
    """The accesses of one element that later ones may race with."""

    block: ThreadBlock | None = None
    epoch: int = 0
    write: Event | None = None
    value: Any = None
    writers: set[Agent] = field(default_factory=set)
    #: for each warp up to two readers, which is enough: another thread differs from one of them
    readers: dict[int, list[Event]] = field(default_factory=dict)
    foreign_write: Event | None = None
    foreign_read: Event | None = None
    ever_written: bool = False

    def enter(self, agent: Agent) -> None:
        """Forget what a barrier orders; keep what other blocks did."""
        if self.block is not agent.block:
            self.foreign_write = self.write or self.foreign_write
            some = next(iter(self.readers.values()), None)
            self.foreign_read = some[0] if some else self.foreign_read
            self.block = agent.block
        elif self.epoch == agent.epoch:
            return
        self.epoch, self.write = agent.epoch, None
        self.writers.clear()
        self.readers.clear()

    def read_by(self, agent: Agent, site: Stmt) -> Event | None:
        """Note a read; gives the access that it races with."""
        self.enter(agent)
        if self.foreign_write is not None and agent not in self.writers:
            return self.foreign_write
        write = self.write
        if write is not None and agent not in self.writers and not write.before(agent):
            return write
        known = self.readers.setdefault(agent.warp, [])
        if known and known[0].warp_epoch != agent.warp_epoch:
            known.clear()
        if len(known) < 2 and not (known and known[0].agent is agent):
            known.append(Event(agent, site, agent.warp_epoch, False))
        return None

    def written_by(
        self, agent: Agent, site: Stmt, value: Any, is_atomic: bool = False
    ) -> Event | None:
        """Note a write; gives the access that it races with: no atomic one, if it is atomic."""
        self.enter(agent)
        if is_atomic or not self.is_repeated(site, value):
            both = is_atomic and self.write is not None and self.write.is_atomic
            if self.write is not None and not both and not self.write.before(agent):
                return self.write
            foreign = self.foreign_write
            if foreign is not None and not (is_atomic and foreign.is_atomic):
                return foreign
            if self.foreign_read is not None:
                return self.foreign_read
            for readers in self.readers.values():
                for reader in readers:
                    if not reader.before(agent):
                        return reader
            self.writers.clear()
        self.write = Event(agent, site, agent.warp_epoch, True, is_atomic)
        self.value = value
        self.writers.add(agent)
        self.ever_written = True
        return None

    def is_repeated(self, site: Stmt, value: Any) -> bool:
        """True if the very same was done before: the same statement stored the same value."""
        last = self.write or self.foreign_write
        if last is None or last.is_atomic or last.site is not site:
            return False
        return bool(value == self.value or (value != value and self.value != self.value))


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


def race_error(
    name: str, index: tuple[int, ...], scope: str, events: Sequence[tuple[str, Any, bool, Stmt]],
    hint: str,
) -> DataRaceError:  # fmt: skip
    """The error of two accesses: of each who does it, its axes, does it write, its statement."""
    lines = [
        f"  {who} {'writes' if w else 'reads'} it: {text_of(site)}" for who, _, w, site in events
    ]
    element = f"{name}[{', '.join(map(str, index))}]"
    error = DataRaceError(
        f"data race on {element} in {scope} memory: nothing orders these two accesses\n"
        + "\n".join(lines),
        where=events[1][3],
        hint=hint,
    )
    error.buffer, error.index = name, index
    error.threads = tuple(axes for _, axes, _, _ in events)
    error.accesses = tuple(("write" if w else "read", site) for _, _, w, site in events)
    return error


def text_of(site: Stmt) -> str:
    """A statement in one line."""
    lines = display.text(site).splitlines()
    return lines[0] + (" …" if len(lines) > 1 else "")


#: what to do about rounds of a parallel loop that race
ROUNDS = "make the loop serial, or give each round elements of its own (sch.rfactor)"


def remedy(scope: str, same_block: bool) -> str:
    """What to do about threads that race in memory of a scope."""
    if not same_block:
        return (
            "blocks of one kernel cannot wait for each other: give each block elements of its own, "
            "or make it two kernels"
        )
    if scope == "global":
        return (
            "ThreadSync orders accesses to shared memory only: keep the buffer in scope shared, "
            "or bind another loop"
        )
    return (
        'put T.tvm_storage_sync("shared") between the two (ThreadSync does), '
        "or bind another loop to the threads"
    )
