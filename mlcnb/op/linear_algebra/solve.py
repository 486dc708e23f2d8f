"""Equations of matrices: linalg.solve, linalg.cholesky, linalg.slogdet, and PyTorch's spellings.

There are no loops, the virtual machine calls the meaning; it computes in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError
from mlcnb.op._dims import broadcast_dims, differ, refuse, tell, tensor, want_same_dtype
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula
from mlcnb.op.linear_algebra.determinant import want_square
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Tensor, operator
from mlcnb.relax.struct_info import TupleStructInfo


@operator("relax.linalg.solve")
class Solve(OpDecl):
    """X of a X = b: for each square matrix of a, a matrix of b with as many rows.

    Dimensions before the last two are equal. A run ends with an ExecutionError where a matrix is
    singular. Semantics: https://numpy.org/doc/stable/reference/generated/numpy.linalg.solve.html
    """

    a: Tensor
    b: Tensor

    def infer(self, a: Any, b: Any) -> Any:
        """As b."""
        want_square(self, a)
        want_same_dtype(self, a=a, b=b)
        known = a.dims is not None and b.dims is not None
        pairs = zip(a.dims[:-1], b.dims[:-1], strict=False) if known else ()
        if -1 not in (a.ndim, b.ndim) and (a.ndim != b.ndim or any(differ(*p) for p in pairs)):
            refuse(self, f"{tell(a)} and {tell(b)} do not make equations")
        return b

    def numpy(self, a: Any, b: Any) -> Any:
        """numpy.linalg.solve, in float64"""
        try:
            return np.linalg.solve(a.astype(np.float64), b.astype(np.float64)).astype(b.dtype)
        except np.linalg.LinAlgError as error:
            raise ExecutionError("linalg.solve: a matrix is singular") from error


@operator("relax.linalg.cholesky")
class Cholesky(OpDecl):
    """The lower triangle L with L L' = x, of symmetric matrices (their lower half is read).

    A run ends with an ExecutionError where a matrix is not positive definite. Semantics:
    https://numpy.org/doc/stable/reference/generated/numpy.linalg.cholesky.html
    """

    x: Tensor

    def infer(self, x: Any) -> Any:
        """As x."""
        want_square(self, x)
        return x

    def numpy(self, x: Any) -> Any:
        """numpy.linalg.cholesky, in float64"""
        try:
            return np.linalg.cholesky(x.astype(np.float64)).astype(x.dtype)
        except np.linalg.LinAlgError as error:
            raise ExecutionError("linalg.cholesky: a matrix is not positive definite") from error


@operator("relax.linalg.slogdet")
class Slogdet(OpDecl):
    """The signs of determinants, and the logarithms of their absolute values: a tuple of two.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.linalg.slogdet.html
    """

    x: Tensor

    def infer(self, x: Any) -> Any:
        """Twice x without its last two dimensions."""
        want_square(self, x)
        dims = None if x.dims is None else x.dims[:-2]
        one = tensor(dims, x.dtype, max(x.ndim - 2, -1))
        return TupleStructInfo((one, one))

    def numpy(self, x: Any) -> Any:
        """numpy.linalg.slogdet, in float64"""
        sign, log = np.linalg.slogdet(x.astype(np.float64))
        return np.asarray(sign).astype(x.dtype), np.asarray(log).astype(x.dtype)


@torch_spelling("aten.linalg_det", "aten.det")
def torch_det(n: TorchNode, x: Expr) -> Expr:
    """As ours."""
    return call("relax.linalg.det", x)


@torch_spelling("aten.slogdet", "aten.linalg_slogdet")
def torch_slogdet(n: TorchNode, x: Expr) -> Any:
    """As ours."""
    made = n.emit(call("relax.linalg.slogdet", x))
    return made[0], made[1]


@torch_spelling("aten.logdet")
def torch_logdet(n: TorchNode, x: Expr) -> Expr:
    """The logarithm of the determinant; NaN where that is negative."""
    f, made = Formula(n, n.dtype(x)), n.emit(call("relax.linalg.slogdet", x))
    return f.where(f.less(n.emit(made[0]), 0.0), float("nan"), n.emit(made[1]))


def _identity(n: TorchNode, x: Expr) -> Expr:
    """Identity matrices in the shape of x."""
    f, dims = Formula(n, n.dtype(x)), list(n.dims(x))
    return f.broadcast_to(f.eye(dims[-1], dims[-1], 0, dtype=n.dtype(x)), dims)


@torch_spelling("aten.linalg_inv", "aten.inverse")
def torch_inv(n: TorchNode, x: Expr) -> Expr:
    """The solution for the identity."""
    return call("relax.linalg.solve", x, _identity(n, x))


def _turned(f: Formula, x: Expr) -> Expr:
    """Rows as columns, in the last two dimensions."""
    rank = len(f.n.dims(x))
    return f.permute_dims(x, axes=(*range(rank - 2), rank - 1, rank - 2))


@torch_spelling("aten.linalg_solve")
def torch_solve(n: TorchNode, a: Expr, b: Expr, *, left: bool = True) -> Expr:
    """X of a X = b, or of X a = b; b may be a vector for each matrix."""
    f, rank = Formula(n, n.dtype(a)), len(n.dims(a))
    is_vector = len(n.result()[0]) < rank
    if is_vector and left:
        return f.squeeze(_solved(f, a, f.expand_dims(b, axis=(-1,))), axis=(-1,))
    return _solved(f, a, b) if left else _turned(f, _solved(f, _turned(f, a), _turned(f, b)))


def _solved(f: Formula, a: Expr, b: Expr) -> Expr:
    """The solution, with leading dimensions that b or a lacks."""
    lead = broadcast_dims([f.n.dims(x)[:-2] for x in (a, b)])
    if lead is None:
        f.n.refuse(f"{f.n.dims(a)} and {f.n.dims(b)} are not known to broadcast")
    a, b = (f.broadcast_to(x, [*lead, *f.n.dims(x)[-2:]]) for x in (a, b))
    return f.emit("relax.linalg.solve", a, b)


@torch_spelling("aten.linalg_solve_triangular")
def torch_solve_triangular(
    n: TorchNode, a: Expr, b: Expr, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Expr:
    """As solve; the other half of a is not read, nor its diagonal where that is 1."""
    f = Formula(n, n.dtype(a))
    if unitriangular:
        inside = f.triu(a, 1) if upper else f.tril(a, -1)
        half = f.add(inside, _identity(n, a))
    else:
        half = f.triu(a, 0) if upper else f.tril(a, 0)
    return _solved(f, half, b) if left else _turned(f, _solved(f, _turned(f, half), _turned(f, b)))


@torch_spelling("aten.linalg_cholesky", "aten.cholesky")
def torch_cholesky(n: TorchNode, x: Expr, upper: bool = False) -> Expr:
    """The lower triangle, or its transpose."""
    found = n.emit(call("relax.linalg.cholesky", x))
    return _turned(Formula(n, n.dtype(x)), found) if upper else found


@torch_spelling("aten.linalg_cholesky_ex", "aten.linalg_inv_ex")
def torch_with_info(n: TorchNode, x: Expr, *, upper: bool = False) -> tuple[Expr, None]:
    """As without; whether there is a solution is not told."""
    is_inverse = n.target.startswith("aten.linalg_inv")
    return torch_inv(n, x) if is_inverse else torch_cholesky(n, x, upper), None


@torch_spelling("aten.cholesky_solve")
def torch_cholesky_solve(n: TorchNode, b: Expr, triangle: Expr, upper: bool = False) -> Expr:
    """X of (L L') X = b."""
    f = Formula(n, n.dtype(b))
    low = _turned(f, triangle) if upper else triangle
    return _solved(f, f.matmul(low, _turned(f, low)), b)


@torch_spelling("aten.pdist", "aten._pdist_forward")
def torch_pdist(n: TorchNode, x: Expr, p: float = 2.0) -> Expr:
    """The distance of each two rows, the first row's first."""
    (count, _), f = n.dims(x), Formula(n, n.dtype(x))
    if not isinstance(count, int):
        n.refuse("a number of rows that is open", "export with a fixed number")
    first, second = (const(i) for i in np.triu_indices(count, 1))
    apart = f.abs(f.subtract(f.take(x, first, axis=0), f.take(x, second, axis=0)))
    if p == 2.0:
        return f.sqrt(f.sum(f.multiply(apart, apart), axis=(1,)))
    if p == float("inf"):
        return f.max(apart, axis=(1,))
    if p <= 0:
        n.refuse(f"the norm p = {p}", "a positive p, or infinity")
    return f.power(f.sum(f.power(apart, p), axis=(1,)), 1 / p)
