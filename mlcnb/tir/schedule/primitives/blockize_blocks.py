"""blockize of a list: blocks that stand one after the other become one block, with them inside.

for i_0 in range(4):                          for i_0 in range(4):
    for i_1 in range(8):                          with T.block("outer_B_C_"):
        with T.block("B"):                            v_i_0 = T.axis.spatial(4, i_0)
            v = i_0 * 8 + i_1           ->            for i_1 in range(8):
    for i_1 in range(8):                                  with T.block("B"):
        with T.block("C"):                                    v = v_i_0 * 8 + i_1
            v = i_0 * 8 + i_1                         for i_1 in range(8):
                                                          with T.block("C"): ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.edit.elementwise import refreshed, within_buffers
from mlcnb.tir.schedule.edit.rebuild import Substitution
from mlcnb.tir.schedule.legality.boxes import Box, is_uncut
from mlcnb.tir.schedule.legality.promises import reduce_variables
from mlcnb.tir.schedule.legality.regions import bindings, box_of, known_bounds
from mlcnb.tir.schedule.record.handles import name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BlockRealize, For, IterVar, SeqStmt, Stmt, seq


def blockize_blocks(state: State, blocks: Sequence[Block], preserve_unit_iters: bool) -> Change:
    """Put consecutive blocks of one scope, with the loops that hold nothing else, into one block.

    Its axes are the loops around it that the blocks use. See `blockize`.
    """
    tree = state.tree
    _refuse(state, blocks)
    place = tree.common_ancestor(blocks)
    items = _items(state, blocks, place)
    around = [x for x in tree.loops(items[0]) if not tree.inside(x, items[0])]
    axes, values, known = _axes(state, blocks, around, preserve_unit_iters)
    if state.checks:
        _refuse_holes(state, blocks, place)
    edit = state.edit()
    inner = Substitution(Context(values=known), edit.forward)
    body = seq(*(inner.stmt(x) for x in items))
    ordered = sorted(blocks, key=lambda b: tree.position[b])
    name = f"outer_{'_'.join(b.name_hint for b in ordered)}_"
    made = within_buffers(refreshed(Block(axes, (), (), name, body)))
    edit.put(items[0], BlockRealize(values, p.const(True), made))
    for x in items[1:]:
        edit.put(x, None)
    return Change.of(edit, made)


def _refuse(state: State, blocks: Sequence[Block]) -> None:
    tree = state.tree
    if not blocks:
        raise state.refusal("blockize: no blocks given")
    for n, block in enumerate(blocks):
        if block in blocks[:n]:
            raise state.refusal(f"blockize: {name_of(block)} is given twice", block)
        if tree.scope(block) is not tree.scope(blocks[0]) or block is tree.root:
            raise state.refusal(
                f"blockize: {name_of(blocks[0])} and {name_of(block)} are not in one block", block
            )


def _items(state: State, blocks: Sequence[Block], place: Stmt) -> list[Stmt]:
    """The statements that hold the blocks: next to each other, and nothing else in them."""
    tree = state.tree
    found = {tree.child_towards(place, tree.realize(b)) for b in blocks}
    items = sorted(found, key=lambda n: tree.position[n])
    others = [b for x in items for b in tree.blocks_under(x) if b not in blocks]
    parent = tree.parent[items[0]]
    if isinstance(parent, SeqStmt):
        first = parent.seq.index(items[0])
        between = [n for n in parent.seq[first : first + len(items)] if n not in items]
        others += [b for n in between for b in tree.blocks_under(n)]
    if others:
        raise state.refusal(
            f"blockize: {names_of(others)} stands between {names_of(blocks)}",
            others[0],
            hint="name all blocks from the first to the last",
        )
    return items


def refuse_hole(state: State, block: Block, box: Box, known: Mapping[e.Var, Bounds]) -> None:
    """Refuse a tile of what a block writes that is not written as a whole."""
    if not is_uncut(box, known):
        raise state.refusal(
            f"blockize: a condition in one tile keeps {name_of(block)} from writing all of it of "
            f"{box.buffer.name}, and the new block could not say what it writes",
            block,
        )


def _refuse_holes(state: State, blocks: Sequence[Block], place: Stmt) -> None:
    tree = state.tree
    known = known_bounds(tree, place)
    for block in blocks:
        for r in block.writes:
            refuse_hole(state, block, box_of(tree, block, r, place), known)


def _axes(
    state: State, blocks: Sequence[Block], around: list[For], keep_units: bool
) -> tuple[tuple[IterVar, ...], tuple[e.PrimExpr, ...], dict[e.Var, Sum]]:
    """Axes for the loops that the blocks use, their values, and what the loop variables become."""
    tree = state.tree
    used: set[e.Var] = set()
    reducing: set[e.Var] = set()
    for block in blocks:
        for value in bindings(tree, block).values.values():
            used |= value.variables()
        reducing |= reduce_variables(tree, block)
    axes, values = [], []
    known: dict[e.Var, Sum] = {}
    for x in around:
        if x.loop_var in reducing:
            raise state.refusal(
                f"blockize: {name_of(x)}, outside of {names_of(blocks)}, runs over a reduction",
                x,
                hint="decompose_reduction first, or reorder the loop inside",
            )
        if p.as_int(x.extent) == 1 and not keep_units:
            known[x.loop_var] = of(x.min)
        elif x.loop_var in used:
            var = e.Var(f"v_{x.loop_var.name}", x.loop_var.dtype)
            axes.append(IterVar(e.Range(x.min, x.extent), var))
            values.append(x.loop_var)
            known[x.loop_var] = Sum(0, {var: 1})
    return tuple(axes), tuple(values), known
