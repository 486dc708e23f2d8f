"""Elements picked by tensors of indices: gather_elements, gather_nd, index_tensor.

    gather_elements    out[i, j] = x[indices[i, j], j]               (axis 0)
    gather_nd          out[i] = x[indices[i, 0], indices[i, 1]]
    index_tensor       x[a, b], as NumPy indexes with arrays

Negative indices count from the end; what is outside even so reads the nearest element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, if_then_else, maximum, minimum
from mlcnb.op._dims import (
    axis_at,
    broadcast,
    broadcast_dims,
    broadcast_index,
    differ,
    refuse,
    tell,
    tensor,
)
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, Tensors, make_call, operator


def want_integers(op: OpDecl, indices: Any) -> None:
    """Refuse indices that are known to be no integers."""
    if indices.dtype and not indices.dtype.is_integer:
        refuse(op, f"indices must be integers, but are {tell(indices)}")


def counted(at: Any, extent: Any) -> Any:
    """An index expression, a negative one counted from the end."""
    if at.dtype.is_uint:
        return cast("int64", at)
    return if_then_else(at < 0, at + extent, at)


def inside(at: Any, extent: Any) -> Any:
    """An index expression, counted from the end if negative, then brought inside."""
    return maximum(minimum(counted(at, extent), extent - 1), 0)


def np_inside(at: np.ndarray, extent: int) -> np.ndarray:
    """`inside` of an array of indices."""
    return np.clip(np.where(at < 0, at + extent, at), 0, extent - 1)


@operator("relax.gather_elements")
class GatherElements(OpDecl):
    """out[i, j, …] = x[i, indices[i, j, …], …], the index standing at `axis`.

    Semantics: https://onnx.ai/onnx/operators/onnx__GatherElements.html
    """

    x: Tensor
    indices: Tensor
    axis: int = 0

    def infer(self, x: Any, indices: Any) -> Any:
        """The shape of `indices`, of x's dtype."""
        want_integers(self, indices)
        if -1 not in (x.ndim, indices.ndim) and x.ndim != indices.ndim:
            refuse(self, f"{tell(indices)} has not as many dimensions as {tell(x)}")
        if x.ndim != -1:
            axis = axis_at(self, self.axis, x.ndim, x)
        if x.dims is not None and indices.dims is not None:
            for i, (d, have) in enumerate(zip(indices.dims, x.dims, strict=True)):
                size, limit = as_int(d), as_int(have)
                if i != axis and None not in (size, limit) and size > limit:  # type: ignore[operator]
                    refuse(self, f"dimension {i} of {tell(indices)} is larger than in {tell(x)}")
        return tensor(indices.dims, x.dtype, max(x.ndim, indices.ndim))

    def numpy(self, x: Any, indices: Any) -> Any:
        """numpy.take_along_axis"""
        axis = self.axis % x.ndim
        places = list(np.indices(indices.shape, sparse=True))
        places[axis] = np_inside(indices, x.shape[axis])
        return x[tuple(places)]

    def compute(self, x: Any, indices: Any) -> Any:
        """One copy, whose reads go through `indices`."""
        axis = self.axis % len(x.shape)

        def source(*index: Any) -> Any:
            at = inside(indices(*index), x.shape[axis])
            return x(*index[:axis], at, *index[axis + 1 :])

        return te.compute(indices.shape, source, name="gather_elements")


@onnx("GatherElements")
def onnx_gather_elements(n: OnnxNode, data: Expr, indices: Expr) -> Expr:
    """gather_elements"""
    return make_call(GatherElements, data, indices, axis=n.attr("axis", 0))


