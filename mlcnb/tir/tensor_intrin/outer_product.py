"""A register tile of a float32 product: rows x columns sums stay in vector registers.

    for k in range(64):                          vbroadcastss  A[i, k]
        C[0:6, 0:16] += A[0:6, k] x B[k, 0:16]   vfmadd231ps   for each of 6 x 2 vectors

AVX2 has 16 registers of 8 floats: 6 x 2 sums, 2 vectors of B, 1 of A. AVX-512 has 32 of 16 floats:
14 x 2 sums, 2 of B, 1 of A. Products and sums are rounded once (fma), so results may differ from
the description in the last digits.
"""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import product, register

AVX2_OUTER_PRODUCT_INTRIN = "outer_product_6x16x64_f32_avx2"
AVX512_OUTER_PRODUCT_INTRIN = "outer_product_14x32x64_f32_avx512"


def register_tile(rows: int, columns: int, depth: int, lanes: int) -> PrimFunc:
    """The same with the sums in registers, `lanes` of them in each."""

    @T.prim_func
    def impl(
        A: T.Buffer((rows, depth), "float32"),
        B: T.Buffer((depth, columns), "float32"),
        C: T.Buffer((rows, columns), "float32"),
    ):
        with T.block("root"):
            sums = T.alloc_buffer((rows, columns), "float32", scope="local")
            for i in T.unroll(rows):
                for j in T.unroll(columns // lanes):
                    sums[i, T.Ramp(j * lanes, 1, lanes)] = C[i, T.Ramp(j * lanes, 1, lanes)]
            for k in range(depth):
                for i in T.unroll(rows):
                    for j in T.unroll(columns // lanes):
                        sums[i, T.Ramp(j * lanes, 1, lanes)] = T.fma(
                            T.Broadcast(A[i, k], lanes),
                            B[k, T.Ramp(j * lanes, 1, lanes)],
                            sums[i, T.Ramp(j * lanes, 1, lanes)],
                        )
            for i in T.unroll(rows):
                for j in T.unroll(columns // lanes):
                    C[i, T.Ramp(j * lanes, 1, lanes)] = sums[i, T.Ramp(j * lanes, 1, lanes)]

    return impl


register(AVX2_OUTER_PRODUCT_INTRIN, product(6, 16, 64), register_tile(6, 16, 64, 8))
register(AVX512_OUTER_PRODUCT_INTRIN, product(14, 32, 64), register_tile(14, 32, 64, 16))
