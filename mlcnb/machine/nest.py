"""A program as what matters to a cache: loops, and accesses with a stride for each loop.

    for i, j, k in T.grid(96, 96, 96):                Loop i: 96
        C[i, j] += A[i, k] * B[k, j]       ->           Loop j: 96
                                                          Loop k: 96
                                                            C  i: 384, j: 4          bytes
                                                            A  i: 384, k: 4
                                                            B  k: 384, j: 4

A loop that was fused moves an index in two strides: 4 bytes 16 times, then 384 bytes 6 times. They
are read off the addresses that the loop alone comes to, so divisions and remainders are no matter;
the loop is told apart into the two that it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.addresses import Array, Placed
from mlcnb.machine.indices import Frame, Unknown, evaluate
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad

#: (stride in bytes, how often)
Stride = tuple[int, int]
#: iterations of a loop that has none that are known
_USUAL = 16
#: iterations that are looked at to find the strides of a loop
_LOOKED_AT = 4096


@dataclass
class Touch:
    """An access: its array, address at the first iterations, strides by loop; lanes that it has."""

    array: Array
    is_write: bool
    first: int
    strides: dict[Var, tuple[Stride, ...]]
    lanes: int = 1


@dataclass
class Nest:
    """A loop (var None: a sequence) with what it runs, in order."""

    var: Var | None
    extent: int
    kind: s.ForKind | None
    body: list[Nest | Touch] = field(default_factory=list)


def nest_of(program: Placed) -> Nest:
    """The loops and accesses of a program."""
    root = Nest(None, 1, None)
    _Reader(program).visit(program.func.body, root)
    root.body = [_unfused(part) for part in root.body]
    return root


def _unfused(n: Nest | Touch) -> Nest | Touch:
    """A loop that moves some access in several strides as several loops."""
    if isinstance(n, Touch):
        return n
    points = _points(n) if n.var is not None else [1]
    touches = list(_touches(n))
    n.body = [_unfused(part) for part in n.body]
    if n.var is None or len(points) == 1:
        return n
    ends = [*points[1:], n.extent]
    counts = [-(-end // point) for point, end in zip(points, ends, strict=True)]
    names = [Var(n.var.name, n.var.dtype) for _ in points]
    for x in touches:
        strides = x.strides.pop(n.var, ())
        for name, point, count in zip(names, points, counts, strict=True):
            x.strides[name] = ((_moved(strides, point), count),)
    body = n.body
    for name, count in zip(names, counts, strict=True):
        body = [Nest(name, count, n.kind, body)]
    return body[0]


def _touches(n: Nest) -> Iterator[Touch]:
    for part in n.body:
        if isinstance(part, Nest):
            yield from _touches(part)
        else:
            yield part


def _points(n: Nest) -> list[int]:
    """After how many iterations a stride ends and another begins: 1, then multiples of another."""
    found = {1}
    for x in _touches(n):
        done = 1
        for _, count in x.strides.get(n.var, ())[:-1]:  # type: ignore[arg-type]
            done *= count
            found.add(done)
    points = [1]
    for point in sorted(found):
        if point % points[-1] == 0 and points[-1] < point < n.extent:
            points.append(point)
    return points


def _moved(strides: tuple[Stride, ...], iterations: int) -> int:
    """How far an address moves in so many iterations."""
    moved = 0
    for number, (stride, count) in enumerate(strides):
        is_last = number == len(strides) - 1
        iterations, here = (0, iterations) if is_last else divmod(iterations, count)
        moved += here * stride
    return moved


class _Reader:
    """Walks a program with the loops around the place where it is."""

    def __init__(self, program: Placed) -> None:
        self.program = program
        self.extents: dict[Var, int] = {}
        self.frame: Frame = {}

    def visit(self, n: Any, into: Nest) -> None:
        """Add what a statement does to the loop that it stands in."""
        match n:
            case s.For():
                self.loop(n, into)
            case s.BufferStore():
                self.value(n.value, into)
                into.body.append(self.touch(n, True))
            case s.Evaluate(value):
                self.value(value, into)
            case s.LetStmt(var, value, body):
                self.value(value, into)
                self.let(var, value)
                self.visit(body, into)
            case s.BlockRealize(block=block):
                self.visit(block.body, into)
            case s.SeqStmt(parts):
                for part in parts:
                    self.visit(part, into)
            case s.IfThenElse(condition, yes, no):
                self.value(condition, into)
                self.visit(yes, into)
                if no is not None:
                    self.visit(no, into)
            case _:
                if getattr(n, "body", None) is not None:
                    self.visit(n.body, into)

    def let(self, var: Var, value: Any) -> None:
        """A variable with the value at the first iterations; nothing where memory decides it."""
        try:
            self.frame[var] = evaluate(value, self.frame)
        except Unknown:
            self.frame[var] = 0

    def loop(self, n: s.For, into: Nest) -> None:
        """A loop; where its extent depends on outer loops, that at their middle."""
        extent = as_int(n.extent)
        if extent is None:
            middle = {v: self.extents.get(v, 1) // 2 for v in self.extents}
            found = evaluate(n.extent, {**self.frame, **middle}, _USUAL)
            extent = max(int(np.max(found)), 1)
        inner = Nest(n.loop_var, extent, n.kind)
        self.extents[n.loop_var] = extent
        self.frame[n.loop_var] = int(np.max(evaluate(n.min, self.frame, 0)))
        self.visit(n.body, inner)
        into.body.append(inner)

    def value(self, x: Any, into: Nest) -> None:
        """The loads in a value."""
        for n in walk(x):
            if isinstance(n, e.Let):
                self.let(n.var, n.value)
            if isinstance(n, BufferLoad):
                into.body.append(self.touch(n, False))

    def touch(self, n: BufferLoad | s.BufferStore, is_write: bool) -> Touch:
        """A load or a store."""
        site = self.program.sites[self.program.numbers[n.buffer]]
        array = self.program.arrays[site.array]
        used = {v for i in n.indices for v in walk(i) if isinstance(v, Var)}
        used &= set(self.extents)
        lanes = max((i.dtype.lanes for i in n.indices), default=1)
        try:
            first, strides = self.strides(n.buffer, n.indices, used, site.itemsize)
        except Unknown:  # any element: a line of its own each time
            line = 64
            return Touch(array, is_write, array.base, {v: ((line, self.extents[v]),) for v in used})
        return Touch(array, is_write, array.base + first, strides, lanes)

    def strides(
        self, buffer: Buffer, indices: Any, used: set[Var], itemsize: int
    ) -> tuple[int, dict[Var, tuple[Stride, ...]]]:
        """The first address, and the strides of each loop."""
        sizes = _strides(buffer)
        first = self.offset(indices, sizes, self.frame) * itemsize
        found = {}
        for var in used:
            count = min(self.extents[var], _LOOKED_AT)
            begin = self.frame[var]
            frame = {**self.frame, var: begin + np.arange(count)}
            at = np.broadcast_to(self.offset(indices, sizes, frame), count) * itemsize
            found[var] = steps(np.asarray(at, np.int64), self.extents[var])
        return int(np.min(first)), found

    def offset(self, indices: Any, sizes: list[int], frame: Frame) -> Any:
        """The element, or that of the first lane of a vector, of an access."""
        total: Any = 0
        for index, size in zip(indices, sizes, strict=True):
            index = index.base if isinstance(index, e.Ramp) else index
            found = evaluate(index, frame)
            total = total + (found[:, 0] if np.ndim(found) == 2 else found) * size
        return total


def _strides(buffer: Buffer) -> list[int]:
    given = [as_int(n) for n in buffer.strides]
    if given and None not in given:
        return [n or 0 for n in given]
    shape = [as_int(n) or 1 for n in buffer.shape]
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def steps(at: np.ndarray, extent: int) -> tuple[Stride, ...]:
    """Addresses of consecutive iterations as strides: 0 4 8 12 384 388 … is 4 x 4, then 384."""
    count = len(at)
    if count < 2 or not (at != at[0]).any():
        return ()
    differences = np.diff(at)
    change = np.flatnonzero(differences != differences[0])
    if not len(change):
        return ((int(differences[0]), extent),)
    run = int(change[0]) + 1
    rows = count // run
    if rows * run < count and rows > 1:
        at = at[: rows * run]
    if rows < 2 or (at.reshape(rows, run) - at[::run, None] != at[:run] - at[0]).any():
        return _irregular(at, extent)
    return ((int(differences[0]), run), *steps(at[::run], -(-extent // run)))


def _irregular(at: np.ndarray, extent: int) -> tuple[Stride, ...]:
    """As many different addresses, evenly spread."""
    found = np.unique(at)
    if len(found) < 2:
        return ()
    stride = max(int((found[-1] - found[0]) // (len(found) - 1)), 1)
    return ((stride, max(len(found) * extent // len(at), 1)),)
