"""PyTorch spellings that move elements: view, permute, cat, split, select, roll, unfold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import as_expr, as_int, floormod, maximum
from mlcnb.op._dims import same, tidy
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, axes_of, axis_of, cut
from mlcnb.op.indexing.slice import brought
from mlcnb.op.manipulate.repeat import copies
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, PrimValue

#: what ATen gives as the end of a slice that has none
NO_END = (1 << 63) - 1


@torch_spelling("aten.view.default", "aten.reshape.default", "aten._unsafe_view", "aten.flatten")
@torch_spelling("aten.unflatten", "aten.view_as", "aten.reshape_as", "aten._reshape_alias")
@torch_spelling("aten.squeeze", "aten.atleast_1d.default", "aten.atleast_2d.default")
@torch_spelling("aten.ravel", "aten.atleast_3d.default")
@torch_spelling("aten.expand", "aten.expand_as", "aten.broadcast_to")
def torch_reshape(n: TorchNode, x: Expr, *given: Any) -> Expr:
    """The same elements in the shape that PyTorch says, or broadcast to it."""
    grows = n.target.startswith(("aten.expand", "aten.broadcast_to"))
    return call(f"relax.{'broadcast_to' if grows else 'reshape'}", x, list(n.result()[0]))


@torch_spelling("aten.unsqueeze")
def torch_unsqueeze(n: TorchNode, x: Expr, dim: int) -> Expr:
    """With one more dimension of 1."""
    return call("relax.expand_dims", x, axis=(dim % (len(n.dims(x)) + 1),))


@torch_spelling("aten.permute", "aten.transpose.int", "aten.t", "aten.numpy_T", "aten.swapaxes")
@torch_spelling("aten.swapdims", "aten.movedim.int", "aten.movedim.intlist", "aten.adjoint")
@torch_spelling("aten.matrix_H", "aten.mT", "aten.mH", "aten.moveaxis.int", "aten.moveaxis.intlist")
def torch_permute(n: TorchNode, x: Expr, first: Any = None, second: Any = None) -> Expr:
    """Dimensions in another order."""
    rank = len(n.dims(x))
    axes = list(range(rank))
    kind = n.target.split(".")[1]
    if kind == "permute":
        axes = [a % rank for a in first]
    elif kind == "numpy_T" or (kind == "t" and rank == 2):
        axes = axes[::-1]
    elif kind in ("adjoint", "matrix_H", "mT", "mH"):
        axes[-2:] = axes[:-3:-1]
    elif kind in ("movedim", "moveaxis"):
        axes = _moved(axes_of(n, first, rank), axes_of(n, second, rank), rank)
    elif kind != "t" and rank:
        a, b = first % rank, second % rank
        axes[a], axes[b] = axes[b], axes[a]
    return x if axes == list(range(rank)) else call("relax.permute_dims", x, axes=tuple(axes))


def _moved(sources: Sequence[int], targets: Sequence[int], rank: int) -> list[int]:
    rest = iter(a for a in range(rank) if a not in sources)
    placed = dict(zip(targets, sources, strict=True))
    return [placed[i] if i in placed else next(rest) for i in range(rank)]


@torch_spelling("aten.broadcast_tensors")
def torch_broadcast_tensors(n: TorchNode, tensors: Sequence[Expr]) -> list[Expr]:
    """All broadcast to one shape."""
    return [call("relax.broadcast_to", x, list(n.result(i)[0])) for i, x in enumerate(tensors)]


@torch_spelling("aten.repeat.default", "aten.tile")
def torch_repeat(n: TorchNode, x: Expr, repeats: Sequence[Any]) -> Expr:
    """The whole tensor so often along each dimension."""
    if any(as_int(r) == 0 for r in repeats):
        return call("relax.zeros", list(n.result()[0]), n.dtype(x))
    return copies(n, x, repeats)


@torch_spelling("aten.cat", "aten.concat", "aten.concatenate")
def torch_cat(n: TorchNode, tensors: Sequence[Expr], dim: int = 0) -> Expr:
    """One after another, in their common dtype; empty vectors do not count."""
    dims, kind = n.result()
    kept = [x for x in tensors if not (n.dims(x) == (0,) and len(dims) > 1)]
    parts = [n.tensor(x, kind) for x in kept]
    return parts[0] if len(parts) == 1 else call("relax.concat", parts, axis=dim % len(dims))


@torch_spelling("aten.stack")
def torch_stack(n: TorchNode, tensors: Sequence[Expr], dim: int = 0) -> Expr:
    """Side by side along a new dimension."""
    dims, kind = n.result()
    return call("relax.stack", [n.tensor(x, kind) for x in tensors], axis=dim % len(dims))


def _parts(n: TorchNode, x: Expr, axis: int, sizes: Sequence[Any]) -> list[Expr]:
    """Slices of these sizes, one after another."""
    if all(as_int(s) is not None for s in sizes) and as_int(n.dims(x)[axis]) is not None:
        cuts, at = [], 0
        for s in sizes[:-1]:
            at += int(s)
            cuts.append(at)
        if not cuts:
            return [x]
        both = n.emit(call("relax.split", x, indices_or_sections=tuple(cuts), axis=axis))
        return [both[i] for i in range(len(sizes))]
    found, start = [], 0
    for s in sizes:
        found.append(cut(x, axis, start, tidy(start + s)))
        start = tidy(start + s)
    return found


@torch_spelling("aten.split", "aten.split_with_sizes", "aten.chunk", "aten.unsafe_chunk")
@torch_spelling("aten.unsafe_split", "aten.tensor_split", "aten.unsafe_split_with_sizes")
def torch_split(n: TorchNode, x: Expr, sizes: Any, dim: int = 0) -> list[Expr]:
    """Parts, of the sizes that PyTorch says."""
    axis = axis_of(n, dim, len(n.dims(x)))
    parts = [n.result(i)[0][axis] for i in range(n.count())]
    if len(parts) > 1 and isinstance(sizes, int) and _are_sections(n.dims(x)[axis], parts):
        both = n.emit(call("relax.split", x, indices_or_sections=len(parts), axis=axis))
        return [both[i] for i in range(len(parts))]
    return _parts(n, x, axis, parts)


@torch_spelling("aten.hsplit", "aten.vsplit", "aten.dsplit")
def torch_split_across(n: TorchNode, x: Expr, sizes: Any) -> list[Expr]:
    """Parts along the second dimension (of a vector the first), the first, the third."""
    axis = {"h": min(1, len(n.dims(x)) - 1), "v": 0, "d": 2}[n.target.split(".")[1][0]]
    return torch_split(n, x, sizes, axis)


def _are_sections(extent: Any, parts: Sequence[Any]) -> bool:
    """Whether `relax.split` into so many parts gives these: all alike, the last may be smaller."""
    whole = as_int(extent)
    if whole is None:
        return False
    step = -(-whole // len(parts))
    cuts = [min(step * i, whole) for i in range(len(parts) + 1)]
    return [as_int(p) for p in parts] == [b - a for a, b in pairwise(cuts)]


@torch_spelling("aten.unbind")
def torch_unbind(n: TorchNode, x: Expr, dim: int = 0) -> list[Expr]:
    """Each place along a dimension, without it."""
    axis = axis_of(n, dim, len(n.dims(x)))
    parts = _parts(n, x, axis, [1] * n.count())
    return [call("relax.squeeze", n.emit(p), axis=(axis,)) for p in parts]


@torch_spelling("aten.select.int")
def torch_select(n: TorchNode, x: Expr, dim: int, index: Any) -> Expr:
    """One place along a dimension, without it."""
    axis = axis_of(n, dim, len(n.dims(x)))
    if isinstance(index, int) and index < 0:
        index = tidy(n.dims(x)[axis] + index)
    part = n.emit(cut(x, axis, index, tidy(index + 1)))
    return call("relax.squeeze", part, axis=(axis,))


@torch_spelling("aten.slice.Tensor", "aten.narrow")
def torch_slice(
    n: TorchNode, x: Expr, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Expr:
    """Python's start:end:step along a dimension; of narrow the third is a length."""
    axis = axis_of(n, dim, len(n.dims(x)))
    extent, begin = n.dims(x)[axis], 0 if start is None else start
    if isinstance(begin, Expr):
        n.refuse("a start that is a tensor", "give a number")
    if n.target.startswith("aten.narrow"):
        begin = begin if as_int(begin) is None or begin >= 0 else tidy(extent + begin)
        end = tidy(begin + end)
    if end is None or (isinstance(end, int) and end >= NO_END):
        end = extent
    if as_int(begin) == 0 and end is extent and step == 1:
        return x
    return cut(x, axis, begin, end, step)


