"""Index arithmetic: every index, bound and offset is computed in i64.

Sums and products of narrower integers are the same modulo 2^bits in i64, so they are cut to their
dtype (`exact`) only where something else is made of them: a comparison, a quotient, a wider one.
Loop variables and symbolic dimensions are held as i64, so addresses need no widening; a division of
what cannot be negative is unsigned, which LLVM turns into shifts and multiplications.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.wrapping import too_far

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.builder import Function
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: what rounds towards minus infinity
DIVISIONS = (e.FloorDiv, e.FloorMod)


def index(em: Emitter, x: e.PrimExpr) -> str:
    """The i64 operand of a scalar integer expression."""
    rule = _RULES.get(type(x))
    return rule(em, x) if rule is not None else _from_data(em, x)


def exact(em: Emitter, x: e.PrimExpr) -> str:
    """As `index`, as the dtype holds it: what leaves the dtype wraps around."""
    value = index(em, x)
    if _is_kept(em, x):
        return value
    return widened(em, em.f.emit(f"trunc i64 {value} to {em.type(x.dtype)}"), x.dtype)


def _is_kept(em: Emitter, x: e.PrimExpr) -> bool:
    """True if `index` is as the dtype holds it."""
    return x.dtype.bits == 64 or not isinstance(x, _MODULAR) or em.ranges.holds(x)


def bounds(em: Emitter, x: s.For) -> tuple[str, str, str]:
    """Where a loop starts, how often it runs, and where it stops; the kernel stops where its
    variable cannot hold that.
    """
    start, extent = index(em, x.min), index(em, x.extent)
    stop = extent if start == "0" else em.f.emit(f"add nsw i64 {start}, {extent}")
    kind = x.loop_var.dtype
    if em.ranges.enter_loop(x) or kind.bits == 64:
        return start, extent, stop
    beyond = em.f.emit(f"icmp sgt i64 {stop}, {kind.max_value + 1}")
    for operand in (start, extent):
        low = em.f.emit(f"icmp slt i64 {operand}, {kind.min_value}")
        high = em.f.emit(f"icmp sgt i64 {operand}, {kind.max_value}")
        beyond = em.f.emit(f"or i1 {beyond}, {em.f.emit(f'or i1 {low}, {high}')}")
    em.stop_if(beyond, em.module.status(too_far(x.loop_var, x.min, x.extent)))
    return start, extent, stop


def _from_data(em: Emitter, x: e.PrimExpr) -> str:
    """A value computed as data (a load, a call), widened to i64."""
    return widened(em, em.expr(x), x.dtype)


def widened(em: Emitter, value: str, kind: DType) -> str:
    """An integer of a dtype, or a vector of them, as i64."""
    if kind.bits == 64:
        return value
    op = "zext" if kind.is_bool or kind.is_uint else "sext"
    return em.f.emit(f"{op} {em.type(kind)} {value} to {t.vector('i64', kind.lanes)}")


def _imm(em: Emitter, x: Any) -> str:
    return str(x.value)


def _var(em: Emitter, x: e.Var) -> str:
    operand, is_index = em.f.env[x]
    return operand if is_index else _from_data(em, x)


def _binary(instruction: str) -> Callable[[Emitter, Any], str]:
    def rule(em: Emitter, x: Any) -> str:
        word = f"{instruction} nsw" if em.never_wraps else instruction
        return em.f.emit(f"{word} i64 {index(em, x.a)}, {index(em, x.b)}", "i")

    return rule


def _extreme(name: str) -> Callable[[Emitter, Any], str]:
    def rule(em: Emitter, x: Any) -> str:
        sign = "u" if x.dtype.is_uint else "s"
        fn = em.intrinsic(f"llvm.{sign}{name}.i64", "i64", ("i64", "i64"))
        return em.f.emit(f"call i64 {fn}(i64 {exact(em, x.a)}, i64 {exact(em, x.b)})", "i")

    return rule


def _division(em: Emitter, x: Any) -> str:
    """A quotient or a remainder, rounded towards minus infinity; it may have been divided ahead."""
    b = _tested(em, x.b)
    done = em.f.divided.get(division_key(x)) if em.f.divided else None
    if done is not None:
        return done
    a, is_quotient = exact(em, x.a), isinstance(x, e.FloorDiv)
    if _is_unsigned(em, x):
        return em.f.emit(f"{'udiv' if is_quotient else 'urem'} i64 {a}, {b}", "i")
    return _floor(em, a, b)[0 if is_quotient else 1]


def division_key(x: Any) -> Any:
    """Equal for divisions of one form over the same variables; None where there is more in it."""
    if isinstance(x, e.Var):
        return id(x)
    if isinstance(x, e.IntImm):
        return ("int", x.value)
    if not isinstance(x, (*DIVISIONS, e.Add, e.Sub, e.Mul)):
        return None
    parts = division_key(x.a), division_key(x.b)
    return None if None in parts else (type(x), x.dtype, *parts)


def _is_unsigned(em: Emitter, x: Any) -> bool:
    """True if neither operand of a division is negative, or both are so by their dtype."""
    return x.dtype.is_uint or all(nonnegative(em, y) for y in (x.a, x.b))


def _tested(em: Emitter, x: e.PrimExpr) -> str:
    """The divisor, with a stop where it is zero at run time; ahead of time one in place of that."""
    operand = exact(em, x)
    if isinstance(x, e.IntImm):
        return operand
    if em.f.is_ahead:
        operand = em.f.emit(f"freeze i64 {operand}")
        none = em.f.emit(f"icmp eq i64 {operand}, 0")
        return em.f.emit(f"select i1 {none}, i64 1, i64 {operand}")
    em.stop_if(em.f.emit(f"icmp eq i64 {operand}, 0"), 2)
    return operand


def _floor(em: Emitter, a: str, b: str) -> tuple[str, str]:
    """Quotient and remainder rounded towards minus infinity."""
    f = em.f
    return rounded_down(f, f.emit(f"sdiv i64 {a}, {b}"), f.emit(f"srem i64 {a}, {b}"), b)


def rounded_down(
    f: Function, quotient: str, remainder: str, b: str,
    kind: str = "i64", bools: str = "i1", zero: str = "0", one: str = "1",
) -> tuple[str, str]:  # fmt: skip
    """The floor quotient and remainder from those that round towards zero, of a division by `b`;
    of vectors, `bools` has as many lanes as `kind`.
    """
    signs = f.emit(f"xor {kind} {remainder}, {b}")
    differ = f.emit(f"icmp slt {kind} {signs}, {zero}")
    some = f.emit(f"icmp ne {kind} {remainder}, {zero}")
    fix = f.emit(f"and {bools} {differ}, {some}")
    lower = f.emit(f"sub {kind} {quotient}, {one}")
    raised = f.emit(f"add {kind} {remainder}, {b}")
    return (
        f.emit(f"select {bools} {fix}, {kind} {lower}, {kind} {quotient}"),
        f.emit(f"select {bools} {fix}, {kind} {raised}, {kind} {remainder}"),
    )


def _select(em: Emitter, x: e.Select) -> str:
    condition = em.expr(x.condition)
    a, b = index(em, x.true_value), index(em, x.false_value)
    return em.f.emit(f"select i1 {condition}, i64 {a}, i64 {b}", "i")


def _cast(em: Emitter, x: e.Cast) -> str:
    inner = x.value.dtype
    if (inner.is_integer or inner.is_bool) and x.dtype.bits >= inner.bits:
        return exact(em, x.value) if x.dtype.bits > inner.bits else index(em, x.value)
    return _from_data(em, x)


def _call(em: Emitter, x: e.Call) -> str:
    if x.op == "tir.check_index":
        return em.checked_index(x)
    if x.op == "tir.likely":
        return index(em, x.args[0])
    return _from_data(em, x)


#: what may stand for a number that differs from it by a multiple of 2^bits
_MODULAR = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.Select, e.Cast, e.Call)
_RULES: dict[type, Callable[[Any, Any], str]] = {
    e.IntImm: _imm,
    e.Var: _var,
    e.SizeVar: _var,
    e.Add: _binary("add"),
    e.Sub: _binary("sub"),
    e.Mul: _binary("mul"),
    e.FloorDiv: _division,
    e.FloorMod: _division,
    e.Min: _extreme("min"),
    e.Max: _extreme("max"),
    e.Select: _select,
    e.Cast: _cast,
    e.Call: _call,
}


def nonnegative(em: Emitter, x: e.PrimExpr) -> bool:
    """True if the expression is certainly >= 0: sums and products of loop variables and sizes."""
    match x:
        case e.IntImm(value):
            return value >= 0
        case e.Var():
            return x in em.nonnegative
        case e.Add() | e.Mul() | e.FloorDiv() | e.FloorMod() | e.Min():
            return nonnegative(em, x.a) and nonnegative(em, x.b) and _is_kept(em, x)
        case e.Max(a, b):
            return nonnegative(em, a) or nonnegative(em, b)
        case e.Cast(_, value):
            is_integer = x.dtype.is_int or x.dtype.is_uint
            return is_integer and nonnegative(em, value) and _is_kept(em, x)
        case _:
            return False
