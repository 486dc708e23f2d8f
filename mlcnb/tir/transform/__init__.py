"""Lowering: from blocks to plain loops, one pass a file. `lower(func)` runs the standard list.

A pass is public by lying here; the table has what else this package brings.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, _ = attach(
    __name__,
    {
        "mlcnb.tir.transform.lower_init_block": "lower_init_block",
        "mlcnb.tir.transform.plan_buffer_allocation": "plan_buffer_allocation",
        "mlcnb.tir.transform.convert_blocks_to_opaque": "convert_blocks_to_opaque",
        "mlcnb.tir.transform.common_subexpr_elim": (
            "CommonSubexprElim=CommonSubexprElimTIR eliminate_common_subexpr"
        ),
        "mlcnb.tir.transform.compact_buffer": "compact_buffers",
        "mlcnb.tir.transform.lower_match_buffer": "lower_match_buffer",
        "mlcnb.tir.transform.lower_opaque_block": "lower_opaque_block",
        "mlcnb.tir.transform.flatten_buffer": "flatten_buffers",
        "mlcnb.tir.transform.hoist_expression": (
            "HoistedConditionals HoistedLetBindings hoist_expressions"
        ),
        "mlcnb.tir.transform.hoist_if_then_else": "hoist_if_then_else",
        "mlcnb.tir.transform.inject_double_buffer": "inject_double_buffer",
        "mlcnb.tir.transform.inject_ptx_async_copy": "inject_ptx_async_copy",
        "mlcnb.tir.transform.inject_software_pipeline": "inject_software_pipeline",
        "mlcnb.tir.transform.narrow_data_type": "narrow_data_type force_narrow_index_to_int32",
        "mlcnb.tir.transform.remove_no_op": "remove_no_op",
        "mlcnb.tir.transform.storage_rewrite": "rewrite_storage",
        "mlcnb.tir.transform.simplify": "StmtSimplify=Simplify simplify_stmt",
        "mlcnb.tir.transform.inject_prefetch": "inject_prefetch",
        "mlcnb.tir.transform.skip_padding": "skip_padding",
        "mlcnb.tir.transform.overlap_tiles": "overlap_tiles",
        "mlcnb.tir.transform.loop_partition": "partition_loops",
        "mlcnb.tir.transform.transpose_tile": "transpose_tiles",
        "mlcnb.tir.transform.vectorize_loop": "vectorize_loops",
        "mlcnb.tir.transform.unroll_loop": "unroll_loops",
        "mlcnb.tir.transform.lower_cross_thread_reduction": "lower_cross_thread_reduction",
        "mlcnb.tir.transform.unify_thread_binding": "unify_thread_binding",
        "mlcnb.tir.transform.inject_virtual_thread": "inject_virtual_thread",
        "mlcnb.tir.transform.thread_sync": "thread_sync",
        "mlcnb.tir.transform.lower_thread_allreduce": "lower_thread_allreduce",
        "mlcnb.tir.transform.split_host_device": "split_host_device",
        "mlcnb.tir.transform.remove_store_undef": "remove_store_undef",
        "mlcnb.tir.transform.remove_assume": "remove_assume",
        "mlcnb.tir.transform.skip_assert": "skip_asserts",
        "mlcnb.tir.transform.rewrite_unsafe_select": "rewrite_unsafe_select",
        "mlcnb.tir.transform.convert_for_loops_to_serial": "convert_for_loops_to_serial",
        "mlcnb.tir.transform.annotate_irregular_loop": "annotate_irregular_loops",
        "mlcnb.tir.transform.canonicalize_loop": "canonicalize_loops",
        "mlcnb.tir.transform.combine_context_call": "combine_context_calls",
        "mlcnb.tir.transform.reduce_branching": "reduce_branching",
        "mlcnb.tir.transform.instrument_bound_checkers": "instrument_bound_checkers",
        "mlcnb.tir.transform.lower_intrin": "lower_intrinsics",
        "mlcnb.tir.transform.lower_tvm_builtin": "lower_builtins",
        "mlcnb.tir.transform.renormalize_split_pattern": "renormalize_split_patterns",
        "mlcnb.tir.transform.remove_weight_layout_rewrite_block": "remove_weight_layout_rewrites",
        "mlcnb.tir.schedule.default_gpu_schedule": "DefaultGPUSchedule",
        "mlcnb.ir.transform": "PrimFuncPass prim_func_pass",
        "mlcnb.tir.transform.lower": "lower lowering_passes Lowering LoweringStep",
    },
    classes=r"(?:\w*Pass|_Refused)",
)
