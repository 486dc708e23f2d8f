"""Named pipelines: passes in an order that makes sense.

zero      legalize, fold, fuse: what TVM's `zero` does
default   the graph cleaned up and folded, layouts chosen for the target, then as zero
cpu       default for a CPU, whatever the target
lower     from call_tir to explicit memory: allocate, plan, kill

TVM's, stage by stage: `library_dispatch_passes`, `legalize_passes`, `dataflow_lower_passes` and
`finalize_passes` of a target, one after the other:

default_build       legalize, no fusion, then explicit memory in the virtual machine's words
cpu_generic         legalize and fuse, then explicit memory in the virtual machine's words
gpu_generic, cuda   the same for a GPU; its schedules are chosen when it is compiled
static_shape_tuning zero, then the records of the current database

    mod = relax.get_pipeline("default")(mod)
    steps = transform.trace(relax.get_pipeline("default"), mod).steps
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import above
from mlcnb.core.errors import PassError
from mlcnb.core.text import suggestion
from mlcnb.ir.transform import Pass, Sequential
from mlcnb.relax.transform.annotate_tir_op_pattern import AnnotateTIROpPattern
from mlcnb.relax.transform.attach_global_symbol import AttachGlobalSymbol
from mlcnb.relax.transform.call_tir_rewrite import CallTIRRewrite
from mlcnb.relax.transform.canonicalize_bindings import CanonicalizeBindings
from mlcnb.relax.transform.check_sizes import CheckSizes
from mlcnb.relax.transform.choose_convolution import ChooseConvolution
from mlcnb.relax.transform.concat_in_place import ConcatInPlace
from mlcnb.relax.transform.conv_along_rows import ConvAlongRows
from mlcnb.relax.transform.conv_by_planes import ConvByPlanes
from mlcnb.relax.transform.conv_transpose_to_conv import ConvTransposeToConv
from mlcnb.relax.transform.convert_layout import ConvertLayout
from mlcnb.relax.transform.dead_code_elimination import DeadCodeElimination
from mlcnb.relax.transform.decompose_ops import DecomposeOpsForInference
from mlcnb.relax.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from mlcnb.relax.transform.fill_groups import FillGroups
from mlcnb.relax.transform.flatten_rows import FlattenRows
from mlcnb.relax.transform.fold_batch_norm import FoldBatchNorm
from mlcnb.relax.transform.fold_constant import FoldConstant
from mlcnb.relax.transform.fold_pad import FoldPad
from mlcnb.relax.transform.fuse_attention import FuseAttention
from mlcnb.relax.transform.fuse_gelu import FuseGelu
from mlcnb.relax.transform.fuse_layer_norm import FuseLayerNorm
from mlcnb.relax.transform.fuse_ops import FuseOps
from mlcnb.relax.transform.fuse_tir import FuseTIR
from mlcnb.relax.transform.fuse_transpose_matmul import FuseTransposeMatmul
from mlcnb.relax.transform.given import GIVEN, PipelineFunction, is_own
from mlcnb.relax.transform.group_conv_to_matmul import GroupConvToMatmul
from mlcnb.relax.transform.inline_private_functions import InlinePrivateFunctions
from mlcnb.relax.transform.integer_ops import IntegerOps
from mlcnb.relax.transform.kill_after_last_use import KillAfterLastUse
from mlcnb.relax.transform.legalize_ops import LegalizeOps
from mlcnb.relax.transform.lower_runtime_builtin import LowerAllocTensor, LowerRuntimeBuiltin
from mlcnb.relax.transform.narrow_products import NarrowProducts
from mlcnb.relax.transform.normalize import Normalize
from mlcnb.relax.transform.own_sizes import OwnSizes
from mlcnb.relax.transform.pack_matmul import PackMatmul
from mlcnb.relax.transform.pack_quantized import PackQuantizedMatmul
from mlcnb.relax.transform.remove_purity_checking import RemovePurityChecking
from mlcnb.relax.transform.rewrite_cuda_graph import RewriteCUDAGraph
from mlcnb.relax.transform.rewrite_dataflow_reshape import RewriteDataflowReshape
from mlcnb.relax.transform.round_products import RoundProducts
from mlcnb.relax.transform.simplify_ops import SimplifyOps
from mlcnb.relax.transform.sink_reshape import SinkReshape
from mlcnb.relax.transform.split_attention import SplitAttention
from mlcnb.relax.transform.static_plan_block_memory import StaticPlanBlockMemory
from mlcnb.relax.transform.to_non_dataflow import ToNonDataflow
from mlcnb.relax.transform.turn_attention_bias import TurnAttentionBias
from mlcnb.target import Target

#: ways of convolutions: the fastest that is exact enough, or always as written
CONVOLUTIONS = ("auto", "direct")


def register_pipeline(
    name: str, function: PipelineFunction | None = None, override: bool = False
) -> Any:
    """Make a pipeline known by name; usable as a decorator.

    Its passes may change everything but the shapes and dtypes of what public functions take and
    give.

    Args:
        name: what `get_pipeline` takes.
        function: `f(target=None, **options)` -> list of passes, or one pass.
        override: take the place of one that has the name.

    Raises:
        PassError: the name is taken and `override` is False.
    """

    def keep(fn: PipelineFunction) -> PipelineFunction:
        if name in pipeline_names() and not override:
            raise PassError(f"pipeline {name!r} is registered already", hint="pass override=True")
        GIVEN[name] = fn
        return fn

    return keep if function is None else keep(function)


def get_pipeline(name: str = "zero", target: Any = None, **options: Any) -> Sequential:
    """The pipeline of that name, as one pass; it takes modules with any shapes and dtypes.

    Args:
        name: `zero`, `default`, `lower`, or one that was registered.
        target: a Target that the passes may look at, or what makes one ("llvm", …); a pipeline
            that a user registered gets it as it is.
        options: as the pipeline's function takes them.

    Raises:
        PassError: there is no such pipeline.
    """
    known = {**OWN, **GIVEN}
    if name not in known:
        hint = suggestion(str(name), known) or f"there are {', '.join(sorted(known))}"
        raise PassError(f"no pipeline {name!r}", hint=hint)
    where = Target(target) if target is not None and is_own(name) else target
    made = known[name](target=where, **options)
    return Sequential([made] if isinstance(made, Pass) else made, name=name)


def pipeline_names() -> list[str]:
    """All registered names, sorted; raises nothing. Which shapes and dtypes a pipeline takes, its
    passes say.
    """
    return sorted({*OWN, *GIVEN})


def clean_up_passes(target: Any = None) -> list[Pass]:
    """On operators: the graph in normal form, without what is idle, constant or computed twice."""
    return [
        Normalize(),
        InlinePrivateFunctions(),
        CanonicalizeBindings(),
        CheckSizes(),
        IntegerOps(),
        SimplifyOps(),
        FoldConstant(),
        FoldPad(),
        FoldBatchNorm(),
        DecomposeOpsForInference(keep_training=True),
        FoldConstant(),
        SimplifyOps(),
        EliminateCommonSubexpr(),
        FuseLayerNorm(),
        FuseGelu(),
        FuseAttention(),
        SimplifyOps(),
        CanonicalizeBindings(),
        DeadCodeElimination(),
    ]


def layout_passes(target: Any = None, convolution: str = "auto") -> list[Pass]:
    """How tensors lie in memory: channels and constant matrices in blocks of a CPU's vectors."""
    if convolution not in CONVOLUTIONS:
        raise PassError(f"no convolution {convolution!r}", hint=f"one of {', '.join(CONVOLUTIONS)}")
    return [
        SplitAttention(),
        TurnAttentionBias(),
        SimplifyOps(),
        NarrowProducts(),
        ConvTransposeToConv(),
        ConvAlongRows(),
        ConvByPlanes(),
        GroupConvToMatmul(),
        FillGroups(),
        FlattenRows(),
        SinkReshape(),
        SimplifyOps(),
        ConvertLayout(),
        ChooseConvolution(-1 if convolution == "direct" else 0),
        PackMatmul(),
        PackQuantizedMatmul(),
        FuseTransposeMatmul(matrices_only=True),
        FoldConstant(),
        EliminateCommonSubexpr(),
        DeadCodeElimination(),
    ]


