"""Questions about graph programs: variables, uses, purity, struct infos, sizes, well-formedness."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.analysis.struct_info": (
            "BaseCheckResult struct_info_base_check struct_info_lca erase_to_well_defined "
            "same_info same_dim symbolic_vars tir_vars_in_struct_info=symbolic_vars "
            "definable_tir_vars_in_struct_info=definable_vars static_shape nbytes "
            "type_lca=struct_info_lca type_base_check=struct_info_base_check"
        ),
        "mlcnb.relax.analysis.variables": (
            "all_vars bound_vars free_vars all_global_vars called_global_vars free_symbolic_vars "
            "defined_symbolic_vars get_var2val name_to_binding udchain use_counts "
            "topological_functions detect_recursion post_order_visit"
        ),
        "mlcnb.relax.analysis.well_formed": "well_formed assert_well_formed",
        "mlcnb.relax.transform.dead_code_elimination": "remove_all_unused=remove_unused_bindings",
        "mlcnb.relax.transform.rewrite_dataflow_reshape": "has_reshape_pattern",
        "mlcnb.relax.analysis.calls": "check_calls",
        "mlcnb.relax.analysis.compile_time": "computable_at_compile_time",
        "mlcnb.relax.infer": "derive_call_ret_struct_info",
        "mlcnb.relax.analysis.layout_transforms": "suggest_layout_transforms",
        "mlcnb.relax.analysis.purity": "contains_impure_call is_impure_op",
        "mlcnb.relax.analysis.cost": "estimate_memory_usage flops call_flops call_bytes",
    },
)
