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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlcnb.arith.extremes import interval
from mlcnb.arith.reading import of
from mlcnb.arith.sum import Sum
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import EQ, GE, GT, LE, LT, Call, Not, PrimExpr, Ramp, Range, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import ROOT, InLoop, Named, Scope, Under
from mlcnb.tir.analysis.edges import opposite, range_of
from mlcnb.tir.analysis.escapes import escapes
from mlcnb.tir.analysis.kernels import IN_BLOCK_AXES, SHARED_SCOPES, VIRTUAL_AXES, bound_axis
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from mlcnb.tir.constants import is_plain
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements
from mlcnb.tir.transform.simplify import plain_indices
from mlcnb.tir.transform.simplify_known import conjuncts

#: for one dimension: where the used part begins, and how long it is
Part = tuple[Sum, int]
Ranges = dict[Var, "tuple[int, int] | None"]


@dataclass(frozen=True)
class Care:
    """How closely to look.

    tests: what tests around an access say of its indices counts, and memory without blocks too;
    may_grow: a buffer that is used beyond its shape becomes as large as that takes.
    """

    tests: bool = False
    may_grow: bool = False


def compact_buffers(func: PrimFunc, care: Care = Care()) -> PrimFunc:
    """`func` with each block-local buffer cut to the box of indices that its block touches."""
    every = [n for n in statements(func.body) if isinstance(n, s.For)]
    bound = [n for n in every if bound_axis(n) is not None]
    threads = {n.loop_var: range_of(n) for n in bound if bound_axis(n) in IN_BLOCK_AXES}
    virtual = {n.loop_var: range_of(n) for n in bound if bound_axis(n) in VIRTUAL_AXES}
    if bound:
        func = func.with_body(plain_indices(func.body))
        every = [n for n in statements(func.body) if isinstance(n, s.For)]
    loops = ((n.loop_var, range_of(n)) for n in every)
    single: Ranges = {var: ends for var, ends in loops if ends is not None and ends[0] == ends[1]}
    around = _Around({**single, **threads}, virtual, single, care)
    return func.with_body(rewrite_statements(func.body, lambda n: _compact(n, around)))


class _Around(NamedTuple):
    """Threads of a block, virtual ones, loops of one iteration, and how closely to look."""

    threads: Ranges
    virtual: Ranges
    single: Ranges
    care: Care


def _compact(n: Node, around: _Around) -> Node | None:
    if isinstance(n, s.Block) and n.alloc_buffers:
        cut, smaller = _cuts(n.alloc_buffers, n.body, around)
        buffers = tuple(smaller.get(b, b) for b in n.alloc_buffers)
        return (
            replace(n, body=_moved_to(n.body, cut, smaller), alloc_buffers=buffers) if cut else None
        )
    if around.care.tests and isinstance(n, s.Allocate) and isinstance(n.body, s.DeclBuffer):
        view = n.body
        if not is_plain(n) or not _is_only_view(n, view.buffer):
            return None
        cut, smaller = _cuts((view.buffer,), view.body, around)
        if not cut or smaller[view.buffer].strides:
            return None
        made = replace(view, buffer=smaller[view.buffer], body=_moved_to(view.body, cut, smaller))
        return replace(n, extents=made.buffer.shape, body=made)
    return None


def _is_only_view(n: s.Allocate, buffer: Buffer) -> bool:
    """True if memory is used by one buffer alone, of its size and dtype."""
    if buffer.data is not n.buffer_var or buffer.dtype != n.dtype:
        return False
    if not structural_equal(buffer.shape, n.extents):
        return False
    views = [x for x in walk(n.body) if isinstance(x, Buffer) and x.data is n.buffer_var]
    pointers = sum(x is n.buffer_var for x in walk(n.body))
    return all(x is buffer for x in views) and pointers == len(views)


