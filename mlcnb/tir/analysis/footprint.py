"""How much memory a program touches: each block, each memory scope, one iteration of each loop.

for i in range(8):                     one iteration of i touches a row of A and all of B
    for j, k in T.grid(8, 8):
        C[i, j] += A[i, k] * B[k, j]   one iteration of j touches a row of A and a column of B

Elements are counted once, as `bytes_touched` counts them: those in the box around the accesses, or
those that the loops come to where these are fewer. Figures are ints where shapes are static.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mlcnb.arith import Analyzer, simplify
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.cost import WholeFunction, bytes_of, number, plain
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc

Sizes = dict[Buffer, Any]


def block_bytes(func: PrimFunc) -> dict[s.Block, Sizes]:
    """Block -> bytes of each buffer that it touches in one call, its inner blocks' included."""
    return _EachBlock(func.body).blocks


def memory_footprint(func: PrimFunc) -> dict[str, Any]:
    """Memory scope -> bytes that one call touches there, parameters and allocations."""
    sizes = _touched(func.body)
    found: dict[str, PrimExpr] = {}
    for buffer, size in sizes.items():
        known = found.get(buffer.scope)
        found[buffer.scope] = p.as_expr(size) if known is None else p.add(known, p.as_expr(size))
    return {scope: plain(size) for scope, size in found.items()}


def working_sets(func: PrimFunc) -> dict[s.For, Any]:
    """Loop -> bytes that one iteration of it touches.

    None where values in memory decide it. What an inner loop's working set leaves free of a cache
    is what stays there for the next iteration.
    """
    loops = [n for n in statements(func.body) if isinstance(n, s.For)]
    sizes = [n for buffer in func.buffers for n in buffer.shape if isinstance(n, Var)]
    return {loop: _total(_touched(loop.body, sizes)) for loop in loops}


def domain_touched(
    body: s.Stmt, buffer: Buffer, consider_loads: bool = True, consider_stores: bool = True
) -> tuple[Range, ...]:
    """The box of a buffer that a statement touches; () where it does not touch it.

    Conditions around accesses are not looked at: with its padding a box may be larger than its
    buffer.

    Args:
        body: the statement.
        buffer: the buffer.
        consider_loads: whether reads count.
        consider_stores: whether writes count.
    """
    walker = _AllMemory(body)
    boxes = walker.reads.get(buffer, []) if consider_loads else []
    boxes = boxes + (walker.writes.get(buffer, []) if consider_stores else [])
    return walker.regions({buffer: boxes})[0].region if boxes else ()


def _touched(body: s.Stmt, sizes: Iterable[Var] = ()) -> Sizes:
    """Buffer -> bytes that a statement touches, for fixed values of the loops around it.

    sizes: symbolic dimensions that are no less than 1, as they are where a loop runs.
    """
    return _AllMemory(body, sizes).sizes()


def _total(sizes: Mapping[Buffer, Any]) -> Any:
    total = number(0)
    for size in sizes.values():
        total = p.add(total, p.as_expr(size))
    total = simplify(total)
    return None if any(isinstance(n, BufferLoad) for n in walk(total)) else plain(total)


class _AllMemory(WholeFunction):
    """The accesses of all buffers, those that live inside too; `sizes`: no less than 1."""

    def __init__(self, body: s.Stmt, sizes: Iterable[Var] = ()) -> None:
        bounds = dict.fromkeys(sizes, (1, None))
        super().__init__(s.Block((), (), (), "", body), Analyzer(bounds))

    def is_seen(self, buffer: Buffer) -> bool:
        """True for any."""
        return True

    def sizes(self) -> Sizes:
        """Bytes of each buffer that was seen."""
        return {buffer: plain(bytes_of(self, buffer)) for buffer in self.accessed()}


class _EachBlock(_AllMemory):
    """Counts block by block."""

    def __init__(self, body: s.Stmt) -> None:
        self.blocks: dict[s.Block, Sizes] = {}
        super().__init__(body)

    def _counted(self, n: s.BlockRealize) -> None:
        """Count what a block touches, and add it to what is around it."""
        outer = self.reads, self.writes, self.visited
        self.reads, self.writes, self.visited = {}, {}, {}
        self._look_inside(n)
        self.blocks[n.block] = self.sizes()
        for into, found in zip(outer[:2], (self.reads, self.writes), strict=True):
            for buffer, boxes in found.items():
                into.setdefault(buffer, []).extend(boxes)
        for buffer, count in self.visited.items():
            known = outer[2].get(buffer, 0)
            outer[2][buffer] = None if known is None or count is None else known + count
        self.reads, self.writes, self.visited = outer

    handlers: ClassVar = {**_AllMemory.handlers, s.BlockRealize: _counted}
