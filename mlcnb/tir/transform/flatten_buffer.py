"""FlattenBuffer: every buffer has one dimension, as memory has.

A: T.Buffer((16, 8), "float32")                 A_1 = T.decl_buffer((128,), data=A.data)
A[i, j]                                  ->     A_1[i * 8 + j]

Axis separators part the dimensions into groups, each of which becomes one; with
`axis_separators=[2]`, `A[i, j, k, m]` of shape (2, 3, 5, 7) is `A[i * 3 + j, k * 7 + m]`.

An index that is read from data is checked here, where the dimensions are still known:
`A[I[i], j]` becomes `A_1[T.check_index(I[i], 16, "A[I[i], j], dimension 0") * 8 + j]`, which stops
the kernel if outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, TypeVar

from mlcnb.arith import Analyzer, simplify
from mlcnb.arith.vectors import as_ramp
from mlcnb.core import display
from mlcnb.core.errors import UnsupportedError
from mlcnb.core.node import FrozenDict, Node, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Allocate, Block, BufferStore, DeclBuffer


def flatten_buffers(func: PrimFunc, grouped: bool = False) -> PrimFunc:
    """`func` with one-dimensional buffers and indices; strides and offsets are multiplied out.

    The parameters keep their shapes in `buffer_map`, which is what callers are checked against.
    grouped: a buffer with axis separators has a dimension for each group; none of our machines has
    such memory.
    """
    flat: dict[Buffer, Buffer] = {}
    analyzer = Analyzer()

    def of(buffer: Buffer) -> Buffer:
        if buffer not in flat:
            flat[buffer] = _flat(buffer if grouped else replace(buffer, axis_separators=()))
        return flat[buffer]

    def rule(n: Node) -> Node | None:
        if isinstance(n, BufferLoad | BufferStore):
            indices = _checked(n)
            if grouped and n.buffer.axis_separators:
                return replace(n, buffer=of(n.buffer), indices=grouped_place(n.buffer, indices))
            place = _place(n.buffer, indices, analyzer)
            return replace(n, buffer=of(n.buffer), indices=(place,))
        if isinstance(n, DeclBuffer):
            return replace(n, buffer=of(n.buffer))
        if isinstance(n, BufferRegion):
            return replace(n, buffer=of(n.buffer), region=flat_region(n, offset_of))
        if isinstance(n, Block) and n.alloc_buffers:
            return replace(n, alloc_buffers=tuple(map(of, n.alloc_buffers)))
        if isinstance(n, Allocate) and len(n.extents) > 1:
            groups = groups_of(n.extents, separated.get(n.buffer_var, ()))
            return replace(n, extents=tuple(map(_product, groups)))
        return None

    separated = _separated(func) if grouped else {}
    body = rewrite(func.body, rule, enter=lambda n: n if isinstance(n, Buffer) else None)
    for buffer in reversed(func.buffers):
        if buffer in flat and flat[buffer] is not buffer:
            body = DeclBuffer(flat[buffer], body)
    return func.with_body(body)


def _separated(func: PrimFunc) -> dict[Any, tuple[int, ...]]:
    """The axis separators of the buffers that are declared over memory, by its pointer."""
    declared = (n.buffer for n in walk(func.body) if isinstance(n, DeclBuffer))
    return {buffer.data: buffer.axis_separators for buffer in declared if buffer.axis_separators}


def flattened_function(func: PrimFunc) -> PrimFunc:
    """`flatten_buffers`, marked as done: the step of the standard lowering."""
    done = flatten_buffers(func)
    return replace(done, attrs=FrozenDict({**done.attrs, "tir.is_flat": True}))


def _place(buffer: Buffer, indices: tuple[e.PrimExpr, ...], analyzer: Analyzer) -> e.PrimExpr:
    """The offset of an access; lanes that go on into the next row are seen to lie together."""
    offset = offset_of(buffer, indices)
    vectors = [i for i in indices if i.dtype.lanes != 1]
    if len(vectors) > 1 and buffer.ndim > 1:
        ramp = as_ramp(offset, analyzer)
        return offset if ramp is None else ramp
    return offset


def _checked(n: BufferLoad | BufferStore) -> tuple[e.PrimExpr, ...]:
    pairs = enumerate(zip(n.indices, n.buffer.shape, strict=True))
    return tuple(
        check_index(n, axis) if _is_data(i) and not is_checked(i, extent) else i
        for axis, (i, extent) in pairs
    )


def is_checked(index: e.PrimExpr, extent: e.PrimExpr) -> bool:
    """True if an operator has the index checked against this extent already."""
    if not isinstance(index, e.Call) or index.op != "tir.check_index":
        return False
    return structural_equal(index.args[1], p.cast(index.args[1].dtype, extent))


#: an access whose text is longer than this is told by its buffer
LONG = 120


def check_index(n: BufferLoad | BufferStore, axis: int) -> e.PrimExpr:
    """An index of an access, checked when it runs, with a word on which access it is."""
    index, extent = n.indices[axis], n.buffer.shape[axis]
    which = display.text(BufferLoad(n.buffer, n.indices))
    if len(which) > LONG:
        which = f"{n.buffer.name}[…]"
    verb = "read" if isinstance(n, BufferLoad) else "written"
    where = e.StringImm(f"{which} is {verb}, dimension {axis}")
    known = p.as_int(extent)
    if index.dtype.bits >= 32 and (known is None or index.dtype.element.holds(known)):
        extent = p.cast(index.dtype.element, extent)  # a narrower dtype may not hold the extent
    return e.Call(index.dtype, "tir.check_index", (index, extent, where))


def _is_data(index: e.PrimExpr) -> bool:
    is_checked = isinstance(index, e.Call) and index.op == "tir.check_index"
    return not is_checked and any(isinstance(n, BufferLoad) for n in walk(index))


def _product(extents: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
    known = [p.as_int(extent) for extent in extents]
    if None not in known and prod(known) >= 2**31:  # type: ignore[arg-type]
        return p.const(prod(known), "int64")  # type: ignore[arg-type]
    if len(extents) == 1:
        return extents[0]
    return p.product_of(extents, p.const(1, extents[0].dtype if extents else "int32"))


def _flat(buffer: Buffer) -> Buffer:
    if buffer.ndim == 1 and not buffer.strides and buffer.elem_offset is None:
        return buffer
    if buffer.axis_separators:
        shape = tuple(map(_product, groups_of(buffer.shape, buffer.axis_separators)))
        return replace(buffer, shape=shape, axis_separators=tuple(range(1, len(shape))))
    if buffer.strides:
        total = sum(
            (
                stride * (extent - 1)
                for stride, extent in zip(buffer.strides, buffer.shape, strict=True)
            ),
            p.const(1, buffer.shape[0].dtype),
        )
    else:
        total = _product(buffer.shape)
    return replace(buffer, shape=(total,), strides=(), elem_offset=None, axis_separators=())


def offset_of(buffer: Buffer, indices: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
    """The element offset of an access from the buffer's pointer."""
    total: e.PrimExpr = buffer.elem_offset if buffer.elem_offset is not None else p.const(0)
    if buffer.strides:
        for index, stride in zip(indices, buffer.strides, strict=True):
            total = total + index * stride
        return total
    return total + _folded(list(zip(indices, buffer.shape, strict=True)))


