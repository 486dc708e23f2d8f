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
from mlcnb.core.errors import BarrierError, ExecutionError
from mlcnb.core.node import Node

Thread = Generator[Any, Any, None]


@dataclass(frozen=True)
class Arrival:
    """Where a thread waits, and with what.

    of_warp: the threads of a warp meet, not those of the block; settle: given the agents and what
    they came with, what each of them gets.
    """

    site: Node
    what: str
    payload: Any = None
    of_warp: bool = False
    is_barrier: bool = False
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


def _together(group: list[Agent], waiting: dict[Agent, Arrival]) -> bool:
    if any(agent not in waiting for agent in group):
        return False
    return len({id(waiting[agent].site) for agent in group}) == 1


def _settled(group: list[Agent], waiting: dict[Agent, Arrival]) -> list[tuple[Agent, Any]]:
    """Each of the group with what it goes on with."""
    arrivals = [waiting.pop(agent) for agent in group]
    first = arrivals[0]
    if first.is_barrier:
        group[0].block.check(group[0].warp if first.of_warp else None)
        for agent in group:
            if first.of_warp:
                agent.warp_epoch += 1
            else:
                agent.epoch += 1
    if first.settle is None:
        return [(agent, None) for agent in group]
    results = first.settle(group, [a.payload for a in arrivals])
    return list(zip(group, results, strict=True))


def _divergence(
    waiting: dict[Agent, Arrival], threads: list[Agent], alive: set[Agent]
) -> BarrierError:
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
