"""ONNX spellings of pooling: MaxPool, AveragePool, and the global ones, which are reductions."""

from __future__ import annotations

import math
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import call, filled, spatial_axes
from mlcnb.op.nn import pool
from mlcnb.op.nn._pool_loops import Window, windows
from mlcnb.op.nn._same import same_padded
from mlcnb.op.nn._window import onnx_pads
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, make_call

MAX: dict[int, type[OpDecl]] = {3: pool.MaxPool1d, 4: pool.MaxPool2d, 5: pool.MaxPool3d}
AVG: dict[int, type[OpDecl]] = {3: pool.AvgPool1d, 4: pool.AvgPool2d, 5: pool.AvgPool3d}


def window_attrs(n: OnnxNode, x: Expr, is_padded: bool = False) -> dict[str, Any]:
    """kernel_shape, strides, dilations, pads, auto_pad and ceil_mode as attributes of a pooling.

    is_padded: as of `onnx_pads`.
    """
    dims, kernel = n.dims(x), tuple(n.require("kernel_shape"))
    rank = len(dims) - 2
    if rank not in (1, 2, 3) or len(kernel) != rank:
        n.refuse(f"a window {kernel} over {rank} spatial dimensions", hint="1 to 3 are there")
    strides = tuple(n.attr("strides") or (1,) * rank)
    dilation = tuple(n.attr("dilations") or (1,) * rank)
    return {
        "pool_size": kernel,
        "strides": strides,
        "padding": onnx_pads(n, dims[2:], kernel, strides, dilation, is_padded),
        "dilation": dilation,
        "ceil_mode": bool(n.attr("ceil_mode", 0)),
    }


def overhang(n: OnnxNode, x: Expr, attrs: dict[str, Any]) -> list[int] | None:
    """How far one window reaches beyond the padding, by dimension; None: one has no window at all.

    Sizes are divided towards zero, as ONNX Runtime does: where a window is larger than what there
    is, but by less than a stride, it is there once, and sees what there is.
    """
    found, nothing = [], False
    for size, w in zip(map(as_int, n.dims(x)[2:]), _windows(attrs), strict=True):
        missing = 0 if size is None or attrs["ceil_mode"] else w.reach - size - w.around
        if missing >= 2 * w.stride:
            n.refuse(f"a window of {w.reach} elements over {size}, with {w.around} of padding")
        nothing = nothing or missing >= w.stride
        found.append(max(missing, 0))
    return None if nothing else found


def _windows(attrs: dict[str, Any]) -> list[Window]:
    names = ("pool_size", "strides", "dilation", "padding")
    return windows(*(attrs[name] for name in names))


def _reaching(attrs: dict[str, Any], more: list[int]) -> dict[str, Any]:
    """The attributes with more padding at the ends."""
    rank = len(more)
    ends = (e + m for e, m in zip(attrs["padding"][rank:], more, strict=True))
    return {**attrs, "padding": (*attrs["padding"][:rank], *ends)}


def _nothing(n: OnnxNode, x: Expr, attrs: dict[str, Any], kind: str) -> Expr:
    """The result without elements of a pooling that has no window."""
    dims = n.dims(x)
    known = zip(dims[2:], map(as_int, dims[2:]), _windows(attrs), strict=True)
    spatial = [
        d if size is None else max(int((size + w.around - w.reach) / w.stride) + 1, 0)
        for d, size, w in known
    ]
    return call("relax.full", (*dims[:2], *spatial), const(0, kind))


@onnx("MaxPool")
def onnx_max_pool(n: OnnxNode, x: Expr) -> Any:
    """Padding never wins; the second output, where used, is the flat index of each maximum."""
    attrs = window_attrs(n, x, n.num_outputs == 1)  # padding would move the places of maxima
    if n.num_outputs == 1:
        kind = dtype(n.dtype(x))
        least = -math.inf if kind.is_float else float(kind.min_value)
        x = _padded(n, x, attrs, least)
    more = overhang(n, x, attrs)
    if more is None:
        empty = _nothing(n, x, attrs, n.dtype(x))
        return empty if n.num_outputs == 1 else (empty, _nothing(n, x, attrs, "int64"))
    attrs = _reaching(attrs, more)
    if n.num_outputs == 1:
        return make_call(MAX[len(n.dims(x))], x, **attrs)
    both = n.emit(
        call("relax.nn.max_pool_indices", x, column_major=bool(n.attr("storage_order", 0)), **attrs)
    )
    return both[0], both[1]


def _padded(n: OnnxNode, x: Expr, attrs: dict[str, Any], value: float) -> Expr:
    return same_padded(n, x, attrs["pool_size"], attrs["strides"], attrs["dilation"], value)


def _open_average(n: OnnxNode, x: Expr, whole: Expr, attrs: dict[str, Any], counts: bool) -> Expr:
    """Means of an image that was padded with zeros, which are taken out again unless they count:
    by the mean of as many ones.
    """
    average = AVG[len(n.dims(x))]
    found = make_call(average, whole, **attrs)
    if counts:
        return found
    ones = filled(n, 1.0, [1, 1, *n.dims(x)[2:]], n.dtype(x))
    share = n.emit(make_call(average, _padded(n, ones, attrs, 0.0), **attrs))
    return call("relax.divide", n.emit(found), share)


@onnx("AveragePool")
def onnx_average_pool(n: OnnxNode, x: Expr) -> Expr:
    """Padding counts only if `count_include_pad`."""
    counts, attrs = bool(n.attr("count_include_pad", 0)), window_attrs(n, x, is_padded=True)
    whole = _padded(n, x, attrs, 0.0)
    if whole is not x:
        return _open_average(n, x, whole, attrs, counts)
    more = overhang(n, x, attrs)
    if more is None:
        return _nothing(n, x, attrs, n.dtype(x))
    if any(more) and counts and any(attrs["padding"]):
        rank = len(more)  # what lies beyond the padding never counts
        widths = [w for i in range(rank) for w in attrs["padding"][i::rank]]
        x = n.emit(call("relax.nn.pad", x, (0, 0, 0, 0, *widths), pad_mode="constant"))
        attrs, counts = {**attrs, "padding": (0,) * (2 * rank)}, False
    attrs = _reaching(attrs, more)
    return make_call(AVG[len(n.dims(x))], x, count_include_pad=counts and not any(more), **attrs)


@onnx("GlobalAveragePool")
@onnx("GlobalMaxPool")
def onnx_global_pool(n: OnnxNode, x: Expr) -> Expr:
    """The mean or the maximum over all spatial dimensions, kept as ones."""
    name = "relax.mean" if n.op_type == "GlobalAveragePool" else "relax.max"
    return call(name, x, axis=spatial_axes(n, x), keepdims=True)
