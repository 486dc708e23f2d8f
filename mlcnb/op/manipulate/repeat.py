"""Elements several times, or in reverse: tile, repeat, flip, reverse_sequence, meshgrid.

tile   a b c -> a b c a b c        repeat   a b c -> a a b b c c        flip   a b c -> c b a
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, if_then_else
from mlcnb.op._dims import (
    axis_at,
    differ,
    ints,
    product,
    refuse,
    tell,
    tell_dims,
    tensor,
    tidy,
    want_axis,
    want_rank,
)
from mlcnb.op._spell import call, shape_of
from mlcnb.op.manipulate.reshape import regroup
from mlcnb.op.onnx import ForeignNode, OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, Tensors, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo


@operator("relax.tile")
class Tile(OpDecl):
    """`x` repeated as a whole, repeats[i] times along dimension i, both aligned at the right.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.tile.html
    """

    moves = True

    x: Tensor
    repeats: int | tuple[int, ...]

    def aligned(self, dims: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Dimensions and repeats, of one length."""
        counts = [self.repeats] if isinstance(self.repeats, int) else list(self.repeats)
        ndim = max(len(dims), len(counts))
        return [1] * (ndim - len(dims)) + list(dims), [1] * (ndim - len(counts)) + counts

    def infer(self, x: Any) -> Any:
        """x's dimensions times the repeats."""
        counts = (self.repeats,) if isinstance(self.repeats, int) else self.repeats
        if min(counts, default=0) < 0:
            refuse(self, f"repeats {self.repeats} must not be negative")
        if x.dims is None:
            return tensor(None, x.dtype, -1 if x.ndim == -1 else max(x.ndim, len(counts)))
        return tensor([d * r for d, r in zip(*self.aligned(x.dims), strict=True)], x.dtype)

    def numpy(self, x: Any) -> Any:
        """numpy.tile"""
        return np.tile(x, self.repeats)

    def compute(self, x: Any) -> Any:
        """One copy: x[i % size]."""
        dims, counts = self.aligned(x.shape)
        lead = len(dims) - len(x.shape)

        def source(*index: Any) -> Any:
            triples = zip(index[lead:], dims[lead:], counts[lead:], strict=True)
            return x(*(i if as_int(d) == 0 or as_int(c) == 1 else i % d for i, d, c in triples))

        return te.compute([d * c for d, c in zip(dims, counts, strict=True)], source, name="tile")


@onnx("Tile", since=6)
def onnx_tile(n: OnnxNode, x: Expr, repeats: Expr) -> Expr:
    """`repeats` may be computed from open sizes."""
    counts, dims = shape_of(n, repeats, "repeats"), n.dims(x)
    if len(counts) != len(dims):
        told = tell_dims(counts)
        n.refuse(f"repeats {told} are not one number for each dimension of {tell_dims(dims)}")
    return copies(n, x, counts)


def copies(n: ForeignNode, x: Expr, counts: Sequence[Any]) -> Expr:
    """x so often along each dimension, as of `tile`, where numbers and sizes may be open: copies
    then lie along axes of their own, and nothing has a remainder.
    """
    dims, known = n.dims(x), ints(counts)
    lead = len(counts) - len(dims)
    pairs = list(zip((*[1] * -lead, *counts), (*[1] * lead, *dims), strict=True))
    opened = known is None or any(r != 1 and as_int(d) is None for r, d in pairs)
    if known is not None and (not opened or 0 in known):
        return make_call(Tile, x, repeats=known)
    apart = [d for r, d in pairs for d in ((d,) if 1 in (as_int(r), as_int(d)) else (1, d))]
    beside = [part for r, d in pairs for part in _beside(r, d)]
    lines = x if apart == list(dims) else n.emit(call("relax.reshape", x, apart))
    found = n.emit(call("relax.broadcast_to", lines, beside))
    return call("relax.reshape", found, [tidy(d * r) for r, d in pairs])


def _beside(times: Any, size: Any) -> tuple[Any, ...]:
    if as_int(times) == 1:
        return (size,)
    return (times,) if as_int(size) == 1 else (times, size)


