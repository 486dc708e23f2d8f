"""Functions of one tensor, element by element: exp, tanh, sqrt, sign, round, isnan, clip …

One line declares one operator: name, meaning in NumPy, expression, the dtypes that it takes.
Activations such as relu are in `mlcnb.op.nn`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.op._dims import refuse, tell
from mlcnb.op._elementwise import (
    BITS,
    BOOLS,
    FLOATS,
    NUMBERS,
    elementwise,
    in_float32,
    loop_in_float32,
    quiet,
    unary,
    want_kinds,
)
from mlcnb.op._spell import call, scalar_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, PrimValue, const
from mlcnb.relax.operator import OpDecl, Scalar, Tensor, make_call, operator

# exponentials, powers, logarithms


def _erf(x: np.ndarray) -> np.ndarray:
    """The error function, number by number: NumPy has none."""
    return np.reshape([math.erf(v) for v in x.astype(np.float64).flat], x.shape)


@in_float32
def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


@in_float32
def _rsqrt(x: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(x)


def _square(x: Any) -> Any:
    return x * x


Exp = unary("exp", FLOATS, "e ** x", onnx="Exp", torch="exp")
Expm1 = unary("expm1", FLOATS, "e ** x - 1, exact also where x is small", torch="expm1")
Log = unary("log", FLOATS, "Natural logarithm", onnx="Log", torch="log")
Sqrt = unary("sqrt", FLOATS, "Square root", onnx="Sqrt", torch="sqrt")
Rsqrt = unary(
    "rsqrt", FLOATS, "1 / sqrt(x)", meaning=_rsqrt, loop=loop_in_float32(te.rsqrt), torch="rsqrt"
)
Square = unary("square", NUMBERS, "x * x", meaning=_square, loop=_square, torch="square")
Erf = unary("erf", FLOATS, "Error function", meaning=_erf, onnx="Erf", torch="erf", tir_name="erf")
Sigmoid = unary(
    "sigmoid",
    FLOATS,
    "1 / (1 + e ** -x)",
    meaning=_sigmoid,
    onnx="Sigmoid",
    torch="sigmoid",
    cost=4,
)

# trigonometry

Sin = unary("sin", FLOATS, "Sine", onnx="Sin", torch="sin")
Cos = unary("cos", FLOATS, "Cosine", onnx="Cos", torch="cos")
Tan = unary("tan", FLOATS, "Tangent", onnx="Tan", torch="tan")
Asin = unary("asin", FLOATS, "Inverse sine", meaning=np.arcsin, onnx="Asin", torch="asin")
Acos = unary("acos", FLOATS, "Inverse cosine", meaning=np.arccos, onnx="Acos", torch="acos")
Atan = unary("atan", FLOATS, "Inverse tangent", meaning=np.arctan, onnx="Atan", torch="atan")
Sinh = unary("sinh", FLOATS, "Hyperbolic sine", onnx="Sinh", torch="sinh")
Cosh = unary("cosh", FLOATS, "Hyperbolic cosine", onnx="Cosh", torch="cosh")
Tanh = unary("tanh", FLOATS, "Hyperbolic tangent", onnx="Tanh", torch="tanh")
Asinh = unary(
    "asinh", FLOATS, "Inverse hyperbolic sine", meaning=np.arcsinh, onnx="Asinh", torch="asinh"
)
Acosh = unary(
    "acosh", FLOATS, "Inverse hyperbolic cosine", meaning=np.arccosh, onnx="Acosh", torch="acosh"
)
Atanh = unary(
    "atanh", FLOATS, "Inverse hyperbolic tangent", meaning=np.arctanh, onnx="Atanh", torch="atanh"
)

# sign and rounding


def _sign_loop(x: PrimExpr) -> PrimExpr:
    one, zero = p.const(1, x.dtype), p.const(0, x.dtype)
    if x.dtype.is_uint:
        return te.Select(x > zero, one, zero)
    known = te.Select(x > zero, one, te.Select(x < zero, p.neg(one), zero))
    return te.Select(te.isnan(x), x, known) if x.dtype.is_float else known


def _negated(x: PrimExpr) -> PrimExpr:
    """x * -1, which is what changing the sign is, of -0.0 and infinities too."""
    return p.neg(x) if x.dtype.is_uint else p.multiply(x, p.const(-1, x.dtype))


def _of_floats(fn: Any) -> Any:
    """A rounding function that leaves integers as they are."""

    def run(x: np.ndarray) -> np.ndarray:
        return fn(x) if dtype(x.dtype.name).is_float else x

    return run


Abs = unary("abs", NUMBERS, "|x|", onnx="Abs", torch="abs absolute")
Negative = unary("negative", NUMBERS, "-x", loop=_negated, onnx="Neg", torch="neg negative")
Sign = unary("sign", NUMBERS, "-1, 0 or 1; NaN of NaN", loop=_sign_loop, onnx="Sign")
_floor, _ceil, _trunc, _rint = map(_of_floats, (np.floor, np.ceil, np.trunc, np.rint))

Floor = unary(
    "floor", NUMBERS, "The largest integer <= x", meaning=_floor, onnx="Floor", torch="floor"
)
Ceil = unary("ceil", NUMBERS, "The smallest integer >= x", meaning=_ceil, onnx="Ceil", torch="ceil")
Trunc = unary("trunc", NUMBERS, "x without its fraction", meaning=_trunc, torch="trunc fix")
Round = unary("round", NUMBERS, "x rounded, halves to even", meaning=_rint, onnx="Round")
for _made in (Square, Erf, Sigmoid, Sin, Cos, Atan, Tanh, Abs, Negative, Sign):
    _made.finite = True
for _made in (Floor, Ceil, Trunc, Round):
    _made.finite = _made.idempotent = True
Abs.idempotent = Sign.idempotent = True

# predicates and bits


def _flipped(x: PrimExpr) -> PrimExpr:
    return p.logical_not(x) if x.dtype.is_bool else p.bitwise_not(x)


#: an operator that answers yes or no
_tells = partial(unary, gives="bool", cost=0)

Isnan = _tells("isnan", NUMBERS, "x is NaN", onnx="IsNaN", torch="isnan")
Isinf = _tells("isinf", NUMBERS, "x is infinite", torch="isinf")
Isfinite = _tells("isfinite", NUMBERS, "x is neither infinite nor NaN", torch="isfinite")
LogicalNot = _tells("logical_not", BOOLS, "not x", loop=p.logical_not, onnx="Not")
BitwiseNot = unary(
    "bitwise_not",
    BITS,
    "All bits flipped",
    loop=_flipped,
    onnx="BitwiseNot",
    torch="bitwise_not",
    cost=0,
)


@onnx("Reciprocal")
def onnx_reciprocal(n: OnnxNode, x: Expr) -> Expr:
    """1 / x"""
    return call("relax.divide", const(1.0, n.dtype(x)), x)


@onnx("IsInf")
def onnx_is_inf(n: OnnxNode, x: Expr) -> Expr:
    """Which infinities count is said by two attributes."""
    positive, negative = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    if positive and negative:
        return make_call(Isinf, x)
    if not (positive or negative):
        return call("relax.logical_and", n.emit(make_call(Isinf, x)), const(False))
    infinity = const(math.inf if positive else -math.inf, n.dtype(x))
    return call("relax.equal", x, infinity)


@operator("relax.clip")
class Clip(OpDecl):
    """min(max(x, lo), hi), elementwise; NaN stays NaN, and where lo > hi all is hi.

    A bound outside of an integer dtype is moved inside.
    """

    cost = 2
    tir_name = "tir_clip"
    elementwise = finite = True
    x: Tensor
    min: Scalar
    max: Scalar

    def infer(self, x: Any, min: Any, max: Any) -> Any:
        """As x."""
        want_kinds(self, NUMBERS, x=x)
        for name, info in (("min", min), ("max", max)):
            if not (info.dtype.is_float or info.dtype.is_integer):
                refuse(self, f"{name} must be a number, but is {info.dtype}, for {tell(x)}")
        return x

    def clamps(self, x: Any, min: Any, max: Any) -> tuple[float, float] | None:
        """The bounds, where they are numbers."""
        low, high = (getattr(bound.value, "value", None) for bound in (min, max))
        return None if low is None or high is None else (float(low), float(high))

    def numpy(self, x: Any, min: Any, max: Any) -> Any:
        """numpy.minimum of numpy.maximum"""
        lo, hi = (x.dtype.type(_inside(b, dtype(x.dtype.name))) for b in (min, max))
        return np.asarray(quiet(np.minimum, np.maximum(x, lo), hi))

    def compute(self, x: Any, min: Any, max: Any) -> Any:
        """One loop nest."""
        lo, hi = (_bound(b, x.dtype) for b in (min, max))
        if p.is_const(p.less_equal(lo, hi), 1):
            return elementwise(lambda v: p.maximum(p.minimum(v, hi), lo), x, name="clip")
        return elementwise(lambda v: p.minimum(p.maximum(v, lo), hi), x, name="clip")


def _inside(bound: Any, kind: DType) -> Any:
    """A bound as a number of an integer dtype, where `kind` is one."""
    if kind.is_float:
        return float(bound)
    if math.isnan(bound):
        return 0
    return int(min(max(bound, kind.min_value), kind.max_value))


def _bound(bound: Any, kind: DType) -> PrimExpr:
    bound = p.as_expr(bound)
    if p.is_const(bound):
        return p.const(_inside(bound.value, kind), kind)
    return p.cast(kind, bound)


@onnx("Clip")
def onnx_clip_attributes(n: OnnxNode, x: Expr) -> Expr:
    """The bounds are attributes."""
    lo, hi = n.attr("min"), n.attr("max")
    return _clipped(n, x, None if lo is None else lo, None if hi is None else hi)


@onnx("Clip", since=11)
def onnx_clip(n: OnnxNode, x: Expr, min: Expr | None = None, max: Expr | None = None) -> Expr:
    """The bounds are inputs, either of which may be left out or known at run time only."""
    known = [None if b is None else n.known(b) for b in (min, max)]
    if all(b is None or k is not None for b, k in zip((min, max), known, strict=True)):
        return _clipped(n, x, _known_bound(n, min, "min"), _known_bound(n, max, "max"))
    for bound, op in ((min, "relax.maximum"), (max, "relax.minimum")):
        if bound is not None:
            x = n.emit(call(op, x, bound))
    return x


def _known_bound(n: OnnxNode, x: Expr | None, name: str) -> Any:
    """A bound as a number or an expression of sizes; None where it is left out."""
    if x is None:
        return None
    known = n.known(x)
    symbolic = known is not None and known.dtype == object and known.size == 1
    return known.item() if known is not None and symbolic else scalar_of(n, x, name)


def _clipped(n: OnnxNode, x: Expr, lo: Any, hi: Any) -> Expr:
    if lo is None and hi is None:
        return x
    kind = dtype(n.dtype(x))
    lowest = -math.inf if kind.is_float else kind.min_value
    highest = math.inf if kind.is_float else kind.max_value
    bounds = (lowest if lo is None else lo, highest if hi is None else hi)
    return make_call(Clip, x, *(PrimValue(_bound(b, kind)) for b in bounds))
