"""TVM's module paths: under each stands the module that has the names."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import mlcnb as tvm
from mlcnb.core.paths import PATHS

NAMES = """
    arith._ffi_api: DomainTouched NarrowPredicateExpression SolveInequalitiesAsCondition
    arith.bound: deduce_bound
    arith.int_solver: IntConstraints IntConstraintsTransform IntGroupBounds inequality_bounds
    arith.int_solver: solve_linear_equations solve_linear_inequalities
    arith.iter_affine_map: IterMapExpr IterMapLevel IterMapResult IterMark IterSplitExpr IterSumExpr
    arith.iter_affine_map: detect_iter_map inverse_affine_iter_map iter_map_simplify
    arith.iter_affine_map: normalize_iter_map_to_expr normalize_to_iter_sum subspace_divide
    arith.pattern: detect_clip_bound detect_linear_equation
    base: TVMError
    _ffi: register_func get_global_func
    _ffi.base: TVMError
    ffi: register_global_func Array Map
    ir.base: Node Span assert_structural_equal load_json make_node save_json structural_equal
    ir.base: structural_hash
    ir.container: Array Map
    ir.op: Op
    ir.type: PrimType PointerType TupleType
    tir.block_scope: BlockScope Dependency DepKind StmtSRef
    tir.expr: PrimExpr Var SizeVar IntImm FloatImm StringImm Cast Add Sub Mul Div Mod FloorDiv
    tir.expr: FloorMod Min Max EQ NE LT LE GT GE And Or Not Select Let Call Ramp Broadcast Shuffle
    tir.expr: BinaryOp BinaryOpExpr CmpOp CmpExpr EqualOp NotEqualOp Any Range const
    tir.expr: BufferLoad ProducerLoad IterVar CommReducer Reduce
    tir.schedule.block_scope: BlockScope Dependency DepKind StmtSRef
    tir.schedule.instruction: Instruction InstructionKind
    tir.schedule.trace: Trace
    tir.analysis.analysis: verify_memory undefined_vars
    tir.transform.transform: LowerInitBlock Simplify HoistExpression
    tir.transform.function_pass: prim_func_pass
    script.ir_builder.base: IRBuilder
    script.parser.core.doc_core: AST For expr
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
    relax.frontend.nn.core: Effect Module ModuleDict ModuleList Object Parameter ParameterDict
    relax.frontend.nn.core: ParameterList Tensor get_default_dtype set_default_dtype wrap_nested
    relax.frontend.torch.exported_program_translator: from_exported_program
    relax.frontend.torch.fx_translator: from_fx
    relax.op.base: call_tir call_dps_packed
    relax.testing.runtime_builtin: MakeShapeCode MatchShapeCode
    relax.transform.transform: CanonicalizeBindings LegalizeOps
"""
WHERE: dict[str, list[str]] = {}
for _line in NAMES.strip().split("\n"):
    _path, _names = _line.strip().split(": ")
    WHERE.setdefault(_path, []).extend(_names.split())


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
