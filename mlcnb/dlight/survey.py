"""What a rule wants to know of a function: its blocks, and which one is the work.

survey = Survey.of(sch)
survey.blocks       in program order      survey.anchor      the reduction with the most to do
survey.before       what may come first   survey.after       what is done with its result
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import Block, BlockRealize, IterType

#: what an extent that is not known counts as, when work is compared
UNKNOWN = 8


@dataclass
class BlockInfo:
    """A block: its handle, its node, the extents of its axes and their kinds ("S" or "R")."""

    handle: Any
    node: Block
    extents: list[int | None] = field(default_factory=list)
    kinds: str = ""

    @property
    def name(self) -> str:
        """The block's name."""
        return self.node.name_hint

    @property
    def is_reduction(self) -> bool:
        """True if it has a reduce axis."""
        return "R" in self.kinds

    @property
    def is_spatial(self) -> bool:
        """True if it has axes and all are spatial; a statement over whole buffers has none."""
        return set(self.kinds) == {"S"}

    @property
    def work(self) -> int:
        """How often its body runs."""
        return math.prod(UNKNOWN if e is None else e for e in self.extents)

    def spatial(self) -> list[int | None]:
        """Extents of the spatial axes."""
        return [e for e, k in zip(self.extents, self.kinds, strict=True) if k == "S"]

    def reduced(self) -> list[int | None]:
        """Extents of the reduce axes."""
        return [e for e, k in zip(self.extents, self.kinds, strict=True) if k == "R"]


@dataclass
class Survey:
    """The blocks of a function that has not been scheduled."""

    blocks: list[BlockInfo]

    @staticmethod
    def of(sch: Schedule) -> Survey:
        """Look at the function that `sch` works on."""
        root = sch.get_block("root")
        return Survey([_info(sch, handle) for handle in sch.get_child_blocks(root)])

    @property
    def anchor(self) -> BlockInfo | None:
        """The reduction with the most work, if there is a reduction."""
        reductions = [b for b in self.blocks if b.is_reduction]
        return max(reductions, key=lambda b: b.work, default=None)

    def before(self, block: BlockInfo) -> list[BlockInfo]:
        """Blocks that do not use what `block` makes, in order: wherever they stand."""
        after = self.after(block)
        return [b for b in self.blocks if b is not block and b not in after]

    def feeding(self, block: BlockInfo) -> list[BlockInfo]:
        """Blocks whose results `block` uses, by itself or through others, in order."""
        return [b for b in self.before(block) if block in self.after(b)]

    def after(self, block: BlockInfo) -> list[BlockInfo]:
        """Blocks that use what `block` makes, by themselves or through others, in order."""
        made = {id(region.buffer) for region in block.node.writes}
        found = []
        for each in self.blocks[self.blocks.index(block) + 1 :]:
            if any(id(region.buffer) in made for region in each.node.reads):
                made |= {id(region.buffer) for region in each.node.writes}
                found.append(each)
        return found

    def keeps_shape(self, block: BlockInfo) -> bool:
        """True if all that uses what `block` makes is done element by element, in its shape."""
        after = self.after(block)
        return all(b.is_spatial and b.spatial() == block.spatial() for b in after)


def loop_kinds(sch: Schedule, block: Any, loops: Sequence[Any]) -> str:
    """ "R" for each of the loops that an axis of a reduction runs over, "S" for the others."""
    node = sch.get(block)
    realize = next(
        n
        for n in walk(sch.mod[sch.func_working_on].body)
        if isinstance(n, BlockRealize) and n.block is node
    )
    pairs = zip(node.iter_vars, realize.iter_values, strict=True)
    reduced = [value for axis, value in pairs if axis.iter_type is IterType.REDUCE]
    used = {n for value in reduced for n in walk(value) if isinstance(n, Var)}
    return "".join("R" if sch.get(loop).loop_var in used else "S" for loop in loops)


def _info(sch: Schedule, handle: Any) -> BlockInfo:
    node = sch.get(handle)
    letters = {IterType.SPATIAL: "S", IterType.REDUCE: "R"}
    kinds = "".join(letters.get(v.iter_type, "O") for v in node.iter_vars)
    return BlockInfo(handle, node, [as_int(v.dom.extent) for v in node.iter_vars], kinds)
