"""Tensor intrinsics of x86 by the names of `tvm.tir.tensor_intrin.x86`."""

from __future__ import annotations

from mlcnb.tir.tensor_intrin.descriptions import dot_of
from mlcnb.tir.tensor_intrin.int8_avx2 import AVX512_DOT_16x4_INTRIN
from mlcnb.tir.tensor_intrin.vnni import VNNI_DOT_16x4_INTRIN

__all__ = ["AVX512_DOT_16x4_INTRIN", "VNNI_DOT_16x4_INTRIN", "dot_product_16x4_u8i8i32_desc"]

#: sixteen sums of four products of uint8 and int8: what both intrinsics compute
dot_product_16x4_u8i8i32_desc = dot_of(16, "uint8", "int8", "int32")
