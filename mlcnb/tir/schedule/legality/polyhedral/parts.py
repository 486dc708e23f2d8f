"""The part of a function that matters: what a step changed, or one loop.

    for i, j in T.grid(8, 8):               for i, j in T.grid(8, 8):
        for k in range(16):         ->          for k_0, k_1 in T.grid(4, 4):

Here the loops k are the part, for any i and j: nothing else changed, so if the parts compute the
same,
the functions do. Fewer loops make the sets small.
"""

from __future__ import annotations

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.polyhedral.program import Part


def changed(before: PrimFunc, after: PrimFunc) -> tuple[Part, Part] | None:
    """The smallest parts in which two functions differ; None where they are the same."""
    x: s.Stmt = before.body
    y: s.Stmt = after.body
    if x is y:
        return None
    outer: list[s.Stmt] = []
    others: list[s.Stmt] = []
    while True:
        if _differ_in_marks(x, y):
            return None
        inner = _descend(x, y)
        if inner is None:
            break
        if isinstance(x, s.For | s.BlockRealize):
            outer.append(x)
            others.append(y)
        x, y = inner
    common = _allocated(outer) & _allocated(others)
    old = Part(before, x, tuple(outer), _allocated(outer) - common)
    new = Part(after, y, tuple(others), _allocated(others) - common)
    return old, new


def around(func: PrimFunc, loop: s.For) -> Part:
    """A loop as a part; buffers that only it uses are its own."""
    path = _path(func.body, loop) or []
    within = _used(loop)
    elsewhere = [n for n in path if isinstance(n, s.BlockRealize)]
    outer = tuple(n for n in path if isinstance(n, s.For | s.BlockRealize))
    own = {b for n in elsewhere for b in n.block.alloc_buffers if b in within}
    outside = _used(func.body, besides=loop)
    return Part(func, loop, outer, frozenset(own - outside))


def _descend(x: s.Stmt, y: s.Stmt) -> tuple[s.Stmt, s.Stmt] | None:
    """The statements inside both that differ, if all else is the same."""
    if isinstance(x, s.For) and isinstance(y, s.For):
        return (x.body, y.body) if _same_range(x, y) else None
    if isinstance(x, s.BlockRealize) and isinstance(y, s.BlockRealize):
        return (x.block.body, y.block.body) if _same_header(x, y) else None
    if isinstance(x, s.SeqStmt) or isinstance(y, s.SeqStmt):
        return _without_ends(x, y)
    return None


def _differ_in_marks(x: s.Stmt, y: s.Stmt) -> bool:
    """True for loops or blocks that hold the very same statements."""
    if isinstance(x, s.For) and isinstance(y, s.For):
        return x.body is y.body and _same_range(x, y)
    if isinstance(x, s.BlockRealize) and isinstance(y, s.BlockRealize):
        return x.block.body is y.block.body and _same_header(x, y)
    return False


def _same_range(x: s.For, y: s.For) -> bool:
    return x.loop_var is y.loop_var and _same(x.min, y.min) and _same(x.extent, y.extent)


def _same(a: e.PrimExpr, b: e.PrimExpr) -> bool:
    return a is b or (p.as_int(a) is not None and p.as_int(a) == p.as_int(b))


def _same_header(x: s.BlockRealize, y: s.BlockRealize) -> bool:
    a, b = x.block, y.block
    axes = zip(a.iter_vars, b.iter_vars, strict=False)
    values = zip(x.iter_values, y.iter_values, strict=False)
    return (
        len(a.iter_vars) == len(b.iter_vars)
        and all(v is w for v, w in axes)
        and all(_same(v, w) for v, w in values)
        and _same(x.predicate, y.predicate)
        and a.init is b.init
        and a.match_buffers == b.match_buffers
    )


def _without_ends(x: s.Stmt, y: s.Stmt) -> tuple[s.Stmt, s.Stmt] | None:
    """Two sequences without what they begin and end with in common; None where that is nothing."""
    xs = x.seq if isinstance(x, s.SeqStmt) else (x,)
    ys = y.seq if isinstance(y, s.SeqStmt) else (y,)
    shorter = min(len(xs), len(ys))
    first = next((n for n in range(shorter) if xs[n] is not ys[n]), shorter)
    rest = shorter - first
    last = next((n for n in range(rest) if xs[-1 - n] is not ys[-1 - n]), rest)
    if first + last == 0:
        return None
    return _joined(xs[first : len(xs) - last]), _joined(ys[first : len(ys) - last])


def _joined(items: tuple[s.Stmt, ...]) -> s.Stmt:
    return s.seq(*items) if items else s.Evaluate(p.const(0))


def _allocated(around: list[s.Stmt]) -> frozenset[Buffer]:
    return frozenset(
        b for n in around if isinstance(n, s.BlockRealize) for b in n.block.alloc_buffers
    )


def _path(n: s.Stmt, target: s.Stmt) -> list[s.Stmt] | None:
    """The statements from `n` down to what `target` stands in."""
    from mlcnb.tir.schedule.record.tree import sub_stmts

    if n is target:
        return []
    for child in sub_stmts(n):
        found = _path(child, target)
        if found is not None:
            return [n, *found]
    return None


def _used(n: s.Stmt, besides: s.Stmt | None = None) -> set[Buffer]:
    """The buffers that stores and loads in a statement touch, those inside `besides` left out."""
    skipped = set(walk(besides)) if besides is not None else set()
    return {
        x.buffer for x in walk(n) if isinstance(x, s.BufferStore | BufferLoad) and x not in skipped
    }
