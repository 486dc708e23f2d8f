"""How expressions are written: chains of conditions, alike but for order, products of sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir.expr import PrimExpr


def flattened(x: PrimExpr, kind: type) -> Iterable[PrimExpr]:
    """The operands of a chain of And (or Or), in order."""
    if isinstance(x, kind):
        yield from flattened(x.a, kind)  # type: ignore[attr-defined]
        yield from flattened(x.b, kind)  # type: ignore[attr-defined]
    else:
        yield x


def in_order(x: Any) -> tuple[PrimExpr, PrimExpr, int] | None:
    """A comparison as (a, b, strict), a + strict <= b; None for what is none, `==` and `!=`."""
    match x:
        case e.LT(a, b) | e.GT(b, a):
            return a, b, 1
        case e.LE(a, b) | e.GE(b, a):
            return a, b, 0
    return None


def decided(kind: type, low: float, high: float) -> bool | None:
    """Whether a comparison holds, given bounds of left minus right; None where that is open."""
    if high < 0 or low > 0:
        return kind in ((e.LT, e.LE, e.NE) if high < 0 else (e.GT, e.GE, e.NE))
    if low == high == 0:
        return kind in (e.EQ, e.LE, e.GE)
    if high <= 0 and kind in (e.LE, e.GT):
        return kind is e.LE
    if low >= 0 and kind in (e.GE, e.LT):
        return kind is e.GE
    return None


def reads_data(x: Any) -> bool:
    """True if an expression depends on more than variables."""
    if isinstance(x, e.Var | e.IntImm):
        return False
    if isinstance(x, e.BinaryOp | e.CmpOp | e.Not | e.Select | e.Cast):
        return any(reads_data(getattr(x, name)) for name in x.child_fields if name != "dtype")
    if isinstance(x, e.Call) and x.op in ("tir.if_then_else", "tir.likely", "tir.vscale"):
        return any(map(reads_data, x.args))
    return True


def multiplies_out(x: PrimExpr) -> bool:
    """True for a sum with a product of a sum in it."""
    if isinstance(x, e.Add | e.Sub):
        return any(
            multiplies_out(part) or (isinstance(part, e.Mul) and _has_sum(part))
            for part in (x.a, x.b)
        )
    return False


def _has_sum(x: PrimExpr) -> bool:
    if isinstance(x, e.Mul):
        return _has_sum(x.a) or _has_sum(x.b)
    return isinstance(x, e.Add | e.Sub)


_COMMUTES = (e.Add, e.Mul, e.Min, e.Max, e.EQ, e.NE)


def alike(a: Any, b: Any) -> bool:
    """True if two expressions are written alike, but for the order of operands.

    Numbers stand last. Quick, and only for kinds that hold no buffers.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, e.BinaryOp | e.CmpOp):
        if alike(a.a, b.a) and alike(a.b, b.b):
            return True
        swaps = isinstance(a, _COMMUTES) and not isinstance(a.a, e.IntImm)
        return swaps and alike(a.a, b.b) and alike(a.b, b.a)
    if isinstance(a, e.IntImm | e.FloatImm):
        return a.value == b.value and a.dtype == b.dtype
    if isinstance(a, e.Ramp | e.Broadcast):
        return all(_same_fields(getattr(a, name), getattr(b, name)) for name in a.child_fields)
    if isinstance(a, e.Call | e.Select | e.Cast | e.Not):
        return all(_same_fields(getattr(a, name), getattr(b, name)) for name in a.child_fields)
    return False


def _same_fields(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return alike(a, b) if isinstance(a, PrimExpr) else a == b
