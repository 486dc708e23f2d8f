"""Stores that are written over before anybody reads them: `use_dataflow_analysis` of RemoveNoOp.

for i in range(16):                             for i in range(16):
    A[i] = 100                                      A[i] = 42
for i in range(16):                      ->
    A[i] = 42

The second nest stores the same elements under the same tests, or all elements of the buffer; what
stands between the two does not touch it.
"""

from __future__ import annotations

from typing import NamedTuple

from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, taken
from mlcnb.tir.stmt import BufferStore, Evaluate, For, IfThenElse, SeqStmt, Stmt, seq


class _Nest(NamedTuple):
    """Loops and tests around one store."""

    around: tuple[For | IfThenElse, ...]
    store: BufferStore


def remove_overwritten(func: PrimFunc) -> PrimFunc:
    """`func` without stores that another one hides; what their values did is still done."""
    return func.with_body(rewrite_statements(func.body, _remove))


def _remove(n: Node) -> Node | None:
    if not isinstance(n, SeqStmt):
        return taken(n)
    kept: list[Stmt] = []
    for place, stmt in enumerate(n.seq):
        nest = _nest(stmt)
        if nest is None or not _is_hidden(nest, n.seq[place + 1 :]):
            kept.append(stmt)
        elif has_effect(nest.store):
            kept.append(_valued(stmt, nest.store))
    return None if len(kept) == len(n.seq) else seq(*kept)


def _nest(n: Stmt) -> _Nest | None:
    around: list[For | IfThenElse] = []
    while isinstance(n, For) or (isinstance(n, IfThenElse) and n.else_case is None):
        around.append(n)
        n = n.body if isinstance(n, For) else n.then_case
    return _Nest(tuple(around), n) if isinstance(n, BufferStore) and n.predicate is None else None


def _valued(stmt: Stmt, store: BufferStore) -> Stmt:
    """The statement with the store's value computed and forgotten."""

    def rule(n: Node) -> Node | None:
        return Evaluate(store.value) if n is store else None

    return rewrite_statements(stmt, rule)


def _is_hidden(nest: _Nest, later: tuple[Stmt, ...]) -> bool:
    """Whether a statement after it stores all that the nest stores, before it is read."""
    buffer = nest.store.buffer
    for stmt in later:
        over = _nest(stmt)
        if over is not None and over.store.buffer is buffer and not _reads(over, buffer):
            if _is_same_place(nest, over) or _is_whole(over):
                return True
        if any(n is buffer or n is buffer.data for n in walk(stmt)) or has_effect(stmt):
            return False
    return False


def _reads(nest: _Nest, buffer: Buffer) -> bool:
    parts: list[Node] = [nest.store.value, *nest.store.indices]
    for n in nest.around:
        parts += [n.min, n.extent] if isinstance(n, For) else [n.condition]
    return any(
        isinstance(x, BufferLoad) and (x.buffer is buffer or x.buffer.data is buffer.data)
        for part in parts
        for x in walk(part)
    )


def _is_same_place(one: _Nest, two: _Nest) -> bool:
    """The same loops and tests around stores to the same indices."""
    outer = one.around[0] if one.around else one.store
    other = two.around[0] if two.around else two.store
    if any(isinstance(x, BufferLoad) for n in one.around if isinstance(n, IfThenElse)
           for x in walk(n.condition)):  # fmt: skip
        return False
    return structural_equal(_bare(outer, one.store), _bare(other, two.store))


def _bare(n: Stmt, store: BufferStore) -> Stmt:
    """A nest with nothing stored: loops, tests and indices alone."""
    zero = p.const(0, store.buffer.dtype)
    if n is store:
        return replace(store, value=zero)

    def rule(x: Node) -> Node | None:
        return replace(store, value=zero) if x is store else None

    return rewrite_statements(n, rule)


def _is_whole(nest: _Nest) -> bool:
    """Loops over every element of the buffer, without a test."""
    loops = [n for n in nest.around if isinstance(n, For)]
    store = nest.store
    if len(loops) != len(nest.around) or len(loops) != store.buffer.ndim:
        return False
    extents: dict[e.Var, e.PrimExpr] = {
        loop.loop_var: loop.extent for loop in loops if p.is_const(loop.min, 0)
    }
    return len({*store.indices}) == len(loops) and all(
        isinstance(index, e.Var) and index in extents and structural_equal(extents[index], dim)
        for index, dim in zip(store.indices, store.buffer.shape, strict=True)
    )
