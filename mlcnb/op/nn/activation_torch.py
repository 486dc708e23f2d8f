"""PyTorch spellings of activations; formulas are shared with ONNX's."""

from __future__ import annotations

from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, axis_of, formula, rounded, torch_formula
from mlcnb.op.nn import activation_onnx as formulas
from mlcnb.op.torch import TorchNode, as_onnx, torch_spelling
from mlcnb.relax.expr import Expr


def _plain(target: str, name: str) -> None:
    """An activation that is an operator, without arguments."""

    @torch_spelling(target)
    def spell(n: TorchNode, x: Expr) -> Expr:
        return call(name, x)

    spell.__doc__ = f"{name} of x."


_plain("aten.relu", "relax.nn.relu")
_plain("aten.relu6", "relax.nn.relu6")
_plain("aten.silu", "relax.nn.silu")
_plain("aten.selu", "relax.nn.selu")


@torch_spelling("aten.leaky_relu")
def torch_leaky_relu(n: TorchNode, x: Expr, negative_slope: float = 0.01) -> Expr:
    """x, or negative_slope * x where x < 0"""
    return call("relax.nn.leakyrelu", x, alpha=float(negative_slope))


@torch_spelling("aten.rrelu")
def torch_rrelu(
    n: TorchNode, x: Expr, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Expr:
    """As leaky_relu by the mean of the slopes, as inference has it."""
    if training:
        n.refuse("its slopes are random", "call model.eval() before the export")
    return call("relax.nn.leakyrelu", x, alpha=float(lower + upper) / 2)


@torch_spelling("aten.gelu")
def torch_gelu(n: TorchNode, x: Expr, *, approximate: str = "none") -> Expr:
    """Exact, or its approximation by tanh."""
    return formulas.onnx_gelu(as_onnx(n, approximate=approximate), x)


@torch_spelling("aten.elu")
def torch_elu(n: TorchNode, x: Expr, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Expr:
    """scale * (x, or alpha * (exp(input_scale * x) - 1) where x <= 0)"""
    if scale == 1 and input_scale == 1:
        return formulas.onnx_elu(as_onnx(n, alpha=float(alpha)), x)
    f, x = formula(n, x)
    low = f.multiply(f.expm1(f.multiply(x, float(input_scale))), float(alpha))
    return rounded(n, f.multiply(f.where(f.greater(x, 0.0), x, low), float(scale)))


@torch_spelling("aten.celu")
def torch_celu(n: TorchNode, x: Expr, alpha: Any = 1.0) -> Expr:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
    return formulas.onnx_celu(as_onnx(n, alpha=float(alpha)), x)


def _as_of_onnx(target: str, spelling: Any, **attrs: Any) -> None:
    """An activation without arguments that is ONNX's formula."""

    @torch_spelling(target)
    def spell(n: TorchNode, x: Expr) -> Expr:
        return spelling(as_onnx(n, **attrs), x)

    spell.__doc__ = spelling.__doc__


_as_of_onnx("aten.hardsigmoid", formulas.onnx_hard_sigmoid, alpha=1 / 6, beta=0.5)
_as_of_onnx("aten.hardswish", formulas.onnx_hard_swish)
_as_of_onnx("aten.mish", formulas.onnx_mish)


@torch_spelling("aten.softshrink")
def torch_softshrink(n: TorchNode, x: Expr, lambd: Any = 0.5) -> Expr:
    """x moved by lambd towards 0, and 0 where it would pass it; NaN stays."""
    f, x = formula(n, x)
    low, high = f.less(x, -float(lambd)), f.greater(x, float(lambd))
    moved = f.where(low, f.add(x, float(lambd)), f.subtract(x, float(lambd)))
    keep = f.logical_or(f.logical_or(low, high), f.isnan(x))
    return rounded(n, f.where(keep, moved, 0.0))


@torch_spelling("aten.hardshrink")
def torch_hardshrink(n: TorchNode, x: Expr, lambd: Any = 0.5) -> Expr:
    """x, or 0 where |x| <= lambd"""
    f, x = formula(n, x)
    return rounded(n, f.where(f.less_equal(f.abs(x), float(lambd)), 0.0, x))


@torch_formula("aten.tanhshrink")
def torch_tanhshrink(f: Formula, x: Expr) -> Expr:
    """x - tanh(x)"""
    return f.subtract(x, f.tanh(x))


@torch_spelling("aten.threshold")
def torch_threshold(n: TorchNode, x: Expr, threshold: Any, value: Any) -> Expr:
    """x, or value where x <= threshold"""
    kind = n.result()[1]
    f = Formula(n, kind)
    return f.where(f.less_equal(n.tensor(x, kind), threshold), value, x)


@torch_spelling("aten.hardtanh")
def torch_hardtanh(n: TorchNode, x: Expr, min_val: Any = -1, max_val: Any = 1) -> Expr:
    """min(max(x, min_val), max_val)"""
    if (min_val, max_val) == (0, 6):
        return call("relax.nn.relu6", x)
    return call("relax.clip", x, min_val, max_val)


@torch_spelling("aten.softplus")
def torch_softplus(n: TorchNode, x: Expr, beta: Any = 1, threshold: Any = 20) -> Expr:
    """log(1 + exp(beta * x)) / beta; x where beta * x > threshold"""
    return call("relax.nn.softplus", x, beta=float(beta), threshold=float(threshold))


@torch_formula("aten.log_sigmoid", "aten.log_sigmoid_forward")
def torch_log_sigmoid(f: Formula, x: Expr) -> Expr:
    """min(x, 0) - log(1 + exp(-|x|))"""
    tail = f.nn("softplus", f.negative(f.abs(x)))
    return f.subtract(f.minimum(x, 0.0), tail)


@torch_spelling("aten.prelu", "aten._prelu_kernel")
def torch_prelu(n: TorchNode, x: Expr, weight: Expr) -> Expr:
    """x, or weight * x where x < 0; weight has one number, or one a channel."""
    dims, shape = n.dims(x), n.dims(weight)
    if len(shape) <= 1 and len(dims) > 1 and as_int(shape[0] if shape else 1) != 1:
        return call("relax.nn.prelu", x, weight, axis=1)
    f = Formula(n, n.dtype(x))
    return f.where(f.less(x, 0.0), f.multiply(x, weight), x)


@torch_spelling("aten.glu")
def torch_glu(n: TorchNode, x: Expr, dim: int = -1) -> Expr:
    """The first half times the sigmoid of the second."""
    f, x = formula(n, x)
    axis = axis_of(n, dim, len(n.dims(x)))
    size = n.dims(x)[axis]
    ends = [(0, size // 2), (size // 2, size)]  # slices are read where they lie, a split is copied
    one, two = (f.strided_slice(x, (axis,), (a,), (b,), (1,)) for a, b in ends)
    return rounded(n, f.multiply(one, f.sigmoid(two)))


def _normalised(name: str) -> None:
    """softmax and log_softmax: computed in the dtype of the result."""

    @torch_spelling(f"aten.{name}.int", f"aten._{name}", f"aten.special_{name}")
    def spell(n: TorchNode, x: Expr, dim: int) -> Expr:
        dims, kind = n.result()
        x = n.tensor(x, kind)
        if not dims:  # one number alone
            x = n.emit(call("relax.reshape", x, [1]))
            return call("relax.reshape", n.emit(call(f"relax.nn.{name}", x, axis=0)), [])
        return call(f"relax.nn.{name}", x, axis=dim)

    spell.__doc__ = f"{name} along one dimension."


_normalised("softmax")
_normalised("log_softmax")
