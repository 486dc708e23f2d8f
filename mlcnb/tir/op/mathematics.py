"""Mathematics of scalars: `exp(x)` is `Call(x.dtype, "tir.exp", (x,))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr
from mlcnb.ir.prim_ops import floordiv, floormod, truncdiv
from mlcnb.tir.op.calls import kind_of

Unary = Callable[[Any], PrimExpr]


def const(value: Any, dtype: Any = None) -> PrimExpr:
    """A constant of a dtype (default: int32 for int, float32 for float, bool for bool)."""
    return p.const(value, dtype)


def div(a: Any, b: Any) -> PrimExpr:
    """a / b as in C, in the common dtype: integers rounded towards zero (see `truncdiv`).

    Raises:
        MLCError: an integer divided by the constant 0.
    """
    a, b = p.match_dtypes(a, b)
    return p.div(a, b) if a.dtype.is_float else truncdiv(a, b)


#: divisions of indices, which are not negative where it matters
indexdiv, indexmod = floordiv, floormod


def _float_operand(x: Any) -> PrimExpr:
    """`x` as an expression, an integer or bool cast to float32."""
    x = p.as_expr(x)
    if x.dtype.is_handle:
        raise MLCError("an intrinsic of numbers got a handle")
    return x if x.dtype.is_float else p.cast("float32", x)


def _math(name: str, meaning: str) -> Unary:
    def build(x: Any) -> PrimExpr:
        x = _float_operand(x)
        return Call(x.dtype, f"tir.{name}", (x,))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{meaning} of a float, in its dtype; integers are cast to float32.

    Raises:
        MLCError: x is a handle.
    """
    return build


exp = _math("exp", "e ** x")
exp2 = _math("exp2", "2 ** x")
exp10 = _math("exp10", "10 ** x")
log = _math("log", "Natural logarithm")
log2 = _math("log2", "Logarithm to base 2")
log10 = _math("log10", "Logarithm to base 10")
log1p = _math("log1p", "log(1 + x)")
expm1 = _math("expm1", "e ** x - 1")
sqrt = _math("sqrt", "Square root")
rsqrt = _math("rsqrt", "1 / sqrt(x)")
tanh = _math("tanh", "Hyperbolic tangent")
sigmoid = _math("sigmoid", "1 / (1 + exp(-x))")
erf = _math("erf", "Error function")
sin = _math("sin", "Sine")
cos = _math("cos", "Cosine")
tan = _math("tan", "Tangent")
asin = _math("asin", "Inverse sine")
acos = _math("acos", "Inverse cosine")
atan = _math("atan", "Inverse tangent")
sinh = _math("sinh", "Hyperbolic sine")
cosh = _math("cosh", "Hyperbolic cosine")
asinh = _math("asinh", "Inverse hyperbolic sine")
acosh = _math("acosh", "Inverse hyperbolic cosine")
atanh = _math("atanh", "Inverse hyperbolic tangent")


def _rounding(name: str, meaning: str) -> Unary:
    def build(x: Any) -> PrimExpr:
        x = p.as_expr(x)
        return Call(x.dtype, f"tir.{name}", (x,)) if x.dtype.is_float else x

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{meaning}, in the dtype of x; an integer stays as it is, none is refused."
    return build


floor = _rounding("floor", "The largest integer <= x")
ceil = _rounding("ceil", "The smallest integer >= x")
trunc = _rounding("trunc", "x without its fraction")
round = _rounding("round", "The nearest integer, halves to the even one")
nearbyint = _rounding("nearbyint", "The nearest integer, halves to the even one")


def abs(x: Any) -> PrimExpr:
    """|x|: `tir.fabs` of a float, a Select of a signed integer.

    The dtype is that of x; the smallest integer stays negative, as in C. An unsigned integer stays
    as it is, nothing is refused.
    """
    x = p.as_expr(x)
    if x.dtype.is_float:
        return Call(x.dtype, "tir.fabs", (x,))
    if isinstance(x, e.IntImm):
        return p.wrapped(-x.value if x.value < 0 else x.value, x.dtype)
    if x.dtype.is_int:
        return e.Select(p.greater_equal(x, p.const(0, x.dtype)), x, p.neg(x))
    return x


fabs = abs


