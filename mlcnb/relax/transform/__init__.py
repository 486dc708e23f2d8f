"""Graph passes, one file a pass; each is a class whose fields are its options. A pass is public by
lying here; the table has what else this package brings.

mlcnb.relax.transform.FuseOps(max_depth=8)(mod) -> mod
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.relax.transform"

__getattr__, __dir__, _ = attach(
    __name__,
    {
        "mlcnb.ir.transform": "FunctionPass function_pass",
        f"{_HERE}.dataflowblock_pass": "dataflowblock_pass",
        f"{_HERE}.normalize": "normalize",
        f"{_HERE}.canonicalize_bindings": "canonicalize_bindings",
        f"{_HERE}.eliminate_common_subexpr": "eliminate_common_subexpr",
        f"{_HERE}.fold_constant": "fold_constant",
        f"{_HERE}.fold_batch_norm": "FoldBatchnormToConv2D=FoldBatchNorm fold_batch_norm",
        f"{_HERE}.decompose_ops": "SimplifyNormInference=DecomposeOpsForInference",
        f"{_HERE}.split_call_tir_by_pattern": "MatchResult",
        f"{_HERE}.lower_runtime_builtin": "VMBuiltinLower=LowerRuntimeBuiltin",
        f"{_HERE}.choose_convolution": "ConvolutionChoices convolution_choices",
        f"{_HERE}.fuse_ops_by_pattern": "FusionPattern PatternCheckContext",
        f"{_HERE}.update_param_struct_info": "UpdateParamType=UpdateParamStructInfo",
        "mlcnb.relax.analysis.memory_lives": "PlannedTensor",
        "mlcnb.relax.analysis.memory_plan": "MemoryPlan plan_memory",
        f"{_HERE}.bind_params": "bind_params",
        f"{_HERE}.bind_symbolic_vars": "bind_symbolic_vars",
        "mlcnb.observe.choice": "ChooseByMeasurement",
        "mlcnb.meta_schedule.database.apply": "MetaScheduleApplyDatabase",
        "mlcnb.meta_schedule.integration": "MetaScheduleTuneIRMod MetaScheduleTuneTIR",
        f"{_HERE}.pipeline": "get_pipeline get_default_pipeline register_pipeline pipeline_names",
    },
    aside=("CallPass", "TablePass"),
    classes=r"\w*Pass",
)
