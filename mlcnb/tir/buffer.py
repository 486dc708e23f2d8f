"""Buffers, and how they are read: `A[i, j]` is a BufferLoad, `A[0:4, j]` a BufferRegion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError, as_name
from mlcnb.core.node import Node, binder, hidden, label, node, walk
from mlcnb.core.text import kind_of
from mlcnb.ir import prim_ops
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import IntImm, PrimExpr, Range, Var
from mlcnb.ir.span import Span
from mlcnb.ir.structural import named


@named
@node
class Buffer(Node):
    """A multi-dimensional view of memory.

    data: the pointer (its `pointee` holds element dtype and scope); shape in elements, one PrimExpr
    for each dimension; strides in elements, empty when compact row-major; elem_offset in elements
    from `data`, None for 0; data_alignment in bytes; offset_factor: elem_offset is a multiple of it
    (0: unknown, which is what 1 becomes where elem_offset is given).
    """

    name: str = label()
    dtype: DType
    shape: tuple[PrimExpr, ...]
    data: Var = binder()
    strides: tuple[PrimExpr, ...] = ()
    elem_offset: PrimExpr | None = None
    data_alignment: int = 64
    offset_factor: int = 0
    axis_separators: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            object.__setattr__(self, "dtype", _dtype(self.dtype))
        if self.elem_offset is not None and self.offset_factor == 1:
            object.__setattr__(self, "offset_factor", 0)
        if isinstance(self.elem_offset, IntImm) and self.elem_offset.value == 0:
            object.__setattr__(self, "elem_offset", None)

    @property
    def scope(self) -> str:
        """Memory scope: global, shared, local, …"""
        return self.data.pointee[1] if self.data.pointee else "global"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def vload(self, begin: Any, dtype: Any = None, predicate: Any = None) -> BufferLoad:
        """A load of one element, or of the vector that begins there where `dtype` has lanes.

        Raises:
            MLCError: the dtype is none of vectors of these elements.
        """
        return display.load("mlcnb.script.tir.buffer_methods:vload")(self, begin, dtype, predicate)  # type: ignore[call-arg, return-value]

    def access_ptr(self, access_mask: Any, *args: Any, **kwargs: Any) -> PrimExpr:
        """A pointer to the elements, for a call: `access_mask` is "r", "w" or "rw".

        Further arguments: ptr_type, content_lanes, offset and extent in elements.
        """
        pointer = display.load("mlcnb.script.tir.buffer_methods:access_ptr")
        return pointer(self, access_mask, *args, **kwargs)  # type: ignore[call-arg, return-value]

    #: `for x in A` would read A[0], A[1], … without end
    __iter__: ClassVar = None

    def __getitem__(self, indices: Any) -> BufferLoad | BufferRegion:
        given = indices if isinstance(indices, tuple) else (indices,)
        if any(isinstance(i, slice) for i in given) or len(given) < self.ndim:
            return BufferRegion(self, tuple(_ranges(self, given)))
        return BufferLoad(self, tuple(prim_ops.as_expr(i) for i in given))


def _ranges(buffer: Buffer, indices: Sequence[Any]) -> list[Range]:
    ranges = []
    for axis, extent in enumerate(buffer.shape):
        index = indices[axis] if axis < len(indices) else slice(None)
        if isinstance(index, slice):
            start = prim_ops.as_expr(0 if index.start is None else index.start, extent.dtype)
            stop = extent if index.stop is None else index.stop
            ranges.append(Range(start, _simple(stop - start)))
        else:
            ranges.append(Range(prim_ops.as_expr(index), prim_ops.const(1, extent.dtype)))
    return ranges


def _simple(extent: Any) -> PrimExpr:
    """`x + 4 - x` is 4: what region slices such as `A[x:x + 4]` need."""
    from mlcnb.arith import simplify

    return simplify(prim_ops.as_expr(extent))


def decl_buffer(
    shape: Sequence[Any],
    dtype: str = "float32",
    name: str = "buffer",
    scope: str = "global",
    *,
    data: Var | None = None,
    strides: Sequence[Any] = (),
    elem_offset: Any = None,
    data_alignment: int = 64,
    offset_factor: int = 0,
    axis_separators: Sequence[int] = (),
) -> Buffer:
    """A new buffer, with its own pointer unless `data` is given. Shape and strides in elements."""
    kind = _dtype(dtype)
    sides = (shape,) if isinstance(shape, int | PrimExpr) else shape
    place = as_scope(scope)
    pointer = Var(name, _dtype("handle"), (str(kind), place)) if data is None else data
    offset = None if elem_offset is None else prim_ops.as_expr(elem_offset)
    return Buffer(
        name,
        kind,
        tuple(prim_ops.as_expr(s) for s in sides),
        pointer,
        tuple(prim_ops.as_expr(s) for s in strides),
        offset,
        _whole(data_alignment, "the alignment of a buffer"),
        _whole(offset_factor, "the offset_factor of a buffer"),
        tuple(_whole(axis, "an axis separator") for axis in axis_separators),
    )


def _whole(value: Any, what: str) -> int:
    """A number that a program is compiled with, as a Python int."""
    number = prim_ops.as_int(value)
    if number is None:
        raise ArgumentError(f"{what} is a whole number, not {kind_of(value)}")
    return int(number)


def as_scope(scope: Any) -> str:
    """The name of a memory scope.

    Raises:
        ArgumentError: it is no string.
    """
    return as_name(scope, "a memory scope")


_dtype = dtype


@node
class BufferLoad(PrimExpr):
    """One element of a buffer, or a vector where the last index is a Ramp.

    `predicate`, if given, is a bool vector: lanes that are False are not read and are zero.
    """

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        if type(self.indices) is not tuple or any(type(i) is int for i in self.indices):
            object.__setattr__(self, "indices", tuple(map(prim_ops.as_expr, self.indices)))

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The buffer's dtype, with the lanes of the last index."""
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        return self.buffer.dtype.with_lanes(lanes * self.buffer.dtype.lanes)


def layout_variables(buffer: Buffer) -> list[Var]:
    """The variables in the shape, the strides and the offset of a buffer, in order, each once."""
    layout = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    found = (n for x in layout if x is not None for n in walk(x) if isinstance(n, Var))
    return list(dict.fromkeys(found))


def reads_memory(n: Node) -> bool:
    """True if there is a load in an expression or a statement."""
    return any(isinstance(x, BufferLoad) for x in walk(n))


@node
class BufferRegion(Node):
    """A box of a buffer: one Range for each dimension."""

    buffer: Buffer
    region: tuple[Range, ...]

    def __post_init__(self) -> None:
        if type(self.region) is not tuple:
            object.__setattr__(self, "region", tuple(self.region))


@node
class MatchBufferRegion(Node):
    """`buffer` is another name, with its own shape and strides, for the region `source`."""

    buffer: Buffer = binder()
    source: BufferRegion


@node
class ProducerLoad(PrimExpr):
    """One element of a tensor of a tensor expression; never in a PrimFunc."""

    producer: Any
    indices: tuple[PrimExpr, ...]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The tensor's dtype."""
        return self.producer.dtype
