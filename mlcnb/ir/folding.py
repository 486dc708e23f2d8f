"""What an operation does, by its class: to expressions, which are folded, and to numbers.

FOLDING[e.Add](i, 0) -> i          NUMBERS[e.Add](2, 3) -> 5
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p

Binary = Callable[[Any, Any], e.PrimExpr]

SUMS: dict[type, Binary] = {
    e.Add: p.add, e.Sub: p.subtract, e.Mul: p.multiply, e.Min: p.minimum, e.Max: p.maximum,
}  # fmt: skip
DIVISIONS: dict[type, Binary] = {e.FloorDiv: p.floordiv, e.FloorMod: p.floormod}
#: of integers; of floats, Div and Mod are others
TRUNCATED: dict[type, Binary] = {e.Div: p.truncdiv, e.Mod: p.truncmod}
COMPARISONS: dict[type, Binary] = {
    e.EQ: p.equal, e.NE: p.not_equal, e.LT: p.less, e.LE: p.less_equal, e.GT: p.greater,
    e.GE: p.greater_equal,
}  # fmt: skip
FOLDING: dict[type, Binary] = {
    **SUMS, **DIVISIONS, **COMPARISONS, e.And: p.logical_and, e.Or: p.logical_or,
}  # fmt: skip

#: the same of Python's numbers
NUMBERS: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: operator.add, e.Sub: operator.sub, e.Mul: operator.mul, e.Min: min, e.Max: max,
    e.FloorDiv: operator.floordiv, e.FloorMod: operator.mod, e.EQ: operator.eq, e.NE: operator.ne,
    e.LT: operator.lt, e.LE: operator.le, e.GT: operator.gt, e.GE: operator.ge,
    e.And: lambda a, b: a and b, e.Or: lambda a, b: a or b,
}  # fmt: skip
