"""What the statements of a pipeline depend on, and how many versions of a buffer they need.

A statement of stage s and place o runs, for iteration j, at time (j + s, o). What depends on what
in the loop must do so in this order too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, children, walk
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.tir.analysis.carried import Carried
from mlcnb.tir.analysis.effects import POINTERS, PURE
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore, For, Stmt


@dataclass(frozen=True)
class Parts:
    """The statements of a loop's body, and the buffers that live in it."""

    stmts: tuple[Stmt, ...]
    buffers: tuple[Buffer, ...]


def refusal(func: PrimFunc, loop: For, why: str, hint: str) -> PassError:
    """What to raise for a loop that cannot become a pipeline."""
    name = loop.loop_var.name
    message = f"InjectSoftwarePipeline: loop {name} {why}"
    return PassError(message, where=loop, root=func, hint=hint)


@dataclass
class Touched:
    """The pointers that a statement reads, writes, and hands over to who knows what."""

    reads: set[Var]
    writes: set[Var]
    pointers: set[Var]

    def conflicts(self, other: Touched) -> set[Var]:
        """Memory that both touch, and one of them writes."""
        both = (self.reads | self.writes) & (other.reads | other.writes)
        return both & (self.writes | other.writes)


#: what a call that does more than give a value is said to write
_ELSEWHERE = Var("the rest of memory", dtype("handle"))


def touched_by(stmt: Stmt) -> Touched:
    """What a statement reads and writes; a pointer that is handed over counts as both."""
    found = Touched(set(), set(), set())

    def visit(n: Node) -> None:
        if isinstance(n, BufferLoad):
            found.reads.add(n.buffer.data)
        elif isinstance(n, BufferStore):
            found.writes.add(n.buffer.data)
        elif isinstance(n, Var) and n.dtype.is_handle:
            found.pointers.add(n)
        elif isinstance(n, e.Call) and n.op in POINTERS:
            handed = {at: how for at, *how in POINTERS[n.op]}
            for at, arg in enumerate(n.args):
                if at in handed and isinstance(arg, Var):
                    reads, writes = handed[at]
                    found.reads |= {arg} if reads else set()
                    found.writes |= {arg} if writes else set()
                else:
                    visit(arg)
            return
        elif isinstance(n, e.Call) and n.op not in PURE:
            found.writes.add(_ELSEWHERE)
        for part in children(n):
            if not isinstance(part, Buffer | BufferRegion):
                visit(part)

    visit(stmt)
    found.reads |= found.pointers
    found.writes |= found.pointers
    return found


def check_dependences(
    func: PrimFunc,
    loop: For,
    parts: Parts,
    stages: Sequence[int],
    order: Sequence[int],
    touched: Sequence[Touched],
) -> None:
    """Every dependence of the loop is one of the pipeline."""
    local = {buffer.data for buffer in parts.buffers}
    outside: dict[Var, None] = {}
    for a, b in combinations(range(len(parts.stmts)), 2):
        for data in sorted(touched[a].conflicts(touched[b]), key=lambda v: v.name):
            broken = _why_broken(a, b, data.name, stages, order)
            if broken is not None:
                raise refusal(func, loop, *broken)
            if data not in local and stages[a] != stages[b]:
                outside[data] = None
    for data in outside:
        _check_apart(func, loop, data)


def _why_broken(
    a: int, b: int, name: str, stages: Sequence[int], order: Sequence[int]
) -> tuple[str, str] | None:
    """Why statement b, which depends on a, would run before it; and what to do."""
    if stages[a] > stages[b]:
        return (
            f"has statement {a} in stage {stages[a]}, but statement {b} in stage {stages[b]} "
            f"depends on it through {name}",
            "a statement may not be in an earlier stage than what it depends on",
        )
    if stages[a] == stages[b] and order[a] > order[b]:
        return (
            f"has statement {b} before statement {a} of the same stage, on which it depends "
            f"through {name}",
            "keep the order of statements that depend on each other in one stage",
        )
    return None


def _check_apart(func: PrimFunc, loop: For, data: Var) -> None:
    """Iterations that now overlap touch different elements of what lives outside of the loop."""
    views = _views(loop, data)
    carried = Carried(loop, views)
    accesses = carried.found.of[data] if views else []
    plain = data not in carried.found.unknown and len(views) == 1
    if not (plain and carried.is_apart(accesses, loop)):
        raise refusal(
            func,
            loop,
            f"hands values of {data.name}, which lives outside of it, to later iterations",
            f"statements that touch {data.name} must be in one stage",
        )


def _views(loop: For, data: Var) -> list[Buffer]:
    accesses = (n for n in walk(loop) if isinstance(n, BufferLoad | BufferStore))
    return list(dict.fromkeys(n.buffer for n in accesses if n.buffer.data is data))


def versions_needed(
    buffer: Buffer, stages: Sequence[int], order: Sequence[int], touched: Sequence[Touched]
) -> int:
    """How many iterations need the buffer at once.

    With V versions, x of iteration j + V must come after y of iteration j, for all x and y that
    touch the buffer: V + stage(x) > stage(y), or the same and x stands behind y.
    """
    needed = [1]
    users = [i for i, t in enumerate(touched) if buffer.data in t.reads | t.writes]
    for x in users:
        for y in users:
            if x != y and buffer.data in touched[x].writes | touched[y].writes:
                needed.append(stages[y] - stages[x] + (order[x] < order[y]))
    return max(needed)
