"""Dot products of bytes on ARM CPUs with NEON: four sums of four products of bytes.

    sdot v_C.4s, v_A.16b, v_B.16b       int8, with the dot product extension (ARMv8.2); uint8 times
                                        int8 after 128 is taken off the left values
    udot v_C.4s, v_A.16b, v_B.16b       uint8, the same
    usdot v_C.4s, v_A.16b, v_B.16b      uint8 times int8, with the int8 matrix extension (ARMv8.6)
    smull, saddlp, addp                 int8, on every ARMv8

The products are summed in 32 bits: nothing saturates.

The names are those of `tvm.tir.tensor_intrin.arm_cpu`, and more.
"""

from __future__ import annotations

from mlcnb.ir.expr import PrimExpr
from mlcnb.script import tir as T
from mlcnb.tir.tensor_intrin.descriptions import dot_of, register, register_dot, rows, seen_as
from mlcnb.tir.tensor_intrin.dot_product_common import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
)

__all__ = [
    "ARM_DOT_4x4_i8_NEON_INTRIN",
    "ARM_DOT_4x4_i8_SDOT_INTRIN",
    "ARM_DOT_4x4_u8_HDOT_INTRIN",
    "ARM_DOT_4x4_u8_UDOT_INTRIN",
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "neon_4x4_i8i8i32_desc",
]

#: four sums of four products of int8
neon_4x4_i8i8i32_desc = dot_of(4, "int8", "int8", "int32")


ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"
ARM_DOT_4x4_USDOT_INTRIN = "dot_4x4_usdot"
ARM_TAPS_4x4_USDOT_INTRIN = "taps_4x4_usdot"
ARM_DOT_4x4_SHIFTED_SDOT_INTRIN = "dot_4x4_shifted_sdot"
ARM_TAPS_4x4_SHIFTED_SDOT_INTRIN = "taps_4x4_shifted_sdot"


def sdot(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Four sums, and to each four products of int8."""
    return _added("sdot", sums, seen_as("int8x16", left), right)


def udot(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """The same of uint8; sums of 32 bits are the same, signed or not."""
    return _added("udot", sums, seen_as("uint8x16", left), right)


def usdot(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """The same of uint8 and int8."""
    return _added("usdot", sums, seen_as("uint8x16", left), right)


def _added(name: str, sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    full = f"llvm.aarch64.neon.{name}.v4i32.v16i8"
    return T.call_llvm_pure_intrin(str(sums.dtype), full, sums, left, right)


def shifted_sdot(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """As `usdot`, by `sdot`: x . w = (x - 128) . w + 64 . w + 64 . w, wrapping around as it does.

    What is added for the weights is the same for all sums that take them, and computed once.
    """
    half = T.Broadcast(T.int8(64), 16)
    signed = T.reinterpret("int8x16", seen_as("uint8x16", left) ^ T.Broadcast(T.uint8(128), 16))
    weights = sdot(sdot(T.Broadcast(T.int32(0), 4), half, right), half, right)
    return sdot(sums, signed, right) + weights


@T.prim_func
def dot_4x4_i8i8s32_neon(
    A: T.Buffer((4,), "int8"), B: T.Buffer((4, 4), "int8"), C: T.Buffer((4,), "int32")
):
    """Two rows of B at a time: eight products of 16 bits, four sums of two; then pairs of those."""
    with T.block("root"):
        T.reads(C[0:4], A[0:4], B[0:4, 0:4])
        T.writes(C[0:4])
        pairs = T.alloc_buffer((8,), "int32", scope="local")
        for half in T.unroll(2):
            pairs[half * 4 : half * 4 + 4] = T.call_llvm_pure_intrin(
                "int32x4",
                "llvm.aarch64.neon.saddlp.v4i32.v8i16",
                T.call_llvm_pure_intrin(
                    "int16x8",
                    "llvm.aarch64.neon.smull.v8i16",
                    T.reinterpret("int8x8", T.Broadcast(T.reinterpret("int32", A[0:4]), 2)),
                    rows(B, half * 2, 2),
                ),
            )
        C[0:4] = C[0:4] + T.call_llvm_pure_intrin(
            "int32x4", "llvm.aarch64.neon.addp.v4i32", pairs[0:4], pairs[4:8]
        )


_SIGNED, _MIXED = ("int8", "int8", "int32"), ("uint8", "int8", "int32")
register(ARM_DOT_4x4_i8_NEON_INTRIN, dot_of(4, *_SIGNED), dot_4x4_i8i8s32_neon)
register_dot(ARM_DOT_4x4_i8_SDOT_INTRIN, sdot, 4, *_SIGNED)
register_dot(ARM_DOT_4x4_u8_UDOT_INTRIN, udot, 4, "uint8", "uint8", "uint32")
register_dot(ARM_DOT_4x4_u8_HDOT_INTRIN, udot, 4, "uint8", "uint8", "int32")
register_dot(ARM_DOT_4x4_USDOT_INTRIN, usdot, 4, *_MIXED)
register_dot(ARM_TAPS_4x4_USDOT_INTRIN, usdot, 4, *_MIXED, taps=True)
register_dot(ARM_DOT_4x4_SHIFTED_SDOT_INTRIN, shifted_sdot, 4, *_MIXED)
register_dot(ARM_TAPS_4x4_SHIFTED_SDOT_INTRIN, shifted_sdot, 4, *_MIXED, taps=True)