def fuse_passes(target: Any = None, short_names: bool = False) -> list[Pass]:
    """From operators to fused loop functions; the names of those as FuseOps makes them."""
    fuse = FuseOps(short_names=short_names)
    return [LegalizeOps(), AnnotateTIROpPattern(), FoldConstant(), fuse, FuseTIR()]


def library_dispatch_passes(target: Any = None) -> list[Pass]:
    """Stage 1: operators that a library does; the loops of this compiler do them all."""
    return []


def legalize_passes(target: Any = None) -> list[Pass]:
    """Stage 2: operators become loop functions, and these are fused."""
    return fuse_passes(target)


def dataflow_lower_passes(target: Any = None) -> list[Pass]:
    """Stage 3: no dataflow blocks any more, every result in memory that is allocated for it."""
    return [RewriteDataflowReshape(), ToNonDataflow(), RemovePurityChecking(), CallTIRRewrite()]


def finalize_passes(target: Any = None) -> list[Pass]:
    """Stage 4: memory is planned and given back, in the words of a virtual machine."""
    return [
        StaticPlanBlockMemory(),
        RewriteCUDAGraph(),
        LowerAllocTensor(),
        KillAfterLastUse(),
        LowerRuntimeBuiltin(),
        AttachGlobalSymbol(),
    ]


