"""one_hot: a position written as a row of zeros with a one in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.prim_ops import select
from mlcnb.op._dims import axis_at, refuse, tensor
from mlcnb.op._spell import call, place_of, scalar_of
from mlcnb.op.indexing.take import want_integers
from mlcnb.op.manipulate.reshape import ExpandDims
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Scalar, Tensor, make_call, operator


@operator("relax.one_hot")
class OneHot(OpDecl):
    """`on_value` where the place along the new dimension is the index, `off_value` elsewhere.

    The new dimension has `depth` places and stands at `axis`. An index outside is nowhere on.
    """

    indices: Tensor
    on_value: Scalar
    off_value: Scalar
    depth: int
    axis: int = -1

    def infer(self, indices: Any, on_value: Any, off_value: Any) -> Any:
        """The dimensions of `indices` and `depth`, of the dtype of the values."""
        want_integers(self, indices)
        if on_value.dtype != off_value.dtype:
            refuse(self, f"on_value is {on_value.dtype}, but off_value is {off_value.dtype}")
        if self.depth < 0:
            refuse(self, f"depth {self.depth} is negative")
        if indices.ndim == -1:
            return tensor(None, on_value.dtype)
        axis = axis_at(self, self.axis, indices.ndim + 1)
        if indices.dims is None:
            return tensor(None, on_value.dtype, indices.ndim + 1)
        return tensor([*indices.dims[:axis], self.depth, *indices.dims[axis:]], on_value.dtype)

    def numpy(self, indices: Any, on_value: Any, off_value: Any) -> Any:
        """numpy.where on a comparison with the places"""
        axis = self.axis % (np.ndim(indices) + 1)
        line = [-1 if i == axis else 1 for i in range(np.ndim(indices) + 1)]
        places = np.arange(self.depth).reshape(line)
        kind = _kind(on_value).numpy
        on, off = (np.asarray(v).astype(kind) for v in (on_value, off_value))
        return np.where(np.expand_dims(indices, axis) == places, on, off)

    def compute(self, indices: Any, on_value: Any, off_value: Any) -> Any:
        """One loop."""
        dims = indices.shape
        axis = self.axis % (len(dims) + 1)

        def element(*index: Any) -> Any:
            rest = index[:axis] + index[axis + 1 :]
            return select(indices(*rest) == index[axis], on_value, off_value)

        return te.compute([*dims[:axis], self.depth, *dims[axis:]], element, name="one_hot")


def _kind(value: Any) -> DType:
    """The dtype of a scalar: its own, or int64 and float32 of Python numbers."""
    found = getattr(value, "dtype", "int64" if isinstance(value, int) else "float32")
    return dtype(str(found))


@onnx("OneHot", since=9)
def onnx_one_hot(n: OnnxNode, indices: Expr, depth: Expr, values: Expr) -> Expr:
    """values = [off, on]; indices from -depth on. Written as a comparison with arange(depth)."""
    size, kind = int(scalar_of(n, depth, "depth")), "int64"
    dims = [*n.dims(indices), size]
    axis = place_of(n, n.attr("axis", -1), dims)
    at = n.emit(call("relax.astype", indices, dtype=kind))
    wrapped = call("relax.add", at, const(size, kind))
    at = n.emit(call("relax.where", call("relax.less", at, const(0, kind)), wrapped, at))
    line = [size if i == axis else 1 for i in range(len(dims))]
    places = call("relax.reshape", call("relax.arange", 0, size, 1, dtype=kind), line)
    hit = n.emit(call("relax.equal", make_call(ExpandDims, at, axis=axis), places))
    off, on = (n.emit(call("relax.take", values, const(i, kind), axis=0)) for i in (0, 1))
    return call("relax.where", hit, on, off)
