"""Substitution over loop programs, folding as it goes: `i * 4 + 0` with i = 2 is 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mlcnb.core.node import Node, children, map_children, nodes_in, replace, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.py_functor import PyStmtExprMutator, PyStmtExprVisitor, mutator, visitor
from mlcnb.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    SeqStmt,
    Stmt,
    flattened,
    seq,
)

__all__ = ["PyStmtExprMutator", "PyStmtExprVisitor", "mutator", "substitute", "visitor"]

N = TypeVar("N", bound=Node)


def bodies(n: Node) -> list[Stmt]:
    """The statements that stand directly in a node, in order."""
    return [x for x in children(n) if isinstance(x, Stmt)]


def map_bodies(n: N, fn: Callable[[Any], Any]) -> N:
    """`n` with `fn` applied to each of its `bodies`; `n` itself if each came back the same."""
    return map_children(n, lambda x: fn(x) if isinstance(x, Stmt) else x)


def heads(n: Stmt) -> list[e.PrimExpr]:
    """What a statement computes before the statements in it run; of a leaf, all that it does."""
    others = [n.node] if isinstance(n, AttrStmt) else [getattr(n, x) for x in n.binder_fields]
    found = (x for x in children(n) if isinstance(x, e.PrimExpr))
    return [x for x in found if not any(x is other for other in others)]


def bound(n: Node) -> list[e.Var]:
    """The variables that a statement or `let` defines for what is in it, pointers among them."""
    if isinstance(n, DeclBuffer) or not isinstance(n, Stmt | e.Let):
        return []
    found = (x for name in n.binder_fields for x in nodes_in(getattr(n, name)))
    names = (
        x.var if isinstance(x, IterVar) else x.data if isinstance(x, Buffer) else x for x in found
    )
    return [x for x in names if isinstance(x, e.Var)]


_BUILD: dict[type, Callable[[Any, Any], e.PrimExpr]] = {
    e.Add: p.add,
    e.Sub: p.subtract,
    e.Mul: p.multiply,
    e.FloorDiv: p.floordiv,
    e.FloorMod: p.floormod,
    e.Min: p.minimum,
    e.Max: p.maximum,
    e.EQ: p.equal,
    e.NE: p.not_equal,
    e.LT: p.less,
    e.LE: p.less_equal,
    e.GT: p.greater,
    e.GE: p.greater_equal,
    e.And: p.logical_and,
    e.Or: p.logical_or,
}


def refold(n: Node) -> Node | None:
    """The node built again by the folding constructors, as its operands have changed."""
    build = _BUILD.get(type(n))
    if build is not None:
        return _binary(n, build)
    if isinstance(n, e.Cast):
        return p.cast(n.dtype, n.value)
    if isinstance(n, e.Not):
        return p.logical_not(n.a)
    if isinstance(n, e.Select):
        return p.select(n.condition, n.true_value, n.false_value)
    if isinstance(n, e.Call) and n.op == "tir.if_then_else":
        return p.if_then_else(*n.args)
    return None


def _binary(n: Any, build: Callable[[Any, Any], e.PrimExpr]) -> Node | None:
    a, b = n.a, n.b
    if isinstance(a, e.IntImm | e.FloatImm) or isinstance(b, e.IntImm | e.FloatImm):
        if isinstance(n, e.FloorDiv | e.FloorMod) and p.is_const(b, 0):
            return None
        return build(a, b)
    return None


def substitute(n: N, values: Mapping[Any, Any]) -> N:
    """`n` with variables (or any nodes) replaced as `values` says, folded where it can."""
    if not values:
        return n

    def rule(x: Node) -> Node | None:
        if isinstance(x, e.Var):
            return values.get(x)
        found = values.get(x) if x in values else None
        return refold(x) if found is None else found

    return rewrite(n, rule)


#: what statements hold beside statements
_PARTS = (e.PrimExpr, e.Range, Buffer, BufferRegion)


def rewrite_statements(body: N, rule: Callable[[Node], Node | None]) -> N:
    """As `rewrite`, for rules about statements and blocks: expressions are not looked into.

    Most nodes of a program stand in its indices and values, so this takes a part of the time.
    """
    return rewrite(body, rule, enter=lambda n: n if isinstance(n, _PARTS) else None)


def taken(n: Node) -> Stmt | None:
    """A rule: branches on constants are taken, or not; what has nothing left in it goes.

    What decides about that stays, where it has an effect.
    """
    if isinstance(n, IfThenElse):
        return _branch(n)
    if isinstance(n, SeqStmt) and any(map(is_nothing, n.seq)):
        kept = [x for x in n.seq if not is_nothing(x)]
        return seq(*kept) if kept else NOTHING
    if isinstance(n, _HOLDERS) and is_nothing(n.body) and not any(map(has_effect, heads(n))):
        return NOTHING
    return flattened(n)


def _branch(n: IfThenElse) -> Stmt | None:
    if isinstance(n.condition, e.IntImm):
        return (n.then_case if n.condition.value else n.else_case) or NOTHING
    then, other = (x if x and not is_nothing(x) else None for x in (n.then_case, n.else_case))
    if then is None and other is None:
        return Evaluate(n.condition) if has_effect(n.condition) else NOTHING
    if then is None:
        return IfThenElse(p.logical_not(n.condition), other, span=n.span)  # type: ignore[arg-type]
    return None if other is n.else_case else replace(n, else_case=None)


#: what `taken` leaves where nothing is left
NOTHING = Evaluate(p.const(0))
#: statements that do nothing where their bodies do nothing
_HOLDERS = (For, LetStmt, DeclBuffer, Allocate)


def is_nothing(n: Node) -> bool:
    """True for a statement that does nothing: a constant, evaluated."""
    return isinstance(n, Evaluate) and isinstance(n.value, e.IntImm)
