"""Comparisons and logic, element by element, broadcast: equal, less, logical_and, left_shift …"""

from __future__ import annotations

from functools import partial
from typing import Any

from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.op._elementwise import ANY, BITS, BOOLS, INTEGERS, NUMBERS, binary
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import make_call

#: an operator that answers yes or no
_tells = partial(binary, gives="bool", cost=0)

# comparisons: with NaN all are false, but not_equal, which is true

Equal = _tells("equal", ANY, "x1 == x2", onnx="Equal", torch="eq")
NotEqual = _tells("not_equal", ANY, "x1 != x2", torch="ne not_equal")
Less = _tells("less", NUMBERS, "x1 < x2", onnx="Less", torch="lt less")
LessEqual = _tells("less_equal", NUMBERS, "x1 <= x2", onnx="LessOrEqual", torch="le less_equal")
Greater = _tells("greater", NUMBERS, "x1 > x2", onnx="Greater", torch="gt greater")
GreaterEqual = _tells(
    "greater_equal", NUMBERS, "x1 >= x2", onnx="GreaterOrEqual", torch="ge greater_equal"
)

# logic of bool

LogicalAnd = _tells("logical_and", BOOLS, "x1 and x2", onnx="And")
LogicalOr = _tells("logical_or", BOOLS, "x1 or x2", onnx="Or")
LogicalXor = _tells(
    "logical_xor", BOOLS, "One of x1 and x2, not both", loop=p.bitwise_xor, onnx="Xor"
)

# bits


def _bits(word: str, sign: str, of_bools: Any, of_integers: Any) -> Any:
    return binary(
        f"bitwise_{word}",
        BITS,
        f"x1 {sign} x2, bit by bit",
        loop=lambda a, b: (of_bools if a.dtype.is_bool else of_integers)(a, b),
        onnx=f"Bitwise{word.title()}",
        torch=f"bitwise_{word} __{word}__",
        cost=0,
    )


BitwiseAnd = _bits("and", "&", p.logical_and, p.bitwise_and)
BitwiseOr = _bits("or", "|", p.logical_or, p.bitwise_or)
BitwiseXor = _bits("xor", "^", p.not_equal, p.bitwise_xor)


def _shift(build: Any, fills: bool) -> Any:
    """A shift that is defined for every distance: beyond the width only the sign is left."""

    def run(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        bits = a.dtype.bits
        inside = p.less(b, bits)
        if not b.dtype.is_uint:
            inside = p.logical_and(inside, p.greater_equal(b, 0))
        if fills and a.dtype.is_int:
            return build(a, p.select(inside, b, p.const(bits - 1, b.dtype)))
        return p.if_then_else(inside, build(a, b), p.const(0, a.dtype))

    return run


LeftShift = binary(
    "left_shift",
    INTEGERS,
    "x1 << x2; 0 for a distance below 0 or beyond the width",
    loop=_shift(p.shift_left, fills=False),
    torch="bitwise_left_shift __lshift__",
    cost=0,
)
RightShift = binary(
    "right_shift",
    INTEGERS,
    "x1 >> x2, filled with the sign; all sign for a distance below 0 or beyond the width",
    loop=_shift(p.shift_right, fills=True),
    torch="bitwise_right_shift __rshift__",
    cost=0,
)


@onnx("BitShift")
def onnx_bit_shift(n: OnnxNode, x: Expr, y: Expr) -> Expr:
    """`direction` is LEFT or RIGHT."""
    direction = n.require("direction")
    if direction not in ("LEFT", "RIGHT"):
        n.refuse(f"direction {direction!r} is neither LEFT nor RIGHT")
    return make_call(LeftShift if direction == "LEFT" else RightShift, x, y)
