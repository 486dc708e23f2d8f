"""PyTorch spellings that read and write by indices: embedding, gather, index, scatter, one_hot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import broadcast_dims
from mlcnb.op._spell import MAX_COMPUTED, call
from mlcnb.op._torch import Formula, axis_of
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


@torch_spelling("aten.embedding")
def torch_embedding(n: TorchNode, weight: Expr, indices: Expr, padding_idx: Any = -1) -> Expr:
    """Rows of a table; an index that is outside is an error."""
    return call("relax.take", weight, indices, axis=0)


@torch_spelling("aten.index_select")
def torch_index_select(n: TorchNode, x: Expr, dim: int, index: Expr) -> Expr:
    """Places along a dimension."""
    return call("relax.take", x, index, axis=axis_of(n, dim, len(n.dims(x))))


@torch_spelling("aten.gather.default")
def torch_gather(n: TorchNode, x: Expr, dim: int, index: Expr) -> Expr:
    """For each index the element at that place of a dimension."""
    axis, want = axis_of(n, dim, len(n.dims(x))), n.dims(index)
    return call("relax.gather_elements", _as_wide(n, x, want, axis), index, axis=axis)


def _as_wide(n: TorchNode, x: Expr, want: Sequence[Any], axis: int) -> Expr:
    """x cut to the sizes of the indices in the other dimensions, as PyTorch reads it."""
    for i, (have, size) in enumerate(zip(n.dims(x), want, strict=True)):
        a, b = as_int(have), as_int(size)
        if i != axis and a is not None and b is not None and a > b:
            x = n.emit(call("relax.strided_slice", x, (i,), (0,), (b,), (1,)))
    return x


@torch_spelling("aten.scatter.src", "aten.scatter.value", "aten.scatter_add")
@torch_spelling("aten.scatter.reduce", "aten.scatter.value_reduce")
def torch_scatter(
    n: TorchNode, x: Expr, dim: int, index: Expr, src: Any, *, reduce: str | None = None
) -> Expr:
    """x with `src` written (or with scatter_add added) at indices."""
    way = "add" if "scatter_add" in n.target else "update"
    if reduce is not None:
        way = _REDUCE[reduce]
    axis, want = axis_of(n, dim, len(n.dims(x))), n.dims(index)
    if isinstance(src, Expr):
        if as_int(want[axis]) != as_int(n.dims(src)[axis]):
            src = n.emit(call("relax.strided_slice", src, (axis,), (0,), (want[axis],), (1,)))
        src = _as_wide(n, src, want, axis)
    else:
        src = n.emit(call("relax.full", list(want), n.tensor(src, n.dtype(x)), dtype=n.dtype(x)))
    return call("relax.scatter_elements", x, index, src, axis=axis, reduction=way)


@torch_spelling("aten.scatter_reduce.two")
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
    f, dims = Formula(n, n.dtype(x)), list(n.dims(x))
    flat = f.reshape(f.broadcast_to(mask, dims), [-1])
    place = f.subtract(f.cumsum(n.tensor(flat, "int64"), axis=0), const(np.int64(1)))
    taken = f.take(f.reshape(source, [-1]), f.where(flat, place, const(np.int64(0))), axis=0)
    return f.reshape(f.where(flat, taken, f.reshape(x, [-1])), dims)


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

    `offsets` say where in `indices` each bag begins; an empty bag gives 0.
    """
    if include_last_offset or padding_idx not in (None, -1):
        n.refuse("include_last_offset or padding_idx", "leave it out")
    f, kind = Formula(n, n.dtype(weight)), n.dtype(weight)
    rows = f.take(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = f.multiply(rows, f.expand_dims(n.tensor(per_sample_weights, kind), axis=(1,)))
    order = Formula(n, "int64")
    starts = n.tensor(offsets, "int64")
    numbers = order.arange(0, n.dims(indices)[0], 1, dtype="int64")
    bag = order.subtract(order.bucketize(numbers, starts, out_int32=False, right=True), 1)
    made = f.full([n.dims(offsets)[0], n.dims(weight)[1]], 0.0, dtype=kind)
    places = order.broadcast_to(order.expand_dims(bag, axis=(1,)), list(n.dims(rows)))
    way = ("sum", "mean", "amax")[mode]
    found = torch_scatter_reduce(n, made, 0, places, rows, way, include_self=False)
    return found, None, None, None


@torch_spelling("aten.histc")
def torch_histc(n: TorchNode, x: Expr, bins: int = 100, min: Any = 0, max: Any = 0) -> Expr:
    """How many elements lie in each of equal parts from `min` to `max`; others count nowhere."""
    if min >= max:
        n.refuse("limits that follow from the elements", "give min and max")
    f, flat = Formula(n, n.dtype(x)), n.emit(call("relax.reshape", x, [-1]))
    inside = f.logical_and(f.greater_equal(flat, float(min)), f.less_equal(flat, float(max)))
    scaled = f.multiply(
        f.subtract(f.where(inside, flat, float(min)), float(min)), bins / (max - min)
    )
    place = f.minimum(f.floor(scaled), float(bins - 1))
    start = f.full([bins], 0.0, dtype=n.dtype(x))
    ones = f.where(inside, 1.0, f.full(list(n.dims(flat)), 0.0, dtype=n.dtype(x)))
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
def torch_index_add(
    n: TorchNode, x: Expr, dim: int, index: Expr, source: Expr, *, alpha: Any = 1
) -> Expr:
    """x with slices added at places of a dimension."""
    axis, f = axis_of(n, dim, len(n.dims(x))), Formula(n, n.dtype(x))
    line = [n.dims(index)[0] if i == axis else 1 for i in range(len(n.dims(x)))]
    places = f.broadcast_to(f.reshape(index, line), list(n.dims(source)))
    source = source if alpha == 1 else f.multiply(source, alpha)
    return call("relax.scatter_elements", x, places, source, axis=axis, reduction="add")


def places_of(n: TorchNode, mask: Expr) -> list[Expr]:
    """Where a mask holds: a vector of indices for each of its dimensions."""
    known = n.known(mask)
    if known is not None and known.dtype != object:
        return [const(np.asarray(v, np.int64)) for v in np.nonzero(known)]
    rows = n.emit(call("relax.nonzero", mask))
    axes = range(len(n.dims(mask)))
    return [n.emit(call("relax.take", rows, n.tensor(i, "int64"), axis=0)) for i in axes]


def _unmasked(n: TorchNode, indices: Sequence[Expr | None]) -> list[Expr | None]:
    """Indices in which a mask became the places where it holds, one tensor for each dimension."""
    found: list[Expr | None] = []
    for index in indices:
        if index is not None and n.dtype(index) in ("bool", "uint8"):
            if not n.dims(index):
                n.refuse("an index that is a mask without dimensions", "use torch.where")
            found += places_of(n, index)
        else:
            found.append(index)
    return found


@torch_spelling("aten.index.Tensor", "aten._unsafe_index.Tensor")
def torch_index(n: TorchNode, x: Expr, indices: Sequence[Expr | None]) -> Expr:
    """x[:, rows, columns]: as NumPy, dimensions of the indices stand where the indexed ones did."""
    indices = _unmasked(n, indices)
    axes = [i for i, index in enumerate(indices) if index is not None]
    rows = [i for i in indices if i is not None]
    if not rows:
        return x
    if len(rows) == 1:
        return call("relax.take", x, rows[0], axis=axes[0], mode="signed")
    rank = len(n.dims(x))
    order = axes + [i for i in range(rank) if i not in axes]
    if order != list(range(rank)):
        x = n.emit(call("relax.permute_dims", x, axes=tuple(order)))
    found = n.emit(call("relax.index_tensor", x, rows))
    beside = axes == list(range(axes[0], axes[0] + len(axes)))
    place = axes[0] if beside else 0
    if place == 0:
        return found
    lead = max(len(n.dims(i)) for i in rows)
    turned = [*range(lead, lead + place), *range(lead), *range(lead + place, len(n.dims(found)))]
    return call("relax.permute_dims", found, axes=tuple(turned))


@torch_spelling("aten.index_put", "aten._unsafe_index_put")
def torch_index_put(
    n: TorchNode, x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool = False
) -> Expr:
    """x with values at x[rows, columns]; a mask of bool with one value is a choice."""
    given = [i for i in indices if i is not None]
    is_one = all(as_int(d) == 1 for d in n.dims(values))
    if len(indices) == 1 and n.dtype(given[0]) == "bool" and is_one and not accumulate:
        return _masked_put(n, x, given[0], values)
    indices = _unmasked(n, indices)
    axes = [i for i, index in enumerate(indices) if index is not None]
    rows = [i for i in indices if i is not None]
    values = n.tensor(values, n.dtype(x))
    if axes == list(range(len(axes))):
        return call("relax.index_put", x, rows, values, accumulate=accumulate)
    order = axes + [i for i in range(len(n.dims(x))) if i not in axes]
    turned = n.emit(call("relax.permute_dims", x, axes=tuple(order)))
    beside = axes == list(range(axes[0], axes[0] + len(axes)))
    values = _rows_first(n, values, rows, len(order), axes[0] if beside else 0)
    attrs = {"accumulate": accumulate}
    found = n.emit(call("relax.index_put", turned, rows, values, **attrs))
    back = tuple(order.index(i) for i in range(len(order)))
    return call("relax.permute_dims", found, axes=back)


def _rows_first(n: TorchNode, values: Expr, rows: Sequence[Expr], rank: int, place: int) -> Expr:
    """Values that stand as x[:, rows] does, with the dimensions of the rows before `place` others.

    rank: of x; they broadcast, so the first ones may be left out.
    """
    if place == 0:
        return values
    dims, lead = n.dims(values), max(len(n.dims(i)) for i in rows)
    whole = lead + rank - len(rows)
    values = n.emit(call("relax.reshape", values, [*[1] * (whole - len(dims)), *dims]))
    turned = [*range(place, place + lead), *range(place), *range(place + lead, whole)]
    return n.emit(call("relax.permute_dims", values, axes=tuple(turned)))


def _masked_put(n: TorchNode, x: Expr, mask: Expr, value: Expr) -> Expr:
    """One value where the mask holds."""
    f = Formula(n, n.dtype(x))
    one = f.reshape(n.tensor(value, f.kind), [])
    more = len(n.dims(x)) - len(n.dims(mask))
    if more:
        mask = f.reshape(mask, [*n.dims(mask), *[1] * more])
    return f.where(mask, one, x)


@torch_spelling("aten.nonzero.default")
def torch_nonzero(n: TorchNode, x: Expr) -> Expr:
    """The places of elements that are not 0, one a row."""
    return call("relax.permute_dims", n.emit(call("relax.nonzero", x)), axes=(1, 0))


@torch_spelling("aten.nonzero_numpy")
def torch_nonzero_numpy(n: TorchNode, x: Expr) -> Any:
    """The places of elements that are not 0, a tensor for each dimension."""
    return tuple(places_of(n, x))


@torch_spelling("aten.masked_select")
def torch_masked_select(n: TorchNode, x: Expr, mask: Expr) -> Expr:
    """The elements where the mask holds, after both are broadcast."""
    dims = broadcast_dims([n.dims(x), n.dims(mask)])
    if dims is None:
        n.refuse(f"{n.dims(x)} and {n.dims(mask)} are not known to broadcast")
    f = Formula(n, n.dtype(x))
    both = [f.reshape(f.broadcast_to(v, list(dims)), [-1]) for v in (x, mask)]
    (places,) = places_of(n, both[1])
    return call("relax.take", both[0], places, axis=0)


@torch_spelling("aten._unique2.default")
def torch_unique(
    n: TorchNode,
    x: Expr,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Elements in rising order (PyTorch's are, whatever `sorted` says), their places, counts."""
    made = n.emit(call("relax.unique", x, True, False, True, True))
    values, inverse, counts = (made[i] for i in range(3))
    back = n.emit(call("relax.reshape", n.emit(inverse), list(n.dims(x))))
    return values, back if return_inverse else None, counts if return_counts else None


@torch_spelling("aten.repeat_interleave.self_Tensor", "aten.repeat_interleave.self_int")
def torch_repeat_interleave(
    n: TorchNode, x: Expr, repeats: Any, dim: int | None = None, *, output_size: Any = None
) -> Expr:
    """Each slice as often as is said; how many there are is found as the model runs."""
    if dim is None:
        x, dim = n.emit(call("relax.reshape", x, [-1])), 0
    axis = axis_of(n, dim, len(n.dims(x)))
    if isinstance(repeats, int):
        return call("relax.repeat", x, repeats=repeats, axis=axis)
    if not isinstance(repeats, Expr):
        n.refuse("repeats that are symbolic", "repeat a fixed number of times")
    size, counts = as_int(n.dims(x)[axis]), n.known(repeats)
    if size is None or counts is None or counts.dtype == object:
        return call("relax.take", x, _repeated(n, repeats, n.dims(x)[axis]), axis=axis)
    places = const(np.repeat(np.arange(size), np.broadcast_to(counts, (size,))))
    return call("relax.take", x, places, axis=axis)


def _repeated(n: TorchNode, counts: Expr, size: Any) -> Expr:
    """The place of each slice of the result, of counts (size,) or (1,): place p comes from the
    first slice behind whose last repetition p does not lie.
    """
    f = Formula(n, "int64")
    counts = f.broadcast_to(n.tensor(counts, "int64"), [size])
    ends = f.cumsum(counts, axis=0)
    found = f.arange(0, n.size(_counted(f, f.sum(counts), counts)), 1, dtype="int64")
    return f.bucketize(found, ends, out_int32=False, right=True)


@torch_spelling("aten.repeat_interleave.Tensor")
def torch_repeated_places(n: TorchNode, repeats: Expr, *, output_size: Any = None) -> Expr:
    """The place of each slice, as often as is said of it."""
    return n.tensor(_repeated(n, repeats, n.dims(repeats)[0]), n.dtype(repeats))


def _counted(f: Formula, size: Expr, given: Expr) -> Expr:
    """A size that numbers tell, -1, which no run takes for one, where one of them is negative."""
    some = f.concat([given, const(np.zeros(1, np.int64))], axis=0)
    return f.where(f.less(f.min(some), 0), -1, size)


@torch_spelling("aten.bincount.default")
def torch_bincount(n: TorchNode, x: Expr, weights: Expr | None = None, minlength: Any = 0) -> Expr:
    """How often each number comes, or the sum of its weights; the largest tells the size."""
    if not isinstance(minlength, int):
        n.refuse("a smallest length that is symbolic", "give a number")
    f, kind = Formula(n, "int64"), "int64"
    if weights is not None:
        kind = "float32" if n.dtype(weights) == "float32" else "float64"
    places = n.tensor(x, "int64")
    last = f.max(f.concat([places, const(np.full(1, -1))], axis=0))
    size = n.size(_counted(f, f.maximum(f.add(last, 1), minlength), places))
    each = const(np.ones((), kind)) if weights is None else n.tensor(weights, kind)
    given = f.broadcast_to(each, list(n.dims(x)))
    return f.scatter_elements(f.zeros([size], kind), places, given, axis=0, reduction="add")


@torch_spelling("aten.as_strided.default")
def torch_as_strided(
    n: TorchNode, x: Expr, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Expr:
    """Elements by their places in memory, where x has memory of its own, without gaps."""
    order = n.memory_order(0)
    numbers = [*size, *stride, storage_offset or 0]
    if order is None:
        n.refuse("x lies in a part of another tensor's memory", "take it of x.contiguous()")
    if not all(isinstance(v, int) for v in numbers):
        n.refuse("sizes or strides are open", "export with fixed sizes, or use unfold")
    if math.prod(size) > MAX_COMPUTED:
        n.refuse(f"{math.prod(size)} places, more than {MAX_COMPUTED}", "use unfold")
    f = Formula(n, n.dtype(x))
    flat = f.reshape(x if order == list(range(len(order))) else f.permute_dims(x, order), [-1])
    places = np.full(size, storage_offset or 0, np.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        line = np.arange(count) * step
        places += line.reshape([-1 if i == axis else 1 for i in range(len(size))])
    return call("relax.take", flat, const(places), axis=0)


@torch_spelling("aten.one_hot")
def torch_one_hot(n: TorchNode, x: Expr, num_classes: int = -1) -> Expr:
    """1 at the index, 0 elsewhere, in a new last dimension."""
    if num_classes < 0:
        n.refuse("a number of classes that is computed from data", "give num_classes")
    from mlcnb.ir.prim_ops import const
    from mlcnb.relax.expr import PrimValue

    on, off = (PrimValue(const(v, "int64")) for v in (1, 0))
    return call("relax.one_hot", x, on, off, depth=num_classes, axis=-1)


@torch_spelling("aten.bucketize.Tensor")
def torch_bucketize(
    n: TorchNode, x: Expr, boundaries: Expr, *, out_int32: bool = False, right: bool = False
) -> Expr:
    """How many boundaries are below each element."""
    return call("relax.bucketize", x, boundaries, out_int32=out_int32, right=right)


@torch_spelling("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def torch_searchsorted(
    n: TorchNode, sorted_sequence: Expr, x: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None,
) -> Expr:  # fmt: skip
    """How many of a rising sequence are below each element (or not above it)."""
    given = n.tensor(x, n.dtype(sorted_sequence)) if not isinstance(x, Expr) else x
    if len(n.dims(sorted_sequence)) != 1:
        f, to_right = Formula(n, n.dtype(given)), right or side == "right"
        pair = f.expand_dims(sorted_sequence, axis=(-2,)), f.expand_dims(given, axis=(-1,))
        passed = f.less_equal(*pair) if to_right else f.less(*pair)
        return f.sum(n.tensor(passed, "int32" if out_int32 else "int64"), axis=(-1,))
    attrs = {"out_int32": out_int32, "right": right or side == "right"}
    return call("relax.bucketize", given, sorted_sequence, **attrs)


@torch_spelling("aten.take")
def torch_take(n: TorchNode, x: Expr, index: Expr) -> Expr:
    """Elements by their places in the whole."""
    flat = n.emit(call("relax.reshape", x, [-1]))
    return call("relax.take", flat, index, axis=0, mode="signed")
