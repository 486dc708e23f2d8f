"""Dependences: which iterations, and which blocks, must stay in order.

    carried by a loop    two iterations touch one element of a buffer, and one of them writes it
    covered              what a block reads was written by an earlier block in the same iteration of
                         the loops that both stand in
    stable               once an element is written it keeps its value, even if it is written again

Each test says None for "legal", or the reason in words. None is sure; a reason may be overcautious.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.digits import determined
from mlcnb.arith.reading import of
from mlcnb.arith.sum import Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import IN_BLOCK_AXES, THREAD_AXES
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.reducers import matched_update
from mlcnb.tir.schedule.legality.boxes import Box, hull, inside
from mlcnb.tir.schedule.legality.promises import (
    read_buffers,
    reduce_variables,
    spatial_variables,
    why_neither,
    why_not_affine,
    why_not_complete,
    why_not_reduction,
    why_overwrites,
    written_buffers,
)
from mlcnb.tir.schedule.legality.regions import bindings, boxes_of, known_bounds, loops_below
from mlcnb.tir.schedule.record.handles import name_of, names_of
from mlcnb.tir.schedule.record.tree import Tree


def touched(tree: Tree, blocks: Iterable[s.Block]) -> dict[Buffer, list[s.Block]]:
    """The buffers that some of the blocks write, with all of the blocks that touch them."""
    blocks = list(blocks)
    written = dict.fromkeys(b for block in blocks for b in written_buffers(block))
    return {
        buffer: [b for b in blocks if buffer in (*read_buffers(b), *written_buffers(b))]
        for buffer in written
    }


def boxes(tree: Tree, blocks: Iterable[s.Block], buffer: Buffer, below: s.Stmt) -> list[Box]:
    """The boxes of all accesses that blocks make to a buffer, over the loops inside `below`."""
    sides = ("reads", "writes")
    return [x for b in blocks for side in sides for x in boxes_of(tree, [b], side, buffer, below)]


def is_private(tree: Tree, loop: s.For, buffer: Buffer, blocks: Sequence[s.Block]) -> bool:
    """True if a buffer is used under `loop` only, and each iteration writes all that it reads."""
    scope = tree.scope(loop)
    if buffer not in scope.alloc_buffers:
        return False
    info = tree.info(scope)
    users = {*info.writers.get(buffer, ()), *info.readers.get(buffer, ())}
    if not users <= set(blocks):
        return False
    for writer in info.writers.get(buffer, ()):
        below = {x.loop_var for x in loops_below(tree, writer, loop)}
        around = {x.loop_var for x in tree.loops(writer)} - below
        if reduce_variables(tree, writer) & around:
            return False
    return all(is_covered(tree, b, buffer, blocks) for b in info.readers.get(buffer, ()))


def is_covered(tree: Tree, reader: s.Block, buffer: Buffer, among: Sequence[s.Block]) -> bool:
    """True if one of the blocks `among` before `reader` writes all that it reads of a buffer.

    "Before" means: in the same iteration of the loops that both stand in.
    """
    earlier = [
        b
        for b in among
        if b is not reader
        and buffer in written_buffers(b)
        and tree.position[b] < tree.position[reader]
    ]
    return any(_covers(tree, writer, reader, buffer) for writer in earlier)


def _covers(tree: Tree, writer: s.Block, reader: s.Block, buffer: Buffer) -> bool:
    key = _covers, writer, reader, buffer  # asked for each of the loops around
    if key not in tree.facts:
        meeting = tree.common_ancestor([writer, reader])
        known = known_bounds(tree, tree.realize(reader))
        written = boxes_of(tree, [writer], "writes", buffer, meeting)
        needed = boxes_of(tree, [reader], "reads", buffer, meeting)
        tree.facts[key] = all(any(w.exact and inside(n, w, known) for w in written) for n in needed)
    return bool(tree.facts[key])


def why_carried(tree: Tree, loop: s.For, private: bool = True, threads: bool = False) -> str | None:
    """The reason why iterations of `loop` may depend on each other.

    Args:
        tree: the function.
        loop: the loop.
        private: whether a buffer that each iteration fills before reading may be its own; lanes of
            a vector have one for all of them, so they must fill it with the same.
        threads: whether iterations are threads of a block: they can combine the steps of a
            reduction; and shared memory is one for all of them, as for lanes.
    """
    blocks = tree.blocks_under(loop)
    for buffer, users in touched(tree, blocks).items():
        own = private and not (threads and is_shared(buffer))
        same = own or _is_filled_alike(tree, buffer, users)
        if same and is_private(tree, loop, buffer, blocks):
            continue
        if threads and len(users) == 1 and is_shared_reduction(tree, loop, users[0]):
            continue
        reason = _why_shared(tree, loop, buffer, users)
        if reason:
            return reason
    return None


def is_shared(buffer: Buffer) -> bool:
    """True for memory that the threads of a block share."""
    return buffer.scope.startswith("shared")


def _is_filled_alike(tree: Tree, buffer: Buffer, users: Iterable[s.Block]) -> bool:
    """True if each element gets one value, whichever thread writes it, and how often."""
    writers = [b for b in users if buffer in written_buffers(b)]
    return not any(why_not_complete(tree, b) or why_inputs_change(tree, b) for b in writers)


def is_shared_reduction(tree: Tree, loop: s.For, block: s.Block) -> bool:
    """True if the loop only runs over steps of the block's reduction, which is known to commute."""
    return (
        loop.loop_var in reduce_variables(tree, block) - spatial_variables(tree, block)
        and block.init is not None
        and is_update(block)
        and why_not_reduction(tree, block) is None
    )


