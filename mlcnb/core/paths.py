"""Paths of TVM 0.21's modules whose names stand in another module here.

from mlcnb.tir.schedule.trace import Trace      is      from mlcnb.tir.schedule import Trace

Under each path stands the module itself, loaded when first asked for. A path is here only where
the names that TVM keeps there are found behind it.
"""

from __future__ import annotations

from mlcnb.core.lazy import alias

#: where the names are -> TVM's paths
PATHS = {
    "ir": "ir.base ir.op ir.type",
    "arith": "arith._ffi_api arith.bound arith.int_solver arith.iter_affine_map arith.pattern",
    "compat.error": "base _ffi.base",
    "compat.ffi": "ffi _ffi ir.container",
    "tir": "tir.expr",
    "tir.schedule": (
        "tir.block_scope tir.schedule.block_scope tir.schedule.instruction tir.schedule.trace"
    ),
    "tir.analysis": "tir.analysis.analysis",
    "tir.transform": "tir.transform.transform tir.transform.function_pass",
    "script.ir_builder": "script.ir_builder.base",
    "script.parser.core.doc": "script.parser.core.doc_core",
    "runtime": "runtime.container runtime.object_path runtime.relax_vm",
    "runtime.shape_builtin": "relax.testing.runtime_builtin",
    "dlight": "dlight.base",
    "driver": "driver.build_module",
    "target": "target.target",
    "testing": "testing.utils",
    "relax": "relax.vm_build relax.pipeline",
    "relax.analysis": "relax.analysis.analysis relax.analysis.estimate_memory_usage",
    "relax.backend": "relax.backend.contrib",
    "relax.dpl": "relax.dpl.pattern",
    "relax.frontend": "relax.frontend.common",
    "relax.frontend.nn": "relax.frontend.nn.core",
    "relax.frontend.torch": (
        "relax.frontend.torch.exported_program_translator relax.frontend.torch.fx_translator"
    ),
    "relax.op": "relax.op.base",
    "relax.transform": "relax.transform.transform",
}


def found_by_their_paths() -> None:
    """Make every path known."""
    for home, paths in PATHS.items():
        for path in paths.split():
            alias(f"mlcnb.{path}", f"mlcnb.{home}")
