"""What tests of expressions are written with.

assert_prim_expr_equal(x * 4 // 4, x)         for all values of the variables
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.ir import prim_ops as p


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Two expressions have the same value for all values of their variables.

    Raises:
        AssertionError: that cannot be proved.
    """
    a, b = p.match_dtypes(p.as_expr(lhs), rhs)
    if not Analyzer().can_prove(p.equal(a, b)):
        raise AssertionError(f"{a} and {b} are not known to be equal")
