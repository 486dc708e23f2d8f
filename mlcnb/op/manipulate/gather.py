"""Elements picked by tensors of indices: gather_elements, gather_nd, index_tensor.

    gather_elements    out[i, j] = x[indices[i, j], j]               (axis 0)
    gather_nd          out[i] = x[indices[i, 0], indices[i, 1]]
    index_tensor       x[a, b], as NumPy indexes with arrays

Negative indices count from the end; what is outside even so is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import (
    axis_at,
    broadcast,
    broadcast_dims,
    broadcast_index,
    differ,
    refuse,
    tell,
    tensor,
    want_within,
)
from mlcnb.op.indexing.take import want_inside, want_integers
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, Tensors, make_call, operator
from mlcnb.tir.index_check import checked_from_end, inside


@operator("relax.gather_elements")
class GatherElements(OpDecl):
    """out[i, j, …] = x[i, indices[i, j, …], …], the index standing at `axis`.

    Semantics: https://onnx.ai/onnx/operators/onnx__GatherElements.html
    """

    tir_name = "gather"

    x: Tensor
    indices: Tensor
    axis: int = 0

    def infer(self, x: Any, indices: Any) -> Any:
        """The shape of `indices`, of x's dtype."""
        want_integers(self, indices)
        if -1 not in (x.ndim, indices.ndim) and x.ndim != indices.ndim:
            refuse(self, f"{tell(indices)} has not as many dimensions as {tell(x)}")
        if x.ndim != -1:
            want_within(self, indices, x, axis_at(self, self.axis, x.ndim, x))
        return tensor(indices.dims, x.dtype, max(x.ndim, indices.ndim))

    def numpy(self, x: Any, indices: Any) -> Any:
        """numpy.take_along_axis"""
        axis = self.axis % x.ndim
        places = list(np.indices(indices.shape, sparse=True))
        extent = x.shape[axis]
        places[axis] = inside(indices, -extent, extent, "gather_elements: indices")
        return x[tuple(places)]

    def compute(self, x: Any, indices: Any) -> Any:
        """One copy, whose reads go through `indices`."""
        axis = self.axis % len(x.shape)

        def source(*index: Any) -> Any:
            at = checked_from_end(indices(*index), x.shape[axis], "gather_elements: indices")
            return x(*index[:axis], at, *index[axis + 1 :])

        return te.compute(indices.shape, source, name="gather_elements")


@onnx("GatherElements")
def onnx_gather_elements(n: OnnxNode, data: Expr, indices: Expr) -> Expr:
    """gather_elements"""
    dims, axis = n.dims(data), n.attr("axis", 0)
    if -len(dims) <= axis < len(dims):
        want_inside(n, indices, [dims[axis]])
    return make_call(GatherElements, data, indices, axis=axis)


@operator("relax.gather_nd")
class GatherNd(OpDecl):
    """Each row of `indices` (its last dimension) is the start of an index of `x`.

    The first `batch_dims` dimensions of both are the same and are gone through together.
    Semantics: https://onnx.ai/onnx/operators/onnx__GatherND.html
    """

    tir_name = "te_gather_nd"

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
        if not 0 <= self.batch_dims < len(index_dims):
            refuse(self, f"batch_dims {self.batch_dims} is not from 0 to {len(index_dims) - 1}")
        if self.batch_dims + depth > len(getattr(x, "dims", None) or x.shape):
            refuse(self, f"{depth} indices after {self.batch_dims} batch dimensions are too many")
        return depth

    def numpy(self, x: Any, indices: Any) -> Any:
        """NumPy's indexing with arrays"""
        b, depth = self.batch_dims, indices.shape[-1]
        grid = np.indices(indices.shape[:-1], sparse=True)[:b] if b else ()
        extents = x.shape[b : b + depth]
        rows = [
            inside(indices, -extent, extent, "gather_nd: indices", k)
            for k, extent in enumerate(extents)
        ]
        return np.array(x[(*grid, *rows)])

    def compute(self, x: Any, indices: Any) -> Any:
        """One copy, whose reads go through `indices`."""
        b, depth, lead = self.batch_dims, self.depth(indices.shape, x), len(indices.shape) - 1

        def source(*index: Any) -> Any:
            rows = [
                checked_from_end(indices(*index[:lead], k), x.shape[b + k], "gather_nd: indices", k)
                for k in range(depth)
            ]
            return x(*index[:b], *rows, *index[lead:])

        shape = [*indices.shape[:-1], *x.shape[b + depth :]]
        return te.compute(shape, source, name="gather_nd")


@onnx("GatherND")
def onnx_gather_nd(n: OnnxNode, data: Expr, indices: Expr) -> Expr:
    """gather_nd"""
    batch, depth = n.attr("batch_dims", 0), as_int((n.dims(indices) or [None])[-1]) or 0
    want_inside(n, indices, n.dims(data)[batch : batch + depth], in_columns=True)
    return make_call(GatherNd, data, indices, batch_dims=batch)


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
        pairs = enumerate(zip(indices, x.shape, strict=False))
        rows = [inside(i, -d, d, f"index_tensor: indices {n}") for n, (i, d) in pairs]
        return np.array(x[tuple(rows)])

    def compute(self, x: Any, indices: Any) -> Any:
        """One copy, whose reads go through the indices."""
        lead = broadcast_dims([t.shape for t in indices]) or ()

        def source(*index: Any) -> Any:
            front = index[: len(lead)]
            rows = [
                checked_from_end(
                    t(*broadcast_index(front, t.shape, lead)), d, f"index_tensor: indices {n}"
                )
                for n, (t, d) in enumerate(zip(indices, x.shape, strict=False))
            ]
            return x(*rows, *index[len(lead) :])

        return te.compute([*lead, *x.shape[len(indices) :]], source, name="index_tensor")
