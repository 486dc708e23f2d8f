"""Meetings: threads that run by themselves until they wait for each other.

Each thread is a generator that yields an `Arrival` where it waits: at a barrier, with a value to
reduce, with a value that others of its warp may take. All threads of a block, or of a warp, have to
come to the same place; then each goes on with its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.codegen.interp.agents import WARP, Agent
from mlcnb.codegen.interp.phases import Barrier, learn
from mlcnb.core.errors import BarrierError, ExecutionError
from mlcnb.core.node import Node

Thread = Generator[Any, Any, None]


@dataclass(frozen=True)
class Arrival:
    """Where a thread waits, and with what.

    of_warp: the threads of a warp meet, not those of the block; phase: a barrier, and of which
    parity the phase is whose end the thread waits for, alone; settle: given the agents and what
    they came with, what each of them gets.
    """

    site: Node
    what: str
    payload: Any = None
    of_warp: bool = False
    is_barrier: bool = False
    phase: tuple[Barrier, int] | None = None
    settle: Callable[[list[Agent], list[Any]], Sequence[Any]] | None = None


def run_threads(threads: dict[Agent, Thread]) -> None:
    """Run the threads of one block to their ends.

    Raises:
        BarrierError: some threads wait where others do not come by.
    """
    waiting: dict[Agent, Arrival] = {}
    ready: list[tuple[Agent, Any]] = [(agent, None) for agent in threads]
    alive = set(threads)
    while ready:
        for agent, result in ready:
            try:
                waiting[agent] = threads[agent].send(result)
            except StopIteration:
                alive.discard(agent)
        ready = []
        for group in _groups(waiting, threads):
            ready += _settled(group, waiting)
        ready += _after_phases(waiting)
        if waiting and not ready and _landed(waiting):
            ready = _after_phases(waiting)
        if waiting and not ready:
            raise _divergence(waiting, list(threads), alive)


def _groups(waiting: dict[Agent, Arrival], threads: dict[Agent, Thread]) -> Iterator[list[Agent]]:
    """Sets of threads that are all there: of a warp, or of the block."""
    warps: dict[int, list[Agent]] = {}
    for agent in threads:
        warps.setdefault(agent.warp, []).append(agent)
    for warp in warps.values():
        if _together(warp, waiting) and waiting[warp[0]].of_warp:
            yield warp
    everyone = list(threads)
    if _together(everyone, waiting) and not waiting[everyone[0]].of_warp:
        yield everyone


def _after_phases(waiting: dict[Agent, Arrival]) -> list[tuple[Agent, Any]]:
    """Threads that waited for the end of a phase that is over."""
    found = [
        a for a, x in waiting.items() if x.phase is not None and x.phase[0].is_over(x.phase[1])
    ]
    for agent in found:
        barrier, _ = waiting.pop(agent).phase  # type: ignore[misc]
        barrier.passed_by(agent)
    return [(agent, None) for agent in found]


def _landed(waiting: dict[Agent, Arrival]) -> bool:
    """Let copies in bulk arrive that end a phase somebody waits for."""
    barriers = dict.fromkeys(x.phase[0] for x in waiting.values() if x.phase is not None)
    return any(barrier.land() for barrier in barriers)


def _together(group: list[Agent], waiting: dict[Agent, Arrival]) -> bool:
    if any(agent not in waiting or waiting[agent].phase is not None for agent in group):
        return False
    return len({id(waiting[agent].site) for agent in group}) == 1


def _settled(group: list[Agent], waiting: dict[Agent, Arrival]) -> list[tuple[Agent, Any]]:
    """Each of the group with what it goes on with."""
    arrivals = [waiting.pop(agent) for agent in group]
    first = arrivals[0]
    if first.is_barrier:
        group[0].block.check(group[0].warp if first.of_warp else None)
        if first.of_warp and group[0].block.barriers:
            _told(group)
        for agent in group:
            if first.of_warp:
                agent.warp_epoch += 1
            else:
                agent.epoch += 1
    if first.settle is None:
        return [(agent, None) for agent in group]
    results = first.settle(group, [a.payload for a in arrivals])
    return list(zip(group, results, strict=True))


def _told(group: list[Agent]) -> None:
    """Each of a warp knows what any of them had done, or knew."""
    known: dict[Agent, int] = {}
    for agent in group:
        learn(known, agent.clock)
        known[agent] = agent.moment
        agent.moment += 1
    for agent in group:
        learn(agent.clock, known)


def _divergence(
    waiting: dict[Agent, Arrival], threads: list[Agent], alive: set[Agent]
) -> BarrierError:
    for agent, arrival in waiting.items():
        if arrival.phase is not None:
            barrier, parity = arrival.phase
            return BarrierError(
                f"hang: {agent} waits for the end of a phase of parity {parity} of {barrier}, but "
                f"{barrier.missing()}",
                where=arrival.site,
                hint="who arrives, which bytes are announced, and which phase is waited for?",
            )
    agent, arrival = next(iter(waiting.items()))
    peers = [a for a in threads if not arrival.of_warp or a.warp == agent.warp]
    here = sum(a in waiting and waiting[a].site is arrival.site for a in peers)
    other = next(a for a in peers if a not in waiting or waiting[a].site is not arrival.site)
    does = f"waits at another {waiting[other].what}" if other in waiting else "has ended"
    group = "warp" if arrival.of_warp else "block"
    return BarrierError(
        f"{arrival.what}: {here} of {len(peers)} threads of the {group} wait at it; {agent} does, "
        f"but {other} {does}",
        where=arrival.site,
        hint="a barrier must not stand under a condition or in a loop that differs by thread",
    )


def run_virtual(threads: list[Thread], name: str, site: Node) -> Iterator[Any]:
    """Virtual threads of one thread, in step: they come to each barrier together, as one.

    Raises:
        BarrierError: some wait where others do not come by.
    """
    results: list[Any] = [None] * len(threads)
    while True:
        arrivals = []
        for thread, result in zip(threads, results, strict=True):
            try:
                arrivals.append(thread.send(result))
            except StopIteration:
                continue
        if not arrivals:
            return
        if len(arrivals) < len(threads):
            raise BarrierError(
                f"{arrivals[0].what}: {len(arrivals)} of {len(threads)} virtual threads of {name} "
                "wait at it, the others have ended",
                where=site,
                hint="a barrier must not stand under a condition that differs by thread",
            )
        if all(a.is_barrier and a.site is arrivals[0].site for a in arrivals):
            yield arrivals[0]
            results = [None] * len(threads)
        else:
            results = []
            for arrival in arrivals:
                results.append((yield arrival))


# what threads exchange


def shuffled(name: str, site: Node) -> Callable[[list[Agent], list[Any]], list[Any]]:
    """What each thread of a warp gets from another: payloads are (value, lane or step, width)."""

    def settle(agents: list[Agent], payloads: list[Any]) -> list[Any]:
        values = {agent.lane: value for agent, (value, _, _) in zip(agents, payloads, strict=True)}
        return [
            _taken(name, site, agent, values, by, width)
            for agent, (_, by, width) in zip(agents, payloads, strict=True)
        ]

    return settle


def _taken(name: str, site: Node, agent: Agent, values: dict[int, Any], by: int, width: int) -> Any:
    if width not in (1, 2, 4, 8, 16, WARP):
        raise ExecutionError(f"{name}: a width of {width} lanes is no power of two up to {WARP}")
    first = agent.lane // width * width
    if name == "tvm_warp_shuffle":
        lane = first + by % width
    elif name == "tvm_warp_shuffle_up":
        lane = agent.lane - by if agent.lane - by >= first else agent.lane
    else:
        lane = agent.lane + by if agent.lane + by < first + width else agent.lane
    if lane not in values:
        raise ExecutionError(
            f"{name}: {agent} takes the value of lane {lane}, but no thread of the warp is there",
            where=site,
            hint="shuffle over as many lanes as the block has threads in x",
        )
    return values[lane]
