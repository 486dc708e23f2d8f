"""cache_read: what blocks read of a buffer is copied first, and read from the copy.

with T.block("C"):                      A_shared = T.alloc_buffer(..., scope="shared")
    ... A[v_i, v_k] ...         ->      with T.block("A_shared"):
                                            A_shared[v0, v1] = A[v0, v1]
                                        with T.block("C"):
                                            ... A_shared[v_i, v_k] ...
"""

from __future__ import annotations

from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit import caching
from mlcnb.tir.schedule.edit.nests import copy_nest, joined
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.edit.tile_cache import Tile, tile_of
from mlcnb.tir.schedule.legality.boxes import Side
from mlcnb.tir.schedule.legality.regions import boxes_of, known_bounds
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.stmt import Block, Stmt


@does(again=True)
def cache_read(
    state: State,
    block: Block,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[Block] | None = None,
) -> Change:
    """Copy what is read of a buffer into a new one in `storage_scope`, and read that.

    The new buffer has the dtype and shape of the old one.

    Args:
        state: the program.
        block: a block that reads the buffer.
        read_buffer_index: which of its inputs.
        storage_scope: the memory scope of the new buffer: local, shared, global, …
        consumer_blocks: the blocks that shall read the new buffer; all readers by default.

    Returns:
        The block that copies. It stands behind the producer of the buffer where there is one in
        the scope, else before the first of the readers, outside of all loops. Where one iteration
        of a nested block reads one tile, the new buffer has the size of the tile.

    Raises:
        ScheduleError: the buffer is written after the place of the copy.
    """
    caching.refuse_scope(state, "cache_read", storage_scope, block)
    tree = state.tree
    old = caching.chosen_buffer(state, "cache_read", block, block.reads, read_buffer_index)
    scope = tree.scope(block)
    info = tree.info(scope)
    writers = info.writers.get(old, [])
    others = [b for b in info.readers[old] if b is block or b not in writers]
    given = info.readers[old] if consumer_blocks else others
    readers = _listed(state, old, given, consumer_blocks)
    writers = _refuse(state, block, old, readers, writers)
    parent: Stmt = tree.meeting(writers, readers) if writers else scope
    new = caching.cached(old, storage_scope)
    known = known_bounds(tree, parent)
    kind = caching.index_dtype(tree, block) if writers or not old.shape else old.shape[0].dtype
    edit = state.edit()
    tile = _tile(tree, readers, old, parent)
    if tile is not None:
        new = tile.shaped(new)
        nest, copy = tile.copy(old, new, kind, fills=True)
        swap = tile.swap(old, new, edit.forward)
    else:
        sides = _copied(state, readers, writers, old, parent)
        nest, copy = copy_nest(old, new, sides, known, kind, caching.loops_at(tree, parent))
        swap = BufferSwap({old: new}, edit.forward)
    for user in readers:
        caching.replace_block(edit, user, swap)
    within = [b for b in readers if tree.inside(b, parent)]
    first = min(within, key=lambda b: tree.position[b])
    edit.before(tree.child_towards(parent, tree.realize(first)), nest)
    edit.allocate(scope, new)
    return Change.of(edit, copy).noting(read_buffer_index=caching.index_of(block.reads, old))


def _listed(
    state: State, old: Buffer, readers: list[Block], consumers: list[Block] | None
) -> list[Block]:
    """The readers that shall read the new buffer."""
    for block in consumers or []:
        if block not in readers:
            raise state.refusal(
                f"cache_read: {name_of(block)} does not read {old.name}",
                block,
                hint=f"{names_of(readers)} reads it",
            )
    return [b for b in readers if not consumers or b in consumers]


def _refuse(
    state: State, block: Block, old: Buffer, readers: list[Block], writers: list[Block]
) -> list[Block]:
    """The writers before the readers, where the others come when all has been read."""
    caching.refuse_views(state, "cache_read", old, readers)
    tree = state.tree
    position = tree.position
    first, last = (f(position[b] for b in readers) for f in (min, max))
    late = [b for b in writers if position[b] >= first]
    apart = not late or tree.meeting(late, readers) is tree.scope(block)
    if not apart or any(position[b] <= last for b in late):
        who = "it" if late[0] is block else name_of(late[0])
        raise state.refusal(
            f"cache_read: {name_of(block)} reads {old.name}, which {who} also writes after the "
            "place of the copy",
            block,
        )
    return [b for b in writers if b not in late]


def _tile(tree: Tree, readers: list[Block], old: Buffer, parent: Stmt) -> Tile | None:
    """What the readers need of the buffer, where that is one tile inside of a block."""
    if not all(tree.inside(b, parent) for b in readers):
        return None
    return tile_of(tree, parent, readers, boxes_of(tree, readers, "reads", old, parent))


def _copied(
    state: State, readers: list[Block], writers: list[Block], old: Buffer, parent: Stmt
) -> list[Side]:
    """What the readers need; where some stand outside of `parent`, all that is written inside."""
    tree = state.tree
    inside = [b for b in readers if tree.inside(b, parent)]
    boxes = boxes_of(tree, inside, "reads", old, parent)
    if len(inside) < len(readers):
        boxes += boxes_of(tree, writers, "writes", old, parent)
    known = known_bounds(tree, parent)
    return [joined([box.sides[n] for box in boxes], known) for n in range(old.ndim)]
