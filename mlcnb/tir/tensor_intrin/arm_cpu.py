"""Tensor intrinsics of ARM CPUs by the names of `tvm.tir.tensor_intrin.arm_cpu`."""

from __future__ import annotations

from mlcnb.tir.tensor_intrin.descriptions import dot_of
from mlcnb.tir.tensor_intrin.dot_product_common import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
)
from mlcnb.tir.tensor_intrin.neon import (
    ARM_DOT_4x4_i8_NEON_INTRIN,
    ARM_DOT_4x4_i8_SDOT_INTRIN,
    ARM_DOT_4x4_u8_HDOT_INTRIN,
    ARM_DOT_4x4_u8_UDOT_INTRIN,
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
