"""Tensor intrinsics: what an instruction computes, and how it is called.

    sch.tensorize(loop, "dot_16x4_vnni")

Each file describes the instructions of one kind: `desc` is plain loops, which the tile to be
replaced must match; `impl` is what takes its place. `TensorIntrin.get` finds them by name; nothing
needs to be imported first.

| names | file | machine |
| --- | --- | --- |
| numpy_gemm_4x4x4 | numpy_gemm | the interpreter |
| outer_product_6x16x64_f32_avx2, outer_product_14x32x64_f32_avx512 | outer_product | x86 |
| dot_64_f32_avx2, dot_128_f32_avx512 | dot_product | x86 |
| dot_16x4_vnni, taps_16x4_vnni | vnni | x86 with AVX-512 VNNI |
| dot_8x4_vnni, taps_8x4_vnni | vnni | x86 with AVX-VNNI |
| dot_16x2_bf16, dot_8x2_bf16 | bfloat16 | x86 with AVX-512 BF16 |
| pairs_32x2, pairs_16x2, pairs_8x2 | bfloat16 | any |
| dot_8x4_avx2, dot_8x4_u7_avx2, taps_8x4_avx2 | int8_avx2 | x86 with AVX2 |
| dot_4x4_i8i8s32_sdot, dot_4x4_u8u8u32_udot, dot_4x4_i8i8s32_neon | neon | ARMv8 |
| dot_4x4_shifted_sdot, taps_4x4_shifted_sdot | neon | ARMv8.2 |
| dot_4x4_usdot, taps_4x4_usdot | neon | ARMv8.6 with i8mm |
| mma_sync_16x8x16_*, mma_load_*, mma_store_*, mma_fill_* | mma_sync | CUDA, sm_80 |
"""

from __future__ import annotations

from importlib import import_module

_FILES = "numpy_gemm outer_product dot_product vnni bfloat16 int8_avx2 neon mma_sync".split()


def load() -> None:
    """Register all of them."""
    for name in _FILES:
        import_module(f"{__name__}.{name}")
