"""cache_write: a block writes into a buffer of another scope, and a copy carries it to where it
wrote.

with T.block("C"):                      C_local = T.alloc_buffer(..., scope="local")
    C[v_i, v_j] += ...         ->       with T.block("C"):
                                            C_local[v_i, v_j] += ...
                                        with T.block("C_local"):
                                            C[v0, v1] = C_local[v0, v1]
"""

from __future__ import annotations

from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit import caching
from mlcnb.tir.schedule.edit.nests import copy_nest
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.edit.tile_cache import tile_of
from mlcnb.tir.schedule.legality.boxes import Box
from mlcnb.tir.schedule.legality.dependence import is_covered
from mlcnb.tir.schedule.legality.promises import read_buffers, reduce_variables, why_not_sole_writer
from mlcnb.tir.schedule.legality.regions import box_of, known_bounds, loops_below
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.stmt import Block, Stmt


@does(again=True)
def cache_write(
    state: State,
    block: Block,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[Block] | None = None,
) -> Change:
    """Let a block write into a new buffer in `storage_scope`, and copy that to the old buffer.

    The new buffer has the dtype and shape of the old one.

    Args:
        state: the program.
        block: the sole writer of the buffer.
        write_buffer_index: which of its outputs.
        storage_scope: the memory scope of the new buffer: local, shared, global, …
        consumer_blocks: blocks that read the new buffer in place of the old one.

    Returns:
        The block that copies. It stands right behind the statement that holds `block` and no
        reader of the old buffer; where there is none, at the end of the scope. In a nested block
        the new buffer has the size of what one iteration writes.

    Raises:
        ScheduleError: another block writes the buffer too, the block updates what was there
            before, or it does not write all elements of a box.
    """
    caching.refuse_scope(state, "cache_write", storage_scope, block)
    tree = state.tree
    old = caching.chosen_buffer(state, "cache_write", block, block.writes, write_buffer_index)
    scope = tree.scope(block)
    readers = [b for b in tree.info(scope).readers.get(old, []) if b is not block]
    moved = [b for b in readers if b in (consumer_blocks or [])]
    staying = [b for b in readers if b not in moved]
    _refuse(state, block, old, readers)
    for reader in moved:
        if state.checks and not is_covered(tree, reader, old, [block]):
            raise state.refusal(
                f"cache_write: {name_of(reader)} may read elements of {old.name} that "
                f"{name_of(block)} does not write",
                reader,
            )
    parent: Stmt = tree.meeting([block], staying) if staying else scope
    running = reduce_variables(tree, block) - {x.loop_var for x in loops_below(tree, block, parent)}
    if running:
        raise state.refusal(
            f"cache_write: {old.name} is read while the reduction of {name_of(block)} runs", block
        )
    box = _written(state, block, old, parent)
    new = caching.cached(old, storage_scope)
    dtype = caching.index_dtype(tree, block)
    edit = state.edit()
    users = [block, *moved]
    inside = all(tree.inside(b, parent) for b in users)
    tile = tile_of(tree, parent, users, [box]) if inside else None
    if tile is not None:
        new = tile.shaped(new)
        nest, copy = tile.copy(old, new, dtype, fills=False)
        swap = tile.swap(old, new, edit.forward)
    else:
        nest, copy = copy_nest(
            new, old, box.sides, known_bounds(tree, parent), dtype, caching.loops_at(tree, parent)
        )
        swap = BufferSwap({old: new}, edit.forward)
    for user in users:
        caching.replace_block(edit, user, swap)
    anchor = tree.child_towards(parent, tree.realize(block)) if staying else caching.last_of(parent)
    edit.after(anchor, nest)
    edit.allocate(scope, new)
    return Change.of(edit, copy).noting(write_buffer_index=caching.index_of(block.writes, old))


def _refuse(state: State, block: Block, old: Buffer, readers: list[Block]) -> None:
    tree = state.tree
    reason = why_not_sole_writer(tree, block)
    if reason:
        raise state.refusal(
            f"cache_write: {reason}, as {name_of(block)} does",
            block,
            hint="cache_write before decompose_reduction" if block.init is None else None,
        )
    if block.init is None and old in read_buffers(block) and not _fills_first(tree, block, old):
        raise state.refusal(
            f"cache_write: {name_of(block)} updates what {old.name} held before", block
        )
    if state.checks:
        caching.refuse_gaps(state, "cache_write", block, old)
    caching.refuse_views(state, "cache_write", old, [block, *readers])
    early = [b for b in readers if tree.position[b] < tree.position[block]]
    if early:
        raise state.refusal(
            f"cache_write: {name_of(early[0])} reads {old.name} before {name_of(block)} writes it",
            block,
        )


def _fills_first(tree: Tree, block: Block, buffer: Buffer) -> bool:
    """True if the blocks inside write what other blocks inside read, in one iteration of it."""
    inner = tree.blocks_under(block)
    readers = [b for b in inner if buffer in read_buffers(b)]
    return bool(inner) and all(is_covered(tree, b, buffer, inner) for b in readers)


def _written(state: State, block: Block, old: Buffer, parent: Stmt) -> Box:
    region = next(r for r in block.writes if r.buffer is old)
    box = box_of(state.tree, block, region, parent)
    if not box.exact:
        raise state.refusal(
            f"cache_write: what {name_of(block)} writes of {old.name} is no full box, "
            "and a copy would overwrite the rest",
            block,
            hint="cache_write before the loops are split and fused",
        )
    return box
