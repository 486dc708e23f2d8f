"""Questions that TVM's Python asks its C++ by name, `tvm.arith._ffi_api`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.inequalities": (
            "SolveInequalitiesAsCondition=solve_inequalities_as_condition"
        ),
        "mlcnb.arith.narrow": "NarrowPredicateExpression=narrow_predicate_expression",
        "mlcnb.tir.analysis.footprint": "DomainTouched=domain_touched",
    },
)
