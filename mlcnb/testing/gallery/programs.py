"""The programs that the examples change: each a few elements large, so that all of it is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb import te
from mlcnb.script import from_source
from mlcnb.tir import PrimFunc


def double(n: int = 16) -> PrimFunc:
    """B = A * 2"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    return te.create_prim_func([A, B])


def double_2d(n: int = 4, m: int = 8) -> PrimFunc:
    """B = A * 2 on a matrix"""
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    return te.create_prim_func([A, B])


def transpose(n: int = 4) -> PrimFunc:
    """B = A transposed, times 2"""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i] * 2.0, name="B")
    return te.create_prim_func([A, B])


def chain(n: int = 8) -> PrimFunc:
    """B = A * 2, C = B + 1"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    return te.create_prim_func([A, C])


def chain_2d(n: int = 4, m: int = 4) -> PrimFunc:
    """B = A * 2, C = B + 1 on matrices"""
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, m), lambda i, j: B[i, j] + 1.0, name="C")
    return te.create_prim_func([A, C])


def blur(n: int = 8) -> PrimFunc:
    """B = A * 2, C[i] = B[i] + B[i + 1] + B[i + 2]"""
    A = te.placeholder((n + 2,), name="A")
    B = te.compute((n + 2,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    return te.create_prim_func([A, C])


def row_sum(n: int = 4, m: int = 8) -> PrimFunc:
    """B[i] = the sum of row i of A"""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_prim_func([A, B])


def matmul(n: int = 4, m: int = 4, k: int = 4) -> PrimFunc:
    """C = A @ B"""
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_prim_func([A, B, C])


def matmul_shifted(n: int = 4) -> PrimFunc:
    """D = A @ B + 1"""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    r = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((n, n), lambda i, j: C[i, j] + 1.0, name="D")
    return te.create_prim_func([A, B, D])


def matmul_biased(n: int = 3) -> PrimFunc:
    """D = A @ B + bias"""
    return _matmul_then(n, lambda c, bias: c + bias)


def matmul_scaled(n: int = 3) -> PrimFunc:
    """D = (A @ B) * bias"""
    return _matmul_then(n, lambda c, bias: c * bias)


def _matmul_then(n: int, last: Callable[[Any, Any], Any]) -> PrimFunc:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((n, n), lambda i, j: last(C[i, j], bias[j]), name="D")
    return te.create_prim_func([A, B, bias, D])


def stretched(n: int = 8) -> PrimFunc:
    """B = every element of A twice"""
    A = te.placeholder((n // 2,), name="A")
    B = te.compute((n,), lambda i: A[i // 2] + 1.0, name="B")
    return te.create_prim_func([A, B])


def padded(n: int = 8) -> PrimFunc:
    """P = A with two zeros before and after it"""
    A = te.placeholder((n,), name="A")
    P = te.compute(
        (n + 4,),
        lambda i: te.if_then_else(te.all(i >= 2, i < n + 2), A[i - 2], 0.0),
        name="P",
    )
    return te.create_prim_func([A, P])


def reversed_chain(n: int = 8) -> PrimFunc:
    """B = A * 2, C = B from its end"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[n - 1 - i], name="C")
    return te.create_prim_func([A, C])


def updated_in_place(n: int = 4) -> PrimFunc:
    """A = A * 2"""
    return from_source(_UPDATED_IN_PLACE.format(n=n))


_UPDATED_IN_PLACE = """
@T.prim_func
def main(A: T.Buffer(({n},), "float32")):
    for i in range({n}):
        with T.block("A"):
            v = T.axis.spatial({n}, i)
            A[v] = A[v] * T.float32(2)
"""


def diagonal(n: int = 4) -> PrimFunc:
    """Each element of A is computed from its neighbour above and to the right."""
    return from_source(_DIAGONAL.format(n=n, m=n + 1))


_DIAGONAL = """
@T.prim_func
def main(A: T.Buffer(({m}, {m}), "float32")):
    for i, j in T.grid({n}, {n}):
        with T.block("A"):
            v, w = T.axis.remap("SS", [i, j])
            A[v + 1, w] = A[v, w + 1] + T.float32(1)
"""


def running_sum(n: int = 8) -> PrimFunc:
    """B[i] = A[i] + B[i - 1]"""
    return from_source(_RUNNING_SUM.format(n=n))


_RUNNING_SUM = """
@T.prim_func
def main(A: T.Buffer(({n},), "float32"), B: T.Buffer(({n},), "float32")):
    for i in range({n}):
        with T.block("B"):
            v = T.axis.spatial({n}, i)
            B[v] = A[v] + T.if_then_else(v > 0, B[T.max(v - 1, 0)], T.float32(0))
"""


def window_sum(n: int = 4, stride: int = 1) -> PrimFunc:
    """Y[y, x] = the sum of X[y + r, x + q] * W[r, q], of which there are 3 x 3"""
    X = te.placeholder((n * stride + 2, n * stride + 2), name="X")
    W = te.placeholder((3, 3), name="W")
    r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "q")

    def element(y: Any, x: Any) -> Any:
        return te.sum(X[y * stride + r, x * stride + q] * W[r, q], axis=[r, q])

    return te.create_prim_func([X, W, te.compute((n, n), element, name="Y")])