def is_thread_loop(loop: s.For) -> bool:
    """True for a loop over the threads of a block."""
    return loop.kind is s.ForKind.THREAD_BINDING and loop.thread_binding in IN_BLOCK_AXES


def _why_shared(tree: Tree, loop: s.For, buffer: Buffer, users: list[s.Block]) -> str | None:
    known = known_bounds(tree, loop)
    sides = hull(boxes(tree, users, buffer, loop), known)
    starts = [(low, high.minus(low).value) for low, high in sides]
    if loop.loop_var in determined(starts, {loop.loop_var}, known):
        return None
    if known.get(loop.loop_var) == (0, 0) or _is_scattered(tree, loop, buffer, users):
        return None
    for block in users:
        if loop.loop_var in reduce_variables(tree, block):
            axis = _reduce_axis(tree, block, loop.loop_var)
            return (
                f"it runs over the reduce axis {axis} of {name_of(block)}: "
                f"its iterations update the same elements of {buffer.name}"
            )
    return (
        f"its iterations may touch the same elements of {buffer.name}, "
        f"which {names_of(b for b in users if buffer in written_buffers(b))} writes"
    )


def _is_scattered(tree: Tree, loop: s.For, buffer: Buffer, users: list[s.Block]) -> bool:
    """True if the blocks touch one element of a buffer at a time, the same one all of them, and
    where it is tells the iteration of `loop`: S[f // 55, f % 55] with f = bx * 64 + tx, whose tiles
    are boxes that overlap.
    """
    if any(tree.scope(b) is not tree.scope(loop) for b in users):
        return False
    places: list[list[Sum]] = []
    for block in users:
        context = bindings(tree, block)
        for region in (r for r in (*block.reads, *block.writes) if r.buffer is buffer):
            if any(p.as_int(side.extent) != 1 for side in region.region):
                return False
            places.append([of(side.min, context) for side in region.region])
    first, below = places[0], [{x.loop_var for x in loops_below(tree, b, loop)} for b in users]
    common = set.intersection(*below)
    if any(x.uses(set.union(*below) - common) for x in first):
        return False
    if not all(x.is_same(y) for other in places for x, y in zip(first, other, strict=True)):
        return False
    bounds = bindings(tree, users[0]).bounds
    return loop.loop_var in determined([(x, 0) for x in first], {loop.loop_var, *common}, bounds)


def _reduce_axis(tree: Tree, block: s.Block, loop_var: e.Var) -> str:
    context = bindings(tree, block)
    names = [
        v.var.name
        for v in block.iter_vars
        if v.iter_type is not s.IterType.SPATIAL and loop_var in context.values[v.var].variables()
    ]
    return ", ".join(names)