@operator("relax.gather_nd")
class GatherNd(OpDecl):
    """Each row of `indices` (its last dimension) is the start of an index of `x`.

    The first `batch_dims` dimensions of both are the same and are gone through together.
    Semantics: https://onnx.ai/onnx/operators/onnx__GatherND.html
    """

    x: Tensor
    indices: Tensor
    batch_dims: int = 0

    def infer(self, x: Any, indices: Any) -> Any:
        """`indices` without its last dimension, then what the rows leave of x."""
        want_integers(self, indices)
        if x.dims is None or indices.dims is None:
            return tensor(None, x.dtype)
        depth = self.depth(indices.dims, x)
        b = self.batch_dims
        for i in range(b):
            if differ(x.dims[i], indices.dims[i]):
                refuse(self, f"batch dimension {i} of {tell(x)} and {tell(indices)} differs")
        return tensor([*indices.dims[:-1], *x.dims[b + depth :]], x.dtype)

    def depth(self, index_dims: Sequence[Any], x: Any) -> int:
        """How many dimensions of x a row of `indices` names."""
        if not index_dims or as_int(index_dims[-1]) is None:
            refuse(self, "the last dimension of indices must be known")
        depth = as_int(index_dims[-1]) or 0
        if self.batch_dims + depth > len(getattr(x, "dims", None) or x.shape):
            refuse(self, f"{depth} indices after {self.batch_dims} batch dimensions are too many")
        return depth

    def numpy(self, x: Any, indices: Any) -> Any:
        """NumPy's indexing with arrays"""
        b, depth = self.batch_dims, indices.shape[-1]
        grid = np.indices(indices.shape[:-1], sparse=True)[:b] if b else ()
        rows = [np_inside(indices[..., k], x.shape[b + k]) for k in range(depth)]
        return np.array(x[(*grid, *rows)])

    def compute(self, x: Any, indices: Any) -> Any:
        """One copy, whose reads go through `indices`."""
        b, depth, lead = self.batch_dims, self.depth(indices.shape, x), len(indices.shape) - 1

        def source(*index: Any) -> Any:
            rows = [inside(indices(*index[:lead], k), x.shape[b + k]) for k in range(depth)]
            return x(*index[:b], *rows, *index[lead:])

        shape = [*indices.shape[:-1], *x.shape[b + depth :]]
        return te.compute(shape, source, name="gather_nd")


@onnx("GatherND")
def onnx_gather_nd(n: OnnxNode, data: Expr, indices: Expr) -> Expr:
    """gather_nd"""
    return make_call(GatherNd, data, indices, batch_dims=n.attr("batch_dims", 0))


@operator("relax.index_tensor")
class IndexTensor(OpDecl):
    """x[indices[0], indices[1], …]: arrays of indices for the first dimensions, broadcast together.

    Semantics: https://numpy.org/doc/stable/user/basics.indexing.html#integer-array-indexing
    """

    x: Tensor
    indices: Tensors

    def infer(self, x: Any, indices: Any) -> Any:
        """What the indices broadcast to, then the dimensions of x that they leave."""
        for info in indices:
            want_integers(self, info)
        if x.ndim != -1 and len(indices) > x.ndim:
            refuse(self, f"{len(indices)} tensors of indices are too many for {tell(x)}")
        lead = broadcast(self, *indices)
        if x.dims is None or lead is None:
            return tensor(None, x.dtype)
        return tensor([*lead, *x.dims[len(indices) :]], x.dtype)

    def numpy(self, x: Any, indices: Any) -> Any:
        """NumPy's indexing with arrays"""
        pairs = zip(indices, x.shape, strict=False)
        return np.array(x[tuple(np_inside(i, d) for i, d in pairs)])

    def compute(self, x: Any, indices: Any) -> Any:
        """One copy, whose reads go through the indices."""
        lead = broadcast_dims([t.shape for t in indices]) or ()

        def source(*index: Any) -> Any:
            front = index[: len(lead)]
            rows = [
                inside(t(*broadcast_index(front, t.shape, lead)), d)
                for t, d in zip(indices, x.shape, strict=False)
            ]
            return x(*rows, *index[len(lead) :])

        return te.compute([*lead, *x.shape[len(indices) :]], source, name="index_tensor")
