"""PyTorch spellings of reductions: sum, mean, var, max with places, any, norm, topk, sort."""

from __future__ import annotations

import math
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Min
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import product, tidy
from mlcnb.op._spell import call, filled
from mlcnb.op._torch import Formula, as_lines, axes_of, axis_of, cut, formula, rounded
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


def _reduced(n: TorchNode, name: str, x: Expr, dim: Any, keepdim: bool) -> Expr:
    """A reduction of Relax, over one, several or all dimensions."""
    if not n.dims(x):
        return x
    axes = axes_of(n, dim, len(n.dims(x)))
    return n.emit(call(f"relax.{name}", x, axis=axes, keepdims=keepdim))


def _summing(target: str) -> None:
    """sum, mean, prod: computed in the dtype of the result."""
    name = target.removesuffix(".default")

    @torch_spelling(f"aten.{target}")
    def spell(n: TorchNode, x: Expr, dim: Any = None, keepdim: bool = False) -> Expr:
        return _reduced(n, name, n.tensor(x, n.result()[1]), dim, keepdim)

    spell.__doc__ = f"{name} over dimensions, all of them by default."


_summing("sum")
_summing("mean")
_summing("prod")


@torch_spelling("aten.amax", "aten.amin")
def torch_amax(n: TorchNode, x: Expr, dim: Any = (), keepdim: bool = False) -> Expr:
    """The largest or least element."""
    return _extreme(n, n.target.split(".")[1][1:], x, list(dim) or None, keepdim)


@torch_spelling("aten.max.default", "aten.min.default")
def torch_max(n: TorchNode, x: Expr) -> Expr:
    """The largest or least of all."""
    return _extreme(n, n.target.split(".")[1], x, None, False)


def _extreme(n: TorchNode, name: str, x: Expr, dim: Any, keepdim: bool) -> Expr:
    if n.dtype(x) == "bool":
        return n.tensor(_reduced(n, name, n.tensor(x, "int8"), dim, keepdim), "bool")
    return _reduced(n, name, x, dim, keepdim)


@torch_spelling("aten.max.dim", "aten.min.dim")
def torch_max_dim(n: TorchNode, x: Expr, dim: int, keepdim: bool = False) -> Any:
    """The largest or least along a dimension, and where it is first."""
    name = n.target.split(".")[1]
    values = _extreme(n, name, x, [dim], keepdim)
    return values, torch_argmax(n, x, dim, keepdim, name=f"arg{name}") if n.is_used(1) else None


@torch_spelling("aten.argmax", "aten.argmin")
def torch_argmax(
    n: TorchNode, x: Expr, dim: int | None = None, keepdim: bool = False, *, name: str | None = None
) -> Expr:
    """Where the largest or least is first."""
    name = name or n.target.split(".")[1]
    if not n.dims(x):
        return n.tensor(0, "int64")
    if n.dtype(x) == "bool":
        x = n.tensor(x, "int8")
    if dim is None:
        flat = n.emit(call("relax.reshape", x, [-1]))
        found = n.emit(call(f"relax.{name}", flat, axis=0, keepdims=False))
        return call(
            "relax.reshape", n.tensor(found, "int64"), [1] * len(n.dims(x)) if keepdim else []
        )
    found = n.emit(call(f"relax.{name}", x, axis=dim, keepdims=keepdim))
    return n.tensor(found, "int64")


@torch_spelling("aten.any", "aten.all")
def torch_any(n: TorchNode, x: Expr, dim: Any = None, keepdim: bool = False) -> Expr:
    """Whether any, or all, are not 0."""
    truth = n.tensor(n.tensor(x, "bool"), "int8")
    name = "max" if n.target.split(".")[1] == "any" else "min"
    found = n.tensor(_reduced(n, name, truth, dim, keepdim), "bool")
    return n.tensor(found, n.result()[1])


@torch_spelling("aten.count_nonzero")
def torch_count_nonzero(n: TorchNode, x: Expr, dim: Any = None) -> Expr:
    """How many are not 0."""
    return _reduced(n, "sum", n.tensor(n.tensor(x, "bool"), "int64"), dim, False)