def strides_of(buffer: Buffer) -> tuple[e.PrimExpr, ...]:
    """The strides of a buffer in elements; those of a compact one are made up."""
    if buffer.strides:
        return buffer.strides
    strides: list[e.PrimExpr] = []
    stride: e.PrimExpr = p.const(1, buffer.shape[-1].dtype if buffer.shape else "int32")
    for extent in reversed(buffer.shape):
        strides.append(stride)
        stride = stride * extent
    return tuple(strides[::-1])


class FlattenBuffer(PrimFuncPass):
    """Give every buffer one dimension, as memory has."""

    work = staticmethod(partial(flatten_buffers, grouped=True))


T = TypeVar("T")
Indices = tuple[e.PrimExpr, ...]


def groups_of(parts: Sequence[T], separators: Sequence[int]) -> list[tuple[T, ...]]:
    """The dimensions that become one: those between two axis separators."""
    bounds = [0, *separators, len(parts)]
    return [tuple(parts[a:b]) for a, b in pairwise(bounds)]


def grouped_place(buffer: Buffer, indices: Indices) -> Indices:
    """An index for each group of dimensions of a buffer with axis separators.

    Raises:
        UnsupportedError: the buffer has strides or an offset too.
    """
    if buffer.strides or buffer.elem_offset is not None:
        raise UnsupportedError(
            f"FlattenBuffer: {buffer.name} has axis separators and strides",
            hint="give it a compact layout",
        )
    pairs = list(zip(indices, buffer.shape, strict=True))
    return tuple(_folded(group) for group in groups_of(pairs, buffer.axis_separators))


def _folded(group: Sequence[tuple[e.PrimExpr, e.PrimExpr]]) -> e.PrimExpr:
    """The row-major place of indices in the extents that they are given with."""
    flat: e.PrimExpr = p.const(0, group[0][0].dtype.element if group else "int32")
    for index, extent in group:
        flat = flat * extent + index
    return flat


def flat_region(
    region: BufferRegion, offset: Callable[[Buffer, Indices], e.PrimExpr]
) -> tuple[e.Range, ...]:
    """The region of the flat buffer from its first to its last element."""
    buffer = region.buffer
    if buffer.ndim == 1 and not buffer.strides and buffer.elem_offset is None:
        return region.region
    first = tuple(r.min for r in region.region)
    last = tuple(r.min + r.extent - 1 for r in region.region)
    if buffer.axis_separators:
        places = zip(grouped_place(buffer, first), grouped_place(buffer, last), strict=True)
    else:
        places = zip((offset(buffer, first),), (offset(buffer, last),), strict=True)
    return tuple(e.Range(simplify(a), simplify(b - a + 1)) for a, b in places)
