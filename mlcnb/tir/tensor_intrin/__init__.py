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
| dot_16x4_vnni, taps_16x4_vnni | x86 | x86 with AVX-512 VNNI |
| dot_8x4_vnni, taps_8x4_vnni | x86 | x86 with AVX-VNNI |
| dot_16x2_bf16, dot_8x2_bf16 | bfloat16 | x86 with AVX-512 BF16 |
| pairs_32x2, pairs_16x2, pairs_8x2 | bfloat16 | any |
| dot_8x4_avx2, dot_8x4_u7_avx2, taps_8x4_avx2 | x86 | x86 with AVX2 |
| dot_16x4_avx512 | x86 | x86 with AVX-512 BW |
| dot_4x4_i8i8s32_sdot, dot_4x4_u8u8u32_udot, dot_4x4_i8i8s32_neon | arm_cpu | ARMv8 |
| dot_4x4_u8u8i32_hdot | arm_cpu | ARMv8.2 |
| dot_4x4_shifted_sdot, taps_4x4_shifted_sdot | arm_cpu | ARMv8.2 |
| dot_4x4_usdot, taps_4x4_usdot | arm_cpu | ARMv8.6 with i8mm |
| mma_sync_16x8x16_*, mma_sync_16x8x32_i8i8i32 | mma_sync | CUDA, sm_80 |
| mma_sync_16x8x8_tf32tf32f32 | mma_sync | CUDA, sm_80 |
| mma_load_*, mma_store_16x8_*, mma_fill_16x8_* | mma_sync | CUDA, sm_80 |
| mma_f16f16f32, mma_i8i8i32, mma_tf32tf32f32, mma_ldmatrix_* | ldmatrix | CUDA, sm_80 |
| mma_store_16x16_*, mma_fill_16x16_* | ldmatrix | CUDA, sm_80 |
| wmma_sync_16x16x16_*, wmma_load_*, wmma_store_*, wmma_fill_* | cuda | for reading only |
| dp4a_* | dot_product_common | any |
| sdot4 | rocm | any |
| dot_32x4_u8u8i32_vrmpy, dot_32x4_u8i8i32_vrmpy, dot_product_32x2_i16i16i32_vdmpy | hexagon | any |

`x86`, `arm_cpu` and `cuda` have TVM's names of them.
"""

from __future__ import annotations

from importlib import import_module

from mlcnb.tir.function import TensorIntrin
from mlcnb.tir.tensor_intrin.undescribed import instead_of

_FILES = (
    "numpy_gemm outer_product dot_product x86 bfloat16 arm_cpu mma_sync ldmatrix cuda "
    "dot_product_common rocm hexagon"
).split()


def load(name: str) -> str | None:
    """Register the intrinsic of that name, and those of the files before its own; all of them where
    there is none.

    Returns:
        What to take instead of an intrinsic of TVM that is not described here.
    """
    for file in _FILES:
        import_module(f"{__name__}.{file}")
        if TensorIntrin.registered(name) is not None:
            return None
    return instead_of(name)
