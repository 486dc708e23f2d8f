"""Looking: blocks by name, loops around them, and who makes what for whom.

get_block("C")      with T.block("C")
get_loops(C)        i, j, k       for i, j, k in T.grid(...)
get_producers(C)    the blocks before it that write what it touches
"""

from __future__ import annotations

from mlcnb.ir.expr import GlobalVar
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import State
from mlcnb.tir.stmt import Block, For


@does(pure=True)
def get_block(state: State, name: str, func_name: str | GlobalVar | None = None) -> Block:
    """The block of that name.

    `sch.get` of the handle is the Block, whose `iter_vars` have the extents of its axes.

    Raises:
        ScheduleError: there is none, or more than one.
    """
    found = state.tree.find_block(name)
    if len(found) == 1:
        return found[0]
    names = ", ".join(dict.fromkeys(b.name_hint for b in state.tree.blocks if b.name_hint))
    if not found:
        raise state.refusal(f"get_block: there is no block {name!r}", hint=f"there are: {names}")
    raise state.refusal(
        f"get_block: {len(found)} blocks have the name {name!r}",
        where=found[1],
        hint="get_child_blocks of the root gives them all",
    )


@does(pure=True)
def get_loops(state: State, block: Block) -> list[For]:
    """The loops around a block, outermost first, up to the block that holds it.

    Loops of extent 1 are among them; `sch.get(loop).extent` may be an expression of symbolic sizes.
    """
    return state.tree.loops(block)


@does(pure=True)
def get_child_blocks(state: State, block_or_loop: Block | For) -> list[Block]:
    """The blocks directly inside a block or a loop, in program order; `sch.get(loop).extent` is the
    loop's extent, `sch.get(block).iter_vars` has those of a block's axes.
    """
    return state.tree.blocks_under(block_or_loop)


@does(pure=True)
def get_producers(state: State, block: Block) -> list[Block]:
    """The blocks earlier in the same scope that write what this one reads or writes.

    Buffers count as a whole, whatever their shapes and the regions in them.
    """
    return state.tree.info(state.tree.scope(block)).producers(block)


@does(pure=True)
def get_consumers(state: State, block: Block) -> list[Block]:
    """The blocks later in the same scope that read or write what this one writes.

    Buffers count as a whole, whatever their shapes and the regions in them.
    """
    return state.tree.info(state.tree.scope(block)).consumers(block)


@does(pure=True)
def get_output_blocks(state: State, scope_block: Block) -> list[Block]:
    """The blocks inside `scope_block`, nested ones too, that write what lives outside of it: any
    element of such a buffer, whatever its shape.
    """
    tree = state.tree
    inside = [b for b in tree.blocks if b is not scope_block and tree.inside(b, scope_block)]
    own = {a for b in (scope_block, *inside) for a in b.alloc_buffers}
    return [b for b in inside if any(r.buffer not in own for r in b.writes)]
