"""Dot products of bytes on x86: sums of four products of uint8 and int8.

VNNI has one instruction for it:

    vpdpbusd zmm_C, zmm_A, zmm_B        C[i] += A[0] * B[i, 0] + … + A[3] * B[i, 3]

`dot_16x4_vnni` has the same four values of A for all sums: they are broadcast. `taps_16x4_vnni` has
four for each, one a row, which a permutation (`vpermb`) puts side by side: four taps of a depthwise
convolution over pixels of sixteen channels. `dot_8x4_vnni` and `taps_8x4_vnni` are the same on
vectors of 256 bits (AVX-VNNI). The products are summed in 32 bits: nothing saturates.

AVX2 and AVX-512 without VNNI have two ways. `dot_8x4_avx2` is exact for all values: the first and
third bytes are widened to 16 bits, and the second and fourth, by shifts; pairs are multiplied and
added in 32 bits. `taps_8x4_avx2` is the same with four values of A for each sum, one a row: taps of
a depthwise convolution. `dot_16x4_avx512` has sixteen sums.

    vpand, vpsrlw, vpsllw, vpsraw       once for each operand      vpmaddwd, vpaddd    twice

`dot_8x4_u7_avx2` multiplies bytes and adds pairs in 16 bits, with saturation: half as many
instructions, but 255 * 127 + 255 * 127 is cut to 32767. So what it describes is a product whose
left side is masked to seven bits, `A[k] & 127`, of which no pair leaves 16 bits (127 * 128 twice is
32512). A program that does not say so does not match, and is never silently wrong.

    vpand, vpmaddubsw, vpmaddwd

The names are those of `tvm.tir.tensor_intrin.x86`, and more.
"""

from __future__ import annotations

from mlcnb.ir.expr import PrimExpr
from mlcnb.script import tir as T
from mlcnb.tir.tensor_intrin.descriptions import dot_by, dot_of, register, register_dot, seen_as

#: sixteen sums of four products of uint8 and int8: what both intrinsics compute
dot_product_16x4_u8i8i32_desc = dot_of(16, "uint8", "int8", "int32")

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
    register_dot(f"taps_{_lanes}x4_vnni", vpdpbusd, _lanes, "uint8", "int8", "int32", taps=True)


AVX2_DOT_8x4_INTRIN = "dot_8x4_avx2"
AVX2_DOT_8x4_U7_INTRIN = "dot_8x4_u7_avx2"
AVX2_TAPS_8x4_INTRIN = "taps_8x4_avx2"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"


def added_products(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Eight or sixteen sums, and to each four products of bytes, uint8 with int8."""
    words = left.dtype.bits * left.dtype.lanes // 16
    x, w = T.reinterpret(f"uint16x{words}", left), T.reinterpret(f"int16x{words}", right)
    byte = T.Broadcast(T.int16(8), words)
    first = T.reinterpret(f"int16x{words}", x & T.Broadcast(T.uint16(255), words))
    second = T.reinterpret(f"int16x{words}", T.shift_right(x, T.Broadcast(T.uint16(8), words)))
    thirds = _pairs(first, T.shift_right(T.shift_left(w, byte), byte))
    return sums + thirds + _pairs(second, T.shift_right(w, byte))


def _pairs(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    name = {16: "llvm.x86.avx2.pmadd.wd", 32: "llvm.x86.avx512.pmaddw.d.512"}[left.dtype.lanes]
    return T.call_llvm_pure_intrin(f"int32x{left.dtype.lanes // 2}", name, left, right)


@T.prim_func
def dot_8x4_u7_desc(
    A: T.Buffer((4,), "uint8"), B: T.Buffer((8, 4), "int8"), C: T.Buffer((8,), "int32")
):
    """The product, with values of A below 128."""
    with T.block("root"):
        for i, k in T.grid(8, 4):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.Cast("int32", A[vk] & T.uint8(127)) * T.Cast("int32", B[vi, vk])


def added_pairs(sums: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Pairs of bytes to 16 bits, pairs of those to 32."""
    low = T.reinterpret("uint8x32", left) & T.Broadcast(T.uint8(127), 32)
    pairs = T.call_llvm_pure_intrin("int16x16", "llvm.x86.avx2.pmadd.ub.sw", low, right)
    ones = T.Broadcast(T.int16(1), 16)
    return sums + T.call_llvm_pure_intrin("int32x8", "llvm.x86.avx2.pmadd.wd", pairs, ones)


_BYTES = ("uint8", "int8", "int32")
register(AVX2_DOT_8x4_U7_INTRIN, dot_8x4_u7_desc, dot_by(added_pairs, 8, *_BYTES))
register_dot(AVX2_DOT_8x4_INTRIN, added_products, 8, *_BYTES)
register_dot(AVX512_DOT_16x4_INTRIN, added_products, 16, *_BYTES)
register_dot(AVX2_TAPS_8x4_INTRIN, added_products, 8, *_BYTES, taps=True)
