"""Two nests run in turn, iteration by iteration: which iterations of the second come too early?

for x in range(8): P(x)                for v in range(8):
for y in range(8): Q(y)        ->          P(v)
                                           Q(v)

Q(y) now runs before P(x) for every x > y. That is legal where what P(x) and Q(y) touch lies apart,
or neither writes it: B[x] and B[y - 1] do, B[x] and B[y + 1] do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.legality.boxes import Box
from mlcnb.tir.schedule.legality.dependence import boxes
from mlcnb.tir.schedule.legality.promises import read_buffers, written_buffers
from mlcnb.tir.schedule.legality.regions import known_bounds
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.tree import Tree

#: loops from the outside in, and the blocks under them
Part = tuple[Sequence[s.For], Sequence[s.Block]]


def why_overtaken(tree: Tree, first: Part, second: Part) -> str | None:
    """The reason why iterations of `second` may not run before later iterations of `first`.

    The loops of both have the same ranges. None is sure; a reason may be overcautious.
    """
    for a in first[1]:
        for b in second[1]:
            for buffer in dict.fromkeys((*read_buffers(a), *written_buffers(a))):
                writers = [x for x in (a, b) if buffer in written_buffers(x)]
                if not writers or buffer not in (*read_buffers(b), *written_buffers(b)):
                    continue
                if not _lie_apart(tree, (first[0], a), (second[0], b), buffer):
                    return (
                        f"{name_of(b)} would touch elements of {buffer.name} before later "
                        f"iterations of {name_of(a)} do, and {name_of(writers[0])} writes it"
                    )
    return None


def _lie_apart(
    tree: Tree,
    first: tuple[Sequence[s.For], s.Block],
    second: tuple[Sequence[s.For], s.Block],
    buffer: Buffer,
) -> bool:
    loops, a = first
    others, b = second
    known = {**known_bounds(tree, loops[-1]), **known_bounds(tree, others[-1])}
    later = boxes(tree, [a], buffer, loops[-1])
    earlier = boxes(tree, [b], buffer, others[-1])
    for level, loop in enumerate(others):
        if known[loop.loop_var][1] == 0:
            continue  # of one iteration none is later
        moved, bounds = _later(loops, others, level, known)
        for x in later:
            for y in earlier:
                if not _apart(x, y, moved, {**known, **bounds}):
                    return False
    return True


def _later(
    loops: Sequence[s.For], others: Sequence[s.For], level: int, known: dict[e.Var, Bounds]
) -> tuple[Context, dict[e.Var, Bounds]]:
    """Iterations x > y that first differ in the loop number `level`: x in terms of y."""
    values: dict[e.Var, Sum] = {}
    bounds: dict[e.Var, Bounds] = {}
    for n, (x, y) in enumerate(zip(loops, others, strict=True)):
        if n < level:
            values[x.loop_var] = Sum(0, {y.loop_var: 1})
        elif n == level:
            steps = e.Var("steps", x.loop_var.dtype)
            last = known[y.loop_var][1]
            bounds[steps] = (0, None if last is None else last - 1)
            values[x.loop_var] = Sum(1, {y.loop_var: 1, steps: 1})
    return Context(known, values), bounds


def _apart(x: Box, y: Box, moved: Context, known: dict[e.Var, Bounds]) -> bool:
    """True if the boxes share no element: in some dimension one lies behind the other."""
    kind = next((v.dtype for v in moved.values), "int32")
    for one, other in zip(x.sides, y.sides, strict=True):
        low, high = (of(end.expr(kind), moved) for end in (one.low, one.high))
        gap = low.minus(other.high).bounds(known)[0]
        if gap is not None and gap > 0:
            return True
        gap = other.low.minus(high).bounds(known)[0]
        if gap is not None and gap > 0:
            return True
    return False
