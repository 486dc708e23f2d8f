"""The product with a matrix whose columns lie in blocks: nn.matmul_packed.

for i, j, k:    C[i, j] += A[i, k] * W[j // 32, k, j % 32]

What a matmul with a constant matrix becomes when it is compiled for a CPU: a block of columns is
one piece of memory, read from front to back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import differ, product, refuse, tell, tensor, tidy, want_rank, want_same_dtype
from mlcnb.relax.operator import OpDecl, Tensor, operator


@operator("relax.nn.matmul_packed")
class MatmulPacked(OpDecl):
    """`x` (…, K) times a matrix (K, columns) that lies as `weight` (ceil(columns / b), K, b).

    Columns beyond `columns`, which fill up the last block, are not computed. The result is
    (…, columns); float16 and bfloat16 are summed in float32.
    """

    x: Tensor
    weight: Tensor
    columns: int

    def infer(self, x: Any, weight: Any) -> Any:
        """The dimensions of x but the last, then `columns`."""
        want_rank(self, "weight", weight, 3)
        want_same_dtype(self, x=x, weight=weight)
        if x.dims is None:
            return tensor(None, x.dtype, x.ndim)
        if x.ndim < 1 or (weight.dims is not None and differ(x.dims[-1], weight.dims[1])):
            refuse(self, f"{tell(x)} does not fit the packed {tell(weight)}")
        room = None if weight.dims is None else as_int(tidy(weight.dims[0] * weight.dims[2]))
        if room is not None and not 0 < self.columns <= room:
            refuse(self, f"{self.columns} columns are not in {tell(weight)}")
        return tensor((*x.dims[:-1], self.columns), x.dtype)

    def numpy(self, x: Any, weight: Any) -> Any:
        """numpy.matmul with the matrix unpacked"""
        kind = accumulator(x.dtype.name).numpy
        matrix = np.concatenate(list(weight), axis=1)[:, : self.columns]
        result = np.matmul(x.astype(kind, copy=False), matrix.astype(kind, copy=False))
        return result.astype(x.dtype, copy=False)

    def compute(self, x: Any, weight: Any) -> Any:
        """One reduction over the inner dimension; a second loop rounds half precision."""
        kind = dtype(x.dtype)
        wide = accumulator(kind)
        block = weight.shape[2]
        k = te.reduce_axis((0, x.shape[-1]), name="k")

        def element(*index: Any) -> Any:
            *rows, j = index
            return te.sum(
                cast(wide, x(*rows, k)) * cast(wide, weight(j // block, k, j % block)), axis=k
            )

        found = te.compute((*x.shape[:-1], self.columns), element, name="matmul_packed")
        return rounded(found, kind, "matmul_cast")

    def flops(self, x: Any, weight: Any) -> Any:
        """Two for each multiplication."""
        return None if x.dims is None else tidy(product(x.dims) * self.columns * 2)
