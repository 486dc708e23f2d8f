"""Barriers with phases (`mbarrier`), and copies in bulk that end them, by their definition.

A phase ends when as many threads have arrived as the barrier counts, and all bytes announced in it
have come. A copy arrives as late as it may: when threads wait for the phase that it ends, and no
thread can do anything else. Until then its elements belong to nobody; who waits for a phase knows
what those that arrived in it had done, and has what came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlcnb.codegen.interp.agents import Agent, ThreadBlock
from mlcnb.core.errors import BarrierError
from mlcnb.tir.stmt import Stmt

_EXPECT = "T.ptx_arrive_barrier_expect_tx"


class Carrier(Agent):
    """What writes to shared memory when copies that end phases of a barrier arrive."""

    __slots__ = ()
    called = "a copy in bulk begun by thread"


def learn(clock: dict[Agent, int], more: dict[Agent, int]) -> None:
    """Know all that another knows."""
    for agent, moment in more.items():
        if clock.get(agent, -1) < moment:
            clock[agent] = moment


@dataclass(frozen=True)
class Flight:
    """A copy on its way: its bytes, who began it and where, and what it does when it arrives."""

    nbytes: int
    agent: Agent
    site: Stmt
    arrive: Callable[[Carrier], None]


class Barrier:
    """One barrier of a block."""

    def __init__(self, number: int, count: int, agent: Agent) -> None:
        self.number, self.count = number, count
        #: who has made it, after how many barriers of the block
        self.maker, self.epoch = agent, agent.epoch
        self.phase = 0
        self.pending = count
        #: bytes announced in this phase, and copies on their way
        self.announced = 0
        self.flights: list[Flight] = []
        self.carrier = Carrier(agent.block, -1 - number, agent.axes)
        #: what those know who have arrived in this phase, and who waited for those before
        self.gathered: dict[Agent, int] = {}
        self.clock: dict[Agent, int] = {}

    def __str__(self) -> str:
        return f"barrier {self.number}"

    def arrive(self, agent: Agent, nbytes: int, site: Stmt) -> None:
        """A thread arrives, and announces bytes.

        Raises:
            BarrierError: more threads arrive than it counts.
        """
        if not self.pending:
            raise BarrierError(
                f"{agent} arrives at {self} in phase {self.phase}, in which all {self.count} that "
                "it counts have arrived",
                where=site,
                hint="count more threads in T.ptx_init_barrier_thread_count, or wait first",
            )
        self.announced += nbytes
        learn(self.gathered, agent.clock)
        self.gathered[agent] = agent.moment
        agent.moment += 1
        self.pending -= 1
        self.end_phase()

    def begin(self, flight: Flight) -> None:
        """A copy is on its way.

        Raises:
            BarrierError: its bytes have not been announced.
        """
        free = self.announced - sum(x.nbytes for x in self.flights)
        if flight.nbytes > free:
            raise BarrierError(
                f"{flight.agent} begins a copy of {flight.nbytes} bytes for {self}, in whose phase "
                f"{self.phase} {free} announced bytes are left",
                where=flight.site,
                hint=f"{_EXPECT} of all bytes first",
            )
        self.flights.append(flight)

    def is_over(self, parity: int) -> bool:
        """True if who waits for the phase of this parity goes on."""
        return self.phase % 2 != parity % 2

    def passed_by(self, agent: Agent) -> None:
        """A thread that waited for a phase goes on."""
        learn(agent.clock, self.clock)

    def land(self) -> bool:
        """What is on its way arrives, if that ends the phase."""
        brought = sum(x.nbytes for x in self.flights)
        if self.pending or not brought or brought != self.announced:
            return False
        for flight in self.flights:
            self.carrier.axes, self.carrier.epoch = flight.agent.axes, flight.agent.epoch
            self.carrier.moment = self.phase
            flight.arrive(self.carrier)
        self.gathered[self.carrier] = self.phase
        self.flights, self.announced = [], 0
        self.end_phase()
        return True

    def end_phase(self) -> None:
        """Begin the next phase, if nothing is missing in this one."""
        if self.pending or self.announced:
            return
        self.phase, self.pending = self.phase + 1, self.count
        learn(self.clock, self.gathered)
        self.gathered = {}

    def missing(self) -> str:
        """What the phase has not got."""
        brought = sum(x.nbytes for x in self.flights)
        return (
            f"in phase {self.phase} of {self} {self.pending} of {self.count} threads have not "
            f"arrived, and {self.announced - brought} of {self.announced} announced bytes do not "
            "come"
        )


def create(block: ThreadBlock, count: int) -> None:
    """So many barriers; each thread of the block comes by."""
    if not block.barriers:
        block.barriers = [None] * count


def barrier_of(agent: Agent, number: int, site: Stmt) -> Barrier:
    """A barrier that a thread may use.

    Raises:
        BarrierError: it is not there, or the thread may not know yet how many threads it counts.
    """
    found = block_barrier(agent, number, site)
    if found is None:
        told = "nobody has said how many threads it counts"
    elif agent is not found.maker and agent.epoch == found.epoch:
        told = f"nothing orders it with {found.maker}, which says how many threads it counts"
    else:
        return found
    raise BarrierError(
        f"{agent} uses barrier {number}, but {told}",
        where=site,
        hint='T.ptx_init_barrier_thread_count by one thread, then T.tvm_storage_sync("shared")',
    )


def init(agent: Agent, number: int, count: int, site: Stmt) -> None:
    """One thread makes a barrier.

    Raises:
        BarrierError: it is made already, or is not there.
    """
    if block_barrier(agent, number, site) is not None:
        raise BarrierError(
            f"{agent} makes barrier {number}, which is there already",
            where=site,
            hint="one thread makes each barrier, once: put it under `if thread == 0`",
        )
    agent.block.barriers[number] = Barrier(number, count, agent)


def block_barrier(agent: Agent, number: int, site: Stmt) -> Any:
    """What is known of a barrier by its number."""
    barriers = agent.block.barriers
    if not 0 <= number < len(barriers):
        raise BarrierError(
            f"{agent} uses barrier {number}, and there are {len(barriers)}",
            where=site,
            hint="T.create_barriers(n) makes barriers 0 to n - 1",
        )
    return barriers[number]


def at_end(block: ThreadBlock) -> None:
    """At the end of a block: nothing is on its way.

    Raises:
        BarrierError: a copy is.
    """
    for barrier in filter(None, block.barriers):
        for flight in barrier.flights:
            raise BarrierError(
                f"a copy of {flight.nbytes} bytes that {flight.agent} begins for {barrier} is "
                "still on its way when its block ends",
                where=flight.site,
                hint=f"wait for it: T.ptx_wait_barrier({barrier.number}, {barrier.phase % 2})",
            )
