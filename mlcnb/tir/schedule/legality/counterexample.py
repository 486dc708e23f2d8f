"""Counter-examples: two iterations that a step would put in the wrong order, and what comes of it.

    1. block B at i = 0 writes B[0]
    2. block B at i = 1 reads B[0]
    B[1] is 5.0 in order, and would be 2.0

The iterations come from the polyhedral side, the smallest there are; the values from the reference
interpreter, which runs both programs on small whole numbers, loops that are parallel, vectorized
or bound to threads from the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from mlcnb.core import display
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.dependence import is_shared, is_thread_loop
from mlcnb.tir.schedule.legality.smallest import cut_short, first_wrong, smallest

#: programs with more iterations are not run for their values
LARGEST = 50_000


@dataclass(frozen=True)
class CounterExample(display.Shown):
    """Why a step is not legal, on one element.

    Attributes:
        loop: the loop that carries the dependence, `loop i`; "" where the order is not that of one
            loop.
        first, second: the two events (`block`, `iteration`, `is_write`, `buffer`, `indices`) whose
            order counts, as the program has it now.
        change: what would be different, in words, where `first` and `second` do not say it.
        buffer, indices: the element whose value changes, of those that the caller sees.
        expected, got: its value as the program is, and as it would be.
        shapes: of the parameters for which it was run.
        smallest: the smallest shapes on which values differ, where those could be made.
        cut: where the whole program was too large to run: the iterations that each loop was cut to.
    """

    loop: str = ""
    first: Any = None
    second: Any = None
    change: str = ""
    buffer: str = ""
    indices: tuple[int, ...] = ()
    expected: float | None = None
    got: float | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    smallest: tuple[tuple[int, ...], ...] = ()
    cut: int = 0

    @property
    def is_certain(self) -> bool:
        """True if the programs were run and gave different values."""
        return self.expected is not None

    @property
    def element(self) -> str:
        """`B[1]`"""
        return f"{self.buffer}[{', '.join(map(str, self.indices))}]"

    @property
    def summary(self) -> str:
        """One sentence."""
        if self.is_certain:
            return f"{self.element} was {self.expected} and would be {self.got}"
        return self.change or f"{self.first}, and {self.second}"

    @property
    def lines(self) -> list[str]:
        """Everything, as lines of text."""
        told = []
        if self.first is not None:
            told += [f"1. {self.first}", f"2. {self.second}"]
        if self.change:
            told.append(self.change)
        if self.is_certain:
            inputs = f" (run on {', '.join(map(str, self.shapes))})" if self.shapes else ""
            if self.cut:
                inputs = f" (each loop cut to its first {self.cut} iterations)"
            told.append(f"{self.element} is {self.expected}, and would be {self.got}{inputs}")
        if self.smallest not in ((), self.shapes):
            told.append(f"it shows on shapes as small as {', '.join(map(str, self.smallest))}")
        return told

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def find(before: PrimFunc, after: PrimFunc, loop: s.For | None) -> CounterExample | None:
    """What goes wrong in a step from `before` to `after`; None where nothing is found.

    Args:
        before: the function as it is.
        after: as it would be.
        loop: the loop of `before` that would run in parallel, where that is the question.
    """
    facts = _carried(before, loop) if loop is not None else _order(before, after)
    values = {} if _is_of_threads(before, after, facts) else _values(before, after)
    if not facts and not values:
        return None
    return CounterExample(**{**facts, **values})


def _is_of_threads(before: PrimFunc, after: PrimFunc, facts: dict[str, Any]) -> bool:
    """True for a conflict in shared memory: a program that runs has barriers, which hide it."""
    shared = {x.name for x in walk(after) if isinstance(x, Buffer) and is_shared(x)}
    return before is after and bool(facts) and facts["first"].buffer in shared


def _carried(func: PrimFunc, loop: s.For) -> dict[str, Any]:
    """The two iterations of a loop that conflict."""
    from mlcnb.arith.isl import PROOF, Undecided, is_missing
    from mlcnb.tir.schedule.legality.polyhedral.answers import carried_by
    from mlcnb.tir.schedule.record.handles import name_of

    if is_missing():
        return {}
    try:
        private = loop.kind is not s.ForKind.VECTORIZED
        found = carried_by(func, loop, private, PROOF, is_thread_loop(loop))
    except Undecided:
        return {}
    if found is None:
        return {}
    return {"loop": name_of(loop), "first": found.first, "second": found.second}


def _order(before: PrimFunc, after: PrimFunc) -> dict[str, Any]:
    """The first read that would see another write."""
    from mlcnb.arith.isl import PROOF, is_missing
    from mlcnb.tir.schedule.legality.polyhedral.answers import first_difference

    found = None if is_missing() else first_difference(before, after, PROOF)
    if found is None:
        return {}
    return {"first": found.first, "second": found.second, "change": found.change}


def _values(before: PrimFunc, after: PrimFunc) -> dict[str, Any]:
    """The first element that gets another value, and the smallest shapes that show one."""
    small = smallest(before, after)
    values: dict[str, Any] = {}
    if max(iterations_of(before), iterations_of(after)) <= LARGEST:
        values = first_wrong(before, after)
    if small:
        values = {**(values or small), "smallest": small["shapes"]}
    return values or cut_short(before, after)


def iterations_of(func: PrimFunc) -> int:
    """An upper bound of how many stores run, symbolic extents taken as small."""
    stores = [n for n in walk(func.body) if isinstance(n, s.BufferStore)]
    parent = {c: n for n in walk(func.body) for c in _below(n)}
    total = 0
    for store in stores:
        extents, up = [], parent.get(store)
        while up is not None:
            if isinstance(up, s.For):
                extents.append(p.as_int(up.extent) or 8)
            up = parent.get(up)
        total += prod(extents)
    return total


def _below(n: Any) -> tuple[Any, ...]:
    from mlcnb.tir.schedule.record.tree import sub_stmts

    if isinstance(n, s.Block) and n.init is not None:
        return (*sub_stmts(n), n.init)
    return sub_stmts(n) if isinstance(n, s.Stmt) else ()
