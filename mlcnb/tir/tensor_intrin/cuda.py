"""Tensor intrinsics of NVIDIA GPUs by the names of `tvm.tir.tensor_intrin.cuda`.

The constants of `wmma`, a group of them by dtypes, and the layouts of the fragments of `mma_sync`.
Those of `ldmatrix` and of products of 16 x 16 are names, which `tensorize` refuses.
"""

from __future__ import annotations

from mlcnb.core.errors import MLCError
from mlcnb.tir.tensor_intrin import undescribed, wmma
from mlcnb.tir.tensor_intrin.mma_sync import layout_a as shared_16x16_to_ldmatrix_32x8_layout
from mlcnb.tir.tensor_intrin.mma_sync import place_a as ldmatrix_32x8_to_shared_16x16_layout

WMMA_SYNC_16x16x16_f16f16f32_INTRIN = "wmma_sync_16x16x16_f16f16f32"
WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN = "wmma_sync_16x16x16_f16f16f32_trans"
WMMA_SYNC_16x16x16_f16f16f16_INTRIN = "wmma_sync_16x16x16_f16f16f16"
WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN = "wmma_sync_16x16x16_f16f16f16_trans"
WMMA_SYNC_16x16x16_s8s8s32_INTRIN = "wmma_sync_16x16x16_s8s8s32"
WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN = "wmma_sync_16x16x16_s8s8s32_trans"
WMMA_LOAD_16x16x16_F16_A_INTRIN = "wmma_load_16x16x16_f16_a_shared"
WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN = "wmma_load_16x16x16_f16_a_shared_dyn"
WMMA_LOAD_16x16x16_F16_B_INTRIN = "wmma_load_16x16x16_f16_b_shared"
WMMA_LOAD_16x16x16_F16_B_DYN_INTRIN = "wmma_load_16x16x16_f16_b_shared_dyn"
WMMA_LOAD_16x16x16_F16_A_TRANS_INTRIN = "wmma_load_16x16x16_f16_a_trans_shared"
WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN = "wmma_load_16x16x16_f16_a_trans_shared_dyn"
WMMA_LOAD_16x16x16_F16_B_TRANS_INTRIN = "wmma_load_16x16x16_f16_b_trans_shared"
WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN = "wmma_load_16x16x16_f16_b_trans_shared_dyn"
WMMA_LOAD_16x16x16_S8_A_INTRIN = "wmma_load_16x16x16_s8_a_shared"
WMMA_LOAD_16x16x16_S8_A_DYN_INTRIN = "wmma_load_16x16x16_s8_a_shared_dyn"
WMMA_LOAD_16x16x16_S8_B_INTRIN = "wmma_load_16x16x16_s8_b_shared"
WMMA_LOAD_16x16x16_S8_B_DYN_INTRIN = "wmma_load_16x16x16_s8_b_shared_dyn"
WMMA_LOAD_16x16x16_S8_A_TRANS_INTRIN = "wmma_load_16x16x16_s8_a_trans_shared"
WMMA_LOAD_16x16x16_S8_A_TRANS_DYN_INTRIN = "wmma_load_16x16x16_s8_a_trans_shared_dyn"
WMMA_LOAD_16x16x16_S8_B_TRANS_INTRIN = "wmma_load_16x16x16_s8_b_trans_shared"
WMMA_LOAD_16x16x16_S8_B_TRANS_DYN_INTRIN = "wmma_load_16x16x16_s8_b_trans_shared_dyn"
WMMA_FILL_16x16x16_F32_INTRIN = "wmma_fill_16x16x16_f32"
WMMA_FILL_16x16x16_F16_INTRIN = "wmma_fill_16x16x16_f16"
WMMA_FILL_16x16x16_S32_INTRIN = "wmma_fill_16x16x16_s32"
WMMA_STORE_16x16x16_F32_SHARED_INTRIN = "wmma_store_16x16x16_f32_shared"
WMMA_STORE_16x16x16_F32_SHARED_DYN_INTRIN = "wmma_store_16x16x16_f32_shared_dyn"
WMMA_STORE_16x16x16_F32_GLOBAL_INTRIN = "wmma_store_16x16x16_f32_global"
WMMA_STORE_16x16x16_F16_SHARED_INTRIN = "wmma_store_16x16x16_f16_shared"
WMMA_STORE_16x16x16_F16_SHARED_DYN_INTRIN = "wmma_store_16x16x16_f16_shared_dyn"
WMMA_STORE_16x16x16_F16_GLOBAL_INTRIN = "wmma_store_16x16x16_f16_global"
WMMA_STORE_16x16x16_S32_SHARED_INTRIN = "wmma_store_16x16x16_s32_shared"
WMMA_STORE_16x16x16_S32_SHARED_DYN_INTRIN = "wmma_store_16x16x16_s32_shared_dyn"
WMMA_STORE_16x16x16_S32_GLOBAL_INTRIN = "wmma_store_16x16x16_s32_global"

__all__ = [
    "get_wmma_intrin_group",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    *(name for name in dir() if name.startswith("WMMA_")),
]


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The names of the intrinsics that make one product: init, load_a, load_b, compute, store.

    Args:
        load_scope: "shared" or "shared.dyn", where A and B are.
        store_scope: "global", "shared" or "shared.dyn", where the product goes.
        in_dtype: "float16" or "int8".
        out_dtype: "float32" or "float16"; "int32" with int8.
        trans_b: B is stored as (n, k).

    Raises:
        MLCError: there is no such product.
    """
    kinds = {("float16", "float32"), ("float16", "float16"), ("int8", "int32")}
    scopes = load_scope in wmma.SHARED and store_scope in ("global", *wmma.SHARED)
    if (in_dtype, out_dtype) not in kinds or not scopes:
        raise MLCError(
            f"no wmma product of {in_dtype} in {load_scope} to {out_dtype} in {store_scope}",
            hint="float16 to float32 or float16, int8 to int32; from shared or shared.dyn, also "
            "to global",
        )
    return {
        "init": wmma.name_of_fill(out_dtype),
        "load_a": wmma.name_of_load(in_dtype, "a", False, load_scope),
        "load_b": wmma.name_of_load(in_dtype, "b", trans_b, load_scope),
        "compute": wmma.name_of_sync(in_dtype, out_dtype, trans_b),
        "store": wmma.name_of_store(out_dtype, store_scope),
    }


def __getattr__(name: str) -> str:
    return undescribed.constant(undescribed.CUDA, __name__, name)
