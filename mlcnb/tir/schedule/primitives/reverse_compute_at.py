"""reverse_compute_at: a consumer goes under a loop of its producer, and takes there what is made.

for i_0, i_1 in T.grid(16, 8):                  for i_0 in range(16):
    with T.block("B"):                              for i_1 in range(8):
        B[v] = A[v] * 2.0                               with T.block("B"):
for i in range(128):                    ->                  B[v] = A[v] * 2.0
    with T.block("C"):                              for ax0 in range(8):
        C[v] = B[v] + 1.0                               with T.block("C"):
                                                            v = T.axis.spatial(128, i_0 * 8 + ax0)
                                                            C[v] = B[v] + 1.0

Under a loop of the producer's reduction the consumer waits for its last iteration (`T.where`).
Where it reads neighbours, an instance runs in the iteration that makes the last of what it reads.
Refused where no iteration is known to hold the final value of all that the consumer reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlcnb.arith.extremes import extremes
from mlcnb.ir.expr import Var
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.schedule.edit import moving
from mlcnb.tir.schedule.edit.finishing import has_last, in_the_last, reducing, waited_for
from mlcnb.tir.schedule.edit.nests import Nest
from mlcnb.tir.schedule.edit.staging import item_of
from mlcnb.tir.schedule.legality import promises
from mlcnb.tir.schedule.legality.boxes import Box, Side, inside, spans
from mlcnb.tir.schedule.legality.dependence import (
    is_covered,
    why_inputs_change,
    why_readers_mind,
    why_uncovered,
)
from mlcnb.tir.schedule.legality.regions import bindings, box_of, known_bounds, loops_below
from mlcnb.tir.schedule.primitives.compute_at import refuse_place
from mlcnb.tir.schedule.primitives.reverse_compute_inline import reverse_compute_inline
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import INLINE, Mark, name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State, arrived
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.stmt import Block, For, ForKind

NAME = "reverse_compute_at"


@does(again=True, near="reverse_compute_inline compute_at cache_write")
def reverse_compute_at(
    state: State,
    block: Block,
    loop: For | Mark,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> Change:
    """Move a block under a loop that holds producers of it.

    Args:
        state: the program.
        block: a complete or reduction block.
        loop: a loop of the same scope, not around the block, with at least one producer under it.
        preserve_unit_loops: keep loops of extent 1 in the new nest.
        index: where in the loop's body; -1 at the end, -2 right behind the producers, else the
            number of statements before.

    Raises:
        ScheduleError: in an iteration of the loop, not all that the block would read is there.
    """
    if isinstance(loop, Mark):
        return reverse_compute_inline(state, block) if loop is INLINE else Change(state.func, {})
    makers = _producers(state, block, loop)
    primary = makers[-1]
    made = {b: _made(state, block, loop, w, b) for w, b in makers}
    writers = [w for w, _ in makers]
    wanted = _wanted(state, block, loop, primary[1], made[primary[1]], writers)
    nest = moving.nest_for(state, block, loop, wanted, preserve_unit_loops)
    early = _early(state, block, nest, made)
    waits = None
    if early is not None:
        by_now = {b: _by_now(state, block, loop, w, b) for w, b in makers}
        wanted = _wanted(state, block, loop, primary[1], made[primary[1]], writers, last=True)
        waits = moving.nest_for(state, block, loop, wanted, preserve_unit_loops)
        waits = None if _early(state, block, waits, by_now) else waits
    if early is not None and waits is None and state.checks:
        raise state.refusal(
            f"{NAME}: in an iteration of {name_of(loop)}, {name_of(block)} would read elements of "
            f"{early.name} that are not made yet",
            loop,
            hint="choose an outer loop, or compute_at the producer under a loop of the consumer",
        )
    nest = waits or nest
    nest.conditions += in_the_last(
        waited_for(state.tree, writers, _new_loops(state, block, loop)), nest.dtype
    )
    first, last = 1 + max(item_of(state, loop, w) for w in writers), len(moving.body_items(loop))
    edit = state.edit()
    edit.put(state.tree.realize(block), None)
    moving.put_in(state, edit, NAME, loop, nest.wrap(block), first, last, index)
    change = Change.of(edit)
    if state.checks:
        _refuse_after(state, block, loop, change, set(made) if waits else set())
    return change


def _producers(state: State, block: Block, loop: For) -> list[tuple[Block, Buffer]]:
    """The writers under the loop, with what they write for the block, in program order."""
    tree = state.tree
    refuse_place(state, NAME, block, loop)
    info = tree.info(tree.scope(block))
    place = tree.position
    found: list[tuple[Block, Buffer]] = []
    for buffer in promises.read_buffers(block):
        for writer in info.writers.get(buffer, []):
            late = place[writer] > place[loop] and not tree.inside(writer, loop)
            if writer is not block and (late or place[writer] > place[block]):
                behind = name_of(loop) if late else name_of(block)
                raise state.refusal(
                    f"{NAME}: {name_of(writer)}, behind {behind}, writes {buffer.name}, "
                    f"which {name_of(block)} reads",
                    block,
                )
            if tree.inside(writer, loop):
                found.append((writer, buffer))
    if not found:
        raise state.refusal(
            f"{NAME}: no producer of {name_of(block)} is under {name_of(loop)}", loop
        )
    if state.checks:
        _refuse(state, block)
    return sorted(found, key=lambda pair: tree.position[pair[0]])


def _refuse(state: State, block: Block) -> None:
    moving.refuse_neither(state, NAME, block)
    reason = why_readers_mind(state.tree, block) or why_inputs_change(state.tree, block)
    state.refuse_for(reason, f"{NAME}: {name_of(block)} cannot move", block)


def _made(state: State, block: Block, loop: For, writer: Block, buffer: Buffer) -> Box:
    """What one iteration of the loop makes of a buffer, for good."""
    tree = state.tree
    partial = reducing(tree, writer, _new_loops(state, block, loop))
    torn = [x for x in partial if not has_last(tree, writer, x)]
    if torn and state.checks:
        raise state.refusal(
            f"{NAME}: in {name_of(loop)}, {name_of(writer)} has not finished {buffer.name}: "
            f"{name_of(torn[0])} runs over its reduction",
            loop,
            hint=f"choose a loop outside of {name_of(torn[0])}",
        )
    if promises.why_overwrites(tree, writer) and state.checks:
        raise state.refusal(
            f"{NAME}: {name_of(writer)} may write an element of {buffer.name} more than once",
            writer,
        )
    region = next(r for r in writer.writes if r.buffer is buffer)
    return box_of(tree, writer, region, loop, also=[] if torn else partial)


def _new_loops(state: State, block: Block, loop: For) -> list[For]:
    """The loops that the block will stand in and does not stand in now, from the outside in."""
    shared = set(state.tree.loops(block))
    return [x for x in (*state.tree.loops(loop), loop) if x not in shared]


def _by_now(state: State, block: Block, loop: For, writer: Block, buffer: Buffer) -> Box | None:
    """What one iteration of the loop and all before it make of a buffer.

    Where each index rises with the loops outside of it, outer ones by larger steps, an element
    before the one that an iteration makes is made in the same iteration or before.
    """
    tree = state.tree
    new = _new_loops(state, block, loop)
    over = [x for x in new if x not in reducing(tree, writer, new)]
    if any(x.kind not in (ForKind.SERIAL, ForKind.UNROLLED) for x in over):
        return None
    region = next(r for r in writer.writes if r.buffer is buffer)
    now = box_of(tree, writer, region, loop, also=reducing(tree, writer, new))
    everything = box_of(tree, writer, region, loop, also=new)
    if not (now.exact and everything.exact):
        return None
    for side, whole in zip(now.sides, everything.sides, strict=True):
        steps = [side.low.terms.get(x.loop_var, 0) for x in over]
        used = [n for n in steps if n]
        plain = all(isinstance(t, Var) for t in side.low.terms)
        if not plain or used != sorted(used, reverse=True) or any(n < 0 for n in used):
            return None
        side.lows = whole.lows
    return now


def _wanted(
    state: State,
    block: Block,
    loop: For,
    buffer: Buffer,
    box: Box,
    makers: list[Block],
    last: bool = False,
) -> moving.Sides:
    """For each axis of the block, the instances whose input is made in one iteration.

    last: those that read something of it and nothing behind it.
    """
    tree = state.tree
    known = known_bounds(tree, loop)
    region = _only_read(state, block, buffer)
    if state.checks and not moving.reads_within(block, region):
        raise state.refusal(
            f"{NAME}: some instances of {name_of(block)} do not read {buffer.name}, "
            "so no iteration would run them",
            block,
        )
    if state.checks and not is_covered(tree, block, buffer, makers):
        raise state.refusal(
            f"{NAME}: {name_of(block)} may read elements of {buffer.name} that "
            f"{names_of(makers)} does not write",
            block,
        )
    found = moving.solve(block, region, box.sides, known, last)
    return _within_old(state, block, loop, found)


def _only_read(state: State, block: Block, buffer: Buffer) -> BufferRegion:
    regions = [r for r in block.reads if r.buffer is buffer]
    if len(regions) != 1:
        raise state.refusal(
            f"{NAME}: {name_of(block)} reads {buffer.name} in {len(regions)} places", block
        )
    return regions[0]


def _within_old(state: State, block: Block, loop: For, found: moving.Sides) -> moving.Sides:
    """Instances that the block does not run now, in the loops that it shares with `loop`, stay
    out.
    """
    tree = state.tree
    meeting = tree.common_ancestor([block, loop])
    if not isinstance(meeting, For):
        return found
    context = bindings(tree, block)
    inner = spans(loops_below(tree, block, meeting), context.bounds)
    for axis in block.iter_vars:
        ends = extremes(context.values[axis.var], inner, context.bounds)
        if ends is not None and axis.var in found:
            side = found[axis.var]
            found[axis.var] = Side([*side.lows, ends[0]], [*side.highs, ends[1]])
        elif ends is not None:
            found[axis.var] = Side([ends[0]], [ends[1]])
    return found


def _early(
    state: State, block: Block, nest: Nest, made: Mapping[Buffer, Box | None]
) -> Buffer | None:
    """A buffer of which a nest of the block may read more than is made."""
    for buffer, box in made.items():
        region = _only_read(state, block, buffer)
        sides = moving.nest_sides(nest, block, [(r.min, r.extent) for r in region.region])
        if sides is None or box is None or not box.exact:
            return buffer
        if not inside(Box(buffer, sides, True), box, nest.known):
            return buffer
    return None


def _refuse_after(
    state: State, block: Block, loop: For, change: Change, known: set[Buffer]
) -> None:
    """Checks of the program that came out: reductions run once, parallel loops stay parallel.

    known: buffers of which all that the block reads is known to be there.
    """
    made = Tree(change.func)
    around = [arrived(change.forward, x) for x in (*state.tree.loops(loop), loop)]
    early = why_uncovered(made, block, known)
    state.refuse_for(early, f"{NAME}: in {name_of(loop)}, {name_of(block)} is too early")
    if block.init is None:
        return
    reason = promises.why_late(made, block)
    inner = {x.loop_var for x in loops_below(made, block, around[-1])}
    split_up = not promises.reduce_variables(made, block) <= inner
    if split_up:
        reason = reason or promises.why_not_affine(made, block)
    state.refuse_for(reason, f"{NAME}: the reduction {name_of(block)} would be torn apart", block)
