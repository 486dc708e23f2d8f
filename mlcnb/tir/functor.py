"""Substitution over loop programs, folding as it goes: `i * 4 + 0` with i = 2 is 8.

And visitors and mutators that a person writes, by TVM's names:

    @tvm.tir.functor.mutator
    class Twice(tvm.tir.PyStmtExprMutator):
        def visit_buffer_store_(self, op):
            op = super().visit_buffer_store_(op)
            return T.BufferStore(op.buffer, op.value * 2, op.indices)

    new = func.with_body(Twice().visit_stmt(func.body))

Every statement and expression has a method, `visit_for_`, `visit_buffer_load_`, `visit_add_`; one
that is not overridden goes on into what is inside. Variables where they are bound, and buffers, are
not visited. Semantics: https://tvm.apache.org/docs/reference/api/python/tir/tir.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from mlcnb.core.node import FrozenDict, Node, children, map_children, nodes_in, replace, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import FOLDING, folded_choice
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, ProducerLoad

__all__ = ["PyStmtExprMutator", "PyStmtExprVisitor", "mutator", "substitute", "visitor"]

N = TypeVar("N", bound=Node)
M = TypeVar("M", s.For, s.Block)


#: statements that do nothing but run what stands in them, once and in order
RUN_THROUGH = (s.SeqStmt, s.AttrStmt, s.Allocate, s.DeclBuffer)


def bodies(n: Node) -> list[s.Stmt]:
    """The statements that stand directly in a node, in order."""
    return [x for x in children(n) if isinstance(x, s.Stmt)]


def callee(n: Any) -> str | None:
    """The name of the module's function that a node calls; None for any other node."""
    return n.op.name_hint if isinstance(n, e.Call) and isinstance(n.op, e.GlobalVar) else None


def map_bodies(n: N, fn: Callable[[Any], Any]) -> N:
    """`n` with `fn` applied to each of its `bodies`; `n` itself if each came back the same."""
    return map_children(n, lambda x: fn(x) if isinstance(x, s.Stmt) else x)


def nested(around: Iterable[Any], body: s.Stmt) -> s.Stmt:
    """`body` in statements that have a body, in place of theirs; the outermost comes first."""
    for n in reversed([*around]):
        body = replace(n, body=body)
    return body


def heads(n: s.Stmt) -> list[e.PrimExpr]:
    """What a statement computes before the statements in it run; of a leaf, all that it does."""
    others = [n.node] if isinstance(n, s.AttrStmt) else [getattr(n, x) for x in n.binder_fields]
    found = (x for x in children(n) if isinstance(x, e.PrimExpr))
    return [x for x in found if not any(x is other for other in others)]


def bound(n: Node) -> list[e.Var]:
    """The variables that a statement or `let` defines for what is in it, pointers among them."""
    if isinstance(n, s.DeclBuffer) or not isinstance(n, s.Stmt | e.Let):
        return []
    found = (x for name in n.binder_fields for x in nodes_in(getattr(n, name)))
    names = (
        x.var if isinstance(x, s.IterVar) else x.data if isinstance(x, Buffer) else x for x in found
    )
    return [x for x in names if isinstance(x, e.Var)]


def unmarked(n: M, *keys: str) -> M:
    """A loop or a block without some of its annotations."""
    kept = {key: value for key, value in n.annotations.items() if key not in keys}  # type: ignore[attr-defined]
    return replace(n, annotations=FrozenDict(kept))


def refold(n: Node) -> Node | None:
    """The node built again by the folding constructors, as its operands have changed; None where
    that makes the same: a buffer whose shape is `n + 1` stays the buffer that it is.
    """
    made = _refolded(n)
    if type(made) is not type(n):
        return made
    values = zip(n.values_of(n), made.values_of(made), strict=True)  # type: ignore[union-attr]
    return None if all(_is_same(a, b) for a, b in values) else made


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return a is b or (not isinstance(a, Node) and a == b)


def _refolded(n: Any) -> Node | None:
    build = FOLDING.get(type(n))
    return folded_choice(n) if build is None else _binary(n, build)


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


def taken(n: Node) -> s.Stmt | None:
    """A rule: branches on constants are taken, or not; what has nothing left in it goes.

    What decides about that stays, where it has an effect.
    """
    if isinstance(n, s.IfThenElse):
        return _branch(n)
    if isinstance(n, s.SeqStmt) and any(map(is_nothing, n.seq)):
        kept = [x for x in n.seq if not is_nothing(x)]
        return s.seq(*kept) if kept else NOTHING
    if isinstance(n, _HOLDERS) and is_nothing(n.body) and not any(map(has_effect, heads(n))):
        return NOTHING
    return s.flattened(n)


