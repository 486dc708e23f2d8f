"""Numbers that PyTorch computes from sizes (SymPy), as expressions of float64.

    n**-0.5          FloatPow(ToFloat(s77), -0.5)         pow(float64(s77), -0.5)
    n / 3            IntTrueDiv(s77, 3)                   float64(s77) / 3.0
    int(n * 0.5)     TruncToInt(0.5 * ToFloat(s77))       s77 // 2
    int(n * 0.7)     TruncToInt(0.7 * ToFloat(s77))       a size that the run computes, in float64

A number becomes operators where a tensor needs it (`as_tensor`). A whole number that is made of one
is an expression of sizes where floats round nothing away, else it is measured as the model runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from mlcnb.core.errors import UnsupportedError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.frontend.shared.fractions import NoFraction, fraction, truncated
from mlcnb.relax.frontend.shared.loop_values import call_op, size_tensor

FLOAT = "float64"
#: functions of Python's math by the name that SymPy has for them
UNARY = "sqrt cos cosh sin sinh tan tanh asin acos atan exp log asinh log2".split()


def number(x: Any, sizes: Callable[[Any], PrimExpr]) -> PrimExpr:
    """A SymPy expression as a float64 expression.

    Args:
        x: the expression.
        sizes: makes expressions of those of whole numbers.

    Raises:
        UnsupportedError: it is computed in a way that is not translated.
    """
    if x.is_Float or x.is_Rational:
        return p.const(float(x), FLOAT)
    if x.is_integer:
        return p.cast(FLOAT, sizes(x))
    build = _BUILD.get(type(x).__name__)
    if build is None:
        raise UnsupportedError(
            f"a number {x} is computed from sizes with {type(x).__name__}", hint="fix the sizes"
        )
    return build(*(number(a, sizes) for a in x.args))


def rounded(kind: str, x: PrimExpr) -> PrimExpr | None:
    """The whole number that `trunc`, `floor`, `ceil` or `round` makes of a float64 expression;
    None where sizes alone do not say it exactly.
    """
    try:
        if kind == "trunc":
            return truncated(fraction(x))
        return fraction(called(kind, x)).top
    except NoFraction:
        return None


def called(name: str, *args: PrimExpr) -> PrimExpr:
    """A function of float64."""
    return e.Call(p.dtype(FLOAT), f"tir.{name}", args)


def as_tensor(node: Any, x: PrimExpr) -> Expr:
    """A float64 expression as a tensor without dimensions that the model computes.

    node: emits calls.
    """
    if isinstance(x, e.FloatImm):
        return const(x.value, FLOAT)
    if isinstance(x, e.Cast):
        return call_op(node, "relax.astype", size_tensor(node, x.value), dtype=FLOAT)
    args = x.args if isinstance(x, e.Call) else (x.a, x.b)  # type: ignore[attr-defined]
    name = x.op.removeprefix("tir.") if isinstance(x, e.Call) else _OPERATORS[type(x)]
    return call_op(node, f"relax.{_NAMES.get(name, name)}", *(as_tensor(node, a) for a in args))


def _folded(fn: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *args: reduce(fn, args)


def _named(name: str) -> Callable[..., Any]:
    return lambda *args: called(name, *args)


_OPERATORS: dict[type, str] = {
    e.Add: "add", e.Sub: "subtract", e.Mul: "multiply", e.Div: "divide",
    e.Min: "minimum", e.Max: "maximum",
}  # fmt: skip
_NAMES = {"pow": "power"}
#: class of SymPy (or of torch.utils._sympy.functions) -> from its arguments, of float64
_BUILD: dict[str, Callable[..., Any]] = {
    "ToFloat": lambda a: a, "Identity": lambda a: a,
    "Add": _folded(p.add), "Mul": _folded(p.multiply), "Max": _folded(p.maximum),
    "Min": _folded(p.minimum), "IntTrueDiv": p.div, "FloatTrueDiv": p.div,
    "Pow": _named("pow"), "FloatPow": _named("pow"), "TruncToFloat": _named("trunc"),
    **{f"OpaqueUnaryFn_{name}": _named(name) for name in UNARY},
}  # fmt: skip
