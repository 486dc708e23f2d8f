"""Visitors and mutators of loop programs that a person writes, by TVM's names.

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
from collections.abc import Callable
from typing import Any, TypeVar

from mlcnb.core.node import Node, children, map_children
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, ProducerLoad

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


class _Functor:
    """Finds the method for a node."""

    def visit_stmt(self, stmt: Any) -> Any:
        """Visit any statement."""
        return self._visit(stmt)

    def visit_expr(self, expr: Any) -> Any:
        """Visit any expression."""
        return self._visit(expr)

    def _visit(self, n: Any) -> Any:
        method = _METHODS.get(type(n))
        return self.visit_inside(n) if method is None else getattr(self, method)(n)

    def _part(self, n: Node) -> Any:
        """A node that stands in another one."""
        if isinstance(n, s.Stmt):
            return self.visit_stmt(n)
        return self.visit_expr(n) if isinstance(n, e.PrimExpr) else self.visit_inside(n)

    def visit_inside(self, n: Any) -> Any:
        """What is inside of a node, part by part."""
        raise NotImplementedError


def _bound(n: Node) -> set[int]:
    """The variables that a node itself binds."""
    values = (getattr(n, field) for field in n.binder_fields)
    flat = (v for value in values for v in (value if isinstance(value, tuple) else (value,)))
    return {id(v) for v in flat if isinstance(v, e.Var)}


class PyStmtExprVisitor(_Functor):
    """Walks statements and expressions; a subclass overrides `visit_…_` methods."""

    def visit_inside(self, n: Any) -> Any:
        """What is inside of a node, part by part."""
        bound = _bound(n)
        for part in children(n):
            if id(part) not in bound and not isinstance(part, Buffer):
                self._part(part)


class PyStmtExprMutator(_Functor):
    """Rebuilds a program from what its `visit_…_` methods return; itself where nothing changes."""

    def visit_inside(self, n: Any) -> Any:
        """A node with what is inside visited, part by part."""
        bound = _bound(n)

        def part(inner: Node) -> Any:
            is_kept = id(inner) in bound or isinstance(inner, Buffer)
            return inner if is_kept else self._part(inner)

        return map_children(n, part)


def _default(kind: type) -> Callable[[Any, Any], Any]:
    def visit(self: Any, op: Any) -> Any:
        return self.visit_inside(op)

    visit.__name__ = _METHODS[kind]
    visit.__doc__ = f"A {kind.__name__}: goes on into what is inside."
    return visit


for _kind, _name in _METHODS.items():
    setattr(_Functor, _name, _default(_kind))
