"""LowerIntrin: divisions that round down become those that processors have, which round to zero.

a // 8                       a >> 3                            a power of two
a % 8                        a & 7
a // b    a, b >= 0     ->   T.Div(a, b)
a // b    b > 0              T.Select(T.truncmod(a, b) >= 0, T.Div(a, b), T.Div(a, b) - 1)

For functions that are bound to a target. Calls that a code generator lowers itself stay calls.
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.node import map_children
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import AttrStmt, For, IterVar


def lower_intrinsics(func: PrimFunc) -> PrimFunc:
    """`func` with floor divisions as truncating ones."""
    return func.with_body(_Lowerer().node(func.body))


class _Lowerer:
    """One walk; knows the bounds of loops and threads."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def node(self, n: Any) -> Any:
        """A statement or expression without floor divisions."""
        if isinstance(n, Buffer):
            return n
        if isinstance(n, For):
            self.analyzer.bind(n.loop_var, e.Range(n.min, n.extent))
        if isinstance(n, AttrStmt) and isinstance(n.node, IterVar):
            self.analyzer.bind(n.node.var, e.Range(p.const(0, n.value.dtype), n.value))
        new = map_children(n, self.node)
        if isinstance(n, e.FloorDiv | e.FloorMod) and n.dtype.is_integer:
            return self.division(n, new)
        return new

    def division(self, n: Any, new: Any) -> PrimExpr:
        """A division with lowered operands; what is known is asked of the operands before."""
        is_div, divisor = isinstance(n, e.FloorDiv), p.as_int(n.b)
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
            if n.dtype.lanes == 1:
                return _by_power(new.a, divisor, is_div)
        if self.is_natural(n.b) and self.is_natural(n.a):
            return _truncated(new.a, new.b, is_div)
        quotient, rest = _truncated(new.a, new.b, True), _truncated(new.a, new.b, False)
        zero = p.cast(n.dtype, p.const(0, n.dtype.element))
        fits = p.greater_equal(rest, zero)
        if not self.is_natural(n.b):
            above = p.logical_and(p.greater_equal(new.b, zero), fits)
            below = p.logical_and(p.less(new.b, zero), p.less_equal(rest, zero))
            fits = p.logical_or(above, below)
        one = p.cast(n.dtype, p.const(1, n.dtype.element))
        if is_div:
            return e.Select(fits, quotient, p.subtract(quotient, one))
        return e.Select(fits, rest, p.add(rest, new.b))

    def is_natural(self, n: PrimExpr) -> bool:
        """Whether a value is never negative."""
        if n.dtype.is_uint:
            return True
        if n.dtype.lanes != 1:
            return isinstance(n, e.Broadcast) and self.is_natural(n.value)
        return bool(self.analyzer.can_prove(p.greater_equal(n, p.const(0, n.dtype))))


def _by_power(a: PrimExpr, divisor: int, is_div: bool) -> PrimExpr:
    if is_div:
        return p.shift_right(a, p.const(divisor.bit_length() - 1, a.dtype))
    return p.bitwise_and(a, p.const(divisor - 1, a.dtype))


def _truncated(a: PrimExpr, b: PrimExpr, is_div: bool) -> PrimExpr:
    return e.Div(a, b) if is_div else e.Mod(a, b)


class LowerIntrin(PrimFuncPass):
    """Lower divisions that round down to those that processors have."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `lower_intrinsics`; a function without a target stays."""
        return lower_intrinsics(func) if "target" in func.attrs else func
