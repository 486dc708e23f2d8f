"""Lowering: from blocks to plain loops, one pass a file. `lower(func)` runs the standard list."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.tir.transform.lower_init_block": "LowerInitBlock lower_init_block",
        "mlcnb.tir.transform.plan_buffer_allocation": (
            "PlanAndUpdateBufferAllocationLocation plan_buffer_allocation"
        ),
        "mlcnb.tir.transform.convert_blocks_to_opaque": (
            "ConvertBlocksToOpaque convert_blocks_to_opaque"
        ),
        "mlcnb.tir.transform.common_subexpr_elim": (
            "CommonSubexprElimTIR eliminate_common_subexpr"
        ),
        "mlcnb.tir.transform.convert_ssa": "ConvertSSA",
        "mlcnb.tir.transform.compact_buffer": "CompactBufferAllocation compact_buffers",
        "mlcnb.tir.transform.lower_match_buffer": "LowerMatchBuffer lower_match_buffer",
        "mlcnb.tir.transform.lower_opaque_block": "LowerOpaqueBlock lower_opaque_block",
        "mlcnb.tir.transform.flatten_buffer": "FlattenBuffer flatten_buffers",
        "mlcnb.tir.transform.hoist_expression": (
            "HoistExpression HoistedConditionals HoistedLetBindings hoist_expressions"
        ),
        "mlcnb.tir.transform.hoist_if_then_else": "HoistIfThenElse hoist_if_then_else",
        "mlcnb.tir.transform.inject_double_buffer": "InjectDoubleBuffer inject_double_buffer",
        "mlcnb.tir.transform.inject_software_pipeline": (
            "InjectSoftwarePipeline inject_software_pipeline"
        ),
        "mlcnb.tir.transform.narrow_data_type": (
            "NarrowDataType narrow_data_type ForceNarrowIndexToInt32 force_narrow_index_to_int32"
        ),
        "mlcnb.tir.transform.remove_no_op": "RemoveNoOp remove_no_op",
        "mlcnb.tir.transform.storage_rewrite": "StorageRewrite rewrite_storage",
        "mlcnb.tir.transform.simplify": "Simplify StmtSimplify=Simplify simplify_stmt",
        "mlcnb.tir.transform.inject_prefetch": "InjectPrefetch inject_prefetch",
        "mlcnb.tir.transform.skip_padding": "SkipPadding skip_padding",
        "mlcnb.tir.transform.loop_partition": "LoopPartition partition_loops",
        "mlcnb.tir.transform.transpose_tile": "TransposeTile transpose_tiles",
        "mlcnb.tir.transform.vectorize_loop": "VectorizeLoop vectorize_loops",
        "mlcnb.tir.transform.unroll_loop": "UnrollLoop unroll_loops",
        "mlcnb.tir.transform.lower_cross_thread_reduction": (
            "LowerCrossThreadReduction lower_cross_thread_reduction"
        ),
        "mlcnb.tir.transform.unify_thread_binding": "UnifyThreadBinding unify_thread_binding",
        "mlcnb.tir.transform.inject_virtual_thread": "InjectVirtualThread inject_virtual_thread",
        "mlcnb.tir.transform.thread_sync": "ThreadSync thread_sync",
        "mlcnb.tir.transform.lower_thread_allreduce": "LowerThreadAllreduce lower_thread_allreduce",
        "mlcnb.tir.transform.split_host_device": "SplitHostDevice split_host_device",
        "mlcnb.tir.transform.verify_gpu_code": "VerifyGPUCode",
        "mlcnb.tir.transform.verify_passes": "VerifyMemory VerifySSA",
        "mlcnb.tir.transform.remove_store_undef": "RemoveStoreUndef remove_store_undef",
        "mlcnb.tir.transform.remove_assume": "RemoveAssume remove_assume",
        "mlcnb.tir.transform.skip_assert": "SkipAssert skip_asserts",
        "mlcnb.tir.transform.rewrite_unsafe_select": "RewriteUnsafeSelect rewrite_unsafe_select",
        "mlcnb.tir.transform.convert_for_loops_to_serial": (
            "ConvertForLoopsToSerial convert_for_loops_to_serial"
        ),
        "mlcnb.tir.transform.annotate_irregular_loop": (
            "AnnotateIrregularLoop annotate_irregular_loops"
        ),
        "mlcnb.tir.transform.canonicalize_loop": "CanonicalizeLoop canonicalize_loops",
        "mlcnb.tir.transform.function_sets": "Filter Apply AnnotateEntryFunc",
        "mlcnb.tir.transform.device_regions": "DecorateDeviceScope AnnotateDeviceRegions",
        "mlcnb.tir.transform.bind_target": "BindTarget",
        "mlcnb.tir.transform.lower_device_kernel_launch": "LowerDeviceKernelLaunch",
        "mlcnb.tir.transform.make_unpacked_api": "MakeUnpackedAPI",
        "mlcnb.tir.transform.make_packed_api": "MakePackedAPI",
        "mlcnb.tir.transform.combine_context_call": "CombineContextCall combine_context_calls",
        "mlcnb.tir.transform.legalize_floats": (
            "BF16ComputeLegalize BF16StorageLegalize FP8ComputeLegalize FP8StorageLegalize"
        ),
        "mlcnb.tir.transform.reduce_branching": (
            "ReduceBranchingThroughOvercompute reduce_branching"
        ),
        "mlcnb.tir.transform.instrument_bound_checkers": (
            "InstrumentBoundCheckers instrument_bound_checkers"
        ),
        "mlcnb.tir.transform.lower_intrin": "LowerIntrin lower_intrinsics",
        "mlcnb.tir.transform.lower_tvm_builtin": "LowerTVMBuiltin lower_builtins",
        "mlcnb.tir.transform.renormalize_split_pattern": (
            "RenormalizeSplitPattern renormalize_split_patterns"
        ),
        "mlcnb.tir.transform.refused_passes": (
            "LowerWarpMemory InferFragment TransformMmaBufferLayout InjectPTXAsyncCopy "
            "InjectPermutedLayout ManifestSharedMemoryLocalStage InjectRollingBuffer "
            "LiftThreadBinding LowerDeviceStorageAccessInfo ExtractPrimFuncConstants "
            "PointerValueTypeRewrite MergeSharedMemoryAllocations"
        ),
        "mlcnb.tir.transform.remove_weight_layout_rewrite_block": (
            "RemoveWeightLayoutRewriteBlock remove_weight_layout_rewrites"
        ),
        "mlcnb.tir.schedule.default_gpu_schedule": "DefaultGPUSchedule",
        "mlcnb.tir.transform.inline_private_functions": "InlinePrivateFunctions",
        "mlcnb.ir.transform": "PrimFuncPass prim_func_pass",
        "mlcnb.tir.transform.lower": "lower lowering_passes Lowering LoweringStep",
    },
)