def why_not_reordered(tree: Tree, chain: Sequence[s.For], order: Sequence[s.For]) -> str | None:
    """The reason why the loops of a perfect nest may not run in another order."""
    bottom = chain[-1]
    blocks = tree.blocks_under(bottom)
    for buffer, users in touched(tree, blocks).items():
        reason = _why_order_matters(tree, chain, order, buffer, users)
        if reason:
            return reason
    return None


def _why_order_matters(
    tree: Tree, chain: Sequence[s.For], order: Sequence[s.For], buffer: Buffer, users: list[s.Block]
) -> str | None:
    bottom = chain[-1]
    known = known_bounds(tree, bottom)
    variables = {x.loop_var for x in chain}
    sides = hull(boxes(tree, users, buffer, bottom), known)
    starts = [(low, high.minus(low).value) for low, high in sides]
    found = determined(starts, variables, known)
    open_loops = [x for x in chain if x.loop_var not in found and known.get(x.loop_var) != (0, 0)]
    if len(open_loops) < 2 or [x for x in order if x in open_loops] == open_loops:
        return None
    if _is_one_reduction(tree, open_loops, chain[0], users):
        return None
    if _is_repeated(tree, bottom, buffer, users):
        return None
    names = ", ".join(x.loop_var.name for x in open_loops)
    return (
        f"iterations that differ in {names} may touch the same elements of {buffer.name}, and "
        f"{names_of(b for b in users if buffer in written_buffers(b))} writes it"
    )


def _is_one_reduction(
    tree: Tree, loops: Sequence[s.For], top: s.For, users: Sequence[s.Block]
) -> bool:
    """True if the loops are steps of one reduction, whose order does not matter."""
    if len(users) != 1:
        return False
    block = users[0]
    if why_not_affine(tree, block, tree.enclosing(top)):
        return False
    if block.init is None and not is_update(block):
        return False
    if block.init is not None and why_not_reduction(tree, block):
        return False
    reducing = reduce_variables(tree, block)
    return all(x.loop_var in reducing for x in loops)


def is_update(block: s.Block) -> bool:
    """True for `C[v] = C[v] + x` and its kin: one store that combines the old value with a new
    one.
    """
    return isinstance(block.body, s.BufferStore) and matched_update(block.body) is not None


def _is_repeated(tree: Tree, bottom: s.For, buffer: Buffer, users: Sequence[s.Block]) -> bool:
    """True if each iteration under `bottom` computes, from scratch, the same values that others
    would.
    """
    for block in users:
        if buffer in written_buffers(block):
            whole = {x.loop_var for x in loops_below(tree, block, bottom)}
            outside = reduce_variables(tree, block) - whole
            chain = {x.loop_var for x in tree.loops(block)}
            if why_neither(tree, block) or outside & chain:
                return False
        if buffer in read_buffers(block) and not is_covered(tree, block, buffer, users):
            return False
    return True


def concurrent_loops(loops: Iterable[s.Stmt]) -> list[s.For]:
    """Those of the loops that run in parallel, as lanes, or as threads."""
    kinds = (s.ForKind.PARALLEL, s.ForKind.VECTORIZED, s.ForKind.THREAD_BINDING)
    return [x for x in loops if isinstance(x, s.For) and x.kind in kinds]


def why_marks_break(tree: Tree, loops: Iterable[s.Stmt]) -> tuple[s.For, str] | None:
    """A loop of those that is marked as parallel but carries a dependence, and the reason."""
    for loop in concurrent_loops(loops):
        if loop in tree:
            private = loop.kind is not s.ForKind.VECTORIZED
            reason = why_carried(tree, loop, private, threads=is_thread_loop(loop))
            if reason:
                return loop, reason
    return None


def why_threads_part(tree: Tree, inner: s.For) -> str | None:
    """The reason why a loop may not stand in one over the same threads, which then share its work.

    That is for a fetch into shared memory: the same for every thread, so each does a part of it.
    """
    if inner.kind is not s.ForKind.THREAD_BINDING or inner.thread_binding not in THREAD_AXES:
        return None
    for outer in tree.ancestors(inner):
        if isinstance(outer, s.For) and outer.thread_binding == inner.thread_binding:
            return why_not_one_fetch(tree, outer, inner)
    return None


