"""TVM's module paths: under each stands the module that has the names."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import mlcnb as tvm
from mlcnb.core.paths import PATHS

NAMES = """
    base: TVMError
    _ffi: register_func get_global_func
    _ffi.base: TVMError
    ffi: register_global_func Array Map
    ir.container: Array Map
    ir.op: Op
    ir.type: PrimType PointerType TupleType
    tir.schedule.block_scope: BlockScope Dependency DepKind StmtSRef
    tir.schedule.instruction: Instruction InstructionKind
    tir.schedule.trace: Trace
    tir.analysis.analysis: verify_memory undefined_vars
    tir.transform.transform: LowerInitBlock Simplify HoistExpression
    tir.transform.function_pass: prim_func_pass
    script.ir_builder.base: IRBuilder
    runtime.container: ShapeTuple
    runtime.object_path: ObjectPath
    runtime.relax_vm: VirtualMachine
    dlight.base: ScheduleRule ApplyDefaultSchedule
    driver.build_module: build
    target.target: Target
    testing.utils: CompareBeforeAfter
    relax.vm_build: build VMExecutable
    relax.pipeline: get_pipeline get_default_pipeline register_pipeline
    relax.analysis.analysis: udchain well_formed free_vars
    relax.analysis.estimate_memory_usage: estimate_memory_usage
    relax.backend.contrib: get_patterns_with_prefix
    relax.dpl.pattern: is_op wildcard DFPattern make_fused_bias_activation_pattern
    relax.frontend.common: detach_params
    relax.frontend.torch.exported_program_translator: from_exported_program
    relax.frontend.torch.fx_translator: from_fx
    relax.op.base: call_tir call_dps_packed
    relax.transform.transform: CanonicalizeBindings LegalizeOps
"""
WHERE = {
    line.split(": ")[0].strip(): line.split(": ")[1].split()
    for line in NAMES.split("\n")
    if line.strip()
}


def test_each_path_is_asked_for() -> None:
    assert sorted(WHERE) == sorted(" ".join(PATHS.values()).split())


@pytest.mark.parametrize("home, path", [(h, p) for h, ps in PATHS.items() for p in ps.split()])
def test_path(home: str, path: str) -> None:
    module = importlib.import_module(f"mlcnb.{path}")
    assert module is importlib.import_module(f"mlcnb.{home}")
    assert all(getattr(module, name) is not None for name in WHERE[path])


PROGRAM = """
import mlcnb as tvm
assert tvm.tir.schedule.trace.Trace is tvm.tir.schedule.Trace
assert tvm.relax.dpl.pattern is tvm.relax.dpl and tvm.ir.op.Op is tvm.ir.Op
from mlcnb.relax.analysis.estimate_memory_usage import estimate_memory_usage
assert tvm.relax.analysis.estimate_memory_usage is estimate_memory_usage
"""


def test_paths_are_attributes_and_hide_no_function() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_what_no_table_says_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mlcnb.tir.schedule.nothing")
    with pytest.raises(AttributeError, match="'mlcnb.tir.schedule' has no attribute 'nothing'"):
        tvm.tir.schedule.nothing
