"""PyTorch spellings of normalisations; weights that are left out are ones and zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import product, tidy
from mlcnb.op._spell import call, filled
from mlcnb.op._torch import Formula, axes_of, formula, rounded, wide
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, const


def _filled(n: TorchNode, given: Expr | None, value: float, dims: Sequence[Any], kind: str) -> Expr:
    """A weight in a dtype, or a tensor full of one number where it is left out."""
    if given is not None:
        return n.tensor(given, kind)
    return filled(n, value, dims, kind)


@torch_spelling("aten.batch_norm")
def torch_batch_norm(
    n: TorchNode,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean: Expr | None,
    var: Expr | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Expr:
    """With moving statistics, or without any with those of the batch; nothing of nothing."""
    if as_int(product(n.dims(x))) == 0:
        return x
    if training or mean is None or var is None:
        return _of_batch(n, x, weight, bias, eps)[0]
    kind, channels = n.dtype(x), [n.dims(x)[1]]
    weights = [
        _filled(n, w, v, channels, kind)
        for w, v in ((weight, 1.0), (bias, 0.0), (mean, 0.0), (var, 1.0))
    ]
    options = {"epsilon": eps, "momentum": momentum, "training": False}
    both = n.emit(call("relax.nn.batch_norm", x, *weights, **options))
    return both[0]


def _of_batch(
    n: TorchNode, x: Expr, weight: Expr | None, bias: Expr | None, eps: float
) -> tuple[Expr, Expr, Expr]:
    """Normalised with the mean and biased variance of this batch; both are given too."""
    f, x = formula(n, x)
    dims = n.dims(x)
    axes = tuple(i for i in range(len(dims)) if i != 1)
    line = [1, dims[1], *[1] * (len(dims) - 2)]
    mean = f.mean(x, axis=axes, keepdims=True)
    away = f.subtract(x, mean)
    var = f.mean(f.multiply(away, away), axis=axes, keepdims=True)
    found = f.multiply(away, f.rsqrt(f.add(var, float(eps))))
    if weight is not None:
        found = f.multiply(found, f.reshape(n.tensor(weight, f.kind), line))
    if bias is not None:
        found = f.add(found, f.reshape(n.tensor(bias, f.kind), line))
    flat = [dims[1]]
    return rounded(n, found), f.reshape(mean, flat), f.reshape(var, flat)


@torch_spelling("aten._native_batch_norm_legit_no_training")
def torch_batch_norm_legit(
    n: TorchNode,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean: Expr,
    var: Expr,
    momentum: float,
    eps: float,
) -> tuple[Expr, None, None]:
    """As batch_norm with moving statistics; the other two outputs are empty."""
    return torch_batch_norm(n, x, weight, bias, mean, var, False, momentum, eps), None, None


@torch_spelling("aten._native_batch_norm_legit.no_stats")
def torch_batch_norm_no_stats(
    n: TorchNode,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Normalised with the mean and variance of the batch; the mean and 1 / deviation."""
    found, mean, var = _of_batch(n, x, weight, bias, eps)
    f = Formula(n, wide(n.dtype(x)))
    return found, rounded(n, mean, 1), rounded(n, f.rsqrt(f.add(var, float(eps))), 2)


