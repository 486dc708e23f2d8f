"""PyTorch spellings that write by indices: scatter, index_add, masked_scatter, bags, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tidy
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, as_lines, as_wide, axis_of, spread
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, const

#: include_self forms of scatter_reduce as reductions of scatter_elements
_REDUCE = {
    "sum": "add",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
    "add": "add",
    "multiply": "mul",
}


@torch_spelling("aten.scatter.src", "aten.scatter.value", "aten.scatter_add")
@torch_spelling("aten.scatter.reduce", "aten.scatter.value_reduce")
@as_lines
def torch_scatter(
    n: TorchNode, x: Expr, dim: int, index: Expr, src: Any, *, reduce: str | None = None
) -> Expr:
    """x with `src` written (or with scatter_add added) at indices."""
    way = "add" if "scatter_add" in n.target else "update"
    if reduce is not None:
        way = _REDUCE[reduce]
    axis, want = axis_of(n, dim, len(n.dims(x))), n.dims(index)
    if len(want) != len(n.dims(x)):
        return x  # no indices: they may have any rank
    if isinstance(src, Expr):
        if as_int(want[axis]) != as_int(n.dims(src)[axis]):
            src = n.emit(call("relax.strided_slice", src, (axis,), (0,), (want[axis],), (1,)))
        src = as_wide(n, src, want, axis)
    else:
        src = n.emit(call("relax.full", list(want), n.tensor(src, n.dtype(x)), dtype=n.dtype(x)))
    return call("relax.scatter_elements", x, index, src, axis=axis, reduction=way)


@torch_spelling("aten.scatter_reduce.two")
@as_lines
def torch_scatter_reduce(
    n: TorchNode, x: Expr, dim: int, index: Expr, src: Expr, reduce: str, *,
    include_self: bool = True,
) -> Expr:  # fmt: skip
    """x with `src` combined at indices, x's own elements among them or not."""
    axis, kind = axis_of(n, dim, len(n.dims(x))), n.dtype(x)
    if include_self and reduce != "mean":
        return torch_scatter(n, x, axis, index, src, reduce=reduce)
    if reduce == "mean" and not dtype(kind).is_float:
        n.refuse("a mean of integers", "sum them, and divide")
    f = Formula(n, kind)
    start = x if include_self else f.full(list(n.dims(x)), _neutral(n, reduce, kind), dtype=kind)
    way = "sum" if reduce == "mean" else reduce
    total = n.emit(torch_scatter(n, start, axis, index, src, reduce=way))
    zeros, ones = (f.full(list(n.dims(v)), float(i), dtype=kind) for i, v in enumerate((x, index)))
    met = f.scatter_elements(zeros, index, ones, axis=axis, reduction="add")
    if reduce == "mean":
        total = f.divide(total, f.maximum(f.add(met, float(include_self)), 1.0))
    return total if include_self else f.where(f.equal(met, 0.0), x, total)


def _neutral(n: TorchNode, reduce: str, kind: str) -> Any:
    """What changes nothing in a reduction."""
    if reduce in ("amax", "amin"):
        if not dtype(kind).is_float:
            n.refuse(f"reduce {reduce!r} of {kind} without the elements that are there")
        return -math.inf if reduce == "amax" else math.inf
    return 1.0 if reduce == "prod" else 0.0


@torch_spelling("aten.index_reduce")
@as_lines
def torch_index_reduce(
    n: TorchNode, x: Expr, dim: int, index: Expr, source: Expr, reduce: str, *,
    include_self: bool = True,
) -> Expr:  # fmt: skip
    """x with slices combined at places of a dimension."""
    axis, f = axis_of(n, dim, len(n.dims(x))), Formula(n, n.dtype(x))
    line = [n.dims(index)[0] if i == axis else 1 for i in range(len(n.dims(x)))]
    places = f.broadcast_to(f.reshape(index, line), list(n.dims(source)))
    return torch_scatter_reduce(n, x, axis, places, source, reduce, include_self=include_self)


