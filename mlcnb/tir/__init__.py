"""TensorIR: loop programs. The classes here, passes in `transform`, schedules in `schedule`.

Filled lazily from the modules of this folder, so that `import mlcnb` stays light.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.ir.expr": (
            "PrimExpr Var SizeVar IntImm FloatImm StringImm Cast Add Sub Mul Div Mod FloorDiv "
            "FloorMod Min Max EQ NE LT LE GT GE And Or Not Select Let Call Ramp Broadcast Shuffle "
            "GlobalVar BinaryOp BinaryOpExpr=BinaryOp CmpOp CmpExpr=CmpOp EqualOp=EQ NotEqualOp=NE"
        ),
        "mlcnb.ir.unknown": "Any",
        "mlcnb.ir.range": "Range",
        "mlcnb.driver": "build",
        "mlcnb.tir.functor": "PyStmtExprVisitor PyStmtExprMutator",
        "mlcnb.ir.prim_ops": (
            "floordiv floormod truncdiv truncmod ceildiv if_then_else min_value max_value "
            "infinity logical_and logical_or logical_not bitwise_and bitwise_or bitwise_xor "
            "shift_left shift_right bitwise_not"
        ),
        "mlcnb.tir.buffer": (
            "Buffer BufferLoad BufferRegion MatchBufferRegion decl_buffer ProducerLoad"
        ),
        "mlcnb.tir.stmt": (
            "Stmt SeqStmt For ForKind While IfThenElse LetStmt AttrStmt AssertStmt BufferStore "
            "Evaluate Allocate DeclBuffer Block BlockRealize SBlock=Block "
            "SBlockRealize=BlockRealize IterVar IterType CommReducer Reduce"
        ),
        "mlcnb.tir.constants": "AllocateConst",
        "mlcnb.tir.function": "PrimFunc TensorIntrin",
        "mlcnb.tir.op": (
            "const "
            "exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt tanh sigmoid erf sin cos tan "
            "asin acos atan sinh cosh asinh acosh atanh floor ceil trunc round nearbyint abs fabs "
            "atan2 fmod copysign hypot nextafter power pow ldexp isnan isinf isfinite popcount "
            "clz likely reinterpret ret call_intrin call_extern call_pure_extern call_packed "
            "call_cpacked call_llvm_intrin call_llvm_pure_intrin address_of type_annotation "
            "tvm_access_ptr tvm_storage_sync tvm_thread_allreduce comm_reducer sum prod max min "
            "all any vscale div indexdiv indexmod"
        ),
        "mlcnb.tir.index_map": "IndexMap",
        "mlcnb.compat.data_layout": "Layout BijectiveLayout layout bijective_layout",
        "mlcnb.tir.transform.pipeline": "get_tir_pipeline get_default_tir_pipeline",
        "mlcnb.tir.schedule": "Schedule ScheduleError ScheduleState StmtSRef legal_steps",
        "mlcnb.tir.schedule.analysis": "analyze",
    },
    submodules=(
        "transform schedule analysis block_scope op expr stmt buffer function ir_builder "
        "stmt_functor functor"
    ).split(),
    aside="BinaryOp BinaryOpExpr CmpOp CmpExpr EqualOp NotEqualOp".split(),
)
