"""AVX-512 BF16: sums of two products of bfloat16, in float32, in one instruction.

    vdpbf16ps zmm_C, zmm_A, zmm_B       C[i] += A[1] * B[i, 1];  C[i] += A[0] * B[i, 0]

A product of two bfloat16 is exact in float32; it is added with one rounding (nearest, ties to
even, whatever MXCSR says), the second of the pair first. Denormals of operands and of sums count as
zero. The two values of A are the same for all sums: they are broadcast as one 32-bit number.

`pairs_32x2` brings two rows to the form of B: their elements in turns.
"""

from __future__ import annotations

from mlcnb.ir.expr import PrimExpr
from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import places, register, register_dot, seen_as

BF16_DOT_16x2_INTRIN = "dot_16x2_bf16"
BF16_DOT_8x2_INTRIN = "dot_8x2_bf16"


def dpbf16ps(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """One instruction for all sums."""
    lanes = sums.dtype.lanes
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
    pairs = seen_as(f"bfloat16x{2 * lanes}", left)
    return T.call_llvm_pure_intrin(f"float32x{lanes}", name, sums, pairs, right)


def pairs_desc(lanes: int) -> PrimFunc:
    """Two rows, turned."""

    @T.prim_func
    def desc(A: T.Buffer((2, lanes), "bfloat16"), C: T.Buffer((lanes, 2), "bfloat16")):
        with T.block("root"):
            for i, k in T.grid(lanes, 2):
                with T.block("copy"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    C[vi, vk] = A[vk, vi]

    return desc


def pairs(lanes: int) -> PrimFunc:
    """A vector of each row; their lanes in turns."""
    row, column = places(lanes, 2)
    turns = [side * lanes + i for i in range(lanes) for side in range(2)]

    @T.prim_func
    def impl(A: T.Buffer((2, lanes), "bfloat16"), C: T.Buffer((lanes, 2), "bfloat16")):
        with T.block("root"):
            C[row, column] = T.reinterpret(
                f"bfloat16x{2 * lanes}",
                T.Shuffle(
                    [
                        T.reinterpret(f"uint16x{lanes}", A[0, 0:lanes]),
                        T.reinterpret(f"uint16x{lanes}", A[1, 0:lanes]),
                    ],
                    turns,
                ),
            )

    return impl


for _lanes in (16, 8):
    register_dot(f"dot_{_lanes}x2_bf16", dpbf16ps, _lanes, "bfloat16", "bfloat16", "float32", 2)
for _lanes in (32, 16, 8):
    register(f"pairs_{_lanes}x2", pairs_desc(_lanes), pairs(_lanes))