@operator("relax.repeat")
class Repeat(OpDecl):
    """Each element along `axis` (None: of all, flattened) `repeats` times in a row.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.repeat.html
    """

    moves = True

    x: Tensor
    repeats: int
    axis: int | None = None

    def infer(self, x: Any) -> Any:
        """x's dimensions, `axis` times as large."""
        if self.repeats < 0:
            refuse(self, f"repeats {self.repeats} must not be negative")
        if self.axis is None:
            return tensor(None if x.dims is None else [product(x.dims) * self.repeats], x.dtype, 1)
        want_axis(self, x)
        if x.dims is None:
            return tensor(None, x.dtype, x.ndim)
        return tensor(self.grown(x.dims), x.dtype)

    def grown(self, dims: Sequence[Any]) -> list[Any]:
        """The dimensions of the result."""
        axis = (self.axis or 0) % len(dims)
        return [d * self.repeats if i == axis else d for i, d in enumerate(dims)]

    def numpy(self, x: Any) -> Any:
        """numpy.repeat"""
        return np.repeat(x, self.repeats, self.axis)

    def compute(self, x: Any) -> Any:
        """One copy: x[i // repeats]."""
        if self.axis is None:
            x = regroup(x, (tidy(product(x.shape)),), "flatten")
        axis = (self.axis or 0) % len(x.shape)

        def source(*index: Any) -> Any:
            return x(*index[:axis], index[axis] // self.repeats, *index[axis + 1 :])

        return te.compute(self.grown(x.shape), source, name="repeat")


@operator("relax.flip")
class Flip(OpDecl):
    """`x` in reverse order along `axis`.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.flip.html
    """

    moves = True

    x: Tensor
    axis: int

    def infer(self, x: Any) -> Any:
        """Like x."""
        want_axis(self, x)
        return x

    def numpy(self, x: Any) -> Any:
        """numpy.flip, copied"""
        return np.array(np.flip(x, self.axis))

    def compute(self, x: Any) -> Any:
        """One copy."""
        axis = self.axis % len(x.shape)

        def source(*index: Any) -> Any:
            back = x.shape[axis] - 1 - index[axis]
            return x(*index[:axis], back, *index[axis + 1 :])

        return te.compute(x.shape, source, name="flip")


@operator("relax.reverse_sequence")
class ReverseSequence(OpDecl):
    """The first seq_lengths[b] elements along `seq_axis` in reverse, for each b along `batch_axis`.

    Semantics: https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
    """

    x: Tensor
    seq_lengths: Tensor
    seq_axis: int = 1
    batch_axis: int = 0

    def infer(self, x: Any, seq_lengths: Any) -> Any:
        """Like x."""
        want_rank(self, "seq_lengths", seq_lengths, 1)
        if x.ndim == -1:
            return x
        seq, batch = (axis_at(self, a, x.ndim, x) for a in (self.seq_axis, self.batch_axis))
        if seq == batch:
            refuse(self, f"seq_axis and batch_axis are both {seq}")
        if x.dims is not None and seq_lengths.dims is not None:
            if differ(x.dims[batch], seq_lengths.dims[0]):
                what = f"one number along axis {batch} of {tell(x)}"
                refuse(self, f"seq_lengths is {tell(seq_lengths)}, not {what}")
        return x

    def numpy(self, x: Any, seq_lengths: Any) -> Any:
        """Each batch on its own"""
        moved = np.moveaxis(np.array(x), (self.batch_axis, self.seq_axis), (0, 1))
        for b, length in enumerate(seq_lengths.tolist()):
            moved[b, :length] = np.array(moved[b, :length])[::-1]
        return np.ascontiguousarray(np.moveaxis(moved, (0, 1), (self.batch_axis, self.seq_axis)))

    def compute(self, x: Any, seq_lengths: Any) -> Any:
        """One copy."""
        seq, batch = self.seq_axis % len(x.shape), self.batch_axis % len(x.shape)

        def source(*index: Any) -> Any:
            length, at = cast("int64", seq_lengths(index[batch])), index[seq]
            place = if_then_else(at < length, length - 1 - at, at)
            return x(*index[:seq], place, *index[seq + 1 :])

        return te.compute(x.shape, source, name="reverse_sequence")


@onnx("ReverseSequence")
def onnx_reverse_sequence(n: OnnxNode, x: Expr, lengths: Expr) -> Expr:
    """time_axis (default 0), batch_axis (default 1)"""
    axes = {"seq_axis": n.attr("time_axis", 0), "batch_axis": n.attr("batch_axis", 1)}
    return make_call(ReverseSequence, x, lengths, **axes)


@operator("relax.meshgrid")
class Meshgrid(OpDecl):
    """A grid over tensors of one dimension: result k holds tensors[k] along its own dimension.

    indexing: "ij", or "xy", which swaps the first two dimensions.
    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.meshgrid.html
    """

    follows = True

    tensors: Tensors
    indexing: str = "ij"

    def order(self, count: int) -> list[int]:
        """Along which dimension each tensor lies."""
        swapped = [1, 0] if self.indexing == "xy" and count > 1 else [0, 1][:count]
        return swapped + list(range(2, count))

    def infer(self, tensors: Any) -> Any:
        """A tuple of as many tensors as there are, all of one shape."""
        if self.indexing not in ("ij", "xy"):
            refuse(self, f"indexing {self.indexing!r} is neither 'ij' nor 'xy'")
        for t in tensors:
            want_rank(self, "each tensor", t, 1)
        if any(t.dims is None for t in tensors):
            return TupleStructInfo(tuple(tensor(None, t.dtype, len(tensors)) for t in tensors))
        order = self.order(len(tensors))
        dims = [tensors[order.index(i)].dims[0] for i in range(len(tensors))]
        return TupleStructInfo(tuple(tensor(dims, t.dtype) for t in tensors))

    def numpy(self, tensors: Any) -> Any:
        """numpy.meshgrid"""
        indexing: Any = self.indexing
        return tuple(np.array(a) for a in np.meshgrid(*tensors, indexing=indexing))

    def compute(self, tensors: Any) -> Any:
        """One copy for each tensor."""
        order = self.order(len(tensors))
        dims = [tensors[order.index(i)].shape[0] for i in range(len(tensors))]

        def grid(at: int) -> Any:
            return te.compute(dims, lambda *i: tensors[at](i[order[at]]), name=f"meshgrid_{at}")

        return tuple(grid(at) for at in range(len(tensors)))
