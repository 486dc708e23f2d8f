"""AVX2 without VNNI: eight sums of four products of uint8 and int8, two ways.

`dot_8x4_avx2` widens to 16 bits, multiplies and adds pairs in 32 bits: exact for all values.

    vpmovzxbw, vpmovsxbw, vpmaddwd, vphaddd

`dot_8x4_u7_avx2` multiplies bytes and adds pairs in 16 bits, with saturation: half as many
instructions, but 255 * 127 + 255 * 127 is cut to 32767. So what it describes is a product whose
left side is masked to seven bits, `A[k] & 127`, of which no pair leaves 16 bits (127 * 128 twice is
32512). A program that does not say so does not match, and is never silently wrong.

    vpand, vpmaddubsw, vpmaddwd
"""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.tensor_intrin.descriptions import integer_dot, register, rows

AVX2_DOT_8x4_INTRIN = "dot_8x4_avx2"
AVX2_DOT_8x4_U7_INTRIN = "dot_8x4_u7_avx2"


@T.prim_func
def dot_8x4_avx2(
    A: T.Buffer((4,), "uint8"), B: T.Buffer((8, 4), "int8"), C: T.Buffer((8,), "int32")
):
    """Four rows of B at a time: 16 products, 8 sums of two, 4 sums of four."""
    with T.block("root"):
        T.reads(C[0:8], A[0:4], B[0:8, 0:4])
        T.writes(C[0:8])
        for half in T.unroll(2):
            products = T.alloc_buffer((8,), "int32", scope="local")
            products[0:8] = T.call_llvm_pure_intrin(
                "int32x8",
                "llvm.x86.avx2.pmadd.wd",
                T.Cast(
                    "int16x16",
                    T.reinterpret("uint8x16", T.Broadcast(T.reinterpret("int32", A[0:4]), 4)),
                ),
                T.Cast("int16x16", rows(B, half * 4, 4)),
            )
            C[half * 4 : half * 4 + 4] = (
                C[half * 4 : half * 4 + 4] + products[T.Ramp(0, 2, 4)] + products[T.Ramp(1, 2, 4)]
            )


@T.prim_func
def dot_8x4_u7_desc(
    A: T.Buffer((4,), "uint8"), B: T.Buffer((8, 4), "int8"), C: T.Buffer((8,), "int32")
):
    """The product, with values of A below 128."""
    with T.block("root"):
        T.reads(C[0:8], A[0:4], B[0:8, 0:4])
        T.writes(C[0:8])
        for i, k in T.grid(8, 4):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.Cast("int32", A[vk] & T.uint8(127)) * T.Cast("int32", B[vi, vk])


@T.prim_func
def dot_8x4_u7_avx2(
    A: T.Buffer((4,), "uint8"), B: T.Buffer((8, 4), "int8"), C: T.Buffer((8,), "int32")
):
    """Pairs of bytes to 16 bits, pairs of those to 32."""
    with T.block("root"):
        T.reads(C[0:8], A[0:4], B[0:8, 0:4])
        T.writes(C[0:8])
        C[0:8] = C[0:8] + T.call_llvm_pure_intrin(
            "int32x8",
            "llvm.x86.avx2.pmadd.wd",
            T.call_llvm_pure_intrin(
                "int16x16",
                "llvm.x86.avx2.pmadd.ub.sw",
                T.reinterpret("uint8x32", T.Broadcast(T.reinterpret("int32", A[0:4]), 8))
                & T.Broadcast(T.uint8(127), 32),
                rows(B),
            ),
            T.Broadcast(T.int16(1), 16),
        )


register(AVX2_DOT_8x4_U7_INTRIN, dot_8x4_u7_desc, dot_8x4_u7_avx2)
register(AVX2_DOT_8x4_INTRIN, integer_dot(8, "uint8", "int8", "int32"), dot_8x4_avx2)
