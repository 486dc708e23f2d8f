"""Matrix products: matmul (ONNX MatMul, Gemm), linear, outer.

for i, j, k:    C[i, j] += A[i, k] * B[k, j]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.prim_ops import cast
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import (
    broadcast_dims,
    broadcast_index,
    differ,
    one_dtype,
    product,
    refuse,
    tell,
    tell_dim,
    tell_dims,
    tensor,
    tidy,
    want_rank,
    want_same_dtype,
)
from mlcnb.op._spell import call, spelled_as
from mlcnb.op._sugar import sugar
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


@operator("relax.matmul")
class Matmul(OpDecl):
    """The product of the last two dimensions of `x1` and `x2`; those before them broadcast.

    A tensor of one dimension is a row on the left, a column on the right. Float16 and bfloat16 are
    summed in float32. Semantics: https://numpy.org/doc/stable/reference/generated/numpy.matmul.html
    """

    product = rounds = True

    x1: Tensor
    x2: Tensor
    out_dtype: str | None = None

    def infer(self, x1: Any, x2: Any) -> Any:
        """Batch dimensions, rows of x1, columns of x2."""
        want_same_dtype(self, x1=x1, x2=x2)
        kind = self.out_dtype or one_dtype(x1, x2)
        if 0 in (x1.ndim, x2.ndim):
            refuse(self, f"{tell(x1)} and {tell(x2)} are no matrices: one is a scalar")
        if x1.dims is None or x2.dims is None:
            known = -1 not in (x1.ndim, x2.ndim)
            ndim = max(x1.ndim, x2.ndim, 2) - (x1.ndim == 1) - (x2.ndim == 1)
            return tensor(None, kind, ndim if known else -1)
        inner = x2.dims[-2] if x2.ndim > 1 else x2.dims[0]
        if differ(x1.dims[-1], inner):
            columns, rows = tell_dim(x1.dims[-1]), tell_dim(inner)
            refuse(self, f"{tell(x1)} has {columns} columns, but {tell(x2)} has {rows} rows")
        shape = result_dims(x1.dims, x2.dims)
        if shape is None:
            refuse(self, f"the leading dimensions of {tell(x1)} and {tell(x2)} do not broadcast")
        return tensor(shape, kind)

    def is_batched(self, x1: Any, x2: Any) -> bool:
        """Where `x2` is more than one matrix, or may be."""
        return x2.ndim not in (1, 2)

    def numpy(self, x1: Any, x2: Any) -> Any:
        """numpy.matmul"""
        kind = accumulator(self.out_dtype or x1.dtype.name).numpy
        result = np.matmul(x1.astype(kind, copy=False), x2.astype(kind, copy=False))
        return np.asarray(result).astype(dtype(self.out_dtype or x1.dtype.name).numpy, copy=False)

    def compute(self, x1: Any, x2: Any) -> Any:
        """One reduction over the inner dimension; a second loop rounds half precision."""
        kind = dtype(self.out_dtype or x1.dtype)
        k = te.reduce_axis((0, x1.shape[-1]), name="k")
        shape = result_dims(x1.shape, x2.shape)
        read = _reader(x1, x2, k, accumulator(kind))
        found = te.compute(shape, lambda *i: te.sum(read(i), axis=k), name="matmul")
        return rounded(found, kind, "matmul_cast")

    def flops(self, x1: Any, x2: Any) -> Any:
        """Two for each multiplication."""
        if x1.dims is None or x2.dims is None:
            return None
        return tidy(product(result_dims(x1.dims, x2.dims) or ()) * x1.dims[-1] * 2)


def result_dims(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...] | None:
    """Dimensions of the product, or None where the batches do not broadcast."""
    batch = broadcast_dims([list(a[:-2]), list(b[:-2])])
    if batch is None:
        return None
    return (*batch, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


def _reader(x1: Any, x2: Any, k: Any, kind: DType) -> Any:
    """From an index of the result to the product that is summed there over `k`."""
    rows, columns = len(x1.shape) > 1, len(x2.shape) > 1
    lead = broadcast_dims([x1.shape[:-2], x2.shape[:-2]]) or ()

    def read(index: tuple[Any, ...]) -> Any:
        batch = index[: len(index) - rows - columns]
        row, column = index[len(batch) : len(batch) + rows], index[len(index) - columns :]
        one = [*broadcast_index(batch, x1.shape[:-2], lead), *row, k]
        two = [*broadcast_index(batch, x2.shape[:-2], lead), k, *column[:columns]]
        return cast(kind, x1(*one)) * cast(kind, x2(*two))

    return read


spelled_as("MatMul", Matmul)


@onnx("Gemm")
def onnx_gemm(n: OnnxNode, a: Expr, b: Expr, c: Expr | None = None) -> Expr:
    """alpha * A' * B' + beta * C, where A' and B' may be transposed."""
    kind, alpha, beta = n.dtype(a), n.attr("alpha", 1.0), n.attr("beta", 1.0)
    if len(n.dims(a)) != 2 or len(n.dims(b)) != 2:
        n.refuse(f"A {tell_dims(n.dims(a))} and B {tell_dims(n.dims(b))} must be matrices")
    if not dtype(kind).is_float and (alpha % 1 or beta % 1):
        n.refuse(f"alpha {alpha} and beta {beta} are no whole numbers, but A is {kind}")
    if n.attr("transA", 0):
        a = n.emit(make_call(PermuteDims, a, axes=(1, 0)))
    if n.attr("transB", 0):
        b = n.emit(make_call(PermuteDims, b, axes=(1, 0)))
    result = n.emit(make_call(Matmul, a, b))
    if alpha != 1.0:
        result = n.emit(call("relax.multiply", result, const(alpha, kind)))
    if c is None or beta == 0.0:
        return result
    if beta != 1.0:
        c = n.emit(call("relax.multiply", c, const(beta, kind)))
    return call("relax.add", result, c)


@sugar("linear")
def linear(
    data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None
) -> Expr:
    """data @ weight.T + bias: sugar, as in PyTorch, for permute_dims, matmul and add.

    (…, k) times a weight of shape (n, k) and a bias of shape (n,) gives (…, n), in `out_dtype` or
    the dtype of both.

    Raises:
        TypeInferError: they differ in k or in dtype.
    """
    result = make_call(Matmul, data, make_call(PermuteDims, weight), out_dtype=out_dtype)
    return result if bias is None else call("relax.add", result, bias)


@operator("relax.outer")
class Outer(OpDecl):
    """x1[i] * x2[j], of two tensors of one dimension.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.outer.html
    """

    x1: Tensor
    x2: Tensor

    def infer(self, x1: Any, x2: Any) -> Any:
        """A matrix."""
        want_same_dtype(self, x1=x1, x2=x2)
        want_rank(self, "x1", x1, 1)
        want_rank(self, "x2", x2, 1)
        known = x1.dims is not None and x2.dims is not None
        return tensor([*x1.dims, *x2.dims] if known else None, one_dtype(x1, x2), 2)

    def numpy(self, x1: Any, x2: Any) -> Any:
        """numpy.outer"""
        return np.outer(x1, x2)

    def compute(self, x1: Any, x2: Any) -> Any:
        """One multiplication an element."""
        return te.compute((*x1.shape, *x2.shape), lambda i, j: x1[i] * x2[j], name="outer")

    def flops(self, x1: Any, x2: Any) -> Any:
        """One for each element."""
        known = x1.dims is not None and x2.dims is not None
        return tidy(x1.dims[0] * x2.dims[0]) if known else None
