"""analyze: all that can be said of a loop program, in one object that shows itself.

mlc.tir.analyze(matmul)

    PrimFunc main: 4.19 MFLOP, touches 196.6 kB, 21.3 FLOP/B
      block  kind       loops    times   …
      C      reduction  i, j, k  2.1 M   …   sum over vk; A, B -> C
      loop   extent  one iteration touches   its iterations
      i         128                66.6 kB   independent: any order, in parallel
        …
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlcnb.core.display import Shown
from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.tir import analysis as a
from mlcnb.tir import stmt as s
from mlcnb.tir.access.depend import LoopDependence
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.analysis.blocks import BlockKind, block_kind, tree_of
from mlcnb.tir.schedule.record.tree import Tree

#: pairs of accesses that are compared at most: about ten seconds
MOST_PAIRS = 10_000


@dataclass(frozen=True, slots=True)
class BlockReport:
    """One block.

    kind: spatial, reduction, scan or opaque, and `reason` why it is opaque; loops: those around it;
    flops: operations of all its instances; sizes: bytes of each buffer that it touches.
    """

    block: s.Block
    kind: BlockKind
    reason: str
    loops: tuple[s.For, ...]
    flops: Any
    sizes: dict[Any, Any]
    reduction: a.ReductionPattern | None

    @property
    def bytes(self) -> Any:
        """Bytes touched, all buffers together; None where symbolic."""
        values = list(self.sizes.values())
        return sum(values) if all(isinstance(n, int) for n in values) else None

    @property
    def intensity(self) -> float | None:
        """Operations for each byte, None where symbolic."""
        if not isinstance(self.flops, int) or not self.bytes:
            return None
        return self.flops / self.bytes

    @property
    def instances(self) -> int | None:
        """How often its loops run it; None where symbolic."""
        count = 1
        for loop in self.loops:
            extent = p.as_int(loop.extent)
            if extent is None:
                return None
            count *= extent
        return count


@dataclass(frozen=True, slots=True)
class LoopReport:
    """One loop: the bytes that an iteration touches, and the dependences that it carries."""

    loop: s.For
    working_set: Any
    carried: tuple[LoopDependence, ...]
    is_known: bool = True

    @property
    def is_parallel(self) -> bool:
        """True if its iterations may run in any order, and at the same time."""
        return self.is_known and not self.carried

    @property
    def is_reduction(self) -> bool:
        """True if it only carries steps of reductions, which may run in any order."""
        return bool(self.carried) and all(_is_of_reduction(d) for d in self.carried)

    @property
    def verdict(self) -> str:
        """What may be done with its iterations, in words."""
        if not self.is_known:
            return "not looked at: too many accesses"
        if self.is_parallel:
            return "independent: any order, in parallel"
        names = ", ".join(dict.fromkeys(d.buffer.name for d in self.carried))
        if self.is_reduction:
            return f"steps of a reduction into {names}: any order, one at a time"
        worst = next(d for d in self.carried if not _is_of_reduction(d))
        steps = worst.distance[worst.loops.index(self.loop)]
        later = "in a later iteration" if steps is None else f"{steps} iterations later"
        what, when = _WORDS[worst.kind]
        verb = "is" if worst.exact else "may be"
        later = later.replace("1 iterations", "1 iteration")
        return f"in order: {worst.buffer.name} {verb} {what} {later}{when}"


#: kind of dependence -> what the later iteration does, and what the earlier one did
_WORDS = {
    a.DepKind.RAW: ("read", " than it is written"),
    a.DepKind.WAR: ("written", " than it is read"),
    a.DepKind.WAW: ("written again", ""),
}


def _is_of_reduction(d: LoopDependence) -> bool:
    """True for the steps of one update, and for what follows its init."""
    if d.is_reduction:
        return True
    block = d.source.block
    return (
        block is not None
        and block is d.target.block
        and block.init is not None
        and a.reduction_pattern(block) is not None
    )


@dataclass(frozen=True, repr=False)
class Analysis(Shown):
    """What `analyze` found. Each part is computed when it is asked for."""

    func: PrimFunc
    tree: Tree

    @cached_property
    def blocks(self) -> tuple[BlockReport, ...]:
        """A report for each block, without the root."""
        work, sizes = a.block_flops(self.func), a.block_bytes(self.func)
        return tuple(
            self._block(b, work, sizes) for b in self.tree.blocks if b is not self.tree.root
        )

    def _block(self, block: s.Block, work: Any, sizes: Any) -> BlockReport:
        kind, reason = block_kind(self.tree, block)
        return BlockReport(
            block,
            kind,
            reason,
            tuple(self.tree.loops(block)),
            work.get(block, 0),
            sizes.get(block, {}),
            a.reduction_pattern(block),
        )

    @cached_property
    def is_large(self) -> bool:
        """True for a program of so many accesses that their dependences are not looked for."""
        counts = Counter(access.buffer.data for access in a.accesses_of(self.func))
        return sum(n * n for n in counts.values()) > MOST_PAIRS

    @cached_property
    def dependences(self) -> list[LoopDependence]:
        """The dependences between iterations; none of a program that `is_large`."""
        return [] if self.is_large else a.loop_dependences(self.func)

    @cached_property
    def loops(self) -> tuple[LoopReport, ...]:
        """A report for each loop, in the order of the program."""
        return tuple(
            LoopReport(
                loop,
                size,
                tuple(d for d in self.dependences if d.carried_by is loop),
                not self.is_large,
            )
            for loop, size in a.working_sets(self.func).items()
        )

    @cached_property
    def scope(self) -> a.BlockScope:
        """The dependences between the blocks of the root; none of a program that `is_large`."""
        if self.is_large:
            return a.BlockScope(self.tree.root, self.tree.blocks_under(self.tree.root), [])
        return a.get_block_scope(self.func)

    @cached_property
    def flops(self) -> Any:
        """Operations of one call."""
        return a.flops(self.func)

    @cached_property
    def bytes(self) -> dict[Any, Any]:
        """Buffer of a parameter -> bytes that one call touches."""
        return a.bytes_touched(self.func)

    @property
    def intensity(self) -> float | None:
        """Operations for each byte of the parameters, None where symbolic."""
        total = [n for n in self.bytes.values() if isinstance(n, int)]
        if not isinstance(self.flops, int) or len(total) < len(self.bytes) or not sum(total):
            return None
        return self.flops / sum(total)

    @cached_property
    def footprint(self) -> dict[str, Any]:
        """Memory scope -> bytes that one call touches there."""
        return a.memory_footprint(self.func)

    @cached_property
    def allocated(self) -> dict[str, Any]:
        """Memory scope -> bytes that are allocated."""
        return a.allocated_bytes(self.func)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, or not proved: rules of the IR, bounds, reads of what nobody wrote."""
        found = []
        try:
            a.verify_well_formed(self.func)
        except MLCError as error:
            found.append(error.message)
        found += [x.message for x in a.check_bounds(self.func)]
        if self.is_large:
            return tuple(found)
        return (*found, *map(repr, a.uninitialized_reads(self.func)))


def analyze(func: Any) -> Analysis:
    """All that can be said of a loop program: blocks, loops, work, memory, dependences, problems.

    Args:
        func: a PrimFunc, a module with one, or a schedule.

    The result shows itself in a cell; its fields are there for programs.
    """
    tree = tree_of(func)
    return Analysis(tree.func, tree)
