"""Where things stand in a loop program: parents, loops above a block, where buffer uses meet."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from mlcnb.arith import simplify
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, children, walk
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.prim_ops import as_expr, as_int, cast, maximum
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies

#: annotation of a parallel loop of open size: with less work (see `work_of`) it stays on its thread
LEAST = "pragma_parallel_least"
#: elements from which on a line is worth vectors, and from which on LLVM does not write it out
LINE, LONG_LINE = 8, 64


def statements(n: Node) -> Iterator[s.Stmt]:
    """All statements below and including `n`, parents first, in order."""
    left = [n]
    while left:
        one = left.pop()
        if isinstance(one, s.Stmt):
            yield one
        left.extend(reversed(bodies(one)))


def has_block(n: Node) -> bool:
    """True if there is a block in `n`."""
    return any(isinstance(x, s.BlockRealize) for x in statements(n))


def allocations(n: Node) -> list[s.Allocate]:
    """The allocations below and including `n`, in order."""
    return [x for x in walk(n) if isinstance(x, s.Allocate)]


def work(
    n: s.Stmt,
    unknown: float,
    of: Callable[[s.Stmt], Any] = lambda _n: 1,
    rounds: Callable[[s.For], Any] = lambda n: as_int(n.extent),
) -> Any:
    """How many statements run, about: each as often as the loops around it have rounds.

    Of two branches the dearer one counts.

    Args:
        n: the program.
        unknown: the rounds of a loop whose length is not known.
        of: what a store or a call counts; an array where several things are counted at once.
        rounds: of a loop, a number or an expression; None where they are not known.
    """
    below = [work(x, unknown, of, rounds) for x in bodies(n)]
    if not below:
        return of(n)
    if isinstance(n, s.For | s.While):
        extent = rounds(n) if isinstance(n, s.For) else None
        return below[0] * (unknown if extent is None else extent)
    return reduce(_dearer if isinstance(n, s.IfThenElse) else operator.add, below)


def _dearer(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray):
        return np.maximum(a, b)
    return maximum(a, b) if isinstance(a, PrimExpr) or isinstance(b, PrimExpr) else max(a, b)


def work_of(n: s.Stmt, unknown: int = 8) -> PrimExpr:
    """`work` in elements that are stored, an int64 of the sizes that are open where `n` stands."""
    makers = (x for x in statements(n) if isinstance(x, s.For | s.LetStmt))
    made = {x.loop_var if isinstance(x, s.For) else x.var for x in makers}

    def rounds(x: s.For) -> Any:
        if made.isdisjoint(v for v in walk(x.extent) if isinstance(v, Var)):
            return cast("int64", x.extent)
        return None

    def lanes(x: s.Stmt) -> int:
        return x.value.dtype.lanes if isinstance(x, s.BufferStore) else 1

    return simplify(as_expr(work(n, unknown, lanes, rounds), dtype("int64")))


def is_line(loop: s.For) -> bool:
    """True if a loop makes a short line of another of the same buffer: `B[k + 1, i] = B[k, i] + …`.

    Written out element by element, each may be what another reads; as a loop it is vectors.
    """
    store, var = loop.body, loop.loop_var
    if not isinstance(store, s.BufferStore) or not LINE <= (as_int(loop.extent) or 0) < LONG_LINE:
        return False
    if store.value.dtype.lanes > 1:
        return False
    loads = [n for n in walk(store.value) if isinstance(n, BufferLoad)]
    own = [n.indices for n in loads if n.buffer.data is store.buffer.data]
    steps = [simplify(a - b) for x in own for a, b in zip(x, store.indices, strict=False)]
    moves = any(v is var for x in own for i in x for v in walk(i))
    return moves and any(as_int(step) != 0 for step in steps)


def parent_map(n: Node) -> dict[s.Stmt, s.Stmt]:
    """Statement -> the statement that it stands in, for everything below `n`."""
    parents: dict[s.Stmt, s.Stmt] = {}
    for stmt in statements(n):
        parents.update(dict.fromkeys(bodies(stmt), stmt))
    return parents


def blocks_of(n: Node) -> list[s.BlockRealize]:
    """The blocks below `n` without its root block, in order."""
    found = [x for x in statements(n) if isinstance(x, s.BlockRealize)]
    root = n.body if isinstance(n, PrimFunc) else None
    return [x for x in found if x is not root]


def outer_blocks(n: Node) -> Iterator[s.BlockRealize]:
    """The blocks of `n` that stand in no other block of it, in order."""
    if isinstance(n, s.BlockRealize):
        yield n
        return
    for x in bodies(n):
        yield from outer_blocks(x)


def find_block(n: Node, name: str) -> s.BlockRealize:
    """The block of that name.

    Raises:
        MLCError: there is none, or more than one.
    """
    found = [
        x for x in statements(n) if isinstance(x, s.BlockRealize) and x.block.name_hint == name
    ]
    if len(found) != 1:
        names = ", ".join(x.block.name_hint for x in blocks_of(n))
        count = "no block" if not found else f"{len(found)} blocks"
        raise MLCError(f"{count} of name {name!r}", hint=f"the blocks are {names}")
    return found[0]


def loops_above(n: Node, inner: s.Stmt) -> list[s.For]:
    """The loops of `n` around `inner` up to the next block, outermost first."""
    parents = parent_map(n)
    loops: list[s.For] = []
    at = parents.get(inner)
    while at is not None and not isinstance(at, s.Block):
        if isinstance(at, s.For):
            loops.append(at)
        at = parents.get(at)
    return loops[::-1]


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, s.Stmt | None]:
    """Buffer -> the innermost For or Block that holds all accesses of it; None for the function.

    Buffers of the parameters that are used are there with None, as in TVM.
    """
    paths: dict[Buffer, list[s.Stmt]] = {}
    stack: list[s.Stmt] = []

    def touch(buffer: Buffer) -> None:
        old = paths.setdefault(buffer, list(stack))
        same = 0
        while same < min(len(old), len(stack)) and old[same] is stack[same]:
            same += 1
        del old[same:]

    def visit(n: Any) -> None:
        if isinstance(n, BufferLoad | s.BufferStore | BufferRegion):
            touch(n.buffer)
        opens = isinstance(n, s.For | s.Block)
        if opens:
            stack.append(n)
        for child in children(n):
            if not isinstance(child, Buffer):
                visit(child)
        if opens:
            stack.pop()

    visit(func.body)
    params = set(func.buffers)
    return {b: None if b in params or not path else path[-1] for b, path in paths.items()}


def allocated_buffers(n: Node) -> list[tuple[Var, str, tuple, Any]]:
    """(pointer, dtype, extents, scope) of all memory that `n` makes, in order."""
    found: list[tuple[Var, str, tuple, Any]] = []
    for stmt in walk(n):
        if isinstance(stmt, s.Block):
            found += [(b.data, b.dtype, b.shape, b.scope) for b in stmt.alloc_buffers]
        elif isinstance(stmt, s.Allocate):
            found.append((stmt.buffer_var, stmt.dtype, stmt.extents, stmt.scope))
    return found
