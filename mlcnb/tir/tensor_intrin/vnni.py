"""VNNI: sums of four products of uint8 and int8, in one instruction.

    vpdpbusd zmm_C, zmm_A, zmm_B        C[i] += A[0] * B[i, 0] + … + A[3] * B[i, 3]

`dot_16x4_vnni` has the same four values of A for all sums: they are broadcast. `taps_16x4_vnni` has
four for each, one a row, which a permutation (`vpermb`) puts side by side: four taps of a depthwise
convolution over pixels of sixteen channels. `dot_8x4_vnni` and `taps_8x4_vnni` are the same on
vectors of 256 bits (AVX-VNNI). The products are summed in 32 bits: nothing saturates.
"""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import (
    columns,
    dot_of,
    integer_taps,
    register,
    rows,
)

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
VNNI_DOT_8x4_INTRIN = "dot_8x4_vnni"
VNNI_TAPS_16x4_INTRIN = "taps_16x4_vnni"
VNNI_TAPS_8x4_INTRIN = "taps_8x4_vnni"


def dot(lanes: int) -> PrimFunc:
    """The four values of A are broadcast as one 32-bit number."""

    @T.prim_func
    def impl(
        A: T.Buffer((4,), "uint8"), B: T.Buffer((lanes, 4), "int8"), C: T.Buffer((lanes,), "int32")
    ):
        with T.block("root"):
            T.reads(C[0:lanes], A[0:4], B[0:lanes, 0:4])
            T.writes(C[0:lanes])
            C[0:lanes] = T.call_llvm_pure_intrin(
                f"int32x{lanes}",
                f"llvm.x86.avx512.vpdpbusd.{32 * lanes}",
                C[0:lanes],
                T.Broadcast(T.reinterpret("int32", A[0:4]), lanes),
                T.reinterpret(f"int32x{lanes}", rows(B)),
            )

    return impl


def taps(lanes: int) -> PrimFunc:
    """The four rows of A are one piece of memory."""

    @T.prim_func
    def impl(
        A: T.Buffer((4, lanes), "uint8"),
        B: T.Buffer((lanes, 4), "int8"),
        C: T.Buffer((lanes,), "int32"),
    ):
        with T.block("root"):
            T.reads(C[0:lanes], A[0:4, 0:lanes], B[0:lanes, 0:4])
            T.writes(C[0:lanes])
            C[0:lanes] = T.call_llvm_pure_intrin(
                f"int32x{lanes}",
                f"llvm.x86.avx512.vpdpbusd.{32 * lanes}",
                C[0:lanes],
                T.reinterpret(f"int32x{lanes}", columns(A)),
                T.reinterpret(f"int32x{lanes}", rows(B)),
            )

    return impl


for _lanes in (16, 8):
    register(f"dot_{_lanes}x4_vnni", dot_of(_lanes, "uint8", "int8", "int32"), dot(_lanes))
    register(f"taps_{_lanes}x4_vnni", integer_taps(_lanes, "uint8", "int8", "int32"), taps(_lanes))
