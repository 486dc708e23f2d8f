"""Flat forms of buffers with axis separators, and of the regions that blocks name.

A: T.Buffer((2, 3, 5, 7), axis_separators=[2])         A: T.Buffer((6, 35), axis_separators=[1])
A[i, j, k, m]                                     ->   A[i * 3 + j, k * 7 + m]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from mlcnb.arith import simplify
from mlcnb.core.errors import UnsupportedError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer, BufferRegion

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
