"""Tensor intrinsics of AMD GPUs by the names of `tvm.tir.tensor_intrin.rocm`.

mlcnb has no backend for them: `sdot4` is four products written out, which any backend runs. The
matrix instructions (MFMA) are names, which `tensorize` refuses.
"""

from __future__ import annotations

from mlcnb.tir.tensor_intrin import undescribed
from mlcnb.tir.tensor_intrin.descriptions import register
from mlcnb.tir.tensor_intrin.dot_product_common import get_dp4a_intrin

AMDGPU_SDOT4_INTRIN = "sdot4"

register(AMDGPU_SDOT4_INTRIN, *get_dp4a_intrin("int8", "int8", "int32"))


def __getattr__(name: str) -> str:
    return undescribed.constant(undescribed.ROCM, __name__, name)
