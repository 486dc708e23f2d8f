"""Mathematics as LLVM IR: one internal function per name and number of lanes, made to be inlined.

    symbol("exp", 16)                           @mlcnb.exp.v16f32
    math_module([("exp", 16, "float32")])       define internal <16 x float> @mlcnb.exp.v16f32 ...

In float32 all of them are vector code without calls, branches or tables: range reduction, one
polynomial, fused multiply-adds where the CPU has them. Infinities, nan, signed zeros, denormals,
overflow and underflow come out as C defines them. Largest errors against float64, in units in the
last place, over every 61st of all floats (70 million; erf: 2 million; pow: random pairs):

             cos  erf  exp  exp2 expm1 log  log1p log2 pow  sigmoid sin  tanh
    FMA      1.56 1.46 0.88 0.94 1.44  0.80 1.43  1.23 0.51 2.31    1.56 2.42
    no FMA   1.56 1.76 1.13 1.19 1.44  0.80 1.40  1.40 0.51 2.31    1.57 2.42

             acos acosh asin asinh atan atanh cosh sinh tan
    FMA      1.10 1.82  2.25 1.65  1.31 1.89  2.37 2.37 2.58
    no FMA   1.10 1.82  2.25 1.62  1.44 1.89  2.50 2.50 2.53

(acos to tan: every 244th float.) fmod is exact.

The coefficients are our own fits: `fit.py` computes and prints them.

sin, cos and tan take the C library's way for a vector with a lane beyond 1e8 (in float64 1e6), fmod
for one with a quotient beyond 2^24. In float64 all of them but pow are vector code too, which calls
the C library lane by lane. Largest errors in float64, over 800,000 values of each:

             acos acosh asin asinh atan atanh cos  cosh erf  exp  exp2 expm1 log  log1p log2
    FMA      1.17 1.77  2.17 1.60  1.61 1.95  0.76 2.51 1.54 0.91 0.92 1.83  0.86 0.80  1.64
    no FMA   1.14 1.77  2.24 1.60  1.71 1.88  0.79 2.71 1.93 1.20 1.17 1.90  0.86 0.79  1.65

             sigmoid sin  sinh tan  tanh
    FMA      2.4     0.77 2.43 2.07 2.6
    no FMA   2.4     0.76 2.89 1.89 2.6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mlcnb.codegen.llvm.math import (
    exponential,
    gauss,
    hyperbolic,
    inverse,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from mlcnb.codegen.llvm.math.build import Body, Value
from mlcnb.core.errors import CodegenError

_FLOAT32: dict[str, Callable[..., Value]] = {
    "acos": inverse.acos,
    "acosh": hyperbolic.acosh,
    "asin": inverse.asin,
    "asinh": hyperbolic.asinh,
    "atan": inverse.atan,
    "atanh": hyperbolic.atanh,
    "cos": trigonometric.cos,
    "cosh": hyperbolic.cosh,
    "erf": gauss.erf,
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "fmod": remainder.fmod,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "pow": power.power,
    "sigmoid": exponential.sigmoid,
    "sin": trigonometric.sin,
    "sinh": hyperbolic.sinh,
    "tan": trigonometric.tan,
    "tanh": exponential.tanh,
}
#: those that are not the same code for both widths; pow is the C library's
_FLOAT64: dict[str, Callable[..., Value]] = {
    **{name: make for name, make in _FLOAT32.items() if name != "pow"},
    "cos": trigonometric.cos_wide,
    "erf": gauss.erf_wide,
    "exp": exponential.exp_wide,
    "exp2": exponential.exp2_wide,
    "expm1": exponential.expm1_wide,
    "log": logarithm.log_wide,
    "log1p": logarithm.log1p_wide,
    "log2": logarithm.log2_wide,
    "sigmoid": exponential.sigmoid_wide,
    "sin": trigonometric.sin_wide,
    "tan": trigonometric.tan_wide,
    "tanh": exponential.tanh_wide,
}
#: functions by name, with the number of their arguments
ARITY = {name: 2 if name in ("fmod", "pow") else 1 for name in _FLOAT32}
_KINDS = {"float32": "float", "float64": "double"}
#: functions that fall back on those of the C library
_FALLBACKS = ("cos", "fmod", "sin", "tan")


def symbol(name: str, lanes: int, dtype: str = "float32") -> str:
    """The name to call, with its `@`: `@mlcnb.exp.v16f32`, and `@mlcnb.exp.f32` for one lane."""
    return f"@mlcnb.{name}.{Body(lanes).suffix(_kind(name, lanes, dtype))}"


def math_functions(
    name: str, lanes: int, dtype: str = "float32", features: frozenset[str] = frozenset()
) -> str:
    """The definition of one function as IR text.

    Args:
        name: one of `ARITY`.
        lanes: 1 for scalars, else the length of the vectors.
        dtype: `float32` or `float64`.
        features: of the CPU that it is for, LLVM's words; without any it runs on all.

    Raises:
        CodegenError: no such function, dtype or number of lanes.
    """
    kind = _kind(name, lanes, dtype)
    body = Body(lanes, features)
    arguments = [body.argument(letter, kind) for letter in "xy"[: ARITY[name]]]
    own = (_FLOAT32 if kind == "float" else _FLOAT64).get(name)
    result = own(body, *arguments) if own else body.per_lane(name, arguments)
    parameters = ", ".join(f"{body.type(kind)} {a.text}" for a in arguments)
    head = f"define internal {body.type(kind)} {symbol(name, lanes, dtype)}({parameters})"
    return "\n".join(
        [
            f"{head} alwaysinline nounwind willreturn memory(none) {{",
            "entry:",
            *body.lines,
            f"  ret {body.type(kind)} {result.text}",
            "}",
        ]
    )


def declarations(name: str, dtype: str = "float32") -> tuple[str, ...]:
    """The `declare` lines for what the definition calls in the C library."""
    kind = _kind(name, 1, dtype)
    if name not in _FALLBACKS and (kind == "float" or name in _FLOAT64):
        return ()
    called = f"{name}f" if kind == "float" else name
    parameters = ", ".join([kind] * ARITY[name])
    return (f"declare {kind} @{called}({parameters}) nounwind willreturn memory(none)",)


def math_module(
    requests: Iterable[tuple[str, int, str]], features: frozenset[str] = frozenset()
) -> str:
    """All definitions for (name, lanes, dtype) requests, each once, with their declarations."""
    wanted = sorted(set(requests))
    declared = sorted({line for name, _, dtype in wanted for line in declarations(name, dtype)})
    made = (math_functions(*request, features) for request in wanted)
    return "\n\n".join([*declared, *made]) + "\n"


def _kind(name: str, lanes: int, dtype: str) -> str:
    if name not in ARITY:
        raise CodegenError(f"no function {name!r}: there are {', '.join(sorted(ARITY))}")
    if dtype not in _KINDS:
        raise CodegenError(f"{name} is made for float32 and float64, not for {dtype}")
    if lanes < 1:
        raise CodegenError(f"{name} cannot have {lanes} lanes")
    return _KINDS[dtype]
