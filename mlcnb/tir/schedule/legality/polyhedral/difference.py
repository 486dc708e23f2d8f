"""Where two programs with the same blocks differ: the first read that sees another write.

    before   block B at v = 3 reads C[2], written by block C at v = 2
    after    ... it reads C[2] before block C at v = 2 writes it

Instances of a block are told apart by the values of its axes, which most steps leave alone. Reads
that a
reduction makes of its own result do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.isl import image, smallest, target_name
from mlcnb.tir.schedule.legality.polyhedral.carried import Event
from mlcnb.tir.schedule.legality.polyhedral.flow import Flow, Source
from mlcnb.tir.schedule.legality.polyhedral.instances import axes_of
from mlcnb.tir.schedule.legality.polyhedral.program import Statement


@dataclass(frozen=True)
class Difference:
    """A write and the read that should see it, and what the read would see."""

    first: Event
    second: Event
    change: str


def difference(before: Flow, after: Flow) -> Difference | None:
    """The first read of `before` (in program order) that sees another write in `after`."""
    theirs = {_key(x): x for x in after.program.statements}
    for x in before.program.statements:
        y = theirs.get(_key(x))
        if y is None or x.block is None or len(x.loads) != len(y.loads):
            continue
        for (load, where), (other, _) in zip(x.loads, y.loads, strict=True):
            if load.buffer.name != other.buffer.name or _is_own(x, load):
                continue
            found = _compared(before, after, x, y, load, other, where)
            if found is not None:
                return found
    return None


def _key(x: Statement) -> tuple[Any, ...]:
    name = x.block.name_hint if x.block is not None else ""
    return name, x.is_init, len(x.place.axes), x.store.buffer.name


def _is_own(x: Statement, load: Any) -> bool:
    return x.update is not None and load.buffer is x.store.buffer


def _named(sources: list[Source], reader: Statement) -> Iterator[tuple[str, Source, Any]]:
    """Sources as maps from the reader's axes to the writer's axes."""
    for source in sources:
        if source.writer is None:
            yield "", source, axes_of(reader).reverse().apply_range(source.map)
        else:
            name = "/".join(map(str, _key(source.writer)))
            to = source.map.apply_range(axes_of(source.writer))
            yield name, source, axes_of(reader).reverse().apply_range(to)


def _compared(
    before: Flow, after: Flow, x: Statement, y: Statement, load: Any, other: Any, where: Any
) -> Difference | None:
    seen = list(_named(after.sources(y, other), y))
    for name, source, expected in _named(before.sources(x, load), x):
        if source.writer is None:
            continue
        missing = expected.intersect_domain(where.apply(axes_of(x)))
        for other_name, _, found in seen:
            if other_name == name:
                missing = missing.subtract(found)
        if missing.is_empty():
            continue
        pair = smallest(missing)
        instance = image(axes_of(x).reverse(), pair.parameters, pair.first)
        element = x.element(load.buffer, load.indices)
        at = image(element, pair.parameters, instance)[-len(load.buffer.shape) or None :]
        name = before.program.buffers.get(target_name(element), load.buffer).name
        write = Event(source.writer.label(), _at(source.writer, pair.second), True, name, at)
        read = Event(x.label(), _at(x, pair.first), False, name, at)
        point = ", ".join(map(str, pair.first))
        instead = _instead(after, seen, point)
        return Difference(write, read, f"after the step, {x.label()} would see {instead} there")
    return None


def _at(x: Statement, axes: tuple[int, ...]) -> dict[str, int]:
    """The values of the block's own axes."""
    names = [v.var.name for v in x.block.iter_vars] if x.block is not None else []
    return dict(zip(names, axes[len(axes) - len(names) :], strict=True))


def _instead(after: Flow, seen: list[tuple[str, Source, Any]], point: str) -> str:
    for _, source, found in seen:
        here = found.intersect_domain(after.program.set(f"[{point}]"))
        if here.is_empty():
            continue
        if source.writer is None:
            return "what was there before the call" if source.memory[0] == "P" else "no value yet"
        axes = smallest(here).second
        told = ", ".join(f"{k} = {v}" for k, v in _at(source.writer, axes).items())
        return f"what {source.writer.label()} wrote at {told}"
    return "no value yet"
