"""`tir.stmt_functor`: walks over programs by TVM's names.

post_order_visit(stmt, print)                        children first, each node once
substitute(stmt, {n: 16})                            variables replaced
ir_transform(stmt, before, after, ["tir.For"])       rewritten on the way down, and on the way up
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mlcnb.core.node import Node, children, map_children
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_expr
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute as _substitute
from mlcnb.tir.renew import renew_defs

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]


def post_order_visit(stmt: Node, fvisit: Callable[[Node], Any]) -> None:
    """Call `fvisit` on every node, children first, one that stands in several places once."""
    _visit(stmt, lambda _n: True, fvisit, set())


def pre_order_visit(stmt: Node, fvisit: Callable[[Node], Any]) -> None:
    """Call `fvisit` on every node, parents first; where it returns False, not deeper."""
    _visit(stmt, lambda n: fvisit(n) is not False, lambda _n: None, set())


def _visit(
    n: Node, enter: Callable[[Node], bool], leave: Callable[[Node], Any], seen: set[int]
) -> None:
    if id(n) in seen:
        return
    seen.add(id(n))
    if enter(n):
        for child in children(n):
            _visit(child, enter, leave, seen)
    leave(n)


def substitute(node: Any, vmap: Mapping[Var, Any]) -> Any:
    """`node` with variables replaced by expressions or numbers."""
    values = {var: as_expr(value, var.dtype) for var, value in vmap.items()}
    return _substitute(node, values)


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Iterable[str] | None = None,
) -> Any:
    """`stmt` rewritten by two functions; each returns the new node, or None to go on as it is.

    Args:
        stmt: a statement, expression or function.
        preorder: sees a node before what is in it; what it returns is not looked into.
        postorder: sees a node when what is in it has been rewritten.
        only_enable: names of the nodes that both see, such as "tir.For"; all where None.
    """
    names = None if only_enable is None else {name.rpartition(".")[2] for name in only_enable}

    def visit(n: Any) -> Any:
        chosen = names is None or type(n).__name__ in names
        before = preorder(n) if chosen and preorder is not None else None
        if before is not None:
            return before
        rebuilt = map_children(n, visit)
        after = postorder(rebuilt) if chosen and postorder is not None else None
        return rebuilt if after is None else after

    return visit(stmt.body) if isinstance(stmt, PrimFunc) else visit(stmt)
