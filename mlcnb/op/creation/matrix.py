"""Diagonals and triangles: eye, eye_like, tril, triu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.op._dims import refuse, tell, tensor, want_rank
from mlcnb.op._spell import dtype_of, scalar_of
from mlcnb.op._sugar import sugar
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, PrimValue
from mlcnb.relax.operator import OpDecl, Scalar, Tensor, make_call, operator


def _diagonal(shape: Any, k: Any, kind: Any, name: str) -> Any:
    """1 where column = row + k, else 0."""
    one, zero = p.const(1, kind), p.const(0, kind)

    def element(i: Any, j: Any) -> Any:
        return te.Select(p.equal(j, i + k), one, zero)

    return te.compute(tuple(shape), element, name=name)


@operator("relax.eye")
class Eye(OpDecl):
    """An n x m matrix with 1 in the k-th diagonal (0: main, above it positive), else 0.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.eye.html
    """

    follows = True

    n: Scalar
    m: Scalar
    k: Scalar
    dtype: str = "float32"

    def infer(self, n: Any, m: Any, k: Any) -> Any:
        """A matrix."""
        known = n.value is not None and m.value is not None
        return tensor([n.value, m.value] if known else None, self.dtype, 2)

    def numpy(self, n: Any, m: Any, k: Any) -> Any:
        """numpy.eye"""
        return np.eye(n, m, k, dtype(self.dtype).numpy)

    def compute(self, n: Any, m: Any, k: Any) -> Any:
        """One loop nest."""
        return _diagonal((n, m), k, self.dtype, "eye")


@sugar("eye")
def eye(n: Any, m: Any = None, k: Any = 0, dtype: str = "float32") -> Expr:
    """An n x m matrix (m: as n) with 1 in the k-th diagonal, else 0.

    Of shape (n, m), which may be symbolic, in `dtype`.

    Raises:
        TypeInferError: n or m is no integer.
    """
    return make_call(Eye, n, n if m is None else m, k, dtype)


@operator("relax.eye_like")
class EyeLike(OpDecl):
    """As eye, of the shape of matrix `x`. dtype: of the result; None: that of x."""

    x: Tensor
    k: Scalar
    dtype: str | None = None

    def infer(self, x: Any, k: Any) -> Any:
        """A matrix of x's shape."""
        want_rank(self, "x", x, 2)
        return tensor(x.dims, self.dtype or x.dtype, x.ndim)

    def numpy(self, x: Any, k: Any) -> Any:
        """numpy.eye"""
        rows, columns = x.shape
        return np.eye(rows, columns, k, dtype(self.dtype or x.dtype.name).numpy)

    def compute(self, x: Any, k: Any) -> Any:
        """One loop nest, which reads nothing of x."""
        return _diagonal(x.shape, k, self.dtype or x.dtype, "eye_like")


@sugar("eye_like")
def eye_like(x: Expr, k: Any = 0, dtype: str | None = None) -> Expr:
    """As eye, of the shape of matrix `x`.

    In `dtype`, that of x if it is None.

    Raises:
        TypeInferError: x has not two dimensions.
    """
    return make_call(EyeLike, x, k, dtype)


class _Triangle(OpDecl):
    """Base of tril and triu, over the last two dimensions."""

    __slots__ = ()
    #: numpy.tril or numpy.triu
    meaning: ClassVar[Callable[..., Any]]
    #: is the element of this column kept, in this row, which is moved by k?
    keeps: ClassVar[Callable[..., Any]]

    x: Tensor
    k: Scalar

    def infer(self, x: Any, k: Any) -> Any:
        """As x."""
        if x.ndim in (0, 1):
            refuse(self, f"x must have at least two dimensions, but is {tell(x)}")
        return x

    def numpy(self, x: Any, k: Any) -> Any:
        """numpy.tril or triu"""
        return self.meaning(x, k)

    def compute(self, x: Any, k: Any) -> Any:
        """One loop nest."""
        zero = p.const(0, x.dtype)

        def element(*index: Any) -> Any:
            return te.Select(self.keeps(index[-1], index[-2] + k), x(*index), zero)

        return te.compute(x.shape, element, name=self.sugar)


@operator("relax.tril")
class Tril(_Triangle):
    """`x` with 0 above the k-th diagonal of its last two dimensions.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.tril.html
    """

    meaning = staticmethod(np.tril)
    keeps = staticmethod(p.less_equal)


@operator("relax.triu")
class Triu(_Triangle):
    """`x` with 0 below the k-th diagonal of its last two dimensions.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.triu.html
    """

    meaning = staticmethod(np.triu)
    keeps = staticmethod(p.greater_equal)


@sugar("tril")
def tril(x: Expr, k: Any = 0) -> Expr:
    """`x` with 0 above the k-th diagonal of its last two dimensions.

    `x` has two dimensions or more; the result has its shape and dtype.

    Raises:
        TypeInferError: x has fewer dimensions.
    """
    return make_call(Tril, x, k)


@sugar("triu")
def triu(x: Expr, k: Any = 0) -> Expr:
    """`x` with 0 below the k-th diagonal of its last two dimensions.

    `x` has two dimensions or more; the result has its shape and dtype.

    Raises:
        TypeInferError: x has fewer dimensions.
    """
    return make_call(Triu, x, k)


@onnx("EyeLike")
def onnx_eye_like(n: OnnxNode, x: Expr) -> Expr:
    """`k` is the diagonal, `dtype` that of the result."""
    return make_call(EyeLike, x, n.attr("k", 0), dtype_of(n, "dtype", n.dtype(x)))


@onnx("Trilu")
def onnx_trilu(n: OnnxNode, x: Expr, k: Expr | None = None) -> Expr:
    """`upper` says which triangle; `k` must be known at import."""
    diagonal = PrimValue(p.const(int(scalar_of(n, k, "k", 0)), "int64"))
    return make_call(Triu if n.attr("upper", 1) else Tril, x, diagonal)
