"""PyTorch spellings that read by indices, and index_put: embedding, gather, index, one_hot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import MAX_COMPUTED, call
from mlcnb.op._torch import Formula, as_lines, as_wide, axis_of, spread
from mlcnb.op.manipulate.repeat import copies
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, const


@torch_spelling("aten.embedding")
def torch_embedding(n: TorchNode, weight: Expr, indices: Expr, padding_idx: Any = -1) -> Expr:
    """Rows of a table; an index that is outside is an error."""
    return call("relax.take", weight, indices, axis=0)


@torch_spelling("aten.index_select")
@as_lines
def torch_index_select(n: TorchNode, x: Expr, dim: int, index: Expr) -> Expr:
    """Places along a dimension."""
    return call("relax.take", x, index, axis=axis_of(n, dim, len(n.dims(x))))


@torch_spelling("aten.gather.default")
@as_lines
def torch_gather(n: TorchNode, x: Expr, dim: int, index: Expr) -> Expr:
    """For each index the element at that place of a dimension."""
    axis, want = axis_of(n, dim, len(n.dims(x))), n.dims(index)
    if len(want) != len(n.dims(x)):
        return call("relax.zeros", list(want), n.dtype(x))  # no indices: they may have any rank
    return call("relax.gather_elements", as_wide(n, x, want, axis), index, axis=axis)


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
    f = Formula(n, n.dtype(x))
    both = [f.reshape(v, [-1]) for v in spread(n, x, mask)]
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
    dims = n.dims(x)
    if not isinstance(repeats, Expr):
        lines = n.emit(call("relax.expand_dims", x, axis=(axis + 1,)))
        times = [repeats if i == axis + 1 else 1 for i in range(len(dims) + 1)]
        found = n.emit(copies(n, lines, times))
        return call("relax.reshape", found, list(n.result()[0]))
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
    return call("relax.one_hot", x, 1, 0, depth=num_classes, axis=-1)


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
