"""What tests, notebooks and exercises check with: references and comparisons."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.testing.evaluate": "evaluate assert_same_results",
        "mlcnb.testing.gallery.example": "gallery",
        "mlcnb.testing.pytest_names": (
            "parameter parameters fixture main assert_allclose device_enabled enabled_targets "
            "parametrize_targets skip_if_32bit requires_llvm requires_cuda requires_gpu "
            "requires_cudagraph requires_cuda_compute_version requires_tensorcore requires_rocm "
            "requires_matrixcore requires_metal requires_opencl requires_vulkan requires_hexagon "
            "requires_rpc requires_x86_vnni requires_x86_avx512 requires_x86_amx "
            "requires_aarch64_sve requires_aarch64_sme requires_arm_dot"
        ),
        "mlcnb.testing.compare": "CompareBeforeAfter",
        "mlcnb.testing.constraints": (
            "assert_prim_expr_equal check_bool_expr_is_true check_int_constraints_trans_consistency"
        ),
    },
)
