"""Rounds of a parallel loop: which of them touch an element that another one writes?

for i in T.parallel(8):
    B[0] = B[0] + A[i]          round i = 0 writes B[0], round i = 1 reads it: a race

The outermost parallel loop is what threads share; each of its rounds is an agent that nothing
orders. Memory that a round allocates is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

from mlcnb.codegen.interp.agents import Round, ThreadBlock
from mlcnb.codegen.interp.blocks import WatchingCompiler
from mlcnb.codegen.interp.expressions import Frame
from mlcnb.codegen.interp.statements import Code
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.analysis.carried import Carried
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc

_ROUND = "the round that runs"


def may_race(func: PrimFunc) -> bool:
    """True unless all rounds of parallel loops are seen to write elements of their own."""
    return any(not is_apart(n) for n in walk(func.body) if _is_parallel(n))


def _is_parallel(n: Any) -> TypeGuard[s.For]:
    return isinstance(n, s.For) and n.kind is s.ForKind.PARALLEL


def stored_in(loop: s.For) -> dict[Var, Buffer]:
    """Memory that a loop writes and that its rounds share: pointer -> a buffer of it."""
    reading = Reading(loop)
    stores = {reading.pointer(a.buffer.data): a.buffer for a in reading.accesses if a.is_write}
    own = {b.data for n in walk(loop) if isinstance(n, s.Block) for b in n.alloc_buffers}
    own |= {n.buffer_var for n in walk(loop) if isinstance(n, s.Allocate)}
    return {data: buffer for data, buffer in stores.items() if data not in own}


def is_apart(loop: s.For) -> bool:
    """True if the rounds of a loop are seen to write elements of their own."""
    stores = stored_in(loop)
    return Carried(loop, stores.values()).are_apart(stores, loop)


class ParallelCompiler(WatchingCompiler):
    """Turns programs into closures whose parallel loops are watched."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.round = self.slot(_ROUND)

    def _loop(self, x: s.For) -> Code:
        if self.watches or not _is_parallel(x):
            return super()._loop(x)
        slot, current, name = self.slot(x.loop_var), self.round, x.loop_var.name
        counted = self.counted(x.loop_var, x.min, x.extent, x)
        self.watches = True
        body = self.inside(x.loop_var, x.body)
        self.watches = False

        def steps(f: Frame) -> Iterator[None]:
            elements: dict = {}
            for i in counted(f):
                f[slot] = i
                f[current] = Round(ThreadBlock({}, elements, elements), 0, {name: i})
                yield

        return self.rounds(steps, x, body)

    def watch(self, buffer: Buffer, what: str) -> Callable[..., None] | None:
        """Looks for rounds that race."""
        if not self.watches or buffer.data in self.own:
            return None
        current, slot, site = self.round, self.view_slot(buffer), self.site

        def read(f: Frame, at: int, value: Any = None) -> None:
            f[current].reads(f[slot], at, site)

        def write(f: Frame, at: int, value: Any = None) -> None:
            f[current].writes(f[slot], at, site, value)

        def update(f: Frame, at: int, value: Any = None) -> None:
            f[current].updates(f[slot], at, site)

        return {"r": read, "w": write, "u": update}[what]
