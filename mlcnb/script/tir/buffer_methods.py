"""What a program may call on a buffer: `A.vload([i])`, `A.vstore([i], x)`, `A.access_ptr("r")`,
`B = A.view(4, 4)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.arith import Analyzer, simplify
from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.dtype import dtype as _dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.script import build
from mlcnb.script.frames import DeclareBuffer, Sliced, VectorStore
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer


def vload(
    buffer: Buffer, begin: Sequence[Any], dtype: Any = None, predicate: Any = None
) -> BufferLoad:
    """A load of a vector, of as many elements from `begin` on as `dtype` has lanes.

    Lanes where the predicate is False are not read.
    """
    at = tuple(begin) if isinstance(begin, list | tuple) else (begin,)
    mask = None if predicate is None else build.as_expr(predicate)
    indices = Sliced(buffer, at).indices()
    lanes = _lanes(buffer, dtype) if dtype is not None else 1
    if lanes > 1 and indices[-1].dtype.lanes == 1:
        ramp = e.Ramp(indices[-1], p.const(1, indices[-1].dtype), lanes)
        indices = (*indices[:-1], ramp)
    return BufferLoad(buffer, indices, mask)


def _lanes(buffer: Buffer, given: Any) -> int:
    """How many elements of the buffer a vector of a dtype has."""
    kind = _dtype(str(given))
    if kind.element != buffer.dtype.element or kind.lanes % buffer.dtype.lanes:
        raise MLCError(
            f"{buffer.name} holds {buffer.dtype}, and cannot be loaded as {kind}",
            hint="T.reinterpret the bits that were loaded",
        )
    return kind.lanes // buffer.dtype.lanes


def vstore(buffer: Buffer, begin: Sequence[Any], value: Any, predicate: Any = None) -> VectorStore:
    """A store of a vector; lanes where the predicate is False are not written."""
    at = tuple(begin) if isinstance(begin, list | tuple) else (begin,)
    return VectorStore(buffer, at, value, predicate)


_MASKS = {"r": 1, "w": 2, "rw": 3, "wr": 3}


def access_ptr(
    buffer: Buffer, access_mask: Any, ptr_type: str = "handle", content_lanes: int = 1,
    offset: Any = 0, extent: Any = None,
) -> PrimExpr:  # fmt: skip
    """A pointer to the buffer's elements from `offset` on; access "r", "w" or "rw"."""
    mask = _MASKS[access_mask] if isinstance(access_mask, str) else access_mask
    if extent is None:
        whole = buffer.strides[0] * buffer.shape[0] if buffer.strides else _size(buffer.shape)
        extent = whole - offset
    kind = e.Call(buffer.dtype.with_lanes(content_lanes), "tir.type_annotation", ())
    begin = offset if buffer.elem_offset is None else buffer.elem_offset + offset
    args = (kind, buffer.data, *map(build.as_expr, (begin, extent, mask)))
    return e.Call(_dtype(ptr_type), "tir.tvm_access_ptr", args)


def view(buffer: Buffer, *shape_or_dtype: Any) -> DeclareBuffer:
    """The same memory with another shape, or as elements of another dtype: a word of 0.27.

    Raises:
        MLCError: the numbers of elements (or bytes) differ, or cannot be compared.
    """
    if buffer.strides:
        raise MLCError(f"view: {buffer.name} has strides", hint="T.decl_buffer(…, data=…)")
    if len(shape_or_dtype) == 1 and _is_dtype(shape_or_dtype[0]):
        return _view_as(buffer, _dtype(str(getattr(shape_or_dtype[0], "dtype", shape_or_dtype[0]))))
    shape = shape_or_dtype
    if len(shape) == 1 and isinstance(shape[0], list | tuple):
        shape = tuple(shape[0])
    dims = tuple(build.as_expr(d) for d in shape)
    if not Analyzer().can_prove_equal(_size(dims), _size(buffer.shape)):
        shapes = [", ".join(map(repr, s)) for s in (buffer.shape, dims)]
        raise MLCError(f"view: ({shapes[0]}) and ({shapes[1]}) differ in their number of elements")
    return DeclareBuffer(_over(buffer, dims, buffer.dtype), False)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, str) or hasattr(value, "dtype") and not isinstance(value, PrimExpr)


def _view_as(buffer: Buffer, kind: DType) -> DeclareBuffer:
    """The last dimension holds as many bytes as before."""
    old, new = buffer.dtype.nbytes, kind.nbytes
    *outer, last = buffer.shape or (p.const(1),)
    scaled = simplify(p.floordiv(last * old, new))
    if not Analyzer().can_prove_equal(scaled * new, last * old):
        raise MLCError(f"view: {buffer.name} has rows of {last} {buffer.dtype}, no whole {kind}")
    if buffer.elem_offset is not None and old != new:
        raise MLCError(f"view: {buffer.name} has an elem_offset", hint="T.decl_buffer(…, data=…)")
    return DeclareBuffer(_over(buffer, (*outer, scaled), kind), False)


def _size(dims: Sequence[Any]) -> Any:
    return math.prod(dims, start=p.const(1))


def _over(buffer: Buffer, shape: tuple[PrimExpr, ...], kind: DType) -> Buffer:
    return decl_buffer(
        shape, kind, "view", data=buffer.data, elem_offset=buffer.elem_offset,
        data_alignment=buffer.data_alignment, offset_factor=buffer.offset_factor,
    )  # fmt: skip


METHODS: dict[str, Callable[..., Any]] = {
    "vload": vload,
    "vstore": vstore,
    "access_ptr": access_ptr,
    "view": view,
}
