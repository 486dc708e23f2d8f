"""mlcnb: a deep-learning compiler with its lid off.

    import mlcnb as mlc
    mod = mlc.from_onnx("model.onnx")     # an IRModule: shows itself, prints, runs passes
    ex = mlc.compile(mod, target="llvm")  # an executable: shows its kernels, their IR and assembly
    ex(x)                                 # runs

Public names follow Apache TVM's where the concept is the same. Everything is loaded when first
used.
"""

from __future__ import annotations

from mlcnb.core import above, errors
from mlcnb.core import display as views
from mlcnb.core import options as options
from mlcnb.core.lazy import attach
from mlcnb.core.paths import found_by_their_paths as _found_by_their_paths

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.ir.module": "IRModule",
        "mlcnb.ir.expr": "GlobalVar",
        "mlcnb.compat.error": "TVMError",
        "mlcnb.ir.dtype": "dtype DType DataType=DType",
        "mlcnb.core.errors": "MLCError",
        "mlcnb.core.registry": "register_func get_global_func register_global_func=register_func",
        "mlcnb.relax.frontend.onnx": "from_onnx",
        "mlcnb.relax.frontend.torch": "from_torch",
        "mlcnb.relax.transform.pipeline": "get_pipeline",
        "mlcnb.driver": "compile build",
        "mlcnb.runtime.profile": "profile",
        "mlcnb.runtime.device": "cpu cuda device Device",
        "mlcnb.runtime.threads": "set_num_threads get_num_threads",
        "mlcnb.runtime.artifact": "load_module",
        "mlcnb.view.diff": "diff",
        "mlcnb.view.graph": "graph",
        "mlcnb.view.order": "order",
        "mlcnb.view.mode": "display",
        "mlcnb.widgets": "explore export",
        "mlcnb.observe.peers": "compare",
        "mlcnb.meta_schedule.tune": "tune",
        "mlcnb.observe.benchmark": "benchmark peak",
        "mlcnb.observe.ceilings": "roofline",
        "mlcnb.observe.replay": "replay",
        "mlcnb.observe.diagnosis": "doctor",
        "mlcnb.observe.magics": "load_ipython_extension",
    },
    submodules=(
        "ir core arith target machine script tir te relax op codegen runtime dlight meta_schedule "
        "driver view testing observe widgets"
    ).split(),
    elsewhere={
        "mlcnb": "tirx=tir s_tir=tir",
        "mlcnb.compat": "contrib transform error nd topi onnx_backend",
        "mlcnb.ir": "instrument",
        "mlcnb.observe": "image peers",
    },
    aside=(
        "DType DataType Device GlobalVar TVMError load_ipython_extension tirx s_tir arith codegen "
        "contrib core driver error instrument machine nd onnx_backend op peak peers "
        "register_global_func runtime testing topi view widgets"
    ).split(),
)

above.answer(
    {
        "Target": "mlcnb.target:Target",
        "nodes of loops": "mlcnb.tir.buffer mlcnb.tir.stmt mlcnb.tir.function mlcnb.tir.index_map",
        "nodes of te": "mlcnb.te.tensor",
        "nodes of graphs": "mlcnb.relax.struct_info mlcnb.relax.expr",
        "tir.ForKind": "mlcnb.tir.stmt:ForKind",
        "tir.IterType": "mlcnb.tir.stmt:IterType",
        "tir.PrimFunc": "mlcnb.tir.function:PrimFunc",
        "relax.Function": "mlcnb.relax.expr:Function",
        "relax.op": "mlcnb.op.namespace:namespace",
        "relax.op calls": "mlcnb.script.relax.calls:call_named",
        "declarations": "mlcnb.relax.operator:declarations",
        "all declarations": "mlcnb.op:load_all",
        "signature": "mlcnb.relax.analysis.signature:signature",
        "assert_well_formed": "mlcnb.relax.analysis:assert_well_formed",
        "load intrinsic": "mlcnb.tir.tensor_intrin:load",
        "run_prim_func": "mlcnb.codegen.interp.program:run_prim_func",
        "ExpressionCompiler": "mlcnb.codegen.interp.expressions:ExpressionCompiler",
        "remove_unused_bindings": (
            "mlcnb.relax.transform.dead_code_elimination:remove_unused_bindings"
        ),
        "bind_params": "mlcnb.relax.transform.bind_params:bind_params",
        "bind_symbolic_vars": "mlcnb.relax.transform.bind_symbolic_vars:bind_named",
        "inline_functions": "mlcnb.relax.transform.inline_private_functions:inline_functions",
        "get_pipeline": "mlcnb.relax.transform:get_pipeline",
        "load library": "mlcnb.relax.backend:load",
        "MetaScheduleApplyDatabase": "mlcnb.meta_schedule.database.apply:MetaScheduleApplyDatabase",
        "MetaScheduleTuneIRMod": "mlcnb.meta_schedule.integration:MetaScheduleTuneIRMod",
        "schedules": "mlcnb.dlight.cpu",
        "schedules for GPUs": "mlcnb.dlight.gpu:schedule_gpu",
        "compile": "mlcnb.driver:compile",
        "roofline": "mlcnb.observe.ceilings:roofline",
        "gpu_report": "mlcnb.observe.gpu:gpu_report",
        "habits": "mlcnb.compat.habits:INSTEAD",
        "page of a search": "mlcnb.widgets.tuning:page_of_search",
        "tell replaced": "mlcnb.widgets.replaced:tell",
    }
)
errors.excerpt_view = "mlcnb.script.excerpt:excerpt"
errors.uncaught_view = "mlcnb.view.uncaught:rendered"
views.page_view = "mlcnb.widgets.registry:page_of"


def _register_views() -> None:
    from mlcnb.core.node import Node

    views.register_text(object, "mlcnb.view:text_of")
    views.register_text(Node, "mlcnb.script:text_of")
    views.register_cell(object, "mlcnb.view:cell_of")
    views.register_html(object, "mlcnb.view:html_of")


_register_views()
_found_by_their_paths()
