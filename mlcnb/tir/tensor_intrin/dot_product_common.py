"""Dot products of four bytes, one sum at a time, by the names of `tvm.tir.tensor_intrin`.

    dp4a_s8s8s32, dp4a_u8s8s32, dp4a_s8u8s32, dp4a_u8u8u32     A and B in shared memory, C in a
                                                               thread's own

The four products are written out one after the other, so every backend and the simulation of GPUs
on a CPU run them; sums wrap around.
"""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import register

DP4A_S8S8S32_INTRIN = "dp4a_s8s8s32"
DP4A_U8S8S32_INTRIN = "dp4a_u8s8s32"
DP4A_S8U8S32_INTRIN = "dp4a_s8u8s32"
DP4A_U8U8U32_INTRIN = "dp4a_u8u8u32"


def get_dp4a_intrin(dtype_a: str, dtype_b: str, dtype_c: str) -> tuple[PrimFunc, PrimFunc]:
    """What the instruction computes, C[0] += A[0:4] . B[0:4] in `dtype_c`, and what is put there.

    Args:
        dtype_a: "int8" or "uint8", as dtype_b.
        dtype_c: "int32", or "uint32" where both are unsigned.
    """

    @T.prim_func
    def dp4a_desc(
        A: T.Buffer((4,), dtype_a, offset_factor=1, align=4, scope="shared"),
        B: T.Buffer((4,), dtype_b, offset_factor=1, align=4, scope="shared"),
        C: T.Buffer((1,), dtype_c, offset_factor=1, align=4, scope="local"),
    ):
        with T.block("root"):
            for i in range(4):
                with T.block("update"):
                    vi = T.axis.remap("R", [i])
                    C[0] = C[0] + T.Cast(dtype_c, A[vi]) * T.Cast(dtype_c, B[vi])

    @T.prim_func
    def dp4a_impl(
        A: T.Buffer((4,), dtype_a, offset_factor=1, align=4, scope="shared"),
        B: T.Buffer((4,), dtype_b, offset_factor=1, align=4, scope="shared"),
        C: T.Buffer((1,), dtype_c, offset_factor=1, align=4, scope="local"),
    ):
        with T.block("root"):
            for i in T.unroll(4):
                C[0] = C[0] + T.Cast(dtype_c, A[i]) * T.Cast(dtype_c, B[i])

    return dp4a_desc, dp4a_impl


register(DP4A_S8S8S32_INTRIN, *get_dp4a_intrin("int8", "int8", "int32"))
register(DP4A_U8S8S32_INTRIN, *get_dp4a_intrin("uint8", "int8", "int32"))
register(DP4A_S8U8S32_INTRIN, *get_dp4a_intrin("int8", "uint8", "int32"))
register(DP4A_U8U8U32_INTRIN, *get_dp4a_intrin("uint8", "uint8", "uint32"))
