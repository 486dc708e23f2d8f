"""What a program may call on a buffer: `A.vload([i])`, `A.vstore([i], x)`, `A.access_ptr("r")`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.script import build
from mlcnb.script.frames import Sliced, VectorStore
from mlcnb.tir.buffer import Buffer, BufferLoad


def vload(
    buffer: Buffer, begin: Sequence[Any], dtype: Any = None, predicate: Any = None
) -> BufferLoad:
    """A load of a vector; lanes where the predicate is False are not read."""
    at = tuple(begin) if isinstance(begin, list | tuple) else (begin,)
    mask = None if predicate is None else build.as_expr(predicate)
    return BufferLoad(buffer, Sliced(buffer, at).indices(), mask)


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
        extent = p.const(1)
        for dim in buffer.shape:
            extent = extent * dim
        extent = extent - offset
    kind = e.Call(buffer.dtype.with_lanes(content_lanes), "tir.type_annotation", ())
    args = (kind, buffer.data, *map(build.as_expr, (offset, extent, mask)))
    return e.Call(dtype(ptr_type), "tir.tvm_access_ptr", args)


METHODS: dict[str, Callable[..., Any]] = {
    "vload": vload,
    "vstore": vstore,
    "access_ptr": access_ptr,
}
