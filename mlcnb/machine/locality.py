"""Where a loop program touches memory, loop by loop: what the prediction of cache misses reads.

    for i in range(64):              A[i, k]   i: 64 steps of 256 bytes, k: 64 steps of 4
        for k in range(64):          B[k, j]   k: 64 steps of 256 bytes
            C[i, j] += A[i, k] * B[k, j]

Each access has, for each loop around it, the steps that its address takes while that loop runs
alone. They are found by evaluating the index. A loop that indices divide (it was fused from
several) counts as the loops that it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc

#: what a size that is not known counts as
UNKNOWN = 64
#: iterations of one loop that are looked at
SAMPLES = 4096
#: memory that caches hold: registers and a GPU's shared memory are not of it
CACHED = ("", "global")


class Steps(NamedTuple):
    """An address goes on by `stride` bytes, `times` places in all (the first place counted)."""

    stride: int
    times: int


@dataclass(frozen=True)
class Access:
    """One load or store: its buffer, bytes of an element and of the buffer, and the steps of each
    loop around it, outermost first. `steps` is None for a loop that takes it anywhere; `comes_back`
    is True for one that leaves a place and returns to it later (a remainder of a fused loop).
    `start` is the first byte that it touches.
    """

    buffer: Any
    name: str
    nbytes: int
    size: int
    is_write: bool
    steps: tuple[tuple[Steps, ...] | None, ...]
    comes_back: tuple[bool, ...]
    start: int = 0


@dataclass(frozen=True)
class Nest:
    """A loop, or a place of accesses (`loop` is None), with what is inside.

    depth: how many loops are around it.
    """

    loop: s.For | None
    trips: int
    depth: int
    parts: tuple[Nest, ...] = ()
    accesses: tuple[Access, ...] = ()
    inside: tuple[Access, ...] = field(default=())


@lru_cache(64)
def nest_of(func: PrimFunc) -> Nest:
    """The loops and accesses of a function."""
    return _Reader().region(func.body)


@lru_cache(256)
def _outermost(n: s.For) -> Nest:
    """A loop that stands in no other: a step changes few of them."""
    return _Reader().read(n)


class _Unknown(Exception):
    """An index that depends on values in memory."""


class _Reader:
    """Walks statements, with the loops around."""

    def __init__(self) -> None:
        #: each loop around with its trips, and what one trip adds to its variable
        self.loops: list[tuple[s.For, int, int]] = []
        #: a block's axis -> the expression that it stands for
        self.axes: dict[e.Var, e.PrimExpr] = {}

    def region(self, n: s.Stmt) -> Nest:
        """A statement as one nest; several parts stand in a nest of one trip."""
        parts, accesses = self.parts(n)
        inside = (*accesses, *(x for part in parts for x in part.inside))
        return Nest(None, 1, len(self.loops), tuple(parts), tuple(accesses), tuple(inside))

    def parts(self, n: Any) -> tuple[list[Nest], list[Access]]:
        """The loops in a statement, and the accesses beside them."""
        match n:
            case s.For():
                return [self.loop(n)], []
            case s.BlockRealize():
                self.axes.update(
                    zip((a.var for a in n.block.iter_vars), n.iter_values, strict=True)
                )
                return self.parts(n.block.body)
            case s.SeqStmt(seq=parts):
                return self.several(parts)
            case s.IfThenElse():
                return self.several([x for x in (n.then_case, n.else_case) if x is not None])
            case s.BufferStore() | s.Evaluate():
                return [], self.accesses(n)
        body = getattr(n, "body", None)
        return ([], []) if body is None else self.parts(body)

    def several(self, statements: Sequence[s.Stmt]) -> tuple[list[Nest], list[Access]]:
        """One after the other: each with loops is a nest of its own."""
        nests: list[Nest] = []
        accesses: list[Access] = []
        for statement in statements:
            more, own = self.parts(statement)
            nests += more
            accesses += own
        return nests, accesses

    def loop(self, n: s.For) -> Nest:
        """A loop; an extent that is not known counts as `UNKNOWN`."""
        return self.read(n) if self.loops else _outermost(n)

    def read(self, n: s.For) -> Nest:
        """A loop, with what is inside."""
        pieces = _pieces(n, _extent(n.extent))
        depth = len(self.loops)
        self.loops += [(n, trips, unit) for trips, unit in pieces]
        inner = self.region(n.body)
        del self.loops[depth:]
        for at in range(len(pieces) - 1, -1, -1):
            inner = Nest(n, pieces[at][0], depth + at, (inner,), (), inner.inside)
        return inner

    def accesses(self, n: s.Stmt) -> list[Access]:
        """The accesses of one statement, those to the same place once."""
        found: dict[Any, Access] = {}
        if isinstance(n, s.BufferStore):
            self.add(found, n.buffer, n.indices, True)
        for x in walk(n):
            if isinstance(x, BufferLoad):
                self.add(found, x.buffer, x.indices, False)
        return list(found.values())

    def add(self, found: dict[Any, Access], buffer: Buffer, indices: Any, is_write: bool) -> None:
        """An access, if caches hold its buffer and it is not known already."""
        if buffer.scope not in CACHED:
            return
        moves = [self.steps(buffer, indices, at) for at in range(len(self.loops))]
        steps = tuple(found for found, _ in moves)
        size = int(np.prod([_extent(x) for x in buffer.shape], dtype=object)) * buffer.dtype.nbytes
        start = self.start(buffer, indices)
        access = Access(
            buffer.data,
            buffer.name,
            buffer.dtype.nbytes,
            size,
            is_write,
            steps,
            tuple(b for _, b in moves),
            start,
        )
        found.setdefault((buffer.data, steps, start), access)

    def start(self, buffer: Buffer, indices: Any) -> int:
        """The first byte that is touched, as far as that is known."""
        env = {loop.loop_var: np.int64(p.as_int(loop.min) or 0) for loop, *_ in self.loops}
        try:
            return int(self.flat(buffer, indices, env)) * buffer.dtype.nbytes
        except (_Unknown, MLCError, ZeroDivisionError):
            return 0

    def steps(self, buffer: Buffer, indices: Any, at: int) -> tuple[tuple[Steps, ...] | None, bool]:
        """How the address moves while the loop at that depth runs and the others stand still, and
        whether it comes back to a place that it left.
        """
        loop, trips, unit = self.loops[at]
        values = np.arange(min(trips, SAMPLES), dtype=np.int64) * unit
        try:
            offsets = self.offsets(buffer, indices, loop.loop_var, values)
        except (_Unknown, MLCError, ZeroDivisionError):
            return None, False
        visited = np.broadcast_to(offsets, values.shape) * buffer.dtype.nbytes
        places = np.unique(visited)
        comes_back = np.count_nonzero(np.diff(visited)) >= len(places)
        found = progressions(places - places[0])
        if found and trips > SAMPLES:
            last = found[-1]
            found[-1] = Steps(last.stride, last.times * trips // SAMPLES)
        return tuple(found), bool(comes_back)

    def offsets(self, buffer: Buffer, indices: Any, loop_var: e.Var, values: Any) -> Any:
        """Offsets in elements for values of one loop variable."""
        env = {loop.loop_var: np.int64(0) for loop, *_ in self.loops} | {loop_var: values}
        return self.flat(buffer, indices, env)

    def flat(self, buffer: Buffer, indices: Any, env: Mapping[e.Var, Any]) -> Any:
        """Offsets in elements for values of the loop variables."""
        numbers = [self.value(x, env) for x in indices]
        strides = [_extent(x) for x in buffer.strides] or _row_major(buffer)
        pairs = zip(numbers, strides, strict=True)
        return sum((n * stride for n, stride in pairs), np.int64(0))

    def value(self, x: Any, env: Mapping[e.Var, Any]) -> Any:
        """An index expression on arrays of numbers."""
        if isinstance(x, e.IntImm):
            return np.int64(x.value)
        if isinstance(x, e.Var):
            if x in env:
                return env[x]
            return self.value(self.axes[x], env) if x in self.axes else np.int64(0)
        if isinstance(x, e.Cast | e.Broadcast):
            return self.value(x.value, env)
        if isinstance(x, e.Ramp):
            return self.value(x.base, env)
        if isinstance(x, e.Select):
            chosen = self.value(x.condition, env)
            return np.where(chosen, self.value(x.true_value, env), self.value(x.false_value, env))
        rule = _RULES.get(type(x))
        if rule is None:
            raise _Unknown
        return rule(self.value(x.a, env), self.value(x.b, env))


_RULES: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: np.add,
    e.Sub: np.subtract,
    e.Mul: np.multiply,
    e.FloorDiv: np.floor_divide,
    e.FloorMod: np.mod,
    e.Min: np.minimum,
    e.Max: np.maximum,
    e.EQ: np.equal,
    e.NE: np.not_equal,
    e.LT: np.less,
    e.LE: np.less_equal,
    e.GT: np.greater,
    e.GE: np.greater_equal,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}


def _pieces(n: s.For, trips: int) -> list[tuple[int, int]]:
    """(trips, unit) of the loops that a fused one was made of, outermost first.

    They are read from the numbers by which indices divide it.
    """
    found = (x for x in walk(n.body) if isinstance(x, e.FloorDiv | e.FloorMod))
    named = (x for x in found if any(v is n.loop_var for v in walk(x.a)))
    pieces, left, below = [], trips, 1
    for divisor in sorted({p.as_int(x.b) or 1 for x in named}):
        if below < divisor < trips and divisor % below == 0 and trips % divisor == 0:
            pieces.append((divisor // below, below))
            below, left = divisor, trips // divisor
    return [(left, below), *pieces[::-1]]


def progressions(places: Any) -> list[Steps]:
    """Distinct places in order, the first one 0, as steps inside steps, the smallest stride first.

    [0, 4, 8, 64, 68, 72]   ->   3 of 4 bytes, 2 of 64
    """
    count = len(places)
    if count <= 1:
        return []
    gaps = np.diff(places)
    changes = np.flatnonzero(gaps != gaps[0])
    run = int(changes[0]) + 1 if len(changes) else count
    if run == count or count % run:
        return [Steps(max(1, int(places[-1]) // (count - 1)), count)]
    return [Steps(int(gaps[0]), run), *progressions(places[::run])]


def _row_major(buffer: Buffer) -> list[int]:
    strides, stride = [], 1
    for extent in reversed(buffer.shape):
        strides.append(stride)
        stride *= _extent(extent)
    return strides[::-1]


def _extent(x: Any) -> int:
    known = p.as_int(x)
    return UNKNOWN if known is None else known
