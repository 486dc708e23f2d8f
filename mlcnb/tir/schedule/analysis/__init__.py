"""Questions about programs: kinds of blocks, index maps, where an intrinsic fits, a summary."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.tir.schedule.analysis.blocks": (
            "has_block is_output_block is_complete_block is_reduction_block is_dominant_block "
            "is_compact_dataflow has_affine_binding block_kind BlockKind"
        ),
        "mlcnb.tir.schedule.analysis.mapping": (
            "suggest_index_map get_tensorize_loop_mapping TensorizeInfo "
            "get_auto_tensorize_mapping_info AutoTensorizeMappingInfo"
        ),
        "mlcnb.tir.schedule.analysis.summary": "analyze Analysis BlockReport LoopReport",
    },
)
