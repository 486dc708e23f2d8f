"""A cache of no more than a nested block uses: indices count from where the tile begins.

with T.block("scope"):                       with T.block("scope"):
    v = ...                                      v = ...
    ... A[v * 16 + x] ...          ->            A_local = T.alloc_buffer((16,), scope="local")
                                                 A_local[v0] = A[v * 16 + v0]
                                                 ... A_local[x] ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlcnb.arith import Analyzer
from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.schedule.edit.elementwise import axis_bounds
from mlcnb.tir.schedule.edit.nests import axes_over, copying, looped
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.legality.boxes import Box
from mlcnb.tir.schedule.legality.regions import bindings
from mlcnb.tir.schedule.record.tree import Tree


@dataclass(frozen=True)
class Tile:
    """Where the used part of a buffer begins, and its extents.

    known: bounds of the variables of the program.
    """

    begins: tuple[Sum, ...]
    extents: tuple[int, ...]
    known: dict[e.Var, Bounds]

    def shaped(self, buffer: Buffer) -> Buffer:
        """A buffer of the tile's extents."""
        kinds = [n.dtype for n in buffer.shape]
        shape = tuple(p.const(n, k) for n, k in zip(self.extents, kinds, strict=True))
        return replace(buffer, shape=shape)

    def within(self, indices: tuple[e.PrimExpr, ...]) -> tuple[e.PrimExpr, ...]:
        """Indices of the whole buffer, counted from where the tile begins."""
        context = Context(self.known)
        pairs = zip(indices, self.begins, strict=True)
        return tuple(of(i, context).minus(begin).expr(i.dtype) for i, begin in pairs)

    def box(self, region: BufferRegion, new: Buffer) -> BufferRegion:
        """A region of the whole buffer, counted likewise."""
        mins = self.within(tuple(r.min for r in region.region))
        sides = zip(mins, region.region, strict=True)
        return BufferRegion(new, tuple(replace(r, min=low) for low, r in sides))

    def swap(self, old: Buffer, new: Buffer, forward: dict[s.Stmt, s.Stmt]) -> BufferSwap:
        """Accesses of the whole buffer turned into accesses of the tile."""
        return BufferSwap({old: new}, forward, rule=self.within, box=self.box)

    def copy(self, old: Buffer, new: Buffer, dtype: str, fills: bool) -> tuple[s.Stmt, s.Block]:
        """Loops that copy the tile, and their block; fills: into the tile, else out of it."""
        axes = axes_over(self.extents, dtype)
        near = tuple(axis.var for axis in axes)
        far = tuple(
            v if begin.value == 0 else p.add(begin.expr(dtype), v)
            for begin, v in zip(self.begins, near, strict=True)
        )
        source, target = ((old, far), (new, near)) if fills else ((new, near), (old, far))
        block = copying(axes, source, target, new.name)
        return looped(block), block


def tile_of(
    tree: Tree, parent: s.Stmt, users: Sequence[s.Block], boxes: Sequence[Box]
) -> Tile | None:
    """The tile that a block inside of another uses of a buffer, all of it surely there.

    parent: where the cache is filled. None where that is a loop or the whole function, where the
    tile has no fixed size or is the whole buffer, where parts of it may lie outside, and where it
    begins by a loop (around a block without axes): blocks inside speak of axes alone.
    """
    if not isinstance(parent, s.Block) or parent is tree.root or not boxes or not boxes[0].sides:
        return None
    sides = boxes[0].sides
    whole = [of(n).shifted(-1) for n in boxes[0].buffer.shape]
    for box in boxes:
        same = zip(box.sides, sides, strict=True)
        if not box.exact or not all(
            len(x.lows) == len(x.highs) == 1 and x.low.is_same(y.low) and x.high.is_same(y.high)
            for x, y in same
        ):
            return None
    counts = [side.high.minus(side.low).shifted(1).value for side in sides]
    full = all(
        side.low.value == 0 and side.high.is_same(n) for side, n in zip(sides, whole, strict=True)
    )
    if full or any(n is None or n < 1 for n in counts):
        return None
    around = (*tree.ancestors(parent), parent)
    loops = {outer.loop_var for outer in around if isinstance(outer, s.For)}
    if any(side.low.uses(loops) for side in sides):
        return None
    analyzer = Analyzer({var: domain for outer in around for var, domain in _defined(outer)})
    rooms = [n.minus(side.high) for side, n in zip(sides, whole, strict=True)]
    ends = [*(side.low for side in sides), *rooms]
    kind = str(boxes[0].buffer.shape[0].dtype)
    if not all(analyzer.can_prove(end.expr(kind) >= 0) for end in ends):
        return None
    known = {v: x for b in users for v, x in bindings(tree, b).bounds.items()}
    for user in users:
        known.update(axis_bounds(user))
    return Tile(tuple(x.low for x in sides), tuple(n for n in counts if n is not None), known)


def _defined(n: s.Stmt) -> list[tuple[e.Var, e.Range]]:
    """The variables that a statement defines, with their domains."""
    if isinstance(n, s.For):
        return [(n.loop_var, e.Range(n.min, n.extent))]
    return [(x.var, x.dom) for x in n.iter_vars] if isinstance(n, s.Block) else []
