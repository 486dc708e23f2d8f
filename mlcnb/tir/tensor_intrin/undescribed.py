"""Tensor intrinsics of TVM that are not described here: their names, and what to take instead.

Of `tvm.tir.tensor_intrin.cuda` what loads halves by `ldmatrix` and multiplies them into float32 is
described (`ldmatrix`), and what multiplies bytes into int32; not what sums in halves, and not what
would turn bytes on their way, which `ldmatrix` cannot.
`tvm.tir.tensor_intrin.rocm` has AMD's matrix instructions, for which there is no backend.
"""

from __future__ import annotations

_LOADS = "i8_B e4m3_A e4m3_B e4m3_B_TRANS e5m2_A e5m2_B e5m2_B_TRANS".split()
_WAYS = ["", "_TRANS_A", "_TRANS_B", "_TRANS_A_TRANS_B"]
_PRODUCTS = [
    *(f"f16f16f16{way}" for way in _WAYS),
    *(f"f16f16f32{way}" for way in _WAYS[1:]),
    "i8i8i32_TRANS_B",
    *(f"{kind}{way}" for kind in ("e4m3e4m3f32", "e5m2e5m2f32") for way in _WAYS[::2]),
]
_SIMPLE = "f16_shared_dyn f32_shared_dyn".split()

#: constant of `tvm.tir.tensor_intrin.cuda` -> name of the intrinsic
CUDA = {
    **{f"LDMATRIX_{x}_INTRIN": f"mma_ldmatrix_{x.lower()}" for x in _LOADS},
    **{f"MMA_{x}_INTRIN": f"mma_{x.lower()}" for x in _PRODUCTS},
    "MMA_fill_16x16_f16_INTRIN": "mma_fill_16x16_f16",
    "MMA_store_16x16_f16_global_INTRIN": "mma_store_16x16_f16_global_",
    **{f"MMA_store_16x16_{x}_INTRIN_SIMPLE": f"mma_store_16x16_{x}_simple_" for x in _SIMPLE},
}
#: constant of `tvm.tir.tensor_intrin.rocm` -> name of the intrinsic
ROCM = {
    **{f"ROCM_MFMA_{x}_INTRIN": f"rocm_mfma_{x}" for x in ("f16f16f32", "f32f32f32", "s8s8s32")},
    **{f"ROCM_MFMA_fill_16x16_{x}_INTRIN": f"ROCM_mfma_fill_16x16_{x}" for x in ("f32", "i32")},
    **{f"ROCM_MFMA_STORE_16x16_{x}_INTRIN": f"rocm_mfma_store_16x16_{x}" for x in ("f32", "s32")},
    **{
        f"ROCM_MFMA_LOAD_{n}_A_SHARED_{x}_INTRIN": f"rocm_mfma_load_{n}_a_shared_{x}"
        for n, x in (("16x16", "f16"), ("16x16", "s8"), ("16x4", "f32"))
    },
    **{
        f"ROCM_MFMA_LOAD_{n}_B_SHARED_{x}_INTRIN": f"rocm_mfma_load_b_{n}_shared_{x}"
        for n, x in (("16x16", "f16"), ("16x16", "s8"), ("16x4", "f32"))
    },
}
_INSTEAD = (
    (CUDA, "mma_ldmatrix_f16_…, mma_fill_16x16_f32, mma_f16f16f32 and mma_store_16x16_f32_… are "
     "described (mlcnb.tir.tensor_intrin.ldmatrix): halves, summed in float32; mma_ldmatrix_i8_a, "
     "mma_ldmatrix_i8_b_trans and mma_i8i8i32: bytes, summed in int32"),
    (ROCM, "there is no backend for AMD's GPUs; sdot4 is described for any machine"),
)  # fmt: skip


def instead_of(name: str) -> str | None:
    """What to take instead of an intrinsic that is not described; None for other names."""
    return next((hint for table, hint in _INSTEAD if name in table.values()), None)


def constant(table: dict[str, str], module: str, name: str) -> str:
    """The value of a constant of a module, for its `__getattr__`.

    Raises:
        AttributeError: there is none of that name.
    """
    if name not in table:
        raise AttributeError(f"{module} has no {name!r}")
    return table[name]
