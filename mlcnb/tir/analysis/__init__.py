"""Questions about loop programs: what they touch, what they cost, whether they are well formed."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.tir.analysis.access": (
            "detect_buffer_access complete_regions union_regions get_block_read_write_region "
            "get_block_access_region"
        ),
        "mlcnb.tir.access.inside": "check_bounds verify_bounds OutOfBounds OOBChecker",
        "mlcnb.tir.analysis.cost": (
            "flops bytes_touched allocated_bytes arithmetic_intensity estimate_tir_flops=flops "
            "calculate_allocated_bytes=allocated_bytes block_flops nested_flops find_anchor_block"
        ),
        "mlcnb.tir.access.depend": ("loop_dependences carried_dependences LoopDependence DepKind"),
        "mlcnb.tir.analysis.footprint": "block_bytes memory_footprint working_sets domain_touched",
        "mlcnb.tir.analysis.pattern": "op_pattern OpPatternKind",
        "mlcnb.tir.analysis.reduction": "reduction_pattern ReductionPattern",
        "mlcnb.tir.access.relation": "accesses_of",
        "mlcnb.tir.access.scope": "Access loop_name",
        "mlcnb.tir.analysis.safety": "secured",
        "mlcnb.tir.analysis.scope": (
            "get_block_scope get_block_dependence BlockScope Dependency region_cover "
            "stage_pipeline uninitialized_reads UncoveredRead"
        ),
        "mlcnb.tir.analysis.structure": (
            "parent_map blocks_of find_block loops_above detect_buffer_access_lca"
        ),
        "mlcnb.tir.analysis.variables": "undefined_vars",
        "mlcnb.tir.analysis.verify": (
            "verify_memory verify_ssa is_pure_function assert_pure_function"
        ),
        "mlcnb.tir.analysis.verify_gpu_code": "verify_gpu_code assert_gpu_code GpuLimits",
        "mlcnb.ir.structural": "expr_deep_equal=structural_equal",
        "mlcnb.tir.analysis.well_formed": "verify_well_formed",
    },
)
