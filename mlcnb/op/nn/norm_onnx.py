"""ONNX spellings of normalisations, and those that are formulas of smaller operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import same
from mlcnb.op._spell import call, filled, in_float32, place_of, spatial_axes
from mlcnb.op.nn.layer_norm import GroupNorm, InstanceNorm, LayerNorm, RmsNorm
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import make_call


@onnx("InstanceNormalization", since=6)
def onnx_instance_normalization(n: OnnxNode, x: Expr, scale: Expr, bias: Expr) -> Expr:
    """Over all spatial dimensions."""
    attrs = {"channel_axis": 1, "axes": spatial_axes(n, x), "epsilon": n.attr("epsilon", 1e-5)}
    return make_call(InstanceNorm, x, scale, bias, **attrs)


@onnx("GroupNormalization", since=18)
def onnx_group_normalization(n: OnnxNode, x: Expr, scale: Expr, bias: Expr) -> Expr:
    """scale and bias have one number a channel since opset 21, one a group before."""
    groups, channels = n.require("num_groups"), n.dims(x)[1]
    if n.opset < 21:
        scale, bias = (_per_channel(n, w, groups, channels) for w in (scale, bias))
    attrs = {"num_groups": groups, "axes": spatial_axes(n, x), "epsilon": n.attr("epsilon", 1e-5)}
    return make_call(GroupNorm, x, scale, bias, **attrs)


def _per_channel(n: OnnxNode, weight: Expr, groups: int, channels: Any) -> Expr:
    each = as_int(channels)
    if each is None:
        n.refuse("a symbolic number of channels")
    return n.emit(call("relax.repeat", weight, repeats=each // groups, axis=0))


@onnx("LayerNormalization", since=17)
def onnx_layer_normalization(n: OnnxNode, x: Expr, scale: Expr, bias: Expr | None = None) -> Any:
    """Over all dimensions from `axis` on; mean and inverse deviation where they are used."""
    dims, epsilon = n.dims(x), n.attr("epsilon", 1e-5)
    axis = place_of(n, n.attr("axis", -1), dims)
    axes, want = tuple(range(axis, len(dims))), dims[axis:]
    kind = n.dtype(x)
    plain = _fits(n, scale, want) and (bias is None or _fits(n, bias, want))
    if plain:
        shift = filled(n, 0.0, want, kind) if bias is None else bias
        attrs = {"axes": axes, "epsilon": epsilon, "center": bias is not None}
        result = make_call(LayerNorm, x, scale, shift, **attrs)
    else:
        ones, zeros = filled(n, 1.0, want, kind), filled(n, 0.0, want, kind)
        attrs = {"axes": axes, "epsilon": epsilon, "center": False, "scale": False}
        result = call(
            "relax.multiply", n.emit(make_call(LayerNorm, x, ones, zeros, **attrs)), scale
        )
        result = result if bias is None else call("relax.add", n.emit(result), bias)
    if n.num_outputs == 1:
        return result
    return (result, *_statistics(n, x, axes, epsilon)[: n.num_outputs - 1])


def _fits(n: OnnxNode, weight: Expr, want: Sequence[Any]) -> bool:
    dims = n.dims(weight)
    return len(dims) == len(want) and all(same(a, b) for a, b in zip(dims, want, strict=True))


def _statistics(n: OnnxNode, x: Expr, axes: Sequence[int], epsilon: float) -> tuple[Expr, Expr]:
    """Mean and 1 / sqrt(variance + epsilon), in the dtype of the computation."""
    stash = "float32" if n.attr("stash_type", 1) == 1 else n.dtype(x)
    wide = x if n.dtype(x) == stash else n.emit(call("relax.astype", x, dtype=stash))
    mean = n.emit(call("relax.mean", wide, axis=tuple(axes), keepdims=True))
    away = n.emit(call("relax.subtract", wide, mean))
    square = n.emit(call("relax.multiply", away, away))
    variance = n.emit(call("relax.mean", square, axis=tuple(axes), keepdims=True))
    moved = n.emit(call("relax.add", variance, const(epsilon, stash)))
    return mean, call("relax.rsqrt", moved)


@onnx("RMSNormalization", since=23)
def onnx_rms_normalization(n: OnnxNode, x: Expr, scale: Expr) -> Expr:
    """Over all dimensions from `axis` on."""
    dims, kind = n.dims(x), n.dtype(x)
    axis = place_of(n, n.attr("axis", -1), dims)
    attrs = {"axes": tuple(range(axis, len(dims))), "epsilon": n.attr("epsilon", 1e-5)}
    if _fits(n, scale, dims[axis:]) and n.dtype(scale) == kind:
        return make_call(RmsNorm, x, scale, **attrs)
    ones = filled(n, 1.0, dims[axis:], kind)
    return call("relax.multiply", n.emit(make_call(RmsNorm, x, ones, **attrs)), scale)


@onnx("MeanVarianceNormalization", since=9)
@in_float32
def onnx_mean_variance_normalization(n: OnnxNode, x: Expr) -> Expr:
    """(x - mean) / (sqrt(variance) + 1e-9) over `axes`; what the mean was rounded by counts too."""
    axes, kind = tuple(n.attr("axes") or (0, 2, 3)), n.dtype(x)
    mean = n.emit(call("relax.mean", x, axis=axes, keepdims=True))
    near = n.emit(call("relax.subtract", x, mean))
    rest = n.emit(call("relax.mean", near, axis=axes, keepdims=True))
    away = n.emit(call("relax.subtract", near, rest))
    square = n.emit(call("relax.multiply", away, away))
    variance = n.emit(call("relax.mean", square, axis=axes, keepdims=True))
    deviation = n.emit(call("relax.add", call("relax.sqrt", variance), const(1e-9, kind)))
    return call("relax.divide", away, deviation)


@onnx("LpNormalization")
@in_float32
def onnx_lp_normalization(n: OnnxNode, x: Expr) -> Expr:
    """x / (sum(|x|) or sqrt(sum(x ** 2))) along `axis`; 0 where that is 0."""
    p, axis, kind = n.attr("p", 2), n.attr("axis", -1), n.dtype(x)
    if p not in (1, 2):
        n.refuse(f"p = {p} is neither 1 nor 2")
    part = call("relax.abs", x) if p == 1 else call("relax.multiply", x, x)
    norm = n.emit(call("relax.sum", n.emit(part), axis=(axis,), keepdims=True))
    norm = norm if p == 1 else n.emit(call("relax.sqrt", norm))
    zero = n.emit(call("relax.equal", norm, const(0, kind)))
    return call("relax.divide", x, n.emit(call("relax.where", zero, const(1, kind), norm)))
