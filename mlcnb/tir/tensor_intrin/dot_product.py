"""A dot product of float32 vectors: sums side by side in registers, added up at the end.

    vfmadd231ps     four vectors of sums, so that one addition need not wait for the other
    vaddps          halves added to halves, until one number is left

The sums are added in another order than the description says, so results may differ in the last
digits, as in any vectorized reduction.
"""

from __future__ import annotations

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import register

AVX2_DOT_F32_INTRIN = "dot_64_f32_avx2"
AVX512_DOT_F32_INTRIN = "dot_128_f32_avx512"
#: vectors of sums that are kept
CHAINS = 4


def dot(length: int) -> PrimFunc:
    """C[0] += A . B, as a plain loop."""

    @T.prim_func
    def desc(
        A: T.Buffer((length,), "float32"),
        B: T.Buffer((length,), "float32"),
        C: T.Buffer((1,), "float32"),
    ):
        with T.block("root"):
            for k in range(length):
                with T.block("update"):
                    vk = T.axis.reduce(length, k)
                    C[0] = C[0] + A[vk] * B[vk]

    return desc


def vector_dot(length: int, lanes: int) -> PrimFunc:
    """The same with vectors of `lanes` sums."""
    steps = length // (lanes * CHAINS)

    @T.prim_func
    def impl(
        A: T.Buffer((length,), "float32"),
        B: T.Buffer((length,), "float32"),
        C: T.Buffer((1,), "float32"),
    ):
        with T.block("root"):
            T.reads(C[0:1], A[0:length], B[0:length])
            T.writes(C[0:1])
            sums = T.alloc_buffer((CHAINS * lanes,), "float32", scope="local")
            sums[T.Ramp(0, 1, CHAINS * lanes)] = T.Broadcast(T.float32(0), CHAINS * lanes)
            for k in T.unroll(steps):
                for c in T.unroll(CHAINS):
                    sums[T.Ramp(c * lanes, 1, lanes)] = T.fma(
                        A[T.Ramp((k * CHAINS + c) * lanes, 1, lanes)],
                        B[T.Ramp((k * CHAINS + c) * lanes, 1, lanes)],
                        sums[T.Ramp(c * lanes, 1, lanes)],
                    )
            C[0] = C[0] + total(sums[T.Ramp(0, 1, CHAINS * lanes)])

    return impl


def total(x: e.PrimExpr) -> e.PrimExpr:
    """The sum of the lanes of a vector: the upper half added to the lower, again and again."""
    lanes = x.dtype.lanes
    if lanes == 1:
        return x
    half = lanes // 2
    low, high = (
        e.Shuffle((x,), tuple(p.const(i) for i in range(start, start + half)))
        for start in (0, half)
    )
    return total(e.Add(low, high))


register(AVX2_DOT_F32_INTRIN, dot(64), vector_dot(64, 8))
register(AVX512_DOT_F32_INTRIN, dot(128), vector_dot(128, 16))
