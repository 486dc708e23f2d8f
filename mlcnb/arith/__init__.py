"""Reasoning about integers: simplify, bounds, sets, iteration maps, proofs."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.analyzer": "Analyzer simplify can_prove can_prove_equal const_bounds",
        "mlcnb.arith.known": "ConstIntBound ModularSet ProofStrength CompareResult Extension",
        "mlcnb.arith.int_set": "IntSet IntervalSet set_of",
        "mlcnb.arith.regions": (
            "estimate_region_lower_bound estimate_region_strict_bound estimate_region_upper_bound"
        ),
        "mlcnb.arith.deduce": "deduce_bound detect_clip_bound",
        "mlcnb.arith.linear": "detect_linear_equation",
        "mlcnb.arith.systems": ("solve_linear_equations IntConstraints IntConstraintsTransform"),
        "mlcnb.arith.inequalities": (
            "solve_linear_inequalities inequality_bounds IntGroupBounds "
            "SolveInequalitiesAsCondition=solve_inequalities_as_condition"
        ),
        "mlcnb.arith.narrow": "NarrowPredicateExpression=narrow_predicate_expression",
        "mlcnb.tir.analysis.footprint": "DomainTouched=domain_touched",
        "mlcnb.arith.iter_sum": (
            "IterMap IterMapExpr IterMapLevel IterMark IterSplit IterSum IterMapResult=IterMap "
            "IterSplitExpr=IterSplit IterSumExpr=IterSum"
        ),
        "mlcnb.arith.iter_map": "detect_iter_map",
        "mlcnb.arith.iter_normal": (
            "iter_map_simplify normalize_iter_map_to_expr normalize_to_iter_sum"
        ),
        "mlcnb.arith.iter_divide": "subspace_divide",
        "mlcnb.arith.inverse": "inverse_affine_iter_map",
    },
    submodules="analyzer int_set int_solver iter_affine_map bound pattern _ffi_api".split(),
    aside="DomainTouched NarrowPredicateExpression SolveInequalitiesAsCondition".split(),
)