def _binary(name: str, meaning: str) -> Callable[[Any, Any], PrimExpr]:
    def build(x: Any, y: Any) -> PrimExpr:
        x, y = p.match_dtypes(x, y)
        if not x.dtype.is_float:
            x, y = _float_operand(x), _float_operand(y)
        return Call(x.dtype, f"tir.{name}", (x, y))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{meaning}, in their common float dtype; integers are cast to float32.\n\nRaises:\n"
        "    MLCError: a pointer among them, or vectors of different lanes."
    )
    return build


atan2 = _binary("atan2", "The angle of the point (y, x): arguments in the order y, x")
fmod = _binary("fmod", "The remainder of x / y with the sign of x")
copysign = _binary("copysign", "|x| with the sign of y")
hypot = _binary("hypot", "sqrt(x * x + y * y)")
nextafter = _binary("nextafter", "The next number after x towards y")


def power(x: Any, y: Any) -> PrimExpr:
    """x ** y of two floats, or of two integers (the exponent then must not be negative).

    In the common dtype of both, so a float to an integer is float to float.

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    x, y = p.match_dtypes(x, y)
    return Call(x.dtype, "tir.pow", (x, y))


pow = power


def ldexp(x: Any, y: Any) -> PrimExpr:
    """x * 2 ** y; y is an integer.

    In the dtype of x; an integer x is cast to float32.

    Raises:
        MLCError: y is no integer.
    """
    x, y = _float_operand(x), p.as_expr(y)
    p.integers("ldexp", y)
    return Call(x.dtype, "tir.ldexp", (x, y))


def _bool_like(x: PrimExpr) -> DType:
    return dtype("bool").with_lanes(x.dtype.lanes)


def isnan(x: Any) -> PrimExpr:
    """True where x is not a number; False for integers. Its dtype is bool, with the lanes of x;
    none is refused.
    """
    x = p.as_expr(x)
    kind = _bool_like(x)
    return Call(kind, "tir.isnan", (x,)) if x.dtype.is_float else p.const(False, kind)


def isinf(x: Any) -> PrimExpr:
    """True where x is plus or minus infinity; False for integers. Its dtype is bool, with the lanes
    of x; none is refused.
    """
    x = p.as_expr(x)
    if not x.dtype.is_float:
        return p.const(False, _bool_like(x))
    return p.logical_and(p.equal(abs(x), p.infinity(x.dtype)), p.logical_not(isnan(x)))


def isfinite(x: Any) -> PrimExpr:
    """True where x is neither infinite nor NaN; True for integers. Its dtype is bool, with the
    lanes of x; none is refused.
    """
    x = p.as_expr(x)
    if not x.dtype.is_float:
        return p.const(True, _bool_like(x))
    return p.logical_and(p.logical_not(isinf(x)), p.logical_not(isnan(x)))


def popcount(x: Any) -> PrimExpr:
    """The number of bits set, in the dtype of x.

    Raises:
        MLCError: x is no integer.
    """
    x = p.as_expr(x)
    p.integers("popcount", x)
    return Call(x.dtype, "tir.popcount", (x,))


def clz(x: Any) -> PrimExpr:
    """The number of leading zero bits of an integer, int32; undefined for 0.

    Counted in the dtype of x: clz of int64 1 is 63.

    Raises:
        MLCError: x is no integer.
    """
    x = p.as_expr(x)
    p.integers("clz", x)
    return Call(dtype("int32"), "tir.clz", (x,))


def vscale() -> Call:
    """How many times longer the vectors of the machine are than 128 bits: scalable vectors."""
    return Call(dtype("int32"), "tir.vscale", ())


def likely(condition: Any) -> PrimExpr:
    """The condition, marked as usually true: a loop bound that a split brought.

    Means the condition, in its dtype (bool); nothing is refused.
    """
    condition = p.as_expr(condition)
    if isinstance(condition, e.IntImm):
        return condition
    return Call(condition.dtype, "tir.likely", (condition,))


def reinterpret(dtype: str, value: Any) -> PrimExpr:
    """The bits of `value` as a number of `dtype`, which has as many bits.

    Raises:
        MLCError: `dtype` has another number of bits.
    """
    value = p.as_expr(value)
    kind = kind_of(dtype)
    if value.dtype == kind:
        return value
    if value.dtype.bits * value.dtype.lanes != kind.bits * kind.lanes:
        raise MLCError(f"reinterpret: {value.dtype} and {kind} differ in size")
    return Call(kind, "tir.reinterpret", (value,))
