"""RewriteParallelVectorizeUnroll: what the root's notes ask for, block by block.

meta_schedule.parallel = 32      outer spatial loops fused while there are no more than 32 tasks
meta_schedule.vectorize = 16     inner spatial loops fused while they run through memory: a vector
meta_schedule.unroll_explicit    inner loops of no more than so many steps are written out
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import walk
from mlcnb.dlight.looking import extent, is_spatial, kinds, tree
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.postproc.postprocessor import Postproc
from mlcnb.meta_schedule.schedule_rule.parallelize_vectorize_unroll import (
    PARALLEL,
    UNROLL,
    UNROLL_IMPLICIT,
    VECTORIZE,
)
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore, ForKind

#: what LLVM is told, where it is to unroll by itself
PRAGMA = "pragma_auto_unroll_max_step"


class RewriteParallelVectorizeUnroll(Postproc):
    """The notes of `ParallelizeVectorizeUnroll` become loops; what cannot be done is left out."""

    kind = "rewrite-parallel-vectorize-unroll"

    def apply(self, sch: Schedule) -> bool:
        """Do it; every candidate stays."""
        root = sch.get_block(tree(sch).root.name_hint)
        notes = {}
        for key in (PARALLEL, VECTORIZE, UNROLL, UNROLL_IMPLICIT):
            if key in sch.get(root).annotations:
                notes[key] = int(sch.get(root).annotations[key])
                sch.unannotate(root, key)
        if not notes:
            return True
        for block in _outermost_first(sch, root):
            for step, key in ((_parallel, PARALLEL), (_vectorize, VECTORIZE)):
                if notes.get(key, 0) > 1:
                    step(sch, block, notes[key])
            _unroll(sch, block, notes)
        return True


def _outermost_first(sch: Schedule, root: Any) -> list[Any]:
    """The blocks of the root; of those that share loops the one with the most comes first."""
    return sorted(sch.get_child_blocks(root), key=lambda b: -len(sch.get_loops(b)))


def _serial(sch: Schedule, loops: Sequence[Any]) -> list[bool]:
    return [sch.get(x).kind is ForKind.SERIAL and not sch.get(x).annotations for x in loops]


def _parallel(sch: Schedule, block: Any, most: int) -> None:
    """Fuse outer spatial loops until there are enough tasks; run them in parallel."""
    loops = sch.get_loops(block)
    letters, serial = kinds(sch, block, loops) if loops else "", _serial(sch, loops)
    count, product = 0, 1
    while count < len(loops) and letters[count] == "S" and serial[count]:
        size = extent(sch, loops[count])
        if size is None or product * size > most and count:
            break
        product *= size
        count += 1
        if len(sch.get_child_blocks(loops[count - 1])) > 1 and count < len(loops):
            if not _holds_one_loop(sch, loops[count - 1]):
                break
    if count == len(loops) and count > 1:
        count -= 1  # the innermost may be a vector
    if count:
        _tried(sch, lambda s: s.parallel(s.fuse(*loops[:count]) if count > 1 else loops[0]))


def _holds_one_loop(sch: Schedule, loop: Any) -> bool:
    """Whether the body of a loop is one other loop."""
    return type(sch.get(loop).body) is type(sch.get(loop))


def _vectorize(sch: Schedule, block: Any, most: int) -> None:
    """The innermost loops, fused while they run through memory one by one, become a vector."""
    loops = sch.get_loops(block)
    letters, serial = kinds(sch, block, loops) if loops else "", _serial(sch, loops)
    count, product = 0, 1
    while count < len(loops):
        at = len(loops) - 1 - count
        size = extent(sch, loops[at])
        if letters[at] != "S" or not serial[at] or size is None:
            break
        if not _runs_along(sch, block, loops[at], product) or (product * size > most and count):
            break
        product *= size
        count += 1
    if not count or product == 1:
        return

    def step(s: Schedule) -> None:
        inner = s.fuse(*loops[-count:]) if count > 1 else loops[-1]
        if product > most:
            _, inner = s.split(inner, [None, most])
        s.vectorize(inner)

    _tried(sch, step)


def _runs_along(sch: Schedule, block: Any, loop: Any, step: int) -> bool:
    """Whether each buffer is passed through by `step` elements (or not at all) along a loop."""
    node = sch.get(block)
    var = sch.get(loop).loop_var
    realize = tree(sch).realize(node)
    values = dict(zip((v.var for v in node.iter_vars), realize.iter_values, strict=True))
    analyzer = Analyzer()
    for access in walk(node.body):
        if not isinstance(access, BufferLoad | BufferStore):
            continue
        for place, index in enumerate(access.indices):
            moving = [v for v in walk(index) if isinstance(v, Var) and v in values]
            if not any(n is var for v in moving for n in walk(values[v])):
                continue
            if place < len(access.indices) - 1 or not isinstance(index, Var):
                return False
            form = analyzer.normal_form(values[index])
            parts = form.coefficient_of(analyzer.context.var(var))
            if parts is None or not parts[0].is_const or parts[0].const != step:
                return False
    return True


def _unroll(sch: Schedule, block: Any, notes: dict[str, int]) -> None:
    """Inner loops of so few steps are written out; LLVM is told where it is to do so."""
    loops = sch.get_loops(block)
    if notes.get(UNROLL_IMPLICIT, 0) > 1 and loops:
        _tried(sch, lambda s: s.annotate(loops[0], PRAGMA, notes[UNROLL_IMPLICIT]))
    if notes.get(UNROLL, 0) <= 1 or is_spatial(sch, block):
        return
    steps = 1
    for loop in reversed(loops):
        node = sch.get(loop)
        size = as_int(node.extent)
        if node.kind is ForKind.VECTORIZED:
            continue
        if node.kind is not ForKind.SERIAL or size is None or steps * size > notes[UNROLL]:
            return
        if len(sch.get_child_blocks(loop)) > 1:
            return
        steps *= size
        _tried(sch, lambda s, loop=loop: s.unroll(loop))  # type: ignore[misc]


def _tried(sch: Schedule, step: Any) -> None:
    """Do a step where it is legal; what was done before a refusal is legal too, and stays."""
    with suppress(ScheduleError):
        step(sch)