@torch_spelling("aten.slice_scatter")
def torch_slice_scatter(
    n: TorchNode, x: Expr, src: Expr, dim: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Expr:  # fmt: skip
    """x with `src` in place of a slice."""
    axis = axis_of(n, dim, len(n.dims(x)))
    extent = n.dims(x)[axis]
    bounds = 0 if start is None else start, extent if end is None else end
    begin, stop = (tidy(brought(bound, extent, 0, extent)) for bound in bounds)
    if as_int(begin) == 0 and same(stop, extent) and step == 1:
        return n.tensor(src, n.dtype(x))
    prims = [PrimValue(v) if isinstance(v, PrimExpr) else v for v in (begin, stop, step)]
    return call("relax.slice_scatter", x, n.tensor(src, n.dtype(x)), *prims, axis=axis)


@torch_spelling("aten.select_scatter")
def torch_select_scatter(n: TorchNode, x: Expr, src: Expr, dim: int, index: Any) -> Expr:
    """x with `src` at one place of a dimension."""
    axis = axis_of(n, dim, len(n.dims(x)))
    if isinstance(index, int) and index < 0:
        index = tidy(n.dims(x)[axis] + index)
    line = n.emit(call("relax.expand_dims", src, axis=(axis,)))
    return torch_slice_scatter(n, x, line, axis, index, tidy(index + 1))


@torch_spelling("aten.copy", "aten.fill")
def torch_copy(n: TorchNode, x: Expr, src: Any) -> Expr:
    """`src` in x's shape and dtype."""
    dims, kind = n.result()
    return call("relax.broadcast_to", n.tensor(src, kind), list(dims))


@torch_spelling("aten.flip")
def torch_flip(n: TorchNode, x: Expr, dims: Sequence[int]) -> Expr:
    """Backwards along dimensions."""
    for axis in axes_of(n, list(dims), len(n.dims(x))) if dims else ():
        x = n.emit(call("relax.flip", x, axis=axis))
    return x


@torch_spelling("aten.roll")
def torch_roll(n: TorchNode, x: Expr, shifts: Any, dims: Any = ()) -> Expr:
    """Moved around, what leaves at the end comes back at the front."""
    shifts = [shifts] if isinstance(shifts, int | PrimExpr) else list(shifts)
    if not dims:
        flat = n.emit(call("relax.reshape", x, [-1]))
        moved = n.emit(_rolled(n, flat, shifts[0], 0))
        return call("relax.reshape", moved, list(n.dims(x)))
    for shift, axis in zip(shifts, axes_of(n, dims, len(n.dims(x))), strict=True):
        x = n.emit(_rolled(n, x, shift, axis))
    return x


def _rolled(n: TorchNode, x: Expr, shift: Any, axis: int) -> Expr:
    extent = n.dims(x)[axis]
    shift = tidy(floormod(as_expr(shift), maximum(extent, 1)))
    if as_int(shift) == 0:
        return x
    split = tidy(extent - shift)  # not negative: the shift is less than the extent, or 0
    front, back = cut(x, axis, split, extent), cut(x, axis, 0, split)
    return call("relax.concat", [n.emit(front), n.emit(back)], axis=axis)


@torch_spelling("aten.pixel_shuffle")
def torch_pixel_shuffle(n: TorchNode, x: Expr, upscale_factor: int) -> Expr:
    """Channels become pixels."""
    return call("relax.nn.pixel_shuffle", x, upscale_factor=upscale_factor)


@torch_spelling("aten.pixel_unshuffle")
def torch_pixel_unshuffle(n: TorchNode, x: Expr, downscale_factor: int) -> Expr:
    """Pixels become channels."""
    r, (*outer, c, h, w) = downscale_factor, n.dims(x)
    f, k = Formula(n, n.dtype(x)), len(outer)
    apart = f.reshape(x, [*outer, c, tidy(h // r), r, tidy(w // r), r])
    turned = f.permute_dims(apart, axes=(*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return f.reshape(turned, list(n.result()[0]))


@torch_spelling("aten.channel_shuffle")
def torch_channel_shuffle(n: TorchNode, x: Expr, groups: int) -> Expr:
    """Channels of all groups in turn."""
    f, (batch, c, *rest) = Formula(n, n.dtype(x)), n.dims(x)
    apart = f.reshape(x, [batch, groups, tidy(c // groups), *rest])
    turned = f.permute_dims(apart, axes=(0, 2, 1, *range(3, 3 + len(rest))))
    return f.reshape(turned, [batch, c, *rest])


@torch_spelling("aten.unfold")
def torch_unfold(n: TorchNode, x: Expr, dim: int, size: int, step: int) -> Expr:
    """Windows along a dimension, each of them in a new last dimension."""
    axis = axis_of(n, dim, len(n.dims(x)))
    count, f = n.result()[0][axis], Formula(n, n.dtype(x))
    starts = f.reshape(f.multiply(f.counted(count), n.tensor(step, "int64")), [count, 1])
    places = f.add(starts, f.reshape(f.counted(size), [1, size]))
    found = f.take(x, places, axis=axis)
    rank = len(n.dims(x))
    axes = [a for a in range(rank + 1) if a != axis + 1]
    return call("relax.permute_dims", found, axes=(*axes, axis + 1))


@torch_spelling("aten.meshgrid")
def torch_meshgrid(n: TorchNode, tensors: Sequence[Expr], *, indexing: str = "ij") -> list[Expr]:
    """Each vector along its own dimension of a common grid."""
    lines = [x if n.dims(x) else n.emit(call("relax.reshape", x, [1])) for x in tensors]
    both = n.emit(call("relax.meshgrid", lines, indexing=indexing))
    return [both[i] for i in range(len(tensors))]


@torch_spelling("aten.linalg_diagonal")
def torch_linalg_diagonal(
    n: TorchNode, x: Expr, *, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Expr:
    """The diagonals of matrices."""
    return torch_diagonal(n, x, offset, dim1, dim2)


@torch_spelling("aten.diagonal")
def torch_diagonal(n: TorchNode, x: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    """What lies on a diagonal of two dimensions, in a new last dimension."""
    rank, count = len(n.dims(x)), n.result()[0][-1]
    a, b = dim1 % rank, dim2 % rank
    order = [i for i in range(rank) if i not in (a, b)]
    f = Formula(n, n.dtype(x))
    last = f.permute_dims(x, axes=(*order, a, b)) if order + [a, b] != list(range(rank)) else x
    flat = f.reshape(last, [*n.dims(last)[:-2], tidy(n.dims(last)[-2] * n.dims(last)[-1])])
    width = n.dims(last)[-1]
    start = offset if offset >= 0 else -offset * width
    places = f.multiply(f.counted(count), n.tensor(tidy(width + 1), "int64"))
    places = f.add(places, n.tensor(start, "int64"))
    return call("relax.take", flat, places, axis=len(order))
