"""Stores that are written over before anybody reads them: `use_dataflow_analysis` of RemoveNoOp.

for i in range(16):                             for i in range(16):
    A[i] = 100                                      A[i] = 42
for i in range(16):                      ->
    A[i] = 42

The second nest stores at least the same elements; what stands between the two does not touch them.

for i in range(16):                             for i in range(16):
    A[i] = i                             ->         A[i] = i
A[4] = 4

A store of what is there already does nothing either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mlcnb.arith import Analyzer
from mlcnb.core.node import Node, identical, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.analysis.edges import conjuncts
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute, taken
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
    left: list[Stmt] = []
    for stmt in kept:
        if not _is_there(stmt, left):
            left.append(stmt)
    return None if identical(left, n.seq) else seq(*left)


def _nest(n: Stmt) -> _Nest | None:
    around: list[For | IfThenElse] = []
    while isinstance(n, For) or (isinstance(n, IfThenElse) and n.else_case is None):
        around.append(n)
        n = n.body if isinstance(n, For) else n.then_case
    return _Nest(tuple(around), n) if isinstance(n, BufferStore) and n.predicate is None else None


def _valued(stmt: Stmt, store: BufferStore) -> Stmt:
    """The statement with the store's value computed and forgotten."""
    return rewrite_statements(stmt, lambda n: Evaluate(store.value) if n is store else None)


def _is_hidden(nest: _Nest, later: tuple[Stmt, ...]) -> bool:
    """Whether a statement after it stores all that the nest stores, before it is read."""
    buffer = nest.store.buffer
    for stmt in later:
        over = _nest(stmt)
        if over is not None and over.store.buffer is buffer and not _reads(over, buffer):
            if _is_same_place(nest, over) or _covers(over, nest) is not None:
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
    bare = replace(store, value=p.const(0, store.buffer.dtype))
    return rewrite_statements(n, lambda x: bare if x is store else None)


def _is_there(stmt: Stmt, before: list[Stmt]) -> bool:
    """Whether a statement before it, the last to touch the buffer, stored the same values."""
    nest = _nest(stmt)
    if nest is None or has_effect(nest.store) or _reads(nest, nest.store.buffer):
        return False
    buffer = nest.store.buffer
    for earlier in reversed(before):
        over = _nest(earlier)
        if over is not None and over.store.buffer is buffer:
            values = _covers(over, nest)
            loads = any(isinstance(x, BufferLoad) for x in walk(over.store.value))
            if values is None or loads or has_effect(over.store):
                return False
            return _are_equal(substitute(over.store.value, values), nest)
        if has_effect(earlier) or not _only_loads(earlier, buffer):
            return False
    return False


def _only_loads(stmt: Stmt, buffer: Buffer) -> bool:
    """True if a statement does no more with the memory of a buffer than load from it."""
    found = [x for x in walk(stmt) if x is buffer.data]
    loads = [x for x in walk(stmt) if isinstance(x, BufferLoad) and x.buffer.data is buffer.data]
    return len(found) == len(loads)


def _are_equal(value: e.PrimExpr, nest: _Nest) -> bool:
    """Whether a nest stores this value."""
    if not value.dtype.is_integer:
        return structural_equal(value, nest.store.value)
    with _inside(nest) as analyzer:
        return analyzer.can_prove_equal(value, nest.store.value)


@contextmanager
def _inside(nest: _Nest) -> Iterator[Analyzer]:
    """What is known where a nest stores."""
    analyzer = Analyzer()
    tests = []
    for n in nest.around:
        if isinstance(n, For):
            analyzer.bind(n.loop_var, e.Range(n.min, n.extent))
        else:
            tests += [c for c in conjuncts(n.condition) if isinstance(c, e.CmpOp)]
    plain = [c for c in tests if not any(isinstance(x, BufferLoad | e.Call) for x in walk(c))]
    with analyzer.constraint(*plain):
        yield analyzer


def _covers(nest: _Nest, part: _Nest) -> dict[e.Var, e.PrimExpr] | None:
    """For what values of its variables a nest stores the elements that `part` stores.

    None where it may not store them all. The nest's indices are the variables of its loops.
    """
    loops = {n.loop_var: n for n in nest.around if isinstance(n, For)}
    store = nest.store
    indices = [x for x in store.indices if not isinstance(x, e.IntImm)]
    if not all(isinstance(x, e.Var) for x in indices) or {*indices} != {*loops}:
        return None
    if len({*indices}) != len(indices):
        return None
    pairs = list(zip(store.indices, part.store.indices, strict=True))
    if any(y.dtype.lanes != 1 for _, y in pairs):
        return None
    values = {x: p.cast(x.dtype, y) for x, y in pairs if isinstance(x, e.Var)}
    conditions = [p.equal(x, y) for x, y in pairs if isinstance(x, e.IntImm)]
    for var, n in loops.items():
        conditions += [n.min <= values[var], values[var] < n.min + n.extent]
    conditions += [
        substitute(x.condition, values) for x in nest.around if isinstance(x, IfThenElse)
    ]
    loads = (x for c in conditions for x in walk(c) if isinstance(x, BufferLoad | e.Call))
    if any(loads) or any(v in loops for c in conditions for v in walk(c)):
        return None
    with _inside(part) as analyzer:
        return values if all(map(analyzer.can_prove, conditions)) else None
