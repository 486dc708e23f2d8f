"""What graph and loop level share: dtypes, scalar expressions, modules, equality, passes."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.core.node": "Node",
        "mlcnb.ir.module": "IRModule",
        "mlcnb.ir.function": "BaseFunc",
        "mlcnb.ir.expr": "PrimExpr GlobalVar",
        "mlcnb.ir.global_info": "GlobalInfo DummyGlobalInfo VDevice",
        "mlcnb.relax.expr": "Op",
        "mlcnb.ir.range": "Range",
        "mlcnb.ir.path": "ObjectPath",
        "mlcnb.ir.types": "Type PrimType PointerType TupleType",
        "mlcnb.ir.span": "Span",
        "mlcnb.ir.attrs": "make_node",
        "mlcnb.ir.structural": (
            "structural_equal structural_hash assert_structural_equal structural_digest"
        ),
        "mlcnb.ir.json": "save_json load_json",
    },
    submodules=("base", "transform", "instrument", "diagnostics", "module", "expr", "function"),
)
