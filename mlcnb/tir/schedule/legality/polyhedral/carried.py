"""Does a loop carry a dependence? Decided exactly.

    for i in range(8):                        yes: at i = 1 it reads B[0], written at i = 0
        B[v] = A[v] + B[v - 1]
    for i in range(4):                        no: i writes C[i + 4], and reads C[i]
        C[v + 4] = C[v] * 3

Two iterations conflict where they touch the same element and one of them writes it. A buffer that
each iteration fills before reading it may be its own, or is filled with the same by all: then only
values that go from one iteration to another count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from mlcnb.arith.isl import image, smallest, target_name
from mlcnb.core.groups import grouped
from mlcnb.tir import stmt as s
from mlcnb.tir.schedule.legality.polyhedral.equal import Comparison, Mismatch, Value
from mlcnb.tir.schedule.legality.polyhedral.flow import Flow
from mlcnb.tir.schedule.legality.polyhedral.program import Statement


@dataclass(frozen=True)
class Touch:
    """An access of a statement, seen by its iterations: a map from these to elements."""

    statement: Statement
    element: Any
    is_write: bool


@dataclass(frozen=True)
class Event:
    """One iteration that touches one element."""

    block: str
    iteration: dict[str, int]
    is_write: bool
    buffer: str
    indices: tuple[int, ...]

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {value}" for name, value in self.iteration.items())
        verb = "writes" if self.is_write else "reads"
        element = f"{self.buffer}[{', '.join(map(str, self.indices))}]"
        return f"{self.block} at {at} {verb} {element}" if at else f"{self.block} {verb} {element}"


@dataclass(frozen=True)
class Conflict:
    """Two iterations that must stay in order."""

    first: Event
    second: Event


def conflict(flow: Flow, loop: s.For, private: bool, threads: bool = False) -> Conflict | None:
    """Two iterations of `loop` that depend on each other, the first there are; None if all are
    independent.

    Args:
        flow: the dataflow of the function.
        loop: the loop.
        private: whether a buffer that each iteration fills before reading may be its own; lanes of
            a vector have one for all of them, and each must fill it with the same.
        threads: whether iterations are threads of a block: memory that they share is one too.
    """
    inside = [x for x in flow.program.statements if loop in x.place.loops]
    inside.sort(key=lambda x: x.is_init)
    if not inside:
        return None
    depth = inside[0].place.loops.index(loop)
    for memory, accesses in _accesses(inside).items():
        shared = threads and flow.program.buffers[memory].scope.startswith("shared")
        if _is_private(flow, memory, inside, depth):
            if (private and not shared) or _is_filled_alike(flow, memory, inside, depth):
                continue
        pairs = [(a, b) for a in accesses for b in accesses if a.is_write or b.is_write]
        for a, b in sorted(pairs, key=lambda pair: (not pair[0].is_write, pair[1].is_write)):
            found = _meeting(a, b, depth)
            if found is not None:
                return found
    return None


def _accesses(statements: list[Statement]) -> dict[str, list[Touch]]:
    every = (access for x in statements for access in accesses_of(x))
    return grouped((target_name(access.element), access) for access in every)


def accesses_of(x: Statement) -> Iterator[Touch]:
    """Everything that a statement touches, its write last."""
    for load, where in x.loads:
        yield Touch(x, x.element(load.buffer, load.indices).intersect_domain(where), False)
    yield Touch(x, x.written, True)


def _loop_at(x: Statement, depth: int) -> Any:
    return x.map(f"[{x.place.dims[depth]}]")


def _outside(x: Statement, depth: int) -> Any:
    return x.map(f"[{', '.join(x.place.dims[:depth])}]")


def _meeting(a: Touch, b: Touch, depth: int) -> Conflict | None:
    """The first pair of iterations, a before b, that touch the same element."""
    x, y = a.statement, b.statement
    pairs = a.element.apply_range(b.element.reverse())
    pairs = pairs.intersect(_outside(x, depth).apply_range(_outside(y, depth).reverse()))
    pairs = pairs.intersect(_loop_at(x, depth).lex_lt_map(_loop_at(y, depth)))
    if pairs.is_empty():
        return None
    found = smallest(pairs)
    return Conflict(
        event(a, found.parameters, found.first), event(b, found.parameters, found.second)
    )


def _is_private(flow: Flow, memory: str, inside: list[Statement], depth: int) -> bool:
    """True if nobody else uses a buffer, and its values stay within one iteration."""
    if flow.program.memories[flow.program.buffers[memory].data].is_parameter:
        return False
    for x in inside:
        for load, where in x.loads:
            if target_name(x.element(load.buffer, load.indices)) != memory:
                continue
            for source in flow.sources(x, load):
                reads = source.map.intersect_domain(where)
                if reads.is_empty():
                    continue
                if source.writer is None:
                    return False
                here = _outside(x, depth + 1)
                there = _outside(source.writer, depth + 1)
                if not reads.is_subset(here.apply_range(there.reverse())):
                    return False
    return True


def _is_filled_alike(flow: Flow, memory: str, inside: list[Statement], depth: int) -> bool:
    """True if each element gets one value, whichever iteration writes it."""
    writers = [x for x in inside if target_name(x.written) == memory]
    loads = ((x, load) for x in writers for load, _ in x.loads)
    if any(target_name(x.element(load.buffer, load.indices)) == memory for x, load in loads):
        return False
    try:
        for x, y in product(writers, writers):
            pairs = x.written.apply_range(y.written.reverse())
            pairs = pairs.intersect(_outside(x, depth).apply_range(_outside(y, depth).reverse()))
            Comparison(flow, flow).same(Value(x), Value(y), pairs)
    except Mismatch:
        return False
    return True


# -- points -----------------------------------------------------------


def event(access: Touch, parameters: dict[str, int], point: tuple[int, ...]) -> Event:
    """An access at one iteration of its statement."""
    x = access.statement
    element = image(access.element, parameters, point)
    buffer = x.program.buffers[target_name(access.element)]
    outer = {v.name: parameters[name] for v, name in x.program.loops_around.items()}
    inner = [v.loop_var.name for v in x.place.loops]
    return Event(
        x.label(),
        {**outer, **dict(zip(inner, point, strict=True))},
        access.is_write,
        buffer.name,
        element[len(element) - len(buffer.shape) :],
    )
