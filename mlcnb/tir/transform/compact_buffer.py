"""CompactBufferAllocation: a buffer shrinks to the part that is used where it is allocated.

for i in range(16):                             for i in range(16):
    B = T.alloc_buffer((16, 64))                    B = T.alloc_buffer((1, 64))
    for j in range(64):                  ->         for j in range(64):
        B[i, j] = ...                                   B[0, j] = ...

What begins at a place that is read from memory, or bound inside by a let, stays as it is.
A block's `buffer_dim_align` (storage_align) becomes strides: rows of the smaller buffer are padded.
Memory that the threads of a block share has to hold what all of them touch.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, children, replace, rewrite, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Call, Let, PrimExpr, Ramp, Range, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.escapes import escapes
from mlcnb.tir.analysis.kernels import (
    IN_BLOCK_AXES,
    SHARED_SCOPES,
    VIRTUAL_AXES,
    bound_axis,
)
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements
from mlcnb.tir.linear import Linear, interval, linear_form
from mlcnb.tir.stmt import Block, BufferStore, For, LetStmt

#: for one dimension: where the used part begins, and how long it is
Part = tuple[Linear, int]
Ranges = dict[Var, "tuple[int, int] | None"]


def compact_buffers(func: PrimFunc) -> PrimFunc:
    """`func` with each block-local buffer cut to the box of indices that its block touches."""
    bound = [n for n in walk(func.body) if isinstance(n, For) and bound_axis(n) is not None]
    threads = {n.loop_var: _loop_range(n) for n in bound if bound_axis(n) in IN_BLOCK_AXES}
    virtual = {n.loop_var: _loop_range(n) for n in bound if bound_axis(n) in VIRTUAL_AXES}
    return func.with_body(
        rewrite_statements(func.body, lambda n: _compact_block(n, threads, virtual))
    )


def _compact_block(n: Node, threads: Ranges, virtual: Ranges) -> Node | None:
    if not isinstance(n, Block) or not n.alloc_buffers:
        return None
    shared = {id(b): b for b in n.alloc_buffers if b.scope in SHARED_SCOPES}
    own = {id(b): b for b in n.alloc_buffers if id(b) not in shared}
    boxes: dict[Buffer, list[Part | None]] = {}
    aligned: dict[Buffer, dict[int, tuple[int, int]]] = {}
    held = {x.data for x in escapes(n.body)}
    for buffers, ranges, wider in ((shared, threads, virtual), (own, {}, {})):
        uses = _Uses(buffers, ranges)
        if buffers:
            uses.visit(n.body)
        aligned.update(uses.aligned)
        for key, buffer in buffers.items():
            if buffer.data in held or buffer.strides or buffer.elem_offset is not None:
                continue  # whoever has a pointer counts with the buffer as it is
            is_opaque = key in uses.opaque
            box = None if is_opaque else _box(buffer, uses.accesses[key], wider)
            if box is not None or buffer in uses.aligned:
                boxes[buffer] = box or [None] * buffer.ndim
    return _apply(n, boxes, aligned) if boxes else None


class _Uses:
    """All accesses of some buffers below a block, with the ranges of the loops in between."""

    def __init__(self, wanted: dict[int, Buffer], outside: Ranges) -> None:
        self.accesses: dict[int, list[tuple[tuple[PrimExpr, ...], Ranges]]] = {
            key: [] for key in wanted
        }
        self.opaque: set[int] = set()
        self.ranges: Ranges = dict(outside)
        #: buffer -> dimension -> (factor, offset): its stride is a multiple of factor plus offset
        self.aligned: dict[Buffer, dict[int, tuple[int, int]]] = {}

    def visit(self, n: Node) -> None:
        if isinstance(n, BufferLoad | BufferStore) and id(n.buffer) in self.accesses:
            self.accesses[id(n.buffer)].append((n.indices, dict(self.ranges)))
        if isinstance(n, For):
            self.ranges[n.loop_var] = _loop_range(n)
        if isinstance(n, LetStmt | Let):
            self.ranges[n.var] = None
        if isinstance(n, Block):
            for index, axis, factor, offset in n.annotations.get("buffer_dim_align", ()):
                buffer = n.writes[int(index)].buffer
                self.aligned.setdefault(buffer, {})[int(axis)] = int(factor), int(offset)
            for match in n.match_buffers:
                self.match(match)
            for part in (n.init, n.body):
                if part is not None:
                    self.visit(part)
            return
        for child in children(n):
            if not isinstance(child, Buffer):
                self.visit(child)

    def match(self, match: MatchBufferRegion) -> None:
        """A region under another name: used from its first to its last element."""
        key = id(match.source.buffer)
        if key not in self.accesses:
            return
        if any(not isinstance(stride, Var) for stride in match.buffer.strides[:-1]):
            self.opaque.add(key)
        ranges = dict(self.ranges)
        region = match.source.region
        self.accesses[key].append((tuple(side.min for side in region), ranges))
        self.accesses[key].append((tuple(side.min + (side.extent - 1) for side in region), ranges))


def _loop_range(loop: For) -> tuple[int, int] | None:
    start, extent = p.as_int(loop.min), p.as_int(loop.extent)
    if start is None or extent is None:
        return None
    return start, start + extent - 1


Accesses = list[tuple[tuple[PrimExpr, ...], Ranges]]


def _box(buffer: Buffer, accesses: Accesses, virtual: Ranges) -> Any:
    """A Part for each dimension, or None where nothing is gained.

    virtual: virtual threads, which may share it where the parts of each alone are not of one size.
    """
    if not accesses:
        return None
    wider = [(indices, {**virtual, **ranges}) for indices, ranges in accesses]
    axes = range(buffer.ndim)
    box = [_part(buffer, x, accesses) or _part(buffer, x, wider) for x in axes]
    full = [p.as_int(extent) for extent in buffer.shape]
    gained = any(part is not None and part[1] != size for part, size in zip(box, full, strict=True))
    return box if gained else None


def _part(buffer: Buffer, axis: int, accesses: list) -> Part | None:
    low: Linear | None = None
    high: Linear | None = None
    for indices, ranges in accesses:
        bounds = _bounds(indices[axis], ranges)
        if bounds is None:
            return None
        low = bounds[0] if low is None else _extreme(low, bounds[0], min)
        high = bounds[1] if high is None else _extreme(high, bounds[1], max)
        if low is None or high is None:
            return None
    assert low is not None and high is not None
    extent = high.plus(low, -1)
    if extent.terms or any(_may_change(term) for term in low.terms):
        return None
    size = p.as_int(buffer.shape[axis])
    if size is not None and extent.constant + 1 >= size:
        return None
    return low, extent.constant + 1


def _bounds(index: PrimExpr, ranges: Ranges) -> tuple[Linear, Linear] | None:
    """The ends of an index; of a vector, from its first lane to its last."""
    if isinstance(index, Ramp):
        stride = p.as_int(index.stride)
        first = interval(index.base, ranges)
        if first is None or stride is None or stride < 0:
            return None
        return first[0], first[1].plus(Linear(stride * (index.lanes - 1)))
    return interval(index, ranges) if index.dtype.lanes == 1 else None


def _may_change(term: PrimExpr) -> bool:
    """True for what is read from memory, or computed by a call: it may differ the next time."""
    return any(isinstance(n, BufferLoad | Call) for n in walk(term))


def _extreme(a: Linear, b: Linear, pick: Any) -> Linear | None:
    return None if a.plus(b, -1).terms else pick((a, b), key=lambda bound: bound.constant)


def _apply(block: Block, cut: dict[Buffer, list[Part | None]], aligned: dict) -> Block:
    smaller = {b: _aligned(_smaller(b, box), aligned.get(b, {})) for b, box in cut.items()}

    def rule(n: Node) -> Node | None:
        if isinstance(n, BufferLoad | BufferStore) and n.buffer in cut:
            return _moved(n, smaller[n.buffer], cut[n.buffer])
        if isinstance(n, BufferRegion) and n.buffer in cut:
            return _moved_region(n, smaller[n.buffer], cut[n.buffer])
        return None

    body = rewrite(block.body, rule, enter=lambda n: n if isinstance(n, Buffer) else None)
    buffers = tuple(smaller.get(b, b) for b in block.alloc_buffers)
    return replace(block, body=body, alloc_buffers=buffers)


def _moved_region(n: BufferRegion, buffer: Buffer, box: list[Part | None]) -> BufferRegion:
    region = []
    for bounds, part in zip(n.region, box, strict=True):
        if part is None:
            region.append(bounds)
            continue
        start = linear_form(bounds.min).plus(part[0], -1)
        region.append(Range(start.expr(bounds.min.dtype), bounds.extent))
    return BufferRegion(buffer, tuple(region))


def _smaller(buffer: Buffer, box: list[Part | None]) -> Buffer:
    shape = [
        old if part is None else p.const(part[1], old.dtype)
        for old, part in zip(buffer.shape, box, strict=True)
    ]
    return replace(buffer, shape=tuple(shape))


def _aligned(buffer: Buffer, marks: dict[int, tuple[int, int]]) -> Buffer:
    """The buffer with strides as its marks ask for: the next ones that fit, from the last axis."""
    if not marks:
        return buffer
    strides: list[PrimExpr] = []
    stride: PrimExpr = p.const(1, buffer.shape[-1].dtype)
    for axis in reversed(range(buffer.ndim)):
        if axis in marks:
            factor, offset = marks[axis]
            stride = stride + p.floormod(factor + offset - p.floormod(stride, factor), factor)
        strides.append(stride)
        stride = stride * buffer.shape[axis]
    return replace(buffer, strides=tuple(strides[::-1]))


def _moved(n: Any, buffer: Buffer, box: list[Part | None]) -> Node:
    indices = []
    for index, part in zip(n.indices, box, strict=True):
        indices.append(index if part is None else _behind(index, part[0]))
    return replace(n, buffer=buffer, indices=tuple(indices))


def _behind(index: PrimExpr, start: Linear) -> PrimExpr:
    """An index counted from `start`."""
    if isinstance(index, Ramp):
        return Ramp(_behind(index.base, start), index.stride, index.lanes)
    return linear_form(index).plus(start, -1).expr(index.dtype)


class CompactBufferAllocation(PrimFuncPass):
    """Cut block-local buffers to the box of indices that is touched where they are allocated."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `compact_buffers`."""
        return compact_buffers(func)