def get_default_pipeline(target: Any) -> Sequential:
    """The pipeline of a target, as TVM's function of that name; for any shapes and dtypes.

    Args:
        target: a Target, or what makes one ("llvm", "cuda", …).

    Raises:
        PassError: nothing is compiled for that kind of target.
    """
    where = target if isinstance(target, Target) else Target(target)
    name = _OF_TARGET.get(where.kind)
    if name is None:
        known = ", ".join(sorted(_OF_TARGET))
        raise PassError(
            f"no default pipeline for target {where.kind!r}", hint=f"there are some for {known}"
        )
    return get_pipeline(name, target=where)


#: kind of target -> its pipeline
_OF_TARGET = {"llvm": "cpu_generic", "interp": "cpu_generic", "cuda": "cuda"}


def lower_pipeline(target: Any = None) -> list[Pass]:
    """Explicit memory, as a virtual machine runs it: allocated, shared and given back."""
    return [
        *dataflow_lower_passes(target),
        StaticPlanBlockMemory(),
        KillAfterLastUse(),
        AttachGlobalSymbol(),
    ]


def zero_pipeline(target: Any = None) -> list[Pass]:
    """TVM's zero pipeline: legalize, fold constants, fuse."""
    return fuse_passes(target)


def default_pipeline(
    target: Any = None, precision: str | None = None, convolution: str = "auto"
) -> list[Pass]:
    """What `mlcnb.compile` does: clean up, choose layouts, fuse, and make views of reshapes.

    precision: "float16" or "bfloat16" rounds what products read to it (RoundProducts).
    convolution: "direct" never takes Winograd's algorithm (ChooseConvolution).
    """
    where = target or Target.current() or Target("llvm")
    mixed = [RoundProducts(dtype=precision), SimplifyOps()] if precision else []
    return [
        *clean_up_passes(where),
        *mixed,
        *(layout_passes(where, convolution) if where.kind == "llvm" else []),
        LegalizeOps(),
        ConcatInPlace(),
        *fuse_passes(where, short_names=True),
        OwnSizes(),
        RewriteDataflowReshape(),
        DeadCodeElimination(),
    ]


def cpu_pipeline(
    target: Any = None, precision: str | None = None, convolution: str = "auto"
) -> list[Pass]:
    """The default pipeline for a CPU."""
    return default_pipeline(target or Target("llvm"), precision, convolution)


def default_build_pipeline(target: Any = None) -> list[Pass]:
    """TVM's default build: legalize, then explicit memory; nothing is fused."""
    return [LegalizeOps(), *dataflow_lower_passes(target), *finalize_passes(target)]


def staged_pipeline(target: Any = None) -> list[Pass]:
    """TVM's pipeline for a CPU, for any GPU and for CUDA: the four stages."""
    return [
        *library_dispatch_passes(target),
        *legalize_passes(target),
        *dataflow_lower_passes(target),
        *finalize_passes(target),
    ]


def static_shape_tuning_pipeline(
    target: Any = None,
    total_trials: int = 0,
    work_dir: str | None = None,
    cpu_weight_prepack: bool = False,
    max_trials_per_task: int | None = None,
) -> list[Pass]:
    """Simplify, `zero`, tune, then the tuned loops of the database in `work_dir` (or the current).

    Args:
        target: what the loops are for.
        total_trials: loops that are tried anew, of sizes that are known and of any dtypes.
        work_dir: the folder of the database; where loops are tried, "tuning_logs" by default.
        cpu_weight_prepack: refused: the pipeline "default" packs weights.
        max_trials_per_task: of each loop function at most.

    Raises:
        PassError: prepacked weights are asked for.
    """
    if cpu_weight_prepack:
        raise PassError(
            "static_shape_tuning: cpu_weight_prepack is not done by the pipeline",
            hint='weights are packed by the pipeline "default"',
        )
    tuned: list[Pass] = []
    if total_trials > 0:
        work_dir = work_dir or "tuning_logs"
        tune = above.ask("MetaScheduleTuneIRMod")
        tuned = [tune(None, work_dir, total_trials, max_trials_per_task, target=target)]
    return [
        DecomposeOpsForInference(keep_training=True),
        CanonicalizeBindings(),
        *zero_pipeline(target),
        *tuned,
        above.ask("MetaScheduleApplyDatabase")(work_dir, target=target),
    ]


#: mlcnb's own, by name
OWN: dict[str, PipelineFunction] = {
    "lower": lower_pipeline,
    "zero": zero_pipeline,
    "default": default_pipeline,
    "cpu": cpu_pipeline,
    "default_build": default_build_pipeline,
    "cpu_generic": staged_pipeline,
    "gpu_generic": staged_pipeline,
    "cuda": staged_pipeline,
    "static_shape_tuning": static_shape_tuning_pipeline,
}
