"""PyTorch spellings of arithmetic that say more than the operator: alpha, rounding, promotion."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, formula, rounded, torch_formula
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


def _scaled(n: TorchNode, f: Formula, x: Any, alpha: Any) -> Any:
    """x * alpha"""
    if alpha == 1:
        return x
    return x * alpha if not isinstance(x, Expr) else f.multiply(n.tensor(x, f.kind), alpha)


@torch_spelling("aten.add")
def torch_add(n: TorchNode, x: Any, other: Any, *, alpha: Any = 1) -> Expr:
    """x + alpha * other; of bool their or."""
    kind = n.common(x, other)
    f = Formula(n, kind)
    a, b = n.tensor(x, kind), n.tensor(_scaled(n, f, other, alpha), kind)
    return f.logical_or(a, b) if kind == "bool" else f.add(a, b)


@torch_spelling("aten.sub", "aten.subtract")
def torch_sub(n: TorchNode, x: Any, other: Any, *, alpha: Any = 1) -> Expr:
    """x - alpha * other"""
    kind = n.common(x, other)
    f = Formula(n, kind)
    return f.subtract(n.tensor(x, kind), n.tensor(_scaled(n, f, other, alpha), kind))


@torch_spelling("aten.rsub")
def torch_rsub(n: TorchNode, x: Any, other: Any, alpha: Any = 1) -> Expr:
    """other - alpha * x"""
    return torch_sub(n, other, x, alpha=alpha)


@torch_spelling("aten.mul", "aten.multiply")
def torch_mul(n: TorchNode, x: Any, other: Any) -> Expr:
    """x * other; of bool their and."""
    kind = n.common(x, other)
    name = "relax.logical_and" if kind == "bool" else "relax.multiply"
    return call(name, n.tensor(x, kind), n.tensor(other, kind))


@torch_spelling("aten.div", "aten.divide", "aten.true_divide")
def torch_div(n: TorchNode, x: Any, other: Any, *, rounding_mode: str | None = None) -> Expr:
    """The quotient in floats; with `rounding_mode` floor or trunc in the common dtype."""
    if rounding_mode is None:
        f, a, b = formula(n, x, other)
        return rounded(n, f.divide(a, b))
    kind = n.common(x, other)
    f, a, b = Formula(n, kind), n.tensor(x, kind), n.tensor(other, kind)
    if rounding_mode == "floor":
        return f.floor_divide(a, b)
    quotient = f.divide(a, b)
    return f.trunc(quotient) if dtype(kind).is_float else quotient


@torch_spelling("aten.pow")
def torch_pow(n: TorchNode, x: Any, exponent: Any) -> Expr:
    """x ** exponent; small powers are products."""
    f, a = formula(n, x)
    match exponent if isinstance(exponent, int | float) else None:
        case 1 | 2 | 3:
            found = reduce(f.multiply, [a] * int(exponent))
        case 0.5 if dtype(f.kind).is_float:
            found = f.sqrt(a)
        case -1 if dtype(f.kind).is_float:
            found = f.divide(1.0, a)
        case _:
            found = f.power(a, n.tensor(exponent, f.kind))
    return rounded(n, found)


@torch_spelling("aten.clamp", "aten.clip")
def torch_clamp(n: TorchNode, x: Expr, min: Any = None, max: Any = None) -> Expr:
    """min(max(x, lo), hi), of bounds that are there."""
    kind = n.result()[1]
    found = n.tensor(x, kind)
    numbers = all(b is None or isinstance(b, int | float) for b in (min, max))
    if numbers and None not in (min, max):
        return call("relax.clip", found, min, max)
    for bound, name in ((min, "relax.maximum"), (max, "relax.minimum")):
        if bound is not None:
            found = n.emit(call(name, found, n.tensor(bound, kind)))
    return found


@torch_spelling("aten.clamp_min")
def torch_clamp_min(n: TorchNode, x: Expr, min: Any) -> Expr:
    """max(x, lo)"""
    return torch_clamp(n, x, min)


@torch_spelling("aten.clamp_max")
def torch_clamp_max(n: TorchNode, x: Expr, max: Any) -> Expr:
    """min(x, hi)"""
    return torch_clamp(n, x, None, max)


@torch_formula("aten.addcmul")
def torch_addcmul(f: Formula, x: Expr, a: Expr, b: Expr, *, value: Any = 1) -> Expr:
    """x + value * a * b"""
    product = f.multiply(a, b)
    return f.add(x, product if value == 1 else f.multiply(product, value))


@torch_formula("aten.addcdiv")
def torch_addcdiv(f: Formula, x: Expr, a: Expr, b: Expr, *, value: Any = 1) -> Expr:
    """x + value * a / b"""
    return f.add(x, f.divide(a if value == 1 else f.multiply(a, value), b))


@torch_formula("aten.lerp")
def torch_lerp(f: Formula, x: Expr, end: Expr, weight: Expr) -> Expr:
    """x + weight * (end - x)"""
    return f.add(x, f.multiply(weight, f.subtract(end, x)))


@torch_formula("aten.hypot")
def torch_hypot(f: Formula, x: Expr, other: Expr) -> Expr:
    """sqrt(x * x + other * other), where squares are too large or too small too."""
    a, b = f.abs(x), f.abs(other)
    long, short = f.maximum(a, b), f.minimum(a, b)
    ratio = f.divide(short, f.where(f.equal(long, 0.0), 1.0, long))
    found = f.multiply(long, f.sqrt(f.add(f.multiply(ratio, ratio), 1.0)))
    endless = f.logical_or(f.isinf(a), f.isinf(b))
    return f.where(endless, math.inf, found)


@torch_formula("aten.fmax", "aten.fmin")
def torch_fmax(f: Formula, a: Expr, b: Expr) -> Expr:
    """The larger or smaller one; of a number and NaN the number."""
    found = (f.maximum if "fmax" in f.n.target else f.minimum)(a, b)
    is_float = dtype(f.kind).is_float
    return f.where(f.isnan(a), b, f.where(f.isnan(b), a, found)) if is_float else found


@torch_formula("aten.ldexp")
def torch_ldexp(f: Formula, x: Expr, other: Expr) -> Expr:
    """x * 2 ** other"""
    return f.multiply(x, f.power(2.0, other))


@torch_spelling("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf")
@torch_spelling("aten.where.Scalar")
def torch_where(n: TorchNode, condition: Expr, x: Any, other: Any) -> Expr:
    """x where the condition holds, else other."""
    kind = n.result()[1]
    return call(
        "relax.where", n.tensor(condition, "bool"), n.tensor(x, kind), n.tensor(other, kind)
    )


@torch_spelling("aten.masked_fill")
def torch_masked_fill(n: TorchNode, x: Expr, mask: Expr, value: Any) -> Expr:
    """value where the mask holds, else x."""
    return torch_where(n, mask, value, x)


def _logical(name: str) -> None:
    """Logic of truth values: what is not 0 is true."""

    @torch_spelling(f"aten.{name}")
    def spell(n: TorchNode, *operands: Any) -> Expr:
        return call(f"relax.{name}", *(n.tensor(x, "bool") for x in operands))

    spell.__doc__ = f"{name} of truth values."


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
    _logical(_name)
