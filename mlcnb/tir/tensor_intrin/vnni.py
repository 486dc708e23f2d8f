"""AVX-512 VNNI: sixteen sums of four products of uint8 and int8, in one instruction.

    vpdpbusd zmm_C, zmm_A, zmm_B        C[i] += A[0] * B[i, 0] + … + A[3] * B[i, 3]

`dot_16x4_vnni` has the same four values of A for all sums: they are broadcast. `taps_16x4_vnni` has
four for each, one a row, which `vpermb` puts side by side: four taps of a depthwise convolution
over pixels of sixteen channels. The products are summed in 32 bits: nothing saturates.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.script import tir as T
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.tensor_intrin.descriptions import integer_dot, integer_taps, register, rows

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
VNNI_TAPS_16x4_INTRIN = "taps_16x4_vnni"


@T.prim_func
def dot_16x4_vnni(
    A: T.Buffer((4,), "uint8"), B: T.Buffer((16, 4), "int8"), C: T.Buffer((16,), "int32")
):
    """The four values of A are broadcast as one 32-bit number."""
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        C[0:16] = T.call_llvm_pure_intrin(
            "int32x16",
            "llvm.x86.avx512.vpdpbusd.512",
            C[0:16],
            T.Broadcast(T.reinterpret("int32", A[0:4]), 16),
            T.reinterpret("int32x16", rows(B)),
        )


def columns(buffer: Buffer) -> Any:
    """All of a two-dimensional buffer as one vector, column after column."""
    height, width = (p.as_int(n) or 0 for n in buffer.shape)
    places = [row * width + column for column in range(width) for row in range(height)]
    return e.Shuffle((rows(buffer),), tuple(p.const(i) for i in places))


@T.prim_func
def taps_16x4_vnni(
    A: T.Buffer((4, 16), "uint8"), B: T.Buffer((16, 4), "int8"), C: T.Buffer((16,), "int32")
):
    """The four rows of A are one piece of memory."""
    with T.block("root"):
        T.reads(C[0:16], A[0:4, 0:16], B[0:16, 0:4])
        T.writes(C[0:16])
        C[0:16] = T.call_llvm_pure_intrin(
            "int32x16",
            "llvm.x86.avx512.vpdpbusd.512",
            C[0:16],
            T.reinterpret("int32x16", columns(A)),
            T.reinterpret("int32x16", rows(B)),
        )


register(VNNI_DOT_16x4_INTRIN, integer_dot(16, "uint8", "int8", "int32"), dot_16x4_vnni)
register(VNNI_TAPS_16x4_INTRIN, integer_taps(16, "uint8", "int8", "int32"), taps_16x4_vnni)
