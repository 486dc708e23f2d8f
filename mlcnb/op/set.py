"""Results whose size depends on the data: unique, nonzero.

There are no loops for them: the virtual machine calls their meaning in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.op._dims import axis_at, tensor
from mlcnb.op._elementwise import ANY, want_kinds
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo


@operator("relax.unique")
class Unique(OpDecl):
    """The elements of `x`, each once; with `axis`, the slices across that dimension, each once.

    sorted: in rising order, else in that of their first occurrence. The result is a tuple where one
    of these is asked for, all int64: return_index (where each first occurs), return_inverse (which
    of them each place of x holds), return_counts. Semantics: numpy.unique.
    """

    x: Tensor
    sorted: bool = True
    return_index: bool = False
    return_inverse: bool = False
    return_counts: bool = False
    axis: int | None = None

    def infer(self, x: Any) -> Any:
        """Tensors of unknown size."""
        want_kinds(self, ANY, x=x)
        if self.axis is not None and x.ndim != -1:
            axis_at(self, self.axis, x.ndim, x)
        values = tensor(None, x.dtype, 1 if self.axis is None else x.ndim)
        if not any(self.wanted):
            return values
        return TupleStructInfo((values, *(tensor(None, "int64", 1) for w in self.wanted if w)))

    def partly(self, x: Any) -> Any:
        """With an axis, all dimensions but that are x's."""
        if self.axis is None or x.dims is None:
            return None
        axis = axis_at(self, self.axis, x.ndim, x)
        dims = [None if i == axis else d for i, d in enumerate(x.dims)]
        return [dims, *([None] for w in self.wanted if w)] if any(self.wanted) else dims

    @property
    def wanted(self) -> tuple[bool, bool, bool]:
        """Which of index, inverse and counts are results."""
        return self.return_index, self.return_inverse, self.return_counts

    def numpy(self, x: Any) -> Any:
        """numpy.unique, in the order asked for"""
        flat = np.reshape(x, -1) if self.axis is None else x
        values, index, inverse, counts = np.unique(flat, True, True, True, axis=self.axis)
        inverse = np.reshape(inverse, -1)
        if not self.sorted:
            order = np.argsort(index, kind="stable")
            place = np.argsort(order, kind="stable")
            values = np.take(values, order, self.axis or 0)
            index, inverse, counts = index[order], place[inverse], counts[order]
        more = [v.astype(np.int64) for v in (index, inverse, counts)]
        chosen = [v for v, w in zip(more, self.wanted, strict=True) if w]
        return (values, *chosen) if chosen else values


@onnx("Unique")
def onnx_unique(n: OnnxNode, x: Expr) -> Any:
    """All four results; those that the node does not name are not computed for nothing."""
    wanted = [at < len(n.outputs) and bool(n.outputs[at]) for at in range(4)]
    axis, order = n.attr("axis"), bool(n.attr("sorted", 1))
    if not any(wanted[1:]):
        return make_call(Unique, x, order, axis=axis)
    found = n.emit(make_call(Unique, x, order, True, True, True, axis=axis))
    return tuple(found[i] for i in range(n.num_outputs))


@operator("relax.nonzero")
class Nonzero(OpDecl):
    """The indices, int64, of the elements that are not 0: one row a dimension, one column each.

    Of a tensor without dimensions there are no rows.
    Semantics: https://onnx.ai/onnx/operators/onnx__NonZero.html
    """

    x: Tensor

    def infer(self, x: Any) -> Any:
        """A matrix of unknown size."""
        want_kinds(self, ANY, x=x)
        return tensor(None, "int64", 2)

    def partly(self, x: Any) -> Any:
        """One row for each dimension of x."""
        return None if x.ndim == -1 else [x.ndim, None]

    def numpy(self, x: Any) -> Any:
        """numpy.nonzero"""
        if np.ndim(x) == 0:
            return np.zeros((0, int(bool(x))), np.int64)
        return np.array(np.nonzero(x), np.int64).reshape(np.ndim(x), -1)


@onnx("NonZero")
def onnx_nonzero(n: OnnxNode, x: Expr) -> Expr:
    """As ours."""
    return make_call(Nonzero, x)
