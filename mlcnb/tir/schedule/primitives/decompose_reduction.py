"""decompose_reduction: the init of a reduction becomes a block of its own, before a loop.

for i, j, k in T.grid(...):              for i, j_init in T.grid(...):
    with T.block("C"):                       with T.block("C_init"):
        with T.init():                           C[v_i, v_j] = 0.0
            C[v_i, v_j] = 0.0     ->         for k, j in T.grid(...):
        C[v_i, v_j] += ...                       with T.block("C_update"):
                                                     C[v_i, v_j] += ...
"""

from __future__ import annotations

from collections.abc import Mapping

from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.reducers import init_of, update_of
from mlcnb.tir.schedule.edit.nests import innermost
from mlcnb.tir.schedule.edit.rebuild import FreshCopy
from mlcnb.tir.schedule.legality.boxes import conjuncts
from mlcnb.tir.schedule.legality.promises import (
    read_buffers,
    reduce_variables,
    why_not_affine,
    why_not_reduction,
    written_buffers,
)
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BlockRealize, For, IterType, Stmt


@does(again=True, near="rfactor")
def decompose_reduction(state: State, block: Block, loop: For) -> Change:
    """Move the init of a reduction block into a block before `loop`.

    The loops of the init have the extents of the spatial loops under `loop`.

    Args:
        state: the program.
        block: a reduction block.
        loop: a loop around it that holds all loops of the reduction.

    Returns:
        The init block; the handle of `block` stands for the update block from then on.

    Raises:
        ScheduleError: the block is no reduction block, or a loop of the reduction is outside
            `loop`.
    """
    loops = state.tree.loops(block)
    _refuse(state, block, loop, loops)
    inner = loops[loops.index(loop) :]
    init, update = _blocks(block)
    nest = _init_nest(state, block, init, inner)
    edit = state.edit()
    edit.put(block, update)
    edit.became(block, update)
    edit.before(loop, nest)
    return Change.of(edit, innermost(nest))


def _refuse(state: State, block: Block, loop: For, loops: list[For]) -> None:
    tree = state.tree
    if loop not in loops:
        raise state.refusal(
            f"decompose_reduction: {name_of(loop)} is not around {name_of(block)}", loop
        )
    reason = why_not_reduction(tree, block)
    reason = reason or why_not_affine(tree, block, tree.enclosing(loop))
    if block.init is None or (state.checks and reason):
        raise state.refusal(
            f"decompose_reduction: {name_of(block)} is no reduction block: {reason}", block
        )
    buffers = written_buffers(block)
    for other in tree.blocks_under(loop):
        if tree.position[other] < tree.position[block]:
            seen = [x for x in buffers if x in (*read_buffers(other), *written_buffers(other))]
            if seen and state.checks:
                raise state.refusal(
                    f"decompose_reduction: {name_of(other)}, before it in {name_of(loop)}, uses "
                    f"{seen[0].name}",
                    other,
                )
    reducing = reduce_variables(tree, block)
    outside = [x for x in loops[: loops.index(loop)] if x.loop_var in reducing]
    if outside:
        raise state.refusal(
            f"decompose_reduction: {name_of(outside[0])}, a loop of the reduction, is outside "
            f"{name_of(loop)}: the init would run again in each of its iterations",
            loop,
            hint=f"decompose at {name_of(outside[0])}, or reorder it into {name_of(loop)}",
        )


def _blocks(block: Block) -> tuple[Block, Block]:
    """The init and the update as blocks."""
    axes = tuple(v for v in block.iter_vars if v.iter_type is not IterType.REDUCE)
    init = replace(init_of(block), iter_vars=axes)
    init = replace(init, reads=detect_buffer_access(init)[0])
    return init, replace(update_of(block), name_hint=f"{block.name_hint}_update")


def _init_nest(state: State, block: Block, init: Block, inner: list[For]) -> Stmt:
    realize = state.tree.realize(block)
    kept = [
        value
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type is not IterType.REDUCE
    ]
    used = {v for value in kept for v in of(value).variables()}
    copied = [x for x in inner if x.loop_var in used]
    at_first = {x.loop_var: of(x.min) for x in inner if x not in copied}
    predicate = _predicate(realize.predicate, at_first)
    copy = FreshCopy({})
    renamed = [copy.renew(x.loop_var, f"{x.loop_var.name}_init") for x in copied]
    body: Stmt = copy.stmt(BlockRealize(tuple(kept), predicate, init))
    for x, var in reversed(list(zip(copied, renamed, strict=True))):
        body = replace(x, loop_var=var, min=copy.expr(x.min), extent=copy.expr(x.extent), body=body)
    return body


def _predicate(given: e.PrimExpr, first: Mapping[e.Var, Sum]) -> e.PrimExpr:
    """The predicate in the first step of the reduction."""
    context = Context(values=first)
    return p.all_of(*(simplified(c, context) for c in conjuncts(given)))