def _branch(n: s.IfThenElse) -> s.Stmt | None:
    if isinstance(n.condition, e.IntImm):
        return (n.then_case if n.condition.value else n.else_case) or NOTHING
    then, other = (x if x and not is_nothing(x) else None for x in (n.then_case, n.else_case))
    if then is None and other is None:
        return s.Evaluate(n.condition) if has_effect(n.condition) else NOTHING
    if then is None:
        return s.IfThenElse(p.logical_not(n.condition), other, span=n.span)  # type: ignore[arg-type]
    return None if other is n.else_case else replace(n, else_case=None)


#: what `taken` leaves where nothing is left
NOTHING = s.Evaluate(p.const(0))
#: statements that do nothing where their bodies do nothing
_HOLDERS = (s.For, s.LetStmt, s.DeclBuffer, s.Allocate)


def is_nothing(n: Node) -> bool:
    """True for a statement that does nothing: a constant, evaluated."""
    return isinstance(n, s.Evaluate) and isinstance(n.value, e.IntImm)


C = TypeVar("C", bound=type)

_STATEMENTS = (
    s.SeqStmt, s.For, s.While, s.IfThenElse, s.LetStmt, s.AttrStmt, s.AssertStmt, s.BufferStore,
    s.Evaluate, s.Allocate, s.DeclBuffer, s.Block, s.BlockRealize,
)  # fmt: skip
_EXPRESSIONS = (
    e.Var, e.SizeVar, e.IntImm, e.FloatImm, e.StringImm, e.Cast, e.Add, e.Sub, e.Mul, e.Div, e.Mod,
    e.FloorDiv, e.FloorMod, e.Min, e.Max, e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or, e.Not,
    e.Select, e.Let, e.Call, e.Ramp, e.Broadcast, e.Shuffle, s.Reduce, BufferLoad, ProducerLoad,
)  # fmt: skip


def method_name(kind: type) -> str:
    """The method that visits nodes of a class: `visit_if_then_else_` for IfThenElse."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__)
    return f"visit_{words.lower()}_"


_METHODS: dict[type, str] = {k: method_name(k) for k in (*_STATEMENTS, *_EXPRESSIONS)}


def visitor(cls: C) -> C:
    """TVM's decorator of visitors; a plain class is all that is needed here."""
    return cls


def mutator(cls: C) -> C:
    """TVM's decorator of mutators; a plain class is all that is needed here."""
    return cls


class StmtFunctor:
    """Finds the method for a node: `visit_for_` for a loop, and gives it what else was given.

    A subclass says in `visit_inside` what is done with nodes for which it has no method.
    """

    def visit_stmt(self, stmt: Any, *given: Any) -> Any:
        """Visit any statement."""
        method = _METHODS.get(type(stmt))
        if method is None:
            return self.visit_inside(stmt, *given)
        return getattr(self, method)(stmt, *given)

    def visit_expr(self, expr: Any, *given: Any) -> Any:
        """Visit any expression."""
        return StmtFunctor.visit_stmt(self, expr, *given)

    def _part(self, n: Node) -> Any:
        """A node that stands in another one."""
        if isinstance(n, s.Stmt):
            return self.visit_stmt(n)
        return self.visit_expr(n) if isinstance(n, e.PrimExpr) else self.visit_inside(n)

    def visit_inside(self, n: Any, *given: Any) -> Any:
        """What is inside of a node, part by part."""
        raise NotImplementedError


def _bound(n: Node) -> set[int]:
    """The variables that a node itself binds."""
    values = (getattr(n, field) for field in n.binder_fields)
    flat = (v for value in values for v in (value if isinstance(value, tuple) else (value,)))
    return {id(v) for v in flat if isinstance(v, e.Var)}


class PyStmtExprVisitor(StmtFunctor):
    """Walks statements and expressions; a subclass overrides `visit_…_` methods."""

    def visit_inside(self, n: Any) -> Any:
        """What is inside of a node, part by part."""
        bound = _bound(n)
        for part in children(n):
            if id(part) not in bound and not isinstance(part, Buffer):
                self._part(part)


class PyStmtExprMutator(StmtFunctor):
    """Rebuilds a program from what its `visit_…_` methods return; itself where nothing changes."""

    def visit_inside(self, n: Any) -> Any:
        """A node with what is inside visited, part by part."""
        bound = _bound(n)

        def part(inner: Node) -> Any:
            is_kept = id(inner) in bound or isinstance(inner, Buffer)
            return inner if is_kept else self._part(inner)

        return map_children(n, part)


def _default(kind: type) -> Callable[..., Any]:
    def visit(self: Any, op: Any, *given: Any) -> Any:
        return self.visit_inside(op, *given)

    visit.__name__ = _METHODS[kind]
    visit.__doc__ = f"A {kind.__name__}: goes on into what is inside."
    return visit


for _kind, _name in _METHODS.items():
    setattr(StmtFunctor, _name, _default(_kind))