def _moments(
    n: TorchNode, f: Formula, x: Expr, dim: Any, correction: Any, keepdim: bool
) -> tuple[Expr, Expr]:
    """Variance with `correction` taken from the count, and mean."""
    dims = n.dims(x)
    axes = axes_of(n, dim, len(dims))
    count = tidy(product([dims[a] for a in axes]))
    if not dims:
        n.refuse("the variance of one number")
    mean = f.mean(x, axis=axes, keepdims=True)
    away = f.subtract(x, mean)
    total = f.sum(f.multiply(away, away), axis=axes, keepdims=keepdim)
    less = f.maximum(f.subtract(n.tensor(count, f.kind), float(correction)), 0.0)
    var = f.divide(total, less)
    return var, mean if keepdim else f.squeeze(mean, axis=axes)


@torch_spelling("aten.var.correction", "aten.std.correction", "aten.var_mean.correction")
@torch_spelling("aten.std_mean.correction")
def torch_var(
    n: TorchNode, x: Expr, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    """Variance or deviation, of a sample unless correction is 0; with the mean where it is asked
    for.
    """
    f, x = formula(n, x)
    name = n.target.split(".")[1]
    var, mean = _moments(n, f, x, dim, 1 if correction is None else correction, keepdim)
    found = f.sqrt(var) if name.startswith("std") else var
    if name.endswith("_mean"):
        return rounded(n, found), rounded(n, mean, 1)
    return rounded(n, found)


@torch_spelling("aten.var.default", "aten.std.default", "aten.var.dim", "aten.std.dim")
@torch_spelling("aten.var_mean.default", "aten.var_mean.dim")
def torch_var_dim(n: TorchNode, x: Expr, *given: Any) -> Any:
    """(x, unbiased) or (x, dim, unbiased, keepdim)."""
    dim, unbiased, keepdim = None, True, False
    if n.target.endswith(".dim"):
        dim, unbiased, keepdim = (
            (*given, True, False)[:3] if len(given) == 1 else (*given, False)[:3]
        )
    elif given:
        unbiased = given[0]
    return torch_var(n, x, dim, correction=int(unbiased), keepdim=keepdim)


@torch_spelling("aten.logsumexp")
@as_lines
def torch_logsumexp(n: TorchNode, x: Expr, dim: Any, keepdim: bool = False) -> Expr:
    """log(sum(exp(x))), with the largest taken out first."""
    f, x = formula(n, x)
    axes = axes_of(n, dim, len(n.dims(x)))
    top = f.max(x, axis=axes, keepdims=True)
    top = f.where(f.isinf(top), 0.0, top)
    total = f.log(f.sum(f.exp(f.subtract(x, top)), axis=axes, keepdims=True))
    found = f.add(total, top)
    return rounded(n, found if keepdim else f.squeeze(found, axis=axes))


@torch_spelling("aten.topk")
@as_lines
def torch_topk(
    n: TorchNode, x: Expr, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """The k largest or least along a dimension, in order, and where they are."""
    axis, most = axis_of(n, dim, len(n.dims(x))), _most(k)
    if most is None:
        order = n.emit(call("relax.argsort", x, axis=axis, descending=largest, dtype="int64"))
        first = n.emit(cut(order, axis, 0, k))
        return call("relax.gather_elements", x, first, axis=axis), first
    if not isinstance(k, int):
        both = n.emit(call("relax.topk", _filled_up(n, x, axis, most, largest), most, axis,
                           largest=largest, dtype="int64"))  # fmt: skip
        return tuple(cut(n.emit(part), axis, 0, k) for part in (both[0], both[1]))
    attrs = {"k": k, "axis": dim, "largest": largest, "dtype": "int64"}
    both = n.emit(call("relax.topk", x, **attrs))
    return both[0], both[1]


def _most(k: Any) -> int | None:
    """The number that k is, or is at most, as min(n, 100) is."""
    if isinstance(k, Min):
        return next((v for v in map(as_int, (k.a, k.b)) if v is not None and v > 0), None)
    return as_int(k)


def _filled_up(n: TorchNode, x: Expr, axis: int, most: int, largest: bool) -> Expr:
    """x with so many elements more along an axis, which come last in order."""
    dims, kind = n.dims(x), dtype(n.dtype(x))
    last: Any = kind.min_value if largest else kind.max_value
    if kind.is_float:
        last = -math.inf if largest else math.nan
    rest = filled(n, last, [*dims[:axis], most, *dims[axis + 1 :]], n.dtype(x))
    return n.emit(call("relax.concat", [x, rest], axis=axis))


@torch_spelling("aten.sort.default", "aten.sort.stable", "aten.argsort")
@as_lines
def torch_sort(n: TorchNode, x: Expr, dim: int = -1, descending: bool = False) -> Any:
    """In order along a dimension, and where each came from; equals keep theirs."""
    order = n.emit(call("relax.argsort", x, axis=dim, descending=descending, dtype="int64"))
    if n.target.startswith("aten.argsort"):
        return order
    return call("relax.gather_elements", x, order, axis=dim % len(n.dims(x))), order


@torch_spelling("aten.median.dim")
@as_lines
def torch_median(n: TorchNode, x: Expr, dim: int, keepdim: bool = False) -> Any:
    """The lower one of the middle along a dimension, and where it is."""
    both = n.emit(call("relax.median", x, axis=dim, keepdims=keepdim))
    return both[0], n.tensor(n.emit(both[1]), "int64") if n.is_used(1) else None


@torch_spelling("aten.median.default")
def torch_median_of_all(n: TorchNode, x: Expr) -> Expr:
    """The lower one of the middle of all elements."""
    flat = n.emit(call("relax.reshape", x, [-1]))
    return n.emit(call("relax.median", flat, axis=0))[0]


@torch_spelling("aten.nanmedian.dim")
@as_lines
def torch_nanmedian(n: TorchNode, x: Expr, dim: int, keepdim: bool = False) -> Any:
    """The lower one of the middle of the numbers along a dimension, and where it is."""
    if not dtype(n.dtype(x)).is_float:
        return torch_median(n, x, dim, keepdim)
    axis, f = dim % len(n.dims(x)), Formula(n, "int64")
    order = f.argsort(x, axis=axis, descending=False, dtype="int64")  # NaN come last
    numbers = n.tensor(f.logical_not(f.isnan(x)), "int64")
    count = f.sum(numbers, axis=(axis,), keepdims=True)
    half = f.floor_divide(f.subtract(f.maximum(count, 1), 1), 2)
    place = f.gather_elements(order, half, axis=axis)
    both = f.gather_elements(x, place, axis=axis), place
    return both if keepdim else tuple(f.squeeze(v, axis=(axis,)) for v in both)


@torch_spelling("aten.nanmedian.default")
def torch_nanmedian_of_all(n: TorchNode, x: Expr) -> Expr:
    """The lower one of the middle of all numbers."""
    flat = n.emit(call("relax.reshape", x, [-1]))
    return torch_nanmedian(n, flat, 0)[0]


@torch_spelling("aten.kthvalue.default")
@as_lines
def torch_kthvalue(n: TorchNode, x: Expr, k: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th least along a dimension, counted from 1, and where it is."""
    axis = dim % len(n.dims(x))
    order = n.emit(call("relax.argsort", x, axis=axis, descending=False, dtype="int64"))
    place = n.emit(cut(order, axis, k - 1, k))
    value = n.emit(call("relax.gather_elements", x, place, axis=axis))
    if keepdim:
        return value, place
    return tuple(call("relax.squeeze", v, axis=(axis,)) for v in (value, place))


@torch_spelling("aten.mse_loss", "aten.l1_loss")
def torch_mse_loss(n: TorchNode, x: Expr, target: Expr, reduction: int = 1) -> Expr:
    """Squares or amounts of differences: each (0), their mean (1) or sum (2)."""
    f, a, b = formula(n, x, target)
    away = f.subtract(a, b)
    each = f.multiply(away, away) if "mse" in n.target else f.abs(away)
    return rounded(n, each if reduction == 0 else f.mean(each) if reduction == 1 else f.sum(each))


@torch_spelling("aten.dist")
def torch_dist(n: TorchNode, x: Expr, other: Expr, p: Any = 2) -> Expr:
    """The length of the difference."""
    f, a, b = formula(n, x, other)
    away = f.abs(f.subtract(a, b))
    if p == math.inf:
        return rounded(n, f.max(away))
    return rounded(n, f.power(f.sum(f.power(away, float(p))), 1.0 / p))
