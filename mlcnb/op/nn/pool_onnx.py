"""ONNX spellings of pooling: MaxPool, AveragePool, and the global ones, which are reductions."""

from __future__ import annotations

from typing import Any

from mlcnb.op._spell import call
from mlcnb.op.nn import pool
from mlcnb.op.nn._window import onnx_pads
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, make_call

MAX: dict[int, type[OpDecl]] = {3: pool.MaxPool1d, 4: pool.MaxPool2d, 5: pool.MaxPool3d}
AVG: dict[int, type[OpDecl]] = {3: pool.AvgPool1d, 4: pool.AvgPool2d, 5: pool.AvgPool3d}


def window_attrs(n: OnnxNode, x: Expr) -> dict[str, Any]:
    """kernel_shape, strides, dilations, pads, auto_pad and ceil_mode as attributes of a pooling."""
    dims, kernel = n.dims(x), tuple(n.require("kernel_shape"))
    rank = len(dims) - 2
    if rank not in (1, 2, 3) or len(kernel) != rank:
        n.refuse(f"a window {kernel} over {rank} spatial dimensions", hint="1 to 3 are there")
    strides = tuple(n.attr("strides") or (1,) * rank)
    dilation = tuple(n.attr("dilations") or (1,) * rank)
    return {
        "pool_size": kernel,
        "strides": strides,
        "padding": onnx_pads(n, dims[2:], kernel, strides, dilation),
        "dilation": dilation,
        "ceil_mode": bool(n.attr("ceil_mode", 0)),
    }


@onnx("MaxPool")
def onnx_max_pool(n: OnnxNode, x: Expr) -> Any:
    """Padding never wins; the second output, where used, is the flat index of each maximum."""
    attrs = window_attrs(n, x)
    if n.num_outputs == 1:
        return make_call(MAX[len(n.dims(x))], x, **attrs)
    both = n.emit(
        call("relax.nn.max_pool_indices", x, column_major=bool(n.attr("storage_order", 0)), **attrs)
    )
    return both[0], both[1]


@onnx("AveragePool")
def onnx_average_pool(n: OnnxNode, x: Expr) -> Expr:
    """Padding counts only if `count_include_pad`."""
    counts = bool(n.attr("count_include_pad", 0))
    return make_call(AVG[len(n.dims(x))], x, count_include_pad=counts, **window_attrs(n, x))


def _spatial(n: OnnxNode, x: Expr) -> tuple[int, ...]:
    return tuple(range(2, len(n.dims(x))))


@onnx("GlobalAveragePool")
def onnx_global_average_pool(n: OnnxNode, x: Expr) -> Expr:
    """The mean over all spatial dimensions, kept as ones."""
    return call("relax.mean", x, axis=_spatial(n, x), keepdims=True)


@onnx("GlobalMaxPool")
def onnx_global_max_pool(n: OnnxNode, x: Expr) -> Expr:
    """The maximum over all spatial dimensions, kept as ones."""
    return call("relax.max", x, axis=_spatial(n, x), keepdims=True)
