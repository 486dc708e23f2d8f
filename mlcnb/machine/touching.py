"""The accesses of one statement or value, in the order in which the interpreter makes them.

    C[i] = A[i] + B[j]     ->     (A, addresses), (B, addresses), (C, addresses)

Each is (site, an address for each iteration (and lane), the iterations that make it or None).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import Frame, Unknown, evaluate
from mlcnb.core.node import children
from mlcnb.ir import expr as e
from mlcnb.machine.addresses import Placed
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad

#: what is touched (the number of a site), addresses, mask
Touched = tuple[Any, Any, Any]


class Toucher:
    """Finds the accesses in expressions and stores."""

    def __init__(self, program: Placed) -> None:
        self.program = program
        self.reading: dict[int, bool] = {}

    def reads(self, x: Any) -> bool:
        """Whether there is a load in an expression of the program: asked once for each part."""
        found = self.reading.get(id(x))
        if found is None:
            found = isinstance(x, BufferLoad) or any(map(self.reads, children(x)))
            self.reading[id(x)] = found
        return found

    def store(self, n: s.BufferStore, frame: Frame, mask: Any = None) -> Iterator[Touched]:
        """A store: its value first, both in the iterations of `mask` (None: all)."""
        yield from self.value(n.value, frame, mask)
        yield self.access(n.buffer, n.indices, n.predicate, frame, mask)

    def value(self, x: Any, frame: Frame, mask: Any = None) -> Iterator[Touched]:
        """The loads in a value, in the iterations of `mask` (None: all)."""
        if not self.reads(x):
            return
        match x:
            case BufferLoad():
                yield self.access(x.buffer, x.indices, x.predicate, frame, mask)
            case e.And() | e.Or() if x.dtype.lanes == 1:
                yield from self.value(x.a, frame, mask)
                if self.reads(x.b):
                    first = evaluate(x.a, frame)
                    goes_on = first if isinstance(x, e.And) else np.logical_not(first)
                    yield from self.value(x.b, frame, both(mask, goes_on))
            case e.Select(condition, yes, no):
                parts = (yes, no, condition) if condition.dtype.lanes == 1 else (condition, yes, no)
                for part in parts:
                    yield from self.value(part, frame, mask)
            case e.Call(op="tir.if_then_else"):
                yield from self.choice(x, frame, mask)
            case e.Let(var, value, body):
                yield from self.value(value, frame, mask)
                known = None if self.reads(value) else evaluate(value, frame, None)
                yield from self.value(body, {**frame, var: known}, mask)
            case _:
                for part in _operands(x):
                    yield from self.value(part, frame, mask)

    def choice(self, x: e.Call, frame: Frame, mask: Any) -> Iterator[Touched]:
        """Only the value that is chosen is looked at; of vectors both where the lanes differ."""
        condition, yes, no = x.args
        yield from self.value(condition, frame, mask)
        if not (self.reads(yes) or self.reads(no)):
            return
        chosen = evaluate(condition, frame)
        if np.ndim(chosen) == 2:
            some, others = chosen.any(axis=1), ~chosen.all(axis=1)
        else:
            some, others = chosen, np.logical_not(chosen)
        yield from self.value(yes, frame, both(mask, some))
        yield from self.value(no, frame, both(mask, others))

    def access(
        self, buffer: Buffer, indices: Any, predicate: Any, frame: Frame, mask: Any
    ) -> Touched:
        """One load or store.

        Raises:
            Unknown: an index is read from memory, or lies outside of the buffer.
        """
        position, kept = self.position(buffer, indices, predicate, frame, mask)
        number = self.program.numbers[buffer]
        site = self.program.sites[number]
        return number, position * site.itemsize + self.program.arrays[site.array].base, kept

    def position(
        self, buffer: Buffer, indices: Any, predicate: Any, frame: Frame, mask: Any
    ) -> tuple[Any, Any]:
        """Which elements of its memory an access touches, and in which iterations."""
        if any(map(self.reads, (*indices, *([] if predicate is None else [predicate])))):
            raise Unknown("an index that is read from memory")
        points = [evaluate(i, frame) for i in indices]
        if any(np.ndim(p) == 2 for p in points):
            points = [np.reshape(p, (-1, 1)) if np.ndim(p) < 2 else p for p in points]
        lanes = None if predicate is None else evaluate(predicate, frame)
        kept = both(mask, lanes)
        position: Any = 0 if buffer.elem_offset is None else evaluate(buffer.elem_offset, frame)
        for point, extent, stride in zip(points, *_layout(buffer, frame), strict=True):
            _check(point, extent, kept)
            position = position + point * stride
        return position, kept


class ThroughIndices(Toucher):
    """What an index is read from is an access like others, before that of the element."""

    def value(self, x: Any, frame: Frame, mask: Any = None) -> Iterator[Touched]:
        """The loads in a value, each after what its indices read."""
        for index in x.indices if isinstance(x, BufferLoad) else ():
            yield from self.value(index, frame, mask)
        yield from super().value(x, frame, mask)


def matrix(x: Any, count: int) -> np.ndarray:
    """One row for each iteration or thread, one column for each lane of a vector."""
    x = np.asarray(x)
    x = x.reshape(-1, 1) if x.ndim < 2 else x
    return np.broadcast_to(x, (count, x.shape[1]))


def _layout(buffer: Buffer, frame: Frame) -> tuple[list[int], list[int]]:
    """Shape and strides in elements."""
    shape = [evaluate(n, frame) for n in buffer.shape]
    if buffer.strides:
        return shape, [evaluate(n, frame) for n in buffer.strides]
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return shape, strides


def _check(point: Any, extent: int, kept: Any) -> None:
    outside = np.logical_or(np.less(point, 0), np.greater_equal(point, extent))
    if kept is not None and np.any(outside):
        outside = np.logical_and(*_columns(outside, kept))
    if np.any(outside):
        raise Unknown("an access out of bounds")


def both(a: Any, b: Any) -> Any:
    """Where both masks hold; None is everywhere."""
    if a is None or b is None:
        return b if a is None else a
    return np.logical_and(*_columns(a, b))


def _columns(a: Any, b: Any) -> tuple[Any, Any]:
    """Two masks, one of which may have a column for each lane."""
    if np.ndim(a) == np.ndim(b) or 0 in (np.ndim(a), np.ndim(b)):
        return a, b
    return tuple(np.reshape(x, (-1, 1)) if np.ndim(x) < 2 else x for x in (a, b))  # type: ignore[return-value]


def _operands(x: Any) -> Iterator[Any]:
    """Parts of an expression in the order in which they are evaluated."""
    match x:
        case e.Call(args=args):
            yield from args
        case e.Shuffle(vectors, indices):
            yield from vectors
            yield from indices
        case _:
            for name in x.child_fields:
                part = getattr(x, name)
                if isinstance(part, e.PrimExpr):
                    yield part