def _cuts(
    allocated: Sequence[Buffer], body: s.Stmt, around: _Around
) -> tuple[dict[Buffer, list[Part | None]], dict[Buffer, Buffer]]:
    """Buffers that shrink: which part of each stays, and what it becomes."""
    shared = {id(b): b for b in allocated if b.scope in SHARED_SCOPES}
    own = {id(b): b for b in allocated if id(b) not in shared}
    boxes: dict[Buffer, list[Part | None]] = {}
    aligned: dict[Buffer, dict[int, tuple[int, int]]] = {}
    held = {x.data for x in escapes(body)}
    reading = Reading(body, allocated)
    for buffers, ranges, wider in (
        (shared, around.threads, around.virtual),
        (own, around.single, {}),
    ):
        uses = _Uses(buffers, ranges, around.care.tests, reading)
        aligned.update(uses.aligned)
        for key, buffer in buffers.items():
            if buffer.data in held or buffer.strides or buffer.elem_offset is not None:
                continue  # whoever has a pointer counts with the buffer as it is
            is_opaque = key in uses.opaque
            box = None if is_opaque else _box(buffer, uses.accesses[key], wider, around.care)
            if box is not None or buffer in uses.aligned:
                boxes[buffer] = box or [None] * buffer.ndim
    smaller = {b: _aligned(_smaller(b, box), aligned.get(b, {})) for b, box in boxes.items()}
    return boxes, smaller


class _Uses:
    """All accesses of some buffers below a block, with the ranges of the loops in between."""

    def __init__(
        self, wanted: dict[int, Buffer], outside: Ranges, tests: bool, reading: Reading
    ) -> None:
        self.accesses: dict[int, Accesses] = {key: [] for key in wanted}
        self.tests = tests
        self.opaque: set[int] = set()
        #: of a scope the ranges of variables, and what is at most 0 there
        self.known: dict[Scope, tuple[Ranges, tuple[Sum, ...]]] = {ROOT: (outside, ())}
        #: buffer -> dimension -> (factor, offset): its stride is a multiple of factor plus offset
        self.aligned: dict[Buffer, dict[int, tuple[int, int]]] = {}

        for access in reading.accesses if wanted else ():
            key = id(access.buffer)  # calls that have a pointer name no buffer
            mine = getattr(access.node, "buffer", None)
            if key in wanted and access.indices is not None and mine is access.buffer:
                self.accesses[key].append((access.indices, *self.at(access.scope)))
        for placed in reading.statements if wanted else ():
            if isinstance(placed.stmt, s.BlockRealize):
                block = placed.stmt.block
                for index, axis, factor, offset in block.annotations.get("buffer_dim_align", ()):
                    buffer = block.writes[int(index)].buffer
                    self.aligned.setdefault(buffer, {})[int(axis)] = int(factor), int(offset)
                for match in block.match_buffers:
                    self.match(match, placed.scope)

    def at(self, scope: Scope) -> tuple[Ranges, tuple[Sum, ...]]:
        """What is known in a scope."""
        if scope not in self.known:
            assert scope.outer is not None
            ranges, limits = self.at(scope.outer)
            match scope:
                case InLoop(node=s.For() as loop):
                    ranges = {**ranges, loop.loop_var: range_of(loop)}
                case Named(var=var):
                    ranges = {**ranges, var: None}
                case Under(condition=condition, holds=holds) if self.tests:
                    held = condition if holds else p.logical_not(condition)
                    limits = (*limits, *limits_of(held))
            self.known[scope] = ranges, limits
        return self.known[scope]

    def match(self, match: MatchBufferRegion, scope: Scope) -> None:
        """A region under another name: used from its first to its last element."""
        key = id(match.source.buffer)
        if key not in self.accesses:
            return
        if any(not isinstance(stride, Var) for stride in match.buffer.strides[:-1]):
            self.opaque.add(key)
        region = match.source.region
        ends = tuple(side.min + (side.extent - 1) for side in region)
        for indices in (tuple(side.min for side in region), ends):
            self.accesses[key].append((indices, *self.at(scope)))


def limits_of(condition: PrimExpr) -> tuple[Sum, ...]:
    """Sums that are at most 0 where a condition holds; of what it says besides, nothing."""
    found: list[Sum] = []
    for given in conjuncts(condition):
        part = opposite(given.a) if isinstance(given, Not) else given
        if part is None or any(isinstance(x, BufferLoad | Call) for x in walk(part)):
            continue
        match part:
            case LT(a, b) | GT(b, a):
                found.append(of(a).minus(of(b)).shifted(1))
            case LE(a, b) | GE(b, a):
                found.append(of(a).minus(of(b)))
            case EQ(a, b):
                form = of(a).minus(of(b))
                found += [form, form.scaled(-1)]
    return tuple(found)


#: indices of an access, the ranges of the loops around it, and what is at most 0 there
Accesses = list[tuple[tuple[PrimExpr, ...], Ranges, tuple[Sum, ...]]]