def why_not_one_fetch(tree: Tree, outer: s.For, inner: s.For) -> str | None:
    """The reason why the threads of `outer` may not do the iterations of `inner` together."""
    here = f"{name_of(inner)} runs on the threads of {name_of(outer)}, and "
    if p.as_int(outer.extent) is None or p.as_int(outer.extent) != p.as_int(inner.extent):
        return f"{here}they differ in number"
    if (outer.thread_binding or inner.thread_binding) not in IN_BLOCK_AXES:
        return f"{here}blocks share no memory"
    own = {outer.loop_var}
    for n in reversed([inner, *tree.ancestors(inner)]):
        if isinstance(n, s.BlockRealize):
            axes = zip(n.block.iter_vars, n.iter_values, strict=True)
            own.update(axis.var for axis, value in axes if own & variables_of(value))
        if isinstance(n, s.For) and n is not outer and own & variables_of((n.min, n.extent)):
            return f"{here}each of these runs other iterations"
    for block in tree.blocks_under(inner):
        alone = [r.buffer.name for r in block.writes if not is_shared(r.buffer)]
        if alone:
            return f"{here}{name_of(block)} writes {alone[0]}, which is not in shared memory"
        realize = tree.realize(block)
        if own & variables_of((*realize.iter_values, realize.predicate)):
            return f"{here}{name_of(block)} does something else in each of these"
    return None


def why_inputs_change(tree: Tree, block: s.Block) -> str | None:
    """The reason why what a block reads may be something else at another time in its scope."""
    info = tree.info(tree.scope(block))
    for buffer in read_buffers(block):
        for writer in info.writers.get(buffer, ()):
            if writer is block:
                continue
            if tree.position[writer] > tree.position[block]:
                return f"{name_of(writer)}, after it, writes {buffer.name}, which it reads"
            reason = why_unstable(tree, writer, block)
            if reason:
                return f"{buffer.name}, which it reads, changes: {reason}"
    return None


def why_unstable(tree: Tree, writer: s.Block, reader: s.Block) -> str | None:
    """The reason why iterations of the loops that two blocks share may write other values.

    None says: once an element is written, it keeps its value, even if it is written again.
    """
    shared = {x.loop_var for x in tree.loops(reader) if tree.inside(writer, x)}
    if not shared:
        return None
    if shared & reduce_variables(tree, writer):
        return f"the reduction of {name_of(writer)} runs in the same loop"
    if why_overwrites(tree, writer):
        return f"{name_of(writer)} writes the same elements repeatedly"
    if why_not_affine(tree, writer):
        return why_inputs_change(tree, writer)
    return None


def why_readers_mind(tree: Tree, block: s.Block) -> str | None:
    """The reason why a reader may see other values if a block ran at another time before it."""
    info = tree.info(tree.scope(block))
    for buffer in written_buffers(block):
        for reader in info.readers.get(buffer, ()):
            if reader is block:
                continue
            if tree.position[reader] < tree.position[block]:
                return f"{name_of(reader)} reads {buffer.name} before it is written"
            reason = why_unstable(tree, block, reader)
            if reason:
                return f"{name_of(reader)} reads {buffer.name} while it changes: {reason}"
    return None


def why_uncovered(tree: Tree, block: s.Block, known: Container[Buffer] = ()) -> str | None:
    """The reason why a block may read what is not written yet by then.

    known: buffers of which all that it reads is known to be there.
    """
    scope = tree.scope(block)
    info = tree.info(scope)
    among = tree.blocks_under(scope)
    for buffer in read_buffers(block):
        writers = [w for w in info.writers.get(buffer, ()) if w is not block]
        shared = [w for w in writers if isinstance(tree.common_ancestor([w, block]), s.For)]
        if shared and buffer not in known and not is_covered(tree, block, buffer, among):
            return f"it may read elements of {buffer.name} before {names_of(shared)} writes them"
    return None
