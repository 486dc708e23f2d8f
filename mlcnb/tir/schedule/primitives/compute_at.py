"""compute_at: a producer goes under a loop of its consumers, and makes there what they need.

for i in range(128):                            for i_0 in range(16):
    with T.block("B"):                              for ax0 in range(8):
        B[v] = A[v] * 2.0                               with T.block("B"):
for i_0, i_1 in T.grid(16, 8):          ->                  v = T.axis.spatial(128, i_0 * 8 + ax0)
    with T.block("C"):                                      B[v] = A[v] * 2.0
        C[v] = B[v] + 1.0                           for i_1 in range(8):
                                                        with T.block("C"):
                                                            C[v] = B[v] + 1.0

Elements that several iterations need (a stencil) are made again in each of them. Under loops that
are bound to threads, a buffer in shared memory is made for all threads of the block.
"""

from __future__ import annotations

from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit import moving
from mlcnb.tir.schedule.edit.nests import joined
from mlcnb.tir.schedule.edit.staging import item_of
from mlcnb.tir.schedule.legality.dependence import why_inputs_change, why_readers_mind
from mlcnb.tir.schedule.legality.promises import is_output_block, read_buffers, written_buffers
from mlcnb.tir.schedule.legality.regions import boxes_of, known_bounds
from mlcnb.tir.schedule.primitives.compute_inline import compute_inline
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import INLINE, Mark, name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, For


@does(again=True, near="compute_inline reverse_compute_at cache_read")
def compute_at(
    state: State,
    block: Block,
    loop: For | Mark,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> Change:
    """Move a block under a loop that holds all of its consumers.

    Args:
        state: the program.
        block: a complete or reduction block whose outputs live inside the scope.
        loop: a loop of the same scope, not around the block.
        preserve_unit_loops: keep loops of extent 1 in the new nest.
        index: where in the loop's body; -1 right before the consumers, -2 right behind the
            producers, else the number of statements before.

    Raises:
        ScheduleError: a consumer is not under the loop, the block writes an output, or its inputs
            change before the loop.
    """
    if isinstance(loop, Mark):
        return compute_inline(state, block) if loop is INLINE else Change(state.func, {})
    readers = _consumers(state, block, loop)
    if state.checks:
        _refuse(state, block)
    wanted = _wanted(state, block, loop, readers)
    nest = moving.nest_for(state, block, loop, wanted, preserve_unit_loops)
    edit = state.edit()
    first, last = _places(state, block, loop, readers)
    edit.put(state.tree.realize(block), None)
    moving.put_in(state, edit, "compute_at", loop, nest.wrap(block), first, last, index)
    return Change.of(edit)


def refuse_place(state: State, name: str, block: Block, loop: For) -> None:
    """The loop must be in the same scope as the block, and not around it."""
    tree = state.tree
    if tree.scope(block) is not tree.scope(loop):
        raise state.refusal(
            f"{name}: {name_of(loop)} and {name_of(block)} are not in the same block scope", loop
        )
    if tree.inside(block, loop):
        raise state.refusal(f"{name}: {name_of(loop)} is an ancestor of {name_of(block)}", loop)


def _consumers(state: State, block: Block, loop: For) -> list[Block]:
    """The readers of what the block writes: there are some, all are under the loop."""
    tree = state.tree
    refuse_place(state, "compute_at", block, loop)
    scope = tree.scope(block)
    if is_output_block(tree, block, scope):
        names = ", ".join(b.name for b in written_buffers(block))
        raise state.refusal(
            f"compute_at: {name_of(block)} is an output block: it writes {names}, an output of "
            f"{name_of(scope)}",
            block,
            hint="reverse_compute_at moves a consumer under a loop of its producer",
        )
    info = tree.info(scope)
    readers = [b for x in written_buffers(block) for b in info.readers.get(x, []) if b is not block]
    if not readers:
        raise state.refusal(f"compute_at: nothing reads what {name_of(block)} writes", block)
    outside = [b for b in readers if not tree.inside(b, loop)]
    if outside:
        raise state.refusal(
            f"compute_at requires all the consumers of {name_of(block)} to be under "
            f"{name_of(loop)}: {names_of(outside)} is not",
            outside[0],
            hint="choose a loop that holds all consumers",
        )
    return sorted(set(readers), key=lambda b: tree.position[b])


def _refuse(state: State, block: Block) -> None:
    moving.refuse_neither(state, "compute_at", block)
    reason = why_inputs_change(state.tree, block) or why_readers_mind(state.tree, block)
    state.refuse_for(reason, f"compute_at: {name_of(block)} cannot move", block)


def _wanted(state: State, block: Block, loop: For, readers: list[Block]) -> moving.Sides:
    """For each axis of the block, the instances that one iteration of the loop needs."""
    tree = state.tree
    known = known_bounds(tree, loop)
    found: moving.Sides = {}
    for written in block.writes:
        also = threads_that_share(state, loop, written.buffer)
        boxes = boxes_of(tree, readers, "reads", written.buffer, loop, also)
        if not boxes:
            continue
        needed = [
            joined([box.sides[n] for box in boxes], known) for n in range(written.buffer.ndim)
        ]
        for axis, side in moving.solve(block, written, needed, known).items():
            found[axis] = joined([found[axis], side], known) if axis in found else side
    return found


def threads_that_share(state: State, loop: For, buffer: Buffer) -> list[For]:
    """Thread loops around the new place that see one buffer: all that their threads need is made.

    Shared memory is one for the threads of a block, global memory for all blocks.
    """
    if buffer.scope.startswith("shared"):
        seen: tuple[str, ...] = ("threadIdx", "vthread")
    elif buffer.scope == "global":
        seen = ("threadIdx", "vthread", "blockIdx")
    else:
        seen = ()
    around = (*state.tree.loops(loop), loop)
    return [x for x in around if x.thread_binding and x.thread_binding.startswith(seen)]


def _places(state: State, block: Block, loop: For, readers: list[Block]) -> tuple[int, int]:
    """Behind the producers under the loop, before the first consumer."""
    tree = state.tree
    info = tree.info(tree.scope(block))
    makers = [w for x in read_buffers(block) for w in info.writers.get(x, []) if w is not block]
    behind = [item_of(state, loop, w) + 1 for w in makers if tree.inside(w, loop)]
    return max(behind, default=0), min(item_of(state, loop, b) for b in readers)
