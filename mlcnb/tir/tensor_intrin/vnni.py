"""VNNI: sums of four products of uint8 and int8, in one instruction.

    vpdpbusd zmm_C, zmm_A, zmm_B        C[i] += A[0] * B[i, 0] + … + A[3] * B[i, 3]

`dot_16x4_vnni` has the same four values of A for all sums: they are broadcast. `taps_16x4_vnni` has
four for each, one a row, which a permutation (`vpermb`) puts side by side: four taps of a depthwise
convolution over pixels of sixteen channels. `dot_8x4_vnni` and `taps_8x4_vnni` are the same on
vectors of 256 bits (AVX-VNNI). The products are summed in 32 bits: nothing saturates.
"""

from __future__ import annotations

from mlcnb.ir.expr import PrimExpr
from mlcnb.script import tir as T
from mlcnb.tir.tensor_intrin.descriptions import register_dot, register_taps, seen_as

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
VNNI_DOT_8x4_INTRIN = "dot_8x4_vnni"
VNNI_TAPS_16x4_INTRIN = "taps_16x4_vnni"
VNNI_TAPS_8x4_INTRIN = "taps_8x4_vnni"


def vpdpbusd(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Eight or sixteen sums, and to each four products of uint8 and int8."""
    lanes = sums.dtype.lanes
    kind, name = f"int32x{lanes}", f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    return T.call_llvm_pure_intrin(kind, name, sums, seen_as(kind, left), seen_as(kind, right))


for _lanes in (16, 8):
    register_dot(f"dot_{_lanes}x4_vnni", vpdpbusd, _lanes, "uint8", "int8", "int32")
    register_taps(f"taps_{_lanes}x4_vnni", vpdpbusd, _lanes, "uint8", "int8", "int32")
