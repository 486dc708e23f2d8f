"""What several instructions compute, as plain loops, and the vectors that they load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.script import tir as T
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc, TensorIntrin


def dot_of(
    lanes: int, left: str, right: str, result: str, width: int = 4, taps: bool = False
) -> PrimFunc:
    """`lanes` sums of `width` products each: C[i] += A[0:4] . B[i, 0:4], in the dtype of C.

    taps: with values of A for each sum: C[i] += A[0:4, i] . B[i, 0:4].
    """
    given = (width, lanes) if taps else (width,)

    @T.prim_func
    def desc(
        A: T.Buffer(given, left), B: T.Buffer((lanes, width), right), C: T.Buffer((lanes,), result)
    ):
        with T.block("root"):
            for i, k in T.grid(lanes, width):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    value = T.meta_var(A[vk, vi] if taps else A[vk])
                    C[vi] = C[vi] + T.Cast(result, value) * T.Cast(result, B[vi, vk])

    return desc


def product(rows: int, columns: int, depth: int) -> PrimFunc:
    """C += A @ B, as plain loops."""

    @T.prim_func
    def desc(
        A: T.Buffer((rows, depth), "float32"),
        B: T.Buffer((depth, columns), "float32"),
        C: T.Buffer((rows, columns), "float32"),
    ):
        with T.block("root"):
            for i, j, k in T.grid(rows, columns, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return desc


#: (sums, left, right) -> the sums, and to each the products of its values: vectors of bytes
Products = Callable[[e.PrimExpr, e.PrimExpr, e.PrimExpr], e.PrimExpr]


def dot_by(
    products: Products,
    lanes: int,
    left: str,
    right: str,
    result: str,
    width: int = 4,
    taps: bool = False,
) -> PrimFunc:
    """What `dot_of` says, by an instruction; the values of A are broadcast as one 32-bit number.

    taps: of a depthwise convolution. The rows of A are one piece of memory, turned so that the taps
    of a sum lie side by side.
    """
    given = (width, lanes) if taps else (width,)

    @T.prim_func
    def impl(
        A: T.Buffer(given, left), B: T.Buffer((lanes, width), right), C: T.Buffer((lanes,), result)
    ):
        with T.block("root"):
            values = T.meta_var(columns(A) if taps else broadcast(A, lanes))
            C[0:lanes] = products(vector(C), values, rows(B))

    return impl


def broadcast(buffer: Buffer, lanes: int) -> e.PrimExpr:
    """All of a buffer of 32 bits as one number, the same in all lanes."""
    return T.Broadcast(T.reinterpret("int32", vector(buffer)), lanes)


def seen_as(kind: str, value: e.PrimExpr) -> e.PrimExpr:
    """The bits of a vector in another dtype; itself where it is of that."""
    return value if str(value.dtype) == kind else T.reinterpret(kind, value)


def vector(buffer: Buffer) -> BufferLoad:
    """All of a one-dimensional buffer."""
    return BufferLoad(buffer, (e.Ramp(p.const(0), p.const(1), p.as_int(buffer.shape[0]) or 0),))


def rows(buffer: Buffer, first: Any = 0, count: int | None = None) -> BufferLoad:
    """Some rows of a two-dimensional buffer (all by default) as one vector, row after row."""
    height, width = (p.as_int(n) or 0 for n in buffer.shape)
    return BufferLoad(buffer, places(height if count is None else count, width, first))


def places(height: int, width: int, first: Any = 0) -> tuple[e.PrimExpr, e.PrimExpr]:
    """The indices of `height` rows from `first` on, of `width` elements each, row after row."""
    lanes = height * width
    place, columns = e.Ramp(p.const(0), p.const(1), lanes), e.Broadcast(p.const(width), lanes)
    row = e.Add(e.Broadcast(p.as_expr(first), lanes), e.FloorDiv(place, columns))
    return row, e.FloorMod(place, columns)


def columns(buffer: Buffer) -> e.Shuffle:
    """All of a two-dimensional buffer as one vector, column after column."""
    height, width = (p.as_int(n) or 0 for n in buffer.shape)
    places = [row * width + column for column in range(width) for row in range(height)]
    return e.Shuffle((rows(buffer),), tuple(p.const(i) for i in places))


def register(name: str, desc: PrimFunc, impl: PrimFunc) -> None:
    """Register an intrinsic that comes with mlcnb; one of that name made by the user stays."""
    if TensorIntrin.registered(name) is None:
        TensorIntrin.register(name, desc, impl)


def register_dot(name: str, products: Products, *kind: Any, taps: bool = False) -> None:
    """Register `dot_by` for `dot_of`; kind: lanes, the dtypes of A, B and C, and the width."""
    register(name, dot_of(*kind, taps=taps), dot_by(products, *kind, taps=taps))
