"""Systems of linear conditions, by the names of `tvm.arith.int_solver`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.systems": ("solve_linear_equations IntConstraints IntConstraintsTransform"),
        "mlcnb.arith.inequalities": ("solve_linear_inequalities inequality_bounds IntGroupBounds"),
    },
)
