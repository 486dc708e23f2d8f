"""Graph passes, one file a pass; each is a class whose fields are its options.

mlcnb.relax.transform.FuseOps(max_depth=8)(mod) -> mod
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.relax.transform"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.ir.transform": "FunctionPass function_pass",
        f"{_HERE}.dataflowblock_pass": "DataflowBlockPass dataflowblock_pass",
        f"{_HERE}.normalize": "Normalize normalize",
        f"{_HERE}.canonicalize_bindings": "CanonicalizeBindings canonicalize_bindings",
        f"{_HERE}.check_sizes": "CheckSizes",
        f"{_HERE}.own_sizes": "OwnSizes",
        f"{_HERE}.dead_code_elimination": "DeadCodeElimination",
        f"{_HERE}.eliminate_common_subexpr": "EliminateCommonSubexpr eliminate_common_subexpr",
        f"{_HERE}.fold_constant": "FoldConstant fold_constant",
        f"{_HERE}.fold_batch_norm": (
            "FoldBatchNorm FoldBatchnormToConv2D=FoldBatchNorm fold_batch_norm"
        ),
        f"{_HERE}.integer_ops": "IntegerOps",
        f"{_HERE}.simplify_ops": "SimplifyOps",
        f"{_HERE}.decompose_ops": (
            "DecomposeOpsForInference DecomposeOpsForTraining "
            "SimplifyNormInference=DecomposeOpsForInference"
        ),
        f"{_HERE}.fast_math": "FastMathTransform",
        f"{_HERE}.fold_pad": "FoldPad",
        f"{_HERE}.fuse_attention": "FuseAttention",
        f"{_HERE}.fuse_gelu": "FuseGelu",
        f"{_HERE}.fuse_layer_norm": "FuseLayerNorm",
        f"{_HERE}.group_conv_to_matmul": "GroupConvToMatmul",
        f"{_HERE}.sink_reshape": "SinkReshape",
        f"{_HERE}.adjust_matmul_order": "AdjustMatmulOrder",
        f"{_HERE}.combine_parallel_matmul": "CombineParallelMatmul",
        f"{_HERE}.expand_matmul_of_sum": "ExpandMatmulOfSum",
        f"{_HERE}.fuse_transpose_matmul": "FuseTransposeMatmul",
        f"{_HERE}.reorder_permute_dims_after_concat": "ReorderPermuteDimsAfterConcat",
        f"{_HERE}.reorder_take_after_matmul": "ReorderTakeAfterMatmul",
        f"{_HERE}.remove_redundant_reshape": "RemoveRedundantReshape",
        f"{_HERE}.rewrite_cuda_graph": "RewriteCUDAGraph",
        f"{_HERE}.compute_prim_value": "ComputePrimValue",
        f"{_HERE}.split_layout_rewrite_preproc": "SplitLayoutRewritePreproc",
        f"{_HERE}.vm_shape_lower": "VMShapeLower",
        f"{_HERE}.split_call_tir_by_pattern": "MatchResult SplitCallTIRByPattern",
        f"{_HERE}.alter_op_impl": "AlterOpImpl",
        f"{_HERE}.allocate_workspace": "AllocateWorkspace",
        f"{_HERE}.attach_attr_layout_free_buffers": "AttachAttrLayoutFreeBuffers",
        f"{_HERE}.optimize_layout_transform": "OptimizeLayoutTransform",
        f"{_HERE}.bundle_model_params": "BundleModelParams",
        f"{_HERE}.dataflow_use_inplace_calls": "DataflowUseInplaceCalls",
        f"{_HERE}.expand_tuple_arguments": "ExpandTupleArguments",
        f"{_HERE}.lambda_lift": "LambdaLift",
        f"{_HERE}.lazy_transform_params": "LazyGetInput LazySetOutput LazyTransformParams",
        f"{_HERE}.lift_transform_params": "LiftTransformParams",
        f"{_HERE}.lower_runtime_builtin": (
            "LowerAllocTensor LowerRuntimeBuiltin VMBuiltinLower=LowerRuntimeBuiltin"
        ),
        f"{_HERE}.normalize_global_var": "NormalizeGlobalVar",
        f"{_HERE}.remove_unused_outputs": "RemoveUnusedOutputs",
        f"{_HERE}.update_param_struct_info": "UpdateParamStructInfo",
        f"{_HERE}.vdevice": "RealizeVDevice UpdateVDevice",
        f"{_HERE}.topological_sort": "TopologicalSort",
        f"{_HERE}.convert_layout": "ConvertLayout",
        f"{_HERE}.choose_convolution": "ChooseConvolution ConvolutionChoices convolution_choices",
        f"{_HERE}.narrow_products": "NarrowProducts",
        f"{_HERE}.round_products": "RoundProducts",
        f"{_HERE}.to_mixed_precision": "ToMixedPrecision",
        f"{_HERE}.pack_matmul": "PackMatmul",
        f"{_HERE}.pack_quantized": "PackQuantizedMatmul",
        f"{_HERE}.legalize_ops": "LegalizeOps",
        f"{_HERE}.concat_in_place": "ConcatInPlace",
        f"{_HERE}.annotate_tir_op_pattern": "AnnotateTIROpPattern",
        f"{_HERE}.fuse_ops": "FuseOps",
        f"{_HERE}.fuse_ops_by_pattern": "FuseOpsByPattern FusionPattern PatternCheckContext",
        f"{_HERE}.merge_composite_functions": "MergeCompositeFunctions",
        f"{_HERE}.run_codegen": "RunCodegen",
        f"{_HERE}.fuse_tir": "FuseTIR",
        f"{_HERE}.rewrite_dataflow_reshape": "RewriteDataflowReshape",
        f"{_HERE}.to_non_dataflow": "ToNonDataflow",
        f"{_HERE}.convert_to_dataflow": "ConvertToDataflow",
        f"{_HERE}.remove_purity_checking": "RemovePurityChecking",
        f"{_HERE}.call_tir_rewrite": "CallTIRRewrite",
        "mlcnb.relax.analysis.memory_lives": "PlannedTensor",
        "mlcnb.relax.analysis.memory_plan": "MemoryPlan plan_memory",
        f"{_HERE}.static_plan_block_memory": "StaticPlanBlockMemory",
        f"{_HERE}.kill_after_last_use": "KillAfterLastUse",
        f"{_HERE}.bind_params": "BindParams bind_params",
        f"{_HERE}.bind_symbolic_vars": "BindSymbolicVars bind_symbolic_vars",
        f"{_HERE}.inline_private_functions": "InlinePrivateFunctions",
        f"{_HERE}.remove_unused_parameters": "RemoveUnusedParameters",
        f"{_HERE}.attach_global_symbol": "AttachGlobalSymbol",
        "mlcnb.observe.choice": "ChooseByMeasurement",
        "mlcnb.meta_schedule.database.apply": "MetaScheduleApplyDatabase",
        "mlcnb.meta_schedule.integration": "MetaScheduleTuneIRMod MetaScheduleTuneTIR",
        f"{_HERE}.pipeline": "get_pipeline get_default_pipeline register_pipeline pipeline_names",
    },
)
