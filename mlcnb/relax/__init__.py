"""Relax: graph programs. The classes here, passes in `transform`, importers in `frontend`.

Filled lazily from the modules of this folder, so that `import mlcnb` stays light.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.ir.expr": "GlobalVar",
        "mlcnb.ir.global_info": "DummyGlobalInfo VDevice",
        "mlcnb.relax.struct_info": (
            "StructInfo TensorStructInfo ShapeStructInfo PrimStructInfo TupleStructInfo "
            "FuncStructInfo ObjectStructInfo Type=StructInfo TensorType=TensorStructInfo "
            "ShapeType=ShapeStructInfo TupleType=TupleStructInfo FuncType=FuncStructInfo "
            "AnyType=ObjectStructInfo ObjectType=ObjectStructInfo"
        ),
        "mlcnb.relax.utils": "convert_to_expr prim_value=convert_to_expr",
        "mlcnb.ir.span": "Span",
        "mlcnb.relax.expr": (
            "Expr Var DataflowVar Constant Tuple TupleGetItem Call If SeqExpr BindingBlock "
            "DataflowBlock Binding VarBinding MatchCast ShapeExpr PrimValue StringImm DataTypeImm "
            "ExternFunc extern=ExternFunc Function Op const call_tir call_tir_inplace "
            "call_dps_packed call_packed call_pure_packed call_tir_with_grad"
        ),
        "mlcnb.relax.block_builder": "BlockBuilder",
        "mlcnb.relax.expr_functor": "PyExprVisitor PyExprMutator",
        "mlcnb.relax.binding_rewrite": "DataflowBlockRewrite",
        "mlcnb.runtime.executable": "Executable VMExecutable=Executable",
        "mlcnb.relax.analysis": "well_formed",
        "mlcnb.relax.analysis.struct_info": "get_shape_of",
        "mlcnb.runtime.vm": "VirtualMachine",
        "mlcnb.runtime.exec_builder": "ExecBuilder",
        "mlcnb.runtime.vm_calls": "VMInstrumentReturnKind",
        "mlcnb.relax.transform.pipeline": ("get_pipeline get_default_pipeline register_pipeline"),
        "mlcnb.driver": "build",
        "mlcnb.relax.base_py_module": "BasePyModule",
    },
    submodules=(
        "transform",
        "frontend",
        "training",
        "analysis",
        "op",
        "dpl",
        "backend",
        "base_py_module",
        "binding_rewrite",
        "expr_functor",
        "expr",
        "struct_info",
        "utils",
        "testing",
    ),
)
