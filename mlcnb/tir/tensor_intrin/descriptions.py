"""What several instructions compute, as plain loops, and the vectors that they load."""

from __future__ import annotations

from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.script import tir as T
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc, TensorIntrin


def dot_of(lanes: int, left: str, right: str, result: str, width: int = 4) -> PrimFunc:
    """`lanes` sums of `width` products each: C[i] += A[0:4] . B[i, 0:4], in the dtype of C."""

    @T.prim_func
    def desc(
        A: T.Buffer((width,), left),
        B: T.Buffer((lanes, width), right),
        C: T.Buffer((lanes,), result),
    ):
        with T.block("root"):
            T.reads(C[0:lanes], A[0:width], B[0:lanes, 0:width])
            T.writes(C[0:lanes])
            for i, k in T.grid(lanes, width):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast(result, A[vk]) * T.Cast(result, B[vi, vk])

    return desc


def integer_taps(lanes: int, left: str, right: str, result: str) -> PrimFunc:
    """As `dot_of`, with values of A for each sum: C[i] += A[0:4, i] . B[i, 0:4]."""

    @T.prim_func
    def desc(
        A: T.Buffer((4, lanes), left), B: T.Buffer((lanes, 4), right), C: T.Buffer((lanes,), result)
    ):
        with T.block("root"):
            T.reads(C[0:lanes], A[0:4, 0:lanes], B[0:lanes, 0:4])
            T.writes(C[0:lanes])
            for i, k in T.grid(lanes, 4):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast(result, A[vk, vi]) * T.Cast(result, B[vi, vk])

    return desc


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