@torch_spelling("aten.masked_scatter")
def torch_masked_scatter(n: TorchNode, x: Expr, mask: Expr, source: Expr) -> Expr:
    """x where the mask does not hold; where it does the next element of `source`."""
    f, dims = Formula(n, n.dtype(x)), list(n.result()[0])
    flat, old = (f.reshape(v, [-1]) for v in spread(n, mask, x))
    place = f.subtract(f.cumsum(n.tensor(flat, "int64"), axis=0), const(np.int64(1)))
    taken = f.take(f.reshape(source, [-1]), f.where(flat, place, const(np.int64(0))), axis=0)
    return f.reshape(f.where(flat, taken, old), dims)


@torch_spelling("aten.put")
def torch_put(n: TorchNode, x: Expr, index: Expr, source: Expr, accumulate: bool = False) -> Expr:
    """x with values at places of the whole."""
    f, dims = Formula(n, n.dtype(x)), list(n.dims(x))
    flat, rows, values = (f.reshape(v, [-1]) for v in (x, index, source))
    way = "add" if accumulate else "update"
    found = f.scatter_elements(flat, rows, values, axis=0, reduction=way)
    return f.reshape(found, dims)


@torch_spelling("aten.embedding_bag", "aten._embedding_bag")
def torch_embedding_bag(
    n: TorchNode, weight: Expr, indices: Expr, offsets: Expr, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Expr | None = None,
    include_last_offset: bool = False, padding_idx: Any = None,
) -> Any:  # fmt: skip
    """Rows of a table summed (mode 0), averaged (1), or their maxima (2), bag by bag.

    `offsets` say where in `indices` each bag begins; an empty bag gives 0. The row `padding_idx`
    counts as none (-1: the last one, or, where that argument is no option, no row): it goes into a
    bag behind the others, which is cut off.
    """
    if include_last_offset:
        n.refuse("include_last_offset", "leave it out")
    is_padded = padding_idx is not None and (
        n.target == "aten.embedding_bag.padding_idx" or padding_idx >= 0
    )
    f, kind = Formula(n, n.dtype(weight)), n.dtype(weight)
    rows = f.take(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = f.multiply(rows, f.expand_dims(n.tensor(per_sample_weights, kind), axis=(1,)))
    order, count, bags = Formula(n, "int64"), n.dims(indices)[0], n.dims(offsets)[0]
    starts, kept = n.tensor(offsets, "int64"), bags
    one = order.full([bags], 1, dtype="int64")
    begun = order.scatter_elements(
        order.full([count + 1], 0, dtype="int64"), starts, one, axis=0, reduction="add"
    )
    begun = order.strided_slice(begun, (0,), (0,), (count,), (1,))
    bag = order.subtract(order.cumsum(begun, axis=0), 1)
    if is_padded:
        row = order.floor_mod(order.number(padding_idx), order.number(n.dims(weight)[0]))
        bag = order.where(order.equal(n.tensor(indices, "int64"), row), bags, bag)
        bags = tidy(bags + 1)
    bag = order.expand_dims(bag, axis=(1,))
    start = f.full([bags, n.dims(weight)[1]], -math.inf if mode == 2 else 0.0, dtype=kind)
    way = "max" if mode == 2 else "add"
    found = f.scatter_nd(start, bag, rows, reduction=way)
    if mode:
        none, ones = (order.full([k], v, dtype="int64") for k, v in ((bags, 0), (count, 1)))
        met = order.expand_dims(order.scatter_nd(none, bag, ones, reduction="add"), axis=(1,))
    if mode == 1:
        found = f.divide(found, n.emit(call("relax.astype", order.maximum(met, 1), dtype=kind)))
    if mode == 2:
        found = f.where(order.equal(met, 0), 0.0, found)
    if is_padded:
        found = f.strided_slice(found, (0,), (0,), (kept,), (1,))
    return found, None, None, None


@torch_spelling("aten.histc")
def torch_histc(n: TorchNode, x: Expr, bins: int = 100, min: Any = 0, max: Any = 0) -> Expr:
    """How many elements lie in each of equal parts from `min` to `max`; others count nowhere.

    Where both are equal, from the least element to the largest; of those one less and one more.
    """
    if min > max:
        n.refuse(f"limits from {min} to {max}", "the first is not above the second")
    f, flat = Formula(n, n.dtype(x)), n.emit(call("relax.reshape", x, [-1]))
    if min == max:
        return _histogram(n, f, flat, bins)
    inside = f.logical_and(f.greater_equal(flat, float(min)), f.less_equal(flat, float(max)))
    scaled = f.multiply(
        f.subtract(f.where(inside, flat, float(min)), float(min)), bins / (max - min)
    )
    place = f.minimum(f.floor(scaled), float(bins - 1))
    start = f.full([bins], 0.0, dtype=n.dtype(x))
    ones = f.where(inside, 1.0, f.full(list(n.dims(flat)), 0.0, dtype=n.dtype(x)))
    return f.scatter_elements(start, n.tensor(place, "int64"), ones, axis=0, reduction="add")


def _histogram(n: TorchNode, f: Formula, flat: Expr, bins: int) -> Expr:
    """Over all that the elements span."""
    low, high = f.min(flat), f.max(flat)
    is_one = f.equal(low, high)
    low, high = (f.where(is_one, f.add(v, by), v) for v, by in ((low, -1.0), (high, 1.0)))
    away = f.multiply(f.subtract(flat, low), float(bins))
    place = f.minimum(f.floor(f.divide(away, f.subtract(high, low))), float(bins - 1))
    start = f.full([bins], 0.0, dtype=f.kind)
    ones = f.full(list(n.dims(flat)), 1.0, dtype=f.kind)
    return f.scatter_elements(start, n.tensor(place, "int64"), ones, axis=0, reduction="add")


@torch_spelling("aten.cartesian_prod")
def torch_cartesian_prod(n: TorchNode, tensors: Sequence[Expr]) -> Expr:
    """Every choice of one element of each vector, a row each; the last changes fastest."""
    if len(tensors) == 1:
        return tensors[0]
    f, sizes = Formula(n, n.result()[1]), [n.dims(t)[0] for t in tensors]
    columns = []
    for i, t in enumerate(tensors):
        line = [d if i == j else 1 for j, d in enumerate(sizes)]
        spread = f.broadcast_to(f.reshape(n.tensor(t, f.kind), line), sizes)
        columns.append(f.reshape(spread, [-1, 1]))
    return f.concat(columns, axis=1)


@torch_spelling("aten.diagonal_scatter")
def torch_diagonal_scatter(
    n: TorchNode, x: Expr, src: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Expr:
    """x with the elements of a diagonal written over."""
    f, dims = Formula(n, n.dtype(x)), n.dims(x)
    one, two = axis_of(n, dim1, len(dims)), axis_of(n, dim2, len(dims))
    count = n.dims(src)[-1]
    if not all(isinstance(d, int) for d in (dims[one], dims[two], count)):
        n.refuse("a diagonal of an open size", "export with fixed sizes")
    others = [i for i in range(len(dims)) if i not in (one, two)]
    order = [one, two, *others]
    turned = f.permute_dims(x, axes=tuple(order))
    lines = f.permute_dims(src, axes=(len(others), *range(len(others)))) if others else src
    rows = np.arange(count, dtype=np.int64)
    places = [const(rows + max(-offset, 0)), const(rows + max(offset, 0))]
    found = f.index_put(turned, places, n.tensor(lines, f.kind), accumulate=False)
    return f.permute_dims(found, axes=tuple(order.index(i) for i in range(len(order))))


@torch_spelling("aten.index_add")
@as_lines
def torch_index_add(
    n: TorchNode, x: Expr, dim: int, index: Expr, source: Expr, *, alpha: Any = 1
) -> Expr:
    """x with slices added at places of a dimension."""
    axis, f = axis_of(n, dim, len(n.dims(x))), Formula(n, n.dtype(x))
    line = [n.dims(index)[0] if i == axis else 1 for i in range(len(n.dims(x)))]
    places = f.broadcast_to(f.reshape(index, line), list(n.dims(source)))
    source = source if alpha == 1 else f.multiply(source, alpha)
    return call("relax.scatter_elements", x, places, source, axis=axis, reduction="add")
