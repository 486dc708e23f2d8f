"""What is true of a block where it stands, and of what stands in it: TVM's words for a state.

affine_binding    no two iterations of the loops around the block run one instance of it
region_cover      what it reads of its siblings' buffers was written before, in one iteration
stage_pipeline    each child of it has region cover, and none overwrites what another has read
"""

from __future__ import annotations

from dataclasses import dataclass

from mlcnb.tir import analysis
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis import DepKind
from mlcnb.tir.analysis.scope import children_of, uncovered_by_siblings
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality import promises as legality
from mlcnb.tir.schedule.record.state import CachedFlags, Snapshot, StmtSRef
from mlcnb.tir.schedule.record.tree import Tree


@dataclass(frozen=True)
class SRefDependency:
    """`dst` must stay after `src`; kind: RAW, WAW or WAR."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


def flags_of(tree: Tree, block: s.Block) -> CachedFlags:
    """The flags of a block; memory that threads share counts as written by all of them."""
    if block is tree.root:
        return CachedFlags(True, True, _is_pipeline(tree.func, block))
    return CachedFlags(
        legality.why_not_affine(tree, block) is None,
        _is_covered(tree.func, block, _by_place(tree.func, tree.scope(block))),
        _is_pipeline(tree.func, block),
    )


Directed = tuple[list[analysis.Dependency], list[analysis.Dependency]]


def _by_place(func: PrimFunc, scope: s.Block) -> Directed:
    """The dependences between the blocks of a scope: those of which the source stands first, and
    those that only an outer loop carries, from a block to one that stands before it."""
    scoped = analysis.get_block_scope(func, scope)
    place = {block: n for n, block in enumerate(scoped.children)}
    found: Directed = [], []
    for d in scoped.dependencies:
        if d.src is not d.dst:
            found[place[d.src] > place[d.dst]].append(d)
    return found


def _is_covered(func: PrimFunc, block: s.Block, found: Directed) -> bool:
    """Region cover; what is written only further down is an input."""
    down, up = found
    made = {d.buffer for d in down if d.dst is block and d.kind is DepKind.RAW}
    made |= {d.buffer for d in up if d.src is block and d.kind is DepKind.WAR}
    reads = uncovered_by_siblings(func, block, by_threads=True)
    return not any(read.access.buffer in made for read in reads)


def _is_pipeline(func: PrimFunc, block: s.Block) -> bool:
    found = _by_place(func, block)
    if any(d.kind in (DepKind.WAR, DepKind.OPAQUE) for d in found[0]):
        return False
    return all(_is_covered(func, child, found) for child in children_of(func, block))


class SRefScope:
    """The dependences between the blocks of one scope, between places of a state."""

    def __init__(self, owner: Snapshot, func: PrimFunc, block: s.Block) -> None:
        pairs = dict.fromkeys((d.src, d.dst, d.kind) for d in _by_place(func, block)[0])
        self.dependencies = tuple(
            SRefDependency(owner.get_sref(src), owner.get_sref(dst), kind)
            for src, dst, kind in pairs
        )

    def get_deps_by_src(self, block: StmtSRef) -> list[SRefDependency]:
        """What must stay after a block."""
        return [d for d in self.dependencies if d.src.same_as(block)]

    def get_deps_by_dst(self, block: StmtSRef) -> list[SRefDependency]:
        """What a block must stay after."""
        return [d for d in self.dependencies if d.dst.same_as(block)]
