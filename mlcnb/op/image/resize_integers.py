"""ONNX Resize of integers, linear over an image: four neighbours, weighed as ONNX Runtime does.

y = int(dx2 * dy2 * x[y1, x1] + dx1 * dy2 * x[y1, x2]
        + dx2 * dy1 * x[y2, x1] + dx1 * dy1 * x[y2, x2])

in float32, term by term, rounded towards 0: of an image that is 100 throughout some elements are 99
where weights are no binary fractions. ONNX's reference rounds to the nearest in place of that.
Semantics: `UpsampleBilinear` in onnxruntime/core/providers/cpu/tensor/upsample.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import call
from mlcnb.op.onnx import OnnxNode
from mlcnb.relax.expr import Expr, const

_HALF = np.float32(0.5)


class Line(NamedTuple):
    """For each place along a dimension: its two neighbours, and how far it is from each."""

    first: np.ndarray
    second: np.ndarray
    to_first: np.ndarray
    to_second: np.ndarray


def position(mode: str, out: int, size: int, scale: float) -> np.ndarray | None:
    """Where output places lie in the input, in float32; None for another mode."""
    o, by = np.arange(out, dtype=np.float32), np.float32(scale)
    match mode:
        case "half_pixel":
            return (o + _HALF) / by - _HALF
        case "pytorch_half_pixel":
            return (o + _HALF) / by - _HALF if out > 1 else o * 0
        case "asymmetric":
            return o / by
        case "align_corners":
            return o * np.float32(size - 1) / np.float32(max(out - 1, 1))
    return None


def line(mode: str, out: int, size: int, scale: float | None) -> Line | None:
    """The neighbours along one dimension; of a place beyond an end both are the end."""
    at = position(mode, out, size, out / size if scale is None else scale)
    if at is None:
        return None
    at = np.clip(at, np.float32(0), np.float32(size - 1)).astype(np.float32)
    first = np.minimum(at.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    alone = first == second
    gaps = [np.where(alone, _HALF, np.abs(at - x.astype(np.float32))) for x in (first, second)]
    return Line(first, second, *(g.astype(np.float32) for g in gaps))


def integers(
    n: OnnxNode, x: Expr, changed: Mapping[int, tuple[Any, float | None]], mode: str
) -> Expr:
    """`x`, of integers, resized along its last two axes.

    changed: axis -> its new size, and the scale where that is not the quotient of the sizes.
    """
    dims = n.dims(x)
    axes = len(dims) - 2, len(dims) - 1
    sizes = [as_int(dims[a]) for a in axes]
    sides = [changed.get(a, (dims[a], None)) for a in axes]
    if len(dims) not in (2, 4) or not changed.keys() <= set(axes):
        n.refuse(
            f"linear interpolation of {n.dtype(x)} of {len(dims)} dimensions",
            hint="cast to float32 before: integers are resized along the sides of (N, C, H, W)",
        )
    if None in sizes or any(as_int(out) is None for out, _ in sides):
        n.refuse(f"linear interpolation of {n.dtype(x)} of open size", "cast to float32 before")
    lines = [
        line(mode, as_int(out) or 0, size or 0, scale)
        for size, (out, scale) in zip(sizes, sides, strict=True)
    ]
    if None in lines:
        n.refuse(f"{mode} interpolation of {n.dtype(x)}", hint="cast to float32 before")
    rows: Any = lines[0]
    columns: Any = lines[1]
    kind = n.dtype(x)

    def term(row: Any, row_gap: Any, column: Any, column_gap: Any) -> Expr:
        found = n.emit(call("relax.take", x, const(row), axis=axes[0]))
        found = n.emit(call("relax.take", found, const(column), axis=axes[1]))
        for to in ("float32", "float64"):
            found = n.emit(call("relax.astype", found, dtype=to))
        weights = const((column_gap[None, :] * row_gap[:, None]).astype(np.float64))
        product = n.emit(call("relax.multiply", weights, found))  # exact, then rounded: no FMA
        return n.emit(call("relax.astype", product, dtype="float32"))

    terms = [
        term(row, row_gap, column, column_gap)
        for row, row_gap in ((rows.first, rows.to_second), (rows.second, rows.to_first))
        for column, column_gap in (
            (columns.first, columns.to_second),
            (columns.second, columns.to_first),
        )
    ]
    total = reduce(lambda a, b: n.emit(call("relax.add", a, b)), terms)
    return call("relax.astype", total, dtype=kind)
