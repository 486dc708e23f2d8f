"""ONNX spellings of activations; where there is no such operator, formulas of smaller ones."""

from __future__ import annotations

import math

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import unlike
from mlcnb.op._spell import Formula, in_float32, spelled_as
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.nn import activation as act
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import make_call


def _formula(n: OnnxNode, x: Expr) -> Formula:
    """Numbers are of x's dtype."""
    return Formula(n, n.dtype(x))


spelled_as("Relu", act.Relu)
spelled_as("Softplus", act.Softplus)


@onnx("LeakyRelu")
def onnx_leaky_relu(n: OnnxNode, x: Expr) -> Expr:
    """x, or alpha * x where x < 0"""
    return make_call(act.LeakyRelu, x, alpha=n.attr("alpha", 0.01))


@onnx("PRelu")
def onnx_prelu(n: OnnxNode, x: Expr, slope: Expr) -> Expr:
    """x, or slope * x where x < 0; slope is broadcast (before opset 7: one a channel)."""
    dims, shape = n.dims(x), n.dims(slope)
    per_channel = n.opset < 7 and len(shape) == 1 and len(dims) > 1
    wide = [i for i, d in enumerate(shape) if as_int(d) != 1]
    if len(wide) <= 1 and (per_channel or len(shape) <= len(dims)) and dims:
        axis = 1 if per_channel else len(dims) - len(shape) + (wide[0] if wide else 0)
        axis = min(axis, len(dims) - 1)
        size = shape[wide[0]] if wide else 1
        if not wide or not unlike(size, dims[axis]):
            flat = n.emit(make_call(Reshape, slope, [size]))
            return make_call(act.Prelu, x, flat, axis=axis)
    f = _formula(n, x)
    return f.where(f.less(x, 0), f.multiply(x, slope), x)


@onnx("Elu")
@in_float32
def onnx_elu(n: OnnxNode, x: Expr) -> Expr:
    """x, or alpha * (exp(x) - 1) where x < 0"""
    f = _formula(n, x)
    return f.where(f.less(x, 0), f.multiply(n.attr("alpha", 1.0), f.expm1(x)), x)


@onnx("Celu")
@in_float32
def onnx_celu(n: OnnxNode, x: Expr) -> Expr:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
    f, alpha = _formula(n, x), n.attr("alpha", 1.0)
    high = f.maximum(0, x)
    return f.add(high, f.minimum(0, f.multiply(alpha, f.expm1(f.divide(x, alpha)))))


@onnx("Selu")
def onnx_selu(n: OnnxNode, x: Expr) -> Expr:
    """gamma * (x, or alpha * (exp(x) - 1) where x <= 0)"""
    alpha, gamma = n.attr("alpha", act.SELU_ALPHA), n.attr("gamma", act.SELU_SCALE)
    usual = math.isclose(alpha, act.SELU_ALPHA, rel_tol=1e-6)
    if usual and math.isclose(gamma, act.SELU_SCALE, rel_tol=1e-6):
        return make_call(act.Selu, x)
    f = _formula(n, x)
    return f.multiply(gamma, f.where(f.greater(x, 0), x, f.multiply(alpha, f.expm1(x))))


@onnx("Gelu")
def onnx_gelu(n: OnnxNode, x: Expr) -> Expr:
    """Exact, or with `approximate` = "tanh" its approximation."""
    mode = n.attr("approximate", "none")
    if mode not in ("none", "tanh"):
        n.refuse(f"approximate {mode!r} is neither none nor tanh")
    return make_call(act.Gelu if mode == "none" else act.GeluTanh, x)


@onnx("Softsign")
@in_float32
def onnx_softsign(n: OnnxNode, x: Expr) -> Expr:
    """x / (1 + |x|)"""
    f = _formula(n, x)
    return f.divide(x, f.add(1, f.abs(x)))


@onnx("HardSigmoid")
@in_float32
def onnx_hard_sigmoid(n: OnnxNode, x: Expr) -> Expr:
    """max(0, min(1, alpha * x + beta))"""
    return _hard_sigmoid(n, x, n.attr("alpha", 0.2), n.attr("beta", 0.5))


def _hard_sigmoid(n: OnnxNode, x: Expr, alpha: float, beta: float) -> Expr:
    f = _formula(n, x)
    return f.maximum(f.minimum(f.add(f.multiply(x, alpha), beta), 1), 0)


@onnx("HardSwish")
@in_float32
def onnx_hard_swish(n: OnnxNode, x: Expr) -> Expr:
    """x * max(0, min(1, x / 6 + 0.5))"""
    return _formula(n, x).multiply(x, _hard_sigmoid(n, x, 1 / 6, 0.5))


@onnx("Swish")
@in_float32
def onnx_swish(n: OnnxNode, x: Expr) -> Expr:
    """x * sigmoid(alpha * x)"""
    f, alpha = _formula(n, x), n.attr("alpha", 1.0)
    return f.nn("silu", x) if alpha == 1 else f.multiply(x, f.sigmoid(f.multiply(x, alpha)))


@onnx("SwiGLU", since=28)
def onnx_swiglu(n: OnnxNode, a: Expr, b: Expr) -> Expr:
    """swish(a) * b"""
    return _formula(n, a).multiply(n.emit(onnx_swish(n, a)), b)


@onnx("Mish")
@in_float32
def onnx_mish(n: OnnxNode, x: Expr) -> Expr:
    """x * tanh(softplus(x)), as x n / (n + 2) with n = e (e + 2), e = exp(x).

    From 20 on the quotient is 1.
    """
    f = _formula(n, x)
    e = f.exp(f.minimum(x, 20))
    product = f.multiply(e, f.add(e, 2))
    return f.multiply(x, f.divide(product, f.add(product, 2)))


@onnx("ThresholdedRelu")
def onnx_thresholded_relu(n: OnnxNode, x: Expr) -> Expr:
    """x where x > alpha, else 0"""
    f = _formula(n, x)
    return f.where(f.greater(x, n.attr("alpha", 1.0)), x, 0)


@onnx("Shrink")
@in_float32
def onnx_shrink(n: OnnxNode, x: Expr) -> Expr:
    """x + bias where x < -lambd, x - bias where x > lambd, else 0"""
    f, edge, bias = _formula(n, x), n.attr("lambd", 0.5), n.attr("bias", 0.0)
    low, moved = f.less(x, -edge), f.add(x, bias)
    return f.where(low, moved, f.where(f.greater(x, edge), f.subtract(x, bias), 0))
