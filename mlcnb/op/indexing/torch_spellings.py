"""PyTorch spellings that read and write by indices: embedding, gather, index, scatter, one_hot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, axis_of
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr

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
    """x with `src` combined at indices, x's own elements among them."""
    if not include_self or reduce == "mean":
        n.refuse(f"reduce {reduce!r} with include_self = {include_self}")
    return torch_scatter(n, x, dim, index, src, reduce=reduce)


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


def _fronted(
    n: TorchNode, x: Expr, indices: Sequence[Expr | None]
) -> tuple[Expr, list[Expr], list[int], int]:
    """x with the dimensions that are indexed first, the indices of these, the order of the
    dimensions, and where the indexed ones stood; masks of bool have to be known.
    """
    given: list[Expr | None] = []
    for index in indices:
        if index is not None and n.dtype(index) == "bool":
            n.refuse(
                "an index that is a mask: the size of the result is known only when it runs",
                "use torch.where, or multiply by the mask",
            )
        given.append(index)
    rank = len(n.dims(x))
    axes = [i for i, index in enumerate(given) if index is not None]
    order = axes + [i for i in range(rank) if i not in axes]
    if order != list(range(rank)):
        x = n.emit(call("relax.permute_dims", x, axes=tuple(order)))
    beside = axes == list(range(axes[0], axes[0] + len(axes)))
    return x, [i for i in given if i is not None], order, axes[0] if beside else 0


@torch_spelling("aten.index.Tensor", "aten._unsafe_index.Tensor")
def torch_index(n: TorchNode, x: Expr, indices: Sequence[Expr | None]) -> Expr:
    """x[:, rows, columns]: as NumPy, dimensions of the indices stand where the indexed ones did."""
    given = [i for i in indices if i is not None]
    if not given:
        return x
    if len(given) == 1 and n.dtype(given[0]) != "bool":
        axis = next(k for k, i in enumerate(indices) if i is not None)
        return call("relax.take", x, given[0], axis=axis, mode="signed")
    turned, rows, _, place = _fronted(n, x, indices)
    found = n.emit(call("relax.index_tensor", turned, rows))
    lead = len(n.result()[0]) - (len(n.dims(x)) - len(rows))
    if place == 0:
        return found
    axes = [*range(lead, lead + place), *range(lead), *range(lead + place, len(n.dims(found)))]
    return call("relax.permute_dims", found, axes=tuple(axes))


@torch_spelling("aten.index_put", "aten._unsafe_index_put")
def torch_index_put(
    n: TorchNode, x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool = False
) -> Expr:
    """x with values at x[rows, columns]; a mask of bool with one value is a choice."""
    given = [i for i in indices if i is not None]
    if len(indices) == 1 and n.dtype(given[0]) == "bool" and not accumulate:
        return _masked_put(n, x, given[0], values)
    if len(given) != len(indices) or any(i is None for i in indices[: len(given)]):
        n.refuse("indices of dimensions that are not the first")
    _, rows, _, _ = _fronted(n, x, indices)
    return call("relax.index_put", x, rows, n.tensor(values, n.dtype(x)), accumulate=accumulate)


def _masked_put(n: TorchNode, x: Expr, mask: Expr, values: Expr) -> Expr:
    """values where the mask holds: one value for all."""
    if any(as_int(d) != 1 for d in n.dims(values)):
        n.refuse("many values at a mask", "use torch.where")
    f = Formula(n, n.dtype(x))
    one = f.reshape(n.tensor(values, f.kind), [])
    more = len(n.dims(x)) - len(n.dims(mask))
    if more:
        mask = f.reshape(mask, [*n.dims(mask), *[1] * more])
    return f.where(mask, one, x)


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


@torch_spelling("aten.take")
def torch_take(n: TorchNode, x: Expr, index: Expr) -> Expr:
    """Elements by their places in the whole."""
    flat = n.emit(call("relax.reshape", x, [-1]))
    return call("relax.take", flat, index, axis=0, mode="signed")
