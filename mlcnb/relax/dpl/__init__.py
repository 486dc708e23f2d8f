"""The pattern language (DPL): what a piece of a graph looks like, found and rewritten.

x, w, b = wildcard(), wildcard(), wildcard()
pattern = is_op("relax.nn.relu")(is_op("relax.matmul")(x, w) + b)
pattern.match(value, var2val)                       whether it is there
pattern.explain(func)                               where it is, or what stopped it
rewrite_call(pattern, lambda call, found: …, func)  put something in its place
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.relax.dpl"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        f"{_HERE}.nodes": (
            "DFPattern WildcardPattern ExprPattern VarPattern DataflowVarPattern GlobalVarPattern "
            "ExternFuncPattern ConstantPattern CallPattern FunctionPattern TuplePattern "
            "UnorderedTuplePattern TupleGetItemPattern OrPattern AndPattern NotPattern "
            "StructInfoPattern TypePattern=StructInfoPattern DataTypePattern ShapePattern "
            "PrimArrPattern AttrPattern"
        ),
        f"{_HERE}.make": (
            "is_op wildcard is_var is_dfv is_gv is_const is_expr is_tuple is_tuple_get_item "
            "is_shape is_seq is_call_tir is_call_packed is_call_dps_packed has_attr has_shape "
            "has_dtype has_struct_info has_ty reject optional find_op dominates "
            "make_fused_bias_activation_pattern make_residual_block_pattern"
        ),
        f"{_HERE}.context": "PatternContext PatternSeq SameShapeConstraint",
        f"{_HERE}.rewrite": "rewrite_call rewrite_bindings",
        f"{_HERE}.rewriter": "PatternMatchingRewriter ExprPatternRewriter OrRewriter",
        f"{_HERE}.explain": "Explanation explain",
    },
    submodules=("context", "rewrite"),
)
