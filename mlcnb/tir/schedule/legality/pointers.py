"""Steps that must not be done behind the back of whoever holds a pointer.

    with T.block("C"):
        T.evaluate(T.call_extern("void", "f", B.access_ptr("r"), C.access_ptr("w")))

sch.transform_layout(…B…), sch.compute_inline("B"), sch.cache_read("C", …)      refused: f counts
                                                                              with B as it is
A pointer whose block says what is read and written there is a dependence like any other; one that
stands outside of such a block stops every step that moves or marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mlcnb.core import display
from mlcnb.core.errors import ScheduleError
from mlcnb.ir.expr import Var
from mlcnb.tir.analysis.escapes import Escape, escapes
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import State
from mlcnb.tir.schedule.record.tree import Tree

#: primitives that put other statements in the place of what hands out pointers, on purpose
_REPLACING = frozenset(["tensorize"])


def refuse_lost_pointers(primitive: str, before: PrimFunc, after: Tree, moves: bool) -> None:
    """Refuse a step after which a pointer that leaves the program no longer means what it did.

    Args:
        primitive: its name.
        before: the function as it was.
        after: the function as it would be.
        moves: whether the step moves accesses, or runs them side by side.

    Raises:
        ScheduleError: naming buffer, block and pointer.
    """
    leaving = escapes(before)
    if not leaving or primitive.startswith("unsafe_"):
        return
    owners = _owners(Tree(before))
    held = [x for x in leaving if x.data in owners]
    for x in held if moves else ():
        if not x.is_said():
            raise _error(primitive, before, x, owners[x.data], _UNSAID, _SAY)
    there = _owners(after)
    for x in held:
        if there.get(x.data) is not owners[x.data]:
            raise _error(primitive, before, x, owners[x.data], _COUNTS)
    left = Counter(x.data for x in escapes(after.func))
    for x in held if primitive not in _REPLACING else ():
        if left[x.data] < sum(y.data is x.data for y in held):
            raise _error(primitive, before, x, owners[x.data], _COUNTS)


def refuse_held(state: State, primitive: str, buffer: Buffer, always: bool = False) -> None:
    """Refuse where a pointer to a buffer, whose form would change, leaves the program.

    Args:
        state: the program.
        primitive: its name.
        buffer: the buffer.
        always: even where the caller is trusted: the step cannot be done.

    Raises:
        ScheduleError: naming buffer, block and pointer.
    """
    found = next((x for x in escapes(state.func) if x.data is buffer.data), None)
    if found is not None and (always or state.checks):
        raise _error(primitive, state.func, found, buffer, _COUNTS)


def _owners(tree: Tree) -> dict[Var, Buffer]:
    """Pointer -> the buffer that is declared with it, by the function or in a block."""
    declared: Iterable[Buffer] = (b for block in tree.blocks for b in block.alloc_buffers)
    views = (m.buffer for block in tree.blocks for m in block.match_buffers)
    return {b.data: b for b in (*tree.func.buffer_map.values(), *declared, *views)}


_COUNTS = "which counts with {buffer} as it is"
_UNSAID = "and no block says that it {verbs} {buffer} there"
_SAY = "put it into a block of its own, whose T.reads and T.writes name {buffer}"


def _error(
    primitive: str, func: PrimFunc, x: Escape, buffer: Buffer, why: str, hint: str = ""
) -> ScheduleError:
    verbs = " and ".join(w for w, on in (("reads", x.reads), ("writes", x.writes)) if on)
    where = name_of(x.block) if x.block is not None else "the function"
    shown = display.text(x.node).strip().splitlines()[0]
    words = {"buffer": buffer.name, "verbs": verbs}
    return ScheduleError(
        f"{primitive}: {where} hands out a pointer to {buffer.name}, {shown}, "
        + why.format(**words),
        where=x.block,
        root=func,
        hint=hint.format(**words) or "schedule first, and tensorize or call out afterwards",
    )
