"""The product with a matrix whose columns lie in blocks: nn.matmul_packed.

for i, j, k:    C[i, j] += A[i, k] * W[j // 32, k, j % 32]
                C[i, j] += A[i, k] * W[j // 32, k // 2, j % 32, k % 2]          in pairs of rows

What a matmul with a constant matrix becomes when it is compiled for a CPU: a block of columns is
one piece of memory, read from front to back. In pairs it is what an instruction takes that sums
two products of bfloat16. Such groups are quantised products' too, of four bytes:

    sums[i, j0, j1] += x[i, 4 * k0 + k1] * weight[j0, k0, j1, k1]
    y[i, j] = sums[i, j // b, j % b]

A matrix (K, columns) lies as (ceil(columns / b), K / g, b, g) then. Columns that fill up the last
block are summed, but not stored.
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

#: values of 16 bits whose products one instruction sums
PAIR = 2


def check_groups(op: OpDecl, x: Any, weight: Any, columns: Any, width: int) -> None:
    """Refuse an x, or a number of columns, that the packed weight does not fit."""
    blocks, groups, block, inner = weight.dims[-4:]
    if x.ndim < 1 or differ(x.dims[-1], tidy(groups * inner)) or as_int(inner) != width:
        refuse(op, f"{tell(x)} does not fit the packed {tell(weight)}")
    room, known = as_int(tidy(blocks * block)), as_int(columns)
    if room is not None and known is not None and not 0 < known <= room:
        refuse(op, f"{columns} columns are not in {tell(weight)}")


def unpacked(weight: np.ndarray, columns: int) -> np.ndarray:
    """The matrix (K, columns) of a packed weight, or those of a batch."""
    *batch, blocks, groups, block, inner = weight.shape
    turned = np.moveaxis(weight, (-3, -1), (-4, -3))
    return turned.reshape(*batch, groups * inner, blocks * block)[..., :columns]


def sums_in_groups(x: Any, weight: Any, columns: Any, kinds: tuple[Any, Any], name: str) -> Any:
    """te tensor of the product: one reduction in groups, `name`; a copy of what counts of it.

    kinds: the dtype of the sums, and that of the result.
    """
    *batch, blocks, groups, block, inner = weight.shape
    k0 = te.reduce_axis((0, groups), name="k_group")
    k1 = te.reduce_axis((0, inner), name="k_dot")
    wide, kind = kinds

    def element(*index: Any) -> Any:
        *rows, j, column = index
        a, b = x(*rows, k0 * inner + k1), weight(*rows[: len(batch)], j, k0, column, k1)
        return te.sum(cast(wide, a) * cast(wide, b), axis=[k0, k1])

    def column(*index: Any) -> Any:
        *rows, j = index
        return cast(kind, sums(*rows, j // block, j % block))

    rows = x.shape[:-1]
    if as_int(columns) is None:  # blocks of another tensor's name say nothing of the columns
        blocks = tidy((columns + (block - 1)) // block)
    sums = te.compute((*rows, blocks, block), element, name=name)
    return te.compute((*rows, columns), column, name=name.replace("_packed", "_columns"))


@operator("relax.nn.matmul_packed")
class MatmulPacked(OpDecl):
    """`x` (…, K) times a matrix (K, columns) that lies as `weight` (ceil(columns / b), K, b), or in
    pairs as (ceil(columns / b), K / 2, b, 2).

    Columns beyond `columns`, which fill up the last block, are not computed. The result is
    (…, columns) in `out_dtype`, by default that of x; float16 and bfloat16 are summed in float32
    and rounded once, at the end.
    """

    x: Tensor
    weight: Tensor
    columns: int
    out_dtype: str | None = None

    def infer(self, x: Any, weight: Any) -> Any:
        """The dimensions of x but the last, then `columns`."""
        if weight.ndim not in (-1, 3, 4):
            want_rank(self, "weight", weight, 3)
        want_same_dtype(self, x=x, weight=weight)
        kind = self.out_dtype or x.dtype
        if x.dims is None:
            return tensor(None, kind, x.ndim)
        if weight.dims is not None:
            self.check_weight(x, weight)
        return tensor((*x.dims[:-1], self.columns), kind)

    def check_weight(self, x: Any, weight: Any) -> None:
        """Refuse an x, or a number of columns, that the packed weight does not fit."""
        if weight.ndim == 4:
            check_groups(self, x, weight, self.columns, PAIR)
            return
        if x.ndim < 1 or differ(x.dims[-1], weight.dims[1]):
            refuse(self, f"{tell(x)} does not fit the packed {tell(weight)}")
        room = as_int(tidy(weight.dims[0] * weight.dims[2]))
        if room is not None and not 0 < self.columns <= room:
            refuse(self, f"{self.columns} columns are not in {tell(weight)}")

    def numpy(self, x: Any, weight: Any) -> Any:
        """numpy.matmul with the matrix unpacked"""
        kind = dtype(self.out_dtype or x.dtype.name)
        wide = accumulator(kind).numpy
        if weight.ndim == 4:
            matrix = unpacked(weight, self.columns)
        else:
            matrix = np.concatenate(list(weight), axis=1)[:, : self.columns]
        result = np.matmul(x.astype(wide, copy=False), matrix.astype(wide, copy=False))
        return result.astype(kind.numpy, copy=False)

    def compute(self, x: Any, weight: Any) -> Any:
        """One reduction over the inner dimension; a second loop rounds half precision."""
        kind = dtype(self.out_dtype or x.dtype)
        wide = accumulator(kind)
        if len(weight.shape) == 4:
            return sums_in_groups(x, weight, self.columns, (wide, kind), "matmul_pairs_packed")
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
