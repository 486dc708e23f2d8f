"""What tests of programs are written with: parameters as fixtures, equality of expressions.

dtype = parameter("float32", "int8")          every test with an argument `dtype` runs for each
assert_prim_expr_equal(x * 4 // 4, x)         for all values of the variables
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
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


def parameter(*values: Any, ids: Sequence[str] | None = None) -> Any:
    """A pytest fixture that takes each of the values in turn."""
    import pytest

    names = ids or [getattr(value, "__name__", None) or str(value) for value in values]

    @pytest.fixture(params=[pytest.param(v, id=n) for v, n in zip(values, names, strict=True)])
    def take(request: Any) -> Any:
        return request.param

    return take


def fixture(fn: Callable | None = None, *, cache_return_value: bool = False) -> Any:
    """A pytest fixture; with `cache_return_value`, made once for a whole run."""
    import pytest

    scope: Any = "session" if cache_return_value else "function"
    return pytest.fixture(scope=scope) if fn is None else pytest.fixture(scope=scope)(fn)


def main() -> None:
    """Run the tests of the file that calls this, and leave with pytest's status."""
    import pytest

    caller = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([caller, *sys.argv[1:]]))
