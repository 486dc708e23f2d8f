"""Division that rounds towards zero, as C has it: by floor division wherever the sign is known.

tdiv(x, 4)          ->  x // 4               where x >= 0
tdiv(x, 4)          ->  0 - (0 - x) // 4     where x <= 0
tdiv(x * 8 + 4, 4)  ->  x * 2 + 1            nothing is left over
tmod(x, -4)         ->  tmod(x, 4)
"""

from __future__ import annotations

from math import gcd

from mlcnb.arith import division
from mlcnb.arith.context import Context
from mlcnb.arith.division import of_two
from mlcnb.arith.interval import bounds_of, modular_of
from mlcnb.arith.sum import Sum
from mlcnb.ir.dtype import DType


def truncdiv(ctx: Context, x: Sum, y: Sum, dtype: DType) -> Sum:
    """x / y, rounded towards zero."""
    if division.is_exact(ctx, x, dtype) and division.is_exact(ctx, y, dtype):
        return _exact(ctx, x, y, dtype, "truncdiv")
    return of_two(ctx, x, y, "wrapping_truncdiv", wraps=True)


def truncmod(ctx: Context, x: Sum, y: Sum, dtype: DType) -> Sum:
    """x - truncdiv(x, y) * y"""
    if division.is_exact(ctx, x, dtype) and division.is_exact(ctx, y, dtype):
        return _exact(ctx, x, y, dtype, "truncmod")
    return of_two(ctx, x, y, "wrapping_truncmod", wraps=True)


def _exact(ctx: Context, x: Sum, y: Sum, dtype: DType, kind: str) -> Sum:
    quotient = kind == "truncdiv"
    low, high = bounds_of(ctx, y)
    if high < 0:
        found = _exact(ctx, x, y.scaled(-1), dtype, kind)
        return found.scaled(-1) if quotient else found
    floor = division.floordiv if quotient else division.floormod
    if low > 0:
        first, last = bounds_of(ctx, x)
        if first >= 0:
            return floor(ctx, x, y, dtype)
        if last <= 0:
            return floor(ctx, x.scaled(-1), y, dtype).scaled(-1)
    if y.is_const and y.const:
        step, base = modular_of(ctx, x)
        if step % y.const == 0 and base % y.const == 0:
            return floor(ctx, x, y, dtype)
        shorter = _by_number(ctx, x, y.const, dtype, kind)
        if shorter is not None:
            return shorter
    if _leads_negative(x):
        return of_two(ctx, x.scaled(-1), y, kind).scaled(-1)
    return of_two(ctx, x, y, kind)


def _by_number(ctx: Context, x: Sum, by: int, dtype: DType, kind: str) -> Sum | None:
    """Division by a number > 0: a common factor goes out, and a division of a division is one."""
    common = gcd(by, x.const, *x.terms.values())
    if common > 1:
        found = _exact(ctx, x.divided(common), Sum(by // common), dtype, kind)
        return found if kind == "truncdiv" else found.scaled(common)
    low, high = bounds_of(ctx, x)
    if -by < low and high < by:
        return Sum() if kind == "truncdiv" else x
    atom = x.only_atom
    if kind == "truncdiv" and atom is not None and atom.kind == kind and atom.args[1].is_const:
        inner, lower = atom.args
        if lower.const > 0:
            return _exact(ctx, inner, Sum(lower.const * by), dtype, kind)
    return None


def _leads_negative(x: Sum) -> bool:
    return bool(x.terms) and all(c < 0 for c in x.terms.values()) and x.const <= 0
