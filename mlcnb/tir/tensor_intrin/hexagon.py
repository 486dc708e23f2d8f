"""Dot products of Hexagon's vectors by the names of `tvm.tir.tensor_intrin.hexagon`.

    dot_32x4_u8u8i32_vrmpy, dot_32x4_u8i8i32_vrmpy      32 sums of four products of bytes
    dot_product_32x2_i16i16i32_vdmpy                    32 sums of two products of int16

mlcnb has no backend for them: the products are loops, which any backend runs, and sums wrap around
as they do elsewhere (`vdmpy` saturates).
"""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import dot_of, register

VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"


def loops(left: str, right: str, width: int) -> PrimFunc:
    """32 sums of `width` products, lane by lane."""

    @T.prim_func
    def impl(
        A: T.Buffer((width,), left), B: T.Buffer((32, width), right), C: T.Buffer((32,), "int32")
    ):
        with T.block("root"):
            for i, k in T.grid(32, width):
                C[i] = C[i] + T.Cast("int32", A[k]) * T.Cast("int32", B[i, k])

    return impl


for _name, _left, _right, _width in (
    (VRMPY_u8u8i32_INTRIN, "uint8", "uint8", 4),
    (VRMPY_u8i8i32_INTRIN, "uint8", "int8", 4),
    (VDMPY_i16i16i32_INTRIN, "int16", "int16", 2),
):
    register(_name, dot_of(32, _left, _right, "int32", _width), loops(_left, _right, _width))
