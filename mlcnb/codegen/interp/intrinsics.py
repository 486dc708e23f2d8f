"""Intrinsic calls on Python numbers: NumPy's meaning, rounded to the dtype of the call."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from mlcnb.codegen.interp.numerics import floating_divide, larger, rounder, smaller, wrapper
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir.dtype import DType

Scalar = Callable[..., Any]


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    power = float(np.exp(x))
    return power / (1.0 + power)


def _fma(a: float, b: float, c: float) -> float:
    """a * b + c rounded once: exact in fractions where all are finite."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    from fractions import Fraction

    return float(Fraction(a) * Fraction(b) + Fraction(c))


def _pow(x: float, y: float) -> float:
    """C's pow; of two scalars NumPy takes the square root for an exponent of 0.5."""
    return float(np.power(np.array([x]), np.array([y]))[0])


def _ldexp(x: float, y: int) -> float:
    try:
        return math.ldexp(x, y)
    except OverflowError:
        return math.copysign(math.inf, x)


#: floats to a float; computed in double and rounded
_FLOAT: dict[str, Scalar] = {
    **{
        name: getattr(np, name)
        for name in (
            "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc "
            "fmod hypot"
        ).split()
    },
    **{f"a{name}": getattr(np, f"arc{name}") for name in "sin cos tan tan2 sinh cosh tanh".split()},
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: floating_divide(1.0, float(np.sqrt(x))),
    "sigmoid": _sigmoid,
    "erf": math.erf,
    "round": np.rint,
    "nearbyint": np.rint,
    "fabs": abs,
    "copysign": math.copysign,
    "pow": _pow,
    "ldexp": _ldexp,
    "fma": _fma,
}

#: LLVM and C names of the same functions
_ALIASES = {
    "fmuladd": "fma",
    "rint": "round",
    "roundeven": "round",
    "powi": "pow",
    "tgamma": "gamma",
}


@cache
def intrinsic(name: str, kind: DType, operands: tuple[DType, ...]) -> Scalar:
    """The function that the intrinsic `name` (without "tir.") means for a dtype.

    Raises:
        UnsupportedOpError: no such intrinsic is known.
    """
    special = _SPECIAL.get(name)
    if special is not None:
        return special(kind, operands)
    fn = _FLOAT.get(name)
    if fn is None:
        raise UnsupportedOpError(f"the interpreter knows no intrinsic tir.{name}")
    if not kind.is_float:
        return _on_integers(name, kind)
    fit = rounder(kind)
    return lambda *args: fit(float(fn(*args)))


def _on_integers(name: str, kind: DType) -> Scalar:
    if name in ("floor", "ceil", "trunc", "round", "nearbyint"):
        return lambda x: x
    if name == "pow":
        return _integer_power(kind)
    if name == "fabs":
        fit = wrapper(kind)
        return lambda x: fit(abs(x))
    raise UnsupportedOpError(f"tir.{name} of {kind}", hint="cast to a float first")


def _integer_power(kind: DType) -> Scalar:
    fit, modulus = wrapper(kind), 1 << kind.bits

    def power(base: int, exponent: int) -> int:
        if exponent < 0:
            raise ExecutionError(f"integer power with a negative exponent: {base} ** {exponent}")
        return fit(pow(base, exponent, modulus))

    return power


def _bitwise(fn: Callable[..., int]) -> Callable[[DType, tuple], Scalar]:
    def make(kind: DType, operands: tuple[DType, ...]) -> Scalar:
        fit = wrapper(kind)
        return lambda *args: fit(fn(*args))

    return make


def _bitwise_not(kind: DType, operands: tuple[DType, ...]) -> Scalar:
    return (lambda a: not a) if kind.is_bool else _bitwise(lambda a: ~a)(kind, operands)


