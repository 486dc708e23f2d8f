"""PyTorch spellings of functions of one tensor that are formulas, and of changes of dtype."""

from __future__ import annotations

import math
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, formula, rounded, torch_formula
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr

for _names, _formula in {
    "reciprocal": lambda f, x: f.divide(1.0, x),
    "log2": lambda f, x: _log(f, x, 2.0),
    "log10": lambda f, x: _log(f, x, 10.0),
    "exp2 special_exp2": lambda f, x: f.power(2.0, x),
    "frac": lambda f, x: f.subtract(x, f.trunc(x)),
}.items():
    torch_formula(*(f"aten.{name}" for name in _names.split()))(_formula)


def _log(f: Formula, x: Expr, base: float) -> Expr:
    """The logarithm to a base, exact of its powers: what is rounded down there is one less."""
    found = f.divide(f.log(x), math.log(base))
    whole = f.round(found)
    return f.where(f.equal(f.power(base, whole), x), whole, found)


@torch_formula("aten.log1p", "aten.special_log1p")
def torch_log1p(f: Formula, x: Expr) -> Expr:
    """log(1 + x), exact also where x is small: log(u) * x / (u - 1) with u = 1 + x."""
    u = f.add(x, 1.0)
    away = f.subtract(u, 1.0)
    exact = f.multiply(f.log(u), f.divide(x, away))
    plain = f.logical_or(f.equal(away, 0.0), f.isinf(x))
    return f.where(plain, f.where(f.isinf(x), f.log(u), x), exact)


@torch_spelling("aten.sign", "aten.sgn")
def torch_sign(n: TorchNode, x: Expr) -> Expr:
    """-1, 0 or 1; 0 of NaN, and bool as it is."""
    kind = n.result()[1]
    if kind == "bool":
        return x
    found = n.emit(call("relax.sign", x))
    if not dtype(kind).is_float:
        return found
    return call("relax.where", n.emit(call("relax.isnan", x)), n.tensor(0.0, kind), found)


@torch_formula("aten.angle")
def torch_angle(f: Formula, x: Expr) -> Expr:
    """pi of what is below 0, else 0; NaN of NaN."""
    return f.where(f.isnan(x), x, f.where(f.less(x, 0.0), math.pi, 0.0))


@torch_spelling("aten.round.default", "aten.round.decimals")
def torch_round(n: TorchNode, x: Expr, *, decimals: int = 0) -> Expr:
    """Halves to even; to a number of decimals."""
    if decimals == 0:
        return call("relax.round", x)
    f, x = formula(n, x)
    factor = 10.0 ** abs(decimals)
    up, down = (f.multiply, f.divide) if decimals > 0 else (f.divide, f.multiply)
    return rounded(n, down(f.round(up(x, factor)), factor))


@torch_spelling("aten.nan_to_num")
def torch_nan_to_num(n: TorchNode, x: Expr, nan: Any = None, posinf: Any = None,
                     neginf: Any = None) -> Expr:  # fmt: skip
    """NaN and infinities as numbers: 0 and the largest of the dtype by default."""
    kind = n.result()[1]
    if not dtype(kind).is_float:
        return x
    f, x = formula(n, x)
    most = float(_finfo(kind))
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    found = f.where(f.isnan(x), nan or 0.0, x)
    found = f.where(f.equal(x, math.inf), high, found)
    return rounded(n, f.where(f.equal(x, -math.inf), low, found))


def _finfo(kind: str) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dtype(kind).numpy).max


@torch_spelling("aten.to", "aten._to_copy", "prims.convert_element_type")
def torch_to(n: TorchNode, x: Expr) -> Expr:
    """x in another dtype; devices are one."""
    return n.tensor(x, n.result()[1])


@torch_spelling("aten.type_as")
def torch_type_as(n: TorchNode, x: Expr, other: Expr) -> Expr:
    """x in the dtype of another."""
    return n.tensor(x, n.result()[1])


@torch_spelling("aten.clone", "aten.contiguous", "aten.detach", "aten.alias", "aten.detach_")
@torch_spelling("aten.lift_fresh_copy", "aten.lift_fresh", "aten.positive", "aten.resolve_conj")
@torch_spelling("aten.resolve_neg", "aten.lift", "aten.real", "aten.cpu")
def torch_same(n: TorchNode, x: Expr) -> Expr:
    """x itself: values have no memory of their own."""
    return x


@torch_spelling("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.native_dropout")
@torch_spelling("aten.feature_alpha_dropout")
def torch_dropout(n: TorchNode, x: Expr, p: float, train: bool) -> Expr:
    """x itself, as inference has it.

    Refused in training: what it drops is random.
    """
    if train and p > 0:
        n.refuse(f"it drops elements at random (p = {p})", "call model.eval() before the export")
    return x
