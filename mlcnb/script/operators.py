"""Python's operators of two operands: their signs, how strongly these hold, and what they mean.

OPERATORS["FloorDiv"]       7 // 2 is 3; `i // 2` is FloorDiv(i, 2); (i + j) // 2, but i + j // 2
OPERATORS["BitAnd"]         6 & 3 is 2; `i & 3` is a call of bitwise_and
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlcnb.ir import expr as e

#: how strongly parts of an expression hold together, loosest first
(
    LAMBDA, CHOICE, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, UNARY,
    POWER, TRAIL, ATOM,
) = range(16)  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """An operator: its sign and strength, what it computes of numbers, and what it is of scalars:
    a node, or a call of an intrinsic.
    """

    sign: str
    strength: int
    compute: Callable[[Any, Any], Any]
    makes: type[e.PrimExpr] | str | None = None


#: by their classes in `ast`
OPERATORS = {
    "Add": Operator("+", SUM, operator.add, e.Add),
    "Sub": Operator("-", SUM, operator.sub, e.Sub),
    "Mult": Operator("*", PRODUCT, operator.mul, e.Mul),
    "Div": Operator("/", PRODUCT, operator.truediv, e.Div),
    "FloorDiv": Operator("//", PRODUCT, operator.floordiv, e.FloorDiv),
    "Mod": Operator("%", PRODUCT, operator.mod, e.FloorMod),
    "Pow": Operator("**", POWER, operator.pow),
    "LShift": Operator("<<", SHIFT, operator.lshift, "shift_left"),
    "RShift": Operator(">>", SHIFT, operator.rshift, "shift_right"),
    "BitAnd": Operator("&", BIT_AND, operator.and_, "bitwise_and"),
    "BitOr": Operator("|", BIT_OR, operator.or_, "bitwise_or"),
    "BitXor": Operator("^", BIT_XOR, operator.xor, "bitwise_xor"),
    "Lt": Operator("<", COMPARE, operator.lt, e.LT),
    "LtE": Operator("<=", COMPARE, operator.le, e.LE),
    "Eq": Operator("==", COMPARE, operator.eq, e.EQ),
    "NotEq": Operator("!=", COMPARE, operator.ne, e.NE),
    "Gt": Operator(">", COMPARE, operator.gt, e.GT),
    "GtE": Operator(">=", COMPARE, operator.ge, e.GE),
    "And": Operator("and", AND, lambda a, b: a and b, e.And),
    "Or": Operator("or", OR, lambda a, b: a or b, e.Or),
}
#: intrinsics that are written with an operator -> its class in `ast`
BITS = {x.makes: name for name, x in OPERATORS.items() if isinstance(x.makes, str)}