def _shift(fn: Callable[[int, int], int], signed: bool) -> Callable[[DType, tuple], Scalar]:
    """By less than 0 or the width or more only the sign is left, as in NumPy: 0, or -1."""

    def make(kind: DType, operands: tuple[DType, ...]) -> Scalar:
        fit, bits = wrapper(kind), kind.bits

        def shift(x: int, by: int) -> int:
            return fit(fn(x, by)) if 0 <= by < bits else fit(-1 if signed and x < 0 else 0)

        return shift

    return make


def _popcount(kind: DType, operands: tuple[DType, ...]) -> Scalar:
    mask = (1 << operands[0].bits) - 1
    return lambda x: (x & mask).bit_count()


def _clz(kind: DType, operands: tuple[DType, ...]) -> Scalar:
    bits = operands[0].bits
    mask = (1 << bits) - 1
    return lambda x: bits - (x & mask).bit_length()


def _nextafter(kind: DType, operands: tuple[DType, ...]) -> Scalar:
    if kind not in ("float32", "float64", "float16"):
        raise UnsupportedOpError(f"tir.nextafter of {kind}")
    numpy = kind.numpy.type
    return lambda x, y: float(np.nextafter(numpy(x), numpy(y)))


def _or_the_number(fn: Scalar) -> Scalar:
    """An extreme of two floats; of NaN and a number, the number."""
    return lambda a, b: b if a != a else a if b != b else fn(a, b)


def _always(fn: Scalar) -> Callable[[DType, tuple], Scalar]:
    """The same function for all dtypes."""
    return lambda kind, operands: fn


def _assume(kind: DType, operands: tuple[DType, ...]) -> Scalar:
    def assume(holds: bool) -> bool:
        if not holds:
            raise ExecutionError("T.assume: what is assumed does not hold")
        return True

    return assume


def _undefined(kind: DType, operands: tuple[DType, ...]) -> Scalar:
    """Any number; the one that fresh memory has, so that a use of it shows."""
    if kind.is_float:
        return lambda *args: math.nan
    value = wrapper(kind)(-1)
    return lambda *args: value


def _large_integer(kind: DType, operands: tuple[DType, ...]) -> Scalar:
    """An integer of 64 bits, from its low and its high half."""
    fit = wrapper(kind)
    return lambda low, high: fit((high << 32) | (low & 0xFFFFFFFF))


_SPECIAL: dict[str, Callable[[DType, tuple[DType, ...]], Scalar]] = {
    "bitwise_and": _bitwise(lambda a, b: a & b),
    "bitwise_or": _bitwise(lambda a, b: a | b),
    "bitwise_xor": _bitwise(lambda a, b: a ^ b),
    "bitwise_not": _bitwise_not,
    "shift_left": _shift(lambda a, b: a << b, signed=False),
    "shift_right": _shift(lambda a, b: a >> b, signed=True),
    "popcount": _popcount,
    "clz": _clz,
    "isnan": _always(lambda x: x != x),
    "isinf": _always(lambda x: x in (math.inf, -math.inf)),
    "isfinite": _always(math.isfinite),
    "likely": _always(lambda x: x),
    "nextafter": _nextafter,
    "minnum": _always(_or_the_number(smaller)),
    "maxnum": _always(_or_the_number(larger)),
    "minimum": _always(smaller),
    "maximum": _always(larger),
    "prefetch": _always(lambda *args: 0),
    "type_annotation": _always(lambda *args: 0),
    "assume": _assume,
    "undef": _undefined,
    "isnullptr": _always(lambda pointer: pointer is None),
    "large_uint_imm": _large_integer,
}


def foreign(name: str) -> str:
    """The intrinsic behind an LLVM or C name: "llvm.fma.v8f32" and "fmaf" are both "fma".

    Raises:
        UnsupportedOpError: the interpreter does not know it.
    """
    short = name.split(".")[1] if name.startswith("llvm.") else name
    short = _ALIASES.get(short, short)
    for candidate in (short, short.removesuffix("f")):
        if candidate in _FLOAT or candidate in _SPECIAL:
            return candidate
    raise UnsupportedOpError(
        f"the interpreter cannot call {name}",
        hint="register a Python function of that name with mlcnb.register_func",
    )
