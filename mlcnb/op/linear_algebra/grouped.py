"""Rows that are multiplied by one of several matrices each: the experts of a mixture.

for i, j, k:    C[i, j] += A[i, k] * B[group[i], k, j]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, const, if_then_else, logical_and, maximum, minimum
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import (
    differ,
    one_dtype,
    product,
    refuse,
    tell,
    tell_dim,
    tensor,
    tidy,
    want_rank,
    want_same_dtype,
)
from mlcnb.op._torch import Formula, rounded
from mlcnb.op.indexing.take import want_integers
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, operator


@operator("relax.grouped_matmul")
class GroupedMatmul(OpDecl):
    """Row i of `x` (m, k) times matrix `groups[i]` of `weights` (g, k, n); 0 where there is no such
    matrix.

    Float16 and bfloat16 are summed in float32. Semantics, with the groups said by where each ends:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html
    """

    rounds = True

    x: Tensor
    weights: Tensor
    groups: Tensor

    def infer(self, x: Any, weights: Any, groups: Any) -> Any:
        """Rows of x, columns of a matrix."""
        want_same_dtype(self, x=x, weights=weights)
        want_integers(self, groups)
        for name, info, rank in (("x", x, 2), ("weights", weights, 3), ("groups", groups, 1)):
            want_rank(self, name, info, rank)
        kind = one_dtype(x, weights)
        if x.dims is None or weights.dims is None:
            return tensor(None, kind, 2)
        if differ(x.dims[1], weights.dims[1]):
            columns, rows = tell_dim(x.dims[1]), tell_dim(weights.dims[1])
            refuse(self, f"{tell(x)} has {columns} columns, but a matrix has {rows} rows")
        if groups.dims is not None and differ(groups.dims[0], x.dims[0]):
            refuse(self, f"{tell(x)} has {tell_dim(x.dims[0])} rows, but groups is {tell(groups)}")
        return tensor((x.dims[0], weights.dims[2]), kind)

    def numpy(self, x: Any, weights: Any, groups: Any) -> Any:
        """Each matrix times its rows"""
        found = np.zeros((len(x), weights.shape[2]), wide(x).dtype)
        for group, matrix in enumerate(wide(weights)):
            rows = groups == group
            found[rows] = wide(x)[rows] @ matrix
        return found.astype(x.dtype, copy=False)

    def compute(self, x: Any, weights: Any, groups: Any) -> Any:
        """One reduction, which reads the matrix of its row; then what has none becomes 0."""
        count, inner, columns = weights.shape
        k, kind = te.reduce_axis((0, inner), name="k"), accumulator(x.dtype)
        if as_int(count) == 0:
            return te.compute((x.shape[0], columns), lambda i, j: const(0, x.dtype), name="zeros")

        def multiplied(i: Any, j: Any) -> Any:
            group = maximum(minimum(cast("int64", groups(i)), count - 1), 0)
            return te.sum(cast(kind, x(i, k)) * cast(kind, weights(group, k, j)), axis=k)

        def kept(i: Any, j: Any) -> Any:
            group = cast("int64", groups(i))
            value = cast(x.dtype, found(i, j))
            return if_then_else(logical_and(group >= 0, group < count), value, const(0, x.dtype))

        found = te.compute((x.shape[0], columns), multiplied, name="grouped_matmul")
        return te.compute(found.shape, kept, name="grouped_matmul_kept")

    def flops(self, x: Any, weights: Any, groups: Any) -> Any:
        """Two for each multiplication."""
        if x.dims is None or weights.dims is None:
            return None
        return tidy(product((x.dims[0], *weights.dims[1:])) * 2)


@torch_spelling("transformers.grouped_mm_fallback")
def torch_grouped_rows(n: TorchNode, x: Expr, weight: Expr, offs: Expr) -> Expr:
    """The rows up to offs[0] times the first matrix, those up to offs[1] times the second, …"""
    return _rows(n, x, weight, offs)


@torch_spelling("aten._grouped_mm")
def torch_grouped_mm(
    n: TorchNode, x: Expr, mat2: Expr, offs: Expr | None = None, bias: Expr | None = None,
    out_dtype: str | None = None,
) -> Expr:  # fmt: skip
    """Rows in groups times a matrix for each, or stacks of matrices."""
    ranks = (len(n.dims(x)), len(n.dims(mat2)))
    if bias is not None:
        n.refuse("it adds a bias to groups", "add it to the product")
    if ranks == (3, 3):
        return rounded(n, Formula(n, n.dtype(x)).matmul(x, mat2))
    if ranks != (2, 3) or offs is None:
        n.refuse(f"it groups columns (of tensors of {ranks[0]} and {ranks[1]} dimensions)")
    return rounded(n, _rows(n, x, mat2, offs))


def _rows(n: TorchNode, x: Expr, matrices: Expr, ends: Expr) -> Expr:
    """A row is of the group whose number is that of the ends that are not behind it."""
    f, kind = Formula(n, n.dtype(ends)), n.dtype(ends)
    rows = f.reshape(f.arange(0, n.dims(x)[0], 1, dtype=kind), [n.dims(x)[0], 1])
    passed = f.less_equal(f.reshape(ends, [1, n.dims(ends)[0]]), rows)
    groups = f.sum(f.astype(passed, dtype=kind), axis=(1,))
    return f.grouped_matmul(x, matrices, groups)