@torch_spelling("aten._native_batch_norm_legit_functional")
def torch_batch_norm_functional(
    n: TorchNode,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean: Expr,
    var: Expr,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Normalised; mean and deviation used; the moving statistics moved by `momentum`."""
    if not training:
        n.refuse("it keeps its statistics", "export the model with model.eval()")
    f, x = formula(n, x)
    found, now, spread = _of_batch(n, x, weight, bias, eps)
    dims = n.dims(x)
    count = tidy(product([d for i, d in enumerate(dims) if i != 1]))
    many = n.tensor(count, f.kind)
    unbiased = f.multiply(spread, f.divide(many, f.subtract(many, 1.0)))
    old, kept = (n.tensor(v, f.kind) for v in (mean, var))
    step = float(momentum)
    moved = [
        f.add(f.multiply(a, 1 - step), f.multiply(b, step))
        for a, b in ((old, now), (kept, unbiased))
    ]
    deviation = f.rsqrt(f.add(spread, float(eps)))
    return found, *(rounded(n, v, 1 + i) for i, v in enumerate((now, deviation, *moved)))


@torch_spelling("aten.layer_norm")
def torch_layer_norm(
    n: TorchNode,
    x: Expr,
    shape: Sequence[Any],
    weight: Expr | None = None,
    bias: Expr | None = None,
    eps: float = 1e-5,
) -> Expr:
    """Over the last dimensions, as many as `shape` has."""
    kind, dims = n.dtype(x), n.dims(x)
    axes = tuple(range(len(dims) - len(shape), len(dims)))
    want = [dims[a] for a in axes]
    gamma, beta = _filled(n, weight, 1.0, want, kind), _filled(n, bias, 0.0, want, kind)
    attrs = {"axes": axes, "epsilon": eps, "center": bias is not None, "scale": weight is not None}
    return call("relax.nn.layer_norm", x, gamma, beta, **attrs)


def _statistics(n: TorchNode, x: Expr, axes: Sequence[int], eps: float, first: int) -> list[Expr]:
    """Mean and 1 / sqrt(variance + eps) as the outputs from `first` on."""
    f = Formula(n, n.result(first)[1])
    x = n.tensor(x, f.kind)
    mean = f.mean(x, axis=tuple(axes), keepdims=True)
    away = f.subtract(x, mean)
    var = f.mean(f.multiply(away, away), axis=tuple(axes), keepdims=True)
    found = mean, f.rsqrt(f.add(var, float(eps)))
    return [f.reshape(v, list(n.result(first + i)[0])) for i, v in enumerate(found)]


@torch_spelling("aten.native_layer_norm")
def torch_native_layer_norm(
    n: TorchNode,
    x: Expr,
    shape: Sequence[Any],
    weight: Expr | None,
    bias: Expr | None,
    eps: float,
) -> Any:
    """As layer_norm, with mean and inverse deviation where they are read."""
    found = torch_layer_norm(n, x, shape, weight, bias, eps)
    if not (n.is_used(1) or n.is_used(2)):
        return found, None, None
    rank = len(n.dims(x))
    return found, *_statistics(n, x, range(rank - len(shape), rank), eps, 1)


@torch_spelling("aten.group_norm")
def torch_group_norm(
    n: TorchNode,
    x: Expr,
    num_groups: int,
    weight: Expr | None = None,
    bias: Expr | None = None,
    eps: float = 1e-5,
) -> Expr:
    """Over the channels of a group and all spatial dimensions."""
    kind, dims = n.dtype(x), n.dims(x)
    gamma, beta = (_filled(n, w, v, [dims[1]], kind) for w, v in ((weight, 1.0), (bias, 0.0)))
    axes = tuple(range(2, len(dims)))
    attrs = {"num_groups": num_groups, "axes": axes, "epsilon": eps}
    return call("relax.nn.group_norm", x, gamma, beta, **attrs)


@torch_spelling("aten.native_group_norm")
def torch_native_group_norm(
    n: TorchNode,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    samples: Any,
    channels: Any,
    places: Any,
    group: int,
    eps: float,
) -> Any:
    """As group_norm; mean and deviation where they are read."""
    found = torch_group_norm(n, x, group, weight, bias, eps)
    if not (n.is_used(1) or n.is_used(2)):
        return found, None, None
    flat = n.emit(call("relax.reshape", x, [n.dims(x)[0], group, -1]))
    return found, *_statistics(n, flat, (2,), eps, 1)


@torch_spelling("aten.instance_norm")
def torch_instance_norm(
    n: TorchNode,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean: Expr | None,
    var: Expr | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Expr:
    """Over all spatial dimensions, or with moving statistics."""
    if not use_input_stats:
        return torch_batch_norm(n, x, weight, bias, mean, var, False, momentum, eps)
    if mean is not None:
        n.refuse("it moves its statistics", "export the model with model.eval()")
    kind, dims = n.dtype(x), n.dims(x)
    gamma, beta = (_filled(n, w, v, [dims[1]], kind) for w, v in ((weight, 1.0), (bias, 0.0)))
    attrs = {"channel_axis": 1, "axes": tuple(range(2, len(dims))), "epsilon": eps}
    return call("relax.nn.instance_norm", x, gamma, beta, **attrs)


@torch_spelling("aten.rms_norm")
def torch_rms_norm(
    n: TorchNode,
    x: Expr,
    shape: Sequence[Any],
    weight: Expr | None = None,
    eps: float | None = None,
) -> Expr:
    """Over the last dimensions; eps is the dtype's own where it is left out."""
    kind, dims = n.dtype(x), n.dims(x)
    axes = tuple(range(len(dims) - len(shape), len(dims)))
    if eps is None:
        import ml_dtypes

        eps = float(ml_dtypes.finfo("float32" if kind in ("float16", "bfloat16") else kind).eps)
    gamma = _filled(n, weight, 1.0, [dims[a] for a in axes], kind)
    return call("relax.nn.rms_norm", x, gamma, axes=axes, epsilon=eps)


@torch_spelling("aten.linalg_vector_norm")
def torch_vector_norm(
    n: TorchNode, x: Expr, ord: Any = 2, dim: Any = None, keepdim: bool = False
) -> Expr:
    """(sum |x| ** ord) ** (1 / ord); the largest or least |x| for infinities; how many are not 0
    for 0.
    """
    f, x = formula(n, x)
    where = {"axis": axes_of(n, dim, len(n.dims(x))), "keepdims": keepdim}
    if not n.dims(x) and ord != 0:
        return rounded(n, f.abs(x))
    if ord in (float("inf"), float("-inf")):
        extreme = f.max if ord > 0 else f.min
        return rounded(n, extreme(f.abs(x), **where))
    if ord == 0:
        found = f.where(f.equal(x, 0.0), 0.0, f.full_like(x, const(1.0, f.kind)))
        return rounded(n, f.sum(found, **where) if n.dims(x) else found)
    if ord == 1:
        return rounded(n, f.sum(f.abs(x), **where))
    if ord == 2:
        return rounded(n, f.sqrt(f.sum(f.multiply(x, x), **where)))
    return rounded(n, f.power(f.sum(f.power(f.abs(x), float(ord)), **where), 1.0 / ord))


@torch_spelling("aten.norm.ScalarOpt_dim", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim_dtype")
def torch_norm(n: TorchNode, x: Expr, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Expr:
    """As linalg_vector_norm."""
    return torch_vector_norm(n, x, 2 if p is None else p, dim, keepdim)
