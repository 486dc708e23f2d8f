"""topi.utils: numbers out of expressions, and into them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlcnb.arith import simplify as _simplify
from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p


def get_const_int(expr: Any) -> int:
    """The integer that an expression is.

    Raises:
        MLCError: it is not constant.
    """
    found = p.as_int(simplify(p.as_expr(expr)))
    if found is None:
        raise MLCError(f"{expr!r} is no constant integer")
    return found


def get_const_float(expr: Any) -> float:
    """The number that an expression is."""
    if not p.is_const(expr) and not isinstance(expr, int | float):
        raise MLCError(f"{expr!r} is no constant")
    return float(getattr(expr, "value", expr))


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """A shape as integers; dimensions that are not known stay expressions."""
    found = [(p.as_int(x), x) for x in (simplify(p.as_expr(d)) for d in in_tuple)]
    return tuple(expr if value is None else value for value, expr in found)


def const_vector(vector: Any, name: str = "const_vector") -> Any:
    """A NumPy vector as a tensor that computes it."""
    from mlcnb import te

    def element(i: Any) -> Any:
        chosen = p.const(vector[-1].item(), str(vector.dtype))
        for k in reversed(range(len(vector) - 1)):
            here = p.const(vector[k].item(), str(vector.dtype))
            chosen = te.if_then_else(i.equal(k), here, chosen)
        return chosen

    return te.compute((len(vector),), element, name=name)


def simplify(expr: Any) -> Any:
    """An expression in its short form; a number is left as it is."""
    return _simplify(expr) if hasattr(expr, "dtype") else expr


def prod(x: Sequence[Any]) -> Any:
    """The product of the dimensions."""
    return math.prod(x, start=p.const(1))
