"""Products of quantised matrices, summed in int32: qnn.matmul, and how it lies for a CPU.

    matmul[i, j] += x[i, k] * weight[k, j]
    qmatmul_packed[i, j0, j1] += x[i, 4 * k0 + k1] * weight[j0, k0, j1, k1]

The raw numbers are multiplied; zero points go into the bias (`mlcnb.op.qnn._build`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import cast
from mlcnb.op._dims import differ, product, refuse, tell, tell_dims, tensor, tidy, want_rank
from mlcnb.op.linear_algebra.packed import check_groups, sums_in_groups, unpacked
from mlcnb.op.qnn.conv import DOT
from mlcnb.op.qnn.elementwise import BYTES, want_kind
from mlcnb.relax.operator import OpDecl, OptionalShape, Tensor, operator


def check_batches(op: OpDecl, x: Any, weight: Any, inner: int) -> None:
    """Refuse batches of x that are not the weight's, which come before `inner` dimensions."""
    batches = weight.dims[:-inner]
    if any(map(differ, x.dims, batches)) or len(batches) not in (0, x.ndim - 2):
        refuse(op, f"{tell(x)} does not fit {tell(weight)}")


class _Product(OpDecl):
    """Base of both: rows of bytes times a matrix of bytes."""

    __slots__ = ()

    def flops(self, x: Any, weight: Any, *shape: Any) -> Any:
        """Two for each multiplication."""
        found = self.infer(x, weight, *shape).dims  # type: ignore[call-arg]
        return None if found is None else tidy(product(found) * x.dims[-1] * 2)


@operator("relax.qnn.matmul")
class QuantizedMatmul(_Product):
    """x (…, K) times weight (K, N), or one of each batch, in int32, which wraps around.

    Semantics: https://onnx.ai/onnx/operators/onnx__MatMulInteger.html, zero points apart.
    """

    x: Tensor
    weight: Tensor

    def infer(self, x: Any, weight: Any) -> Any:
        """The dimensions of x but the last, then the columns."""
        want_kind(self, x=(x, BYTES), weight=(weight, BYTES))
        if weight.ndim != x.ndim:
            want_rank(self, "weight", weight, 2)
        if x.dims is None or weight.dims is None:
            return tensor(None, "int32", x.ndim)
        check_batches(self, x, weight, 2)
        if x.ndim < 1 or differ(x.dims[-1], weight.dims[-2]):
            refuse(self, f"{tell(x)} does not fit {tell(weight)}")
        return tensor((*x.dims[:-1], weight.dims[-1]), "int32")

    def numpy(self, x: Any, weight: Any) -> Any:
        """numpy.matmul in int32"""
        return np.asarray(np.matmul(x.astype(np.int32), weight.astype(np.int32)))

    def compute(self, x: Any, weight: Any) -> Any:
        """One reduction over the inner dimension."""
        k = te.reduce_axis((0, x.shape[-1]), name="k")

        def element(*index: Any) -> Any:
            *rows, j = index
            own = rows[: len(weight.shape) - 2]
            return te.sum(cast("int32", x(*rows, k)) * cast("int32", weight(*own, k, j)), axis=k)

        return te.compute((*x.shape[:-1], weight.shape[-1]), element, name="qmatmul")


@operator("relax.qnn.matmul_packed")
class QuantizedMatmulPacked(_Product):
    """qnn.matmul with a matrix (K, columns) that lies as (ceil(columns / b), K / 4, b, 4), or with
    one of each batch.

    Columns beyond `columns`, which fill up the last block, are not computed; where they are open,
    `shape` is (columns,).
    """

    x: Tensor
    weight: Tensor
    shape: OptionalShape
    columns: int = 0

    def infer(self, x: Any, weight: Any, shape: Any = None) -> Any:
        """The dimensions of x but the last, then `columns`."""
        want_kind(self, x=(x, BYTES), weight=(weight, BYTES))
        if weight.ndim != x.ndim + 2:
            want_rank(self, "weight", weight, 4)
        given = None if shape is None else shape.values
        if x.dims is None or weight.dims is None or (shape is not None and given is None):
            return tensor(None, "int32", x.ndim)
        check_batches(self, x, weight, 4)
        columns = self.width(given)
        check_groups(self, x, weight, columns, DOT)
        return tensor((*x.dims[:-1], columns), "int32")

    def width(self, shape: Any) -> Any:
        """The columns: `columns`, or those of (columns,)."""
        if shape is None:
            return self.columns
        if len(shape) != 1 or self.columns:
            refuse(self, f"{tell_dims(shape)} and {self.columns} columns are not (columns,) alone")
        return shape[0]

    def numpy(self, x: Any, weight: Any, shape: Any = None) -> Any:
        """numpy.matmul with the matrix unpacked"""
        columns = unpacked(weight, self.width(shape)).astype(np.int32)
        return np.asarray(np.matmul(x.astype(np.int32), columns))

    def compute(self, x: Any, weight: Any, shape: Any = None) -> Any:
        """One reduction over the inner dimension, in quads; a copy of the columns that count."""
        return sums_in_groups(x, weight, self.width(shape), ("int32", "int32"), "qmatmul_packed")