def _box(buffer: Buffer, accesses: Accesses, virtual: Ranges, care: Care) -> Any:
    """A Part for each dimension, or None where nothing is gained.

    virtual: virtual threads, which may share it where the parts of each alone are not of one size.
    """
    if not accesses:
        return None
    wider = [(indices, {**virtual, **ranges}, said) for indices, ranges, said in accesses]
    axes = range(buffer.ndim)
    box = [_part(buffer, x, accesses, care) or _part(buffer, x, wider, care) for x in axes]
    full = [p.as_int(extent) for extent in buffer.shape]
    gained = any(part is not None and part[1] != size for part, size in zip(box, full, strict=True))
    return box if gained else None


def _part(buffer: Buffer, axis: int, accesses: Accesses, care: Care) -> Part | None:
    low: Sum | None = None
    high: Sum | None = None
    for indices, ranges, limits in accesses:
        bounds = _bounds(indices[axis], ranges)
        if bounds is None:
            return None
        bounds = _within(bounds, indices[axis], ranges, limits)
        low = bounds[0] if low is None else _extreme(low, bounds[0], min)
        high = bounds[1] if high is None else _extreme(high, bounds[1], max)
        if low is None or high is None:
            return None
    assert low is not None and high is not None
    extent = high.minus(low)
    if extent.terms or _may_change(low.expr()):
        return None
    size = p.as_int(buffer.shape[axis])
    if size is not None and extent.const + 1 >= size:
        if not care.may_grow or extent.const + 1 == size:
            return None
    return low, extent.const + 1


def _within(
    bounds: tuple[Sum, Sum], index: PrimExpr, ranges: Ranges, limits: tuple[Sum, ...]
) -> tuple[Sum, Sum]:
    """The ends of an index under tests: `limit <= 0` says index <= index - limit."""
    low, high = bounds
    form = of(index)
    for limit in limits:
        above, below = form.minus(limit), form.plus(limit)
        if not above.uses(ranges):
            high = _extreme(high, above, min) or high
        if not below.uses(ranges):
            low = _extreme(low, below, max) or low
    return low, high


def _bounds(index: PrimExpr, ranges: Ranges) -> tuple[Sum, Sum] | None:
    """The ends of an index; of a vector, from its first lane to its last."""
    if isinstance(index, Ramp):
        stride = p.as_int(index.stride)
        first = interval(of(index.base), ranges)
        if first is None or stride is None or stride < 0:
            return None
        return first[0], first[1].shifted(stride * (index.lanes - 1))
    return interval(of(index), ranges) if index.dtype.lanes == 1 else None


def _may_change(x: PrimExpr) -> bool:
    """True for what is read from memory, or computed by a call: it may differ the next time."""
    return any(isinstance(n, BufferLoad | Call) for n in walk(x))


def _extreme(a: Sum, b: Sum, pick: Any) -> Sum | None:
    return None if a.minus(b).terms else pick((a, b), key=lambda bound: bound.const)


def _moved_to(
    body: s.Stmt, cut: dict[Buffer, list[Part | None]], smaller: dict[Buffer, Buffer]
) -> s.Stmt:
    """A body with accesses and regions counted from where the parts begin."""

    def rule(n: Node) -> Node | None:
        if isinstance(n, BufferLoad | s.BufferStore) and n.buffer in cut:
            return _moved(n, smaller[n.buffer], cut[n.buffer])
        if isinstance(n, BufferRegion) and n.buffer in cut:
            return _moved_region(n, smaller[n.buffer], cut[n.buffer])
        return None

    return rewrite(body, rule, enter=lambda n: n if isinstance(n, Buffer) else None)


def _moved_region(n: BufferRegion, buffer: Buffer, box: list[Part | None]) -> BufferRegion:
    region = []
    for bounds, part in zip(n.region, box, strict=True):
        if part is None:
            region.append(bounds)
            continue
        start = of(bounds.min).minus(part[0])
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


def _behind(index: PrimExpr, start: Sum) -> PrimExpr:
    """An index counted from `start`."""
    if isinstance(index, Ramp):
        return Ramp(_behind(index.base, start), index.stride, index.lanes)
    return of(index).minus(start).expr(index.dtype)


class CompactBufferAllocation(PrimFuncPass):
    """Cut local buffers to the box of indices that is touched where they are allocated.

    What tests around an access say of its indices counts, and memory without blocks is cut too.

    is_strict: if False, a buffer that is used beyond its shape becomes as large as that takes.
    """

    is_strict: bool = True

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `compact_buffers`."""
        return compact_buffers(func, Care(tests=True, may_grow=not self.is_strict))
