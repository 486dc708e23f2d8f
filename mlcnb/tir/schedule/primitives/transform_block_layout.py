"""transform_block_layout: a block gets other axes, and loops over them.

for i, j in T.grid(16, 8):                       for ax0, ax1, ax2 in T.grid(4, 8, 4):
    with T.block("B"):                               with T.block("B"):
        v_i, v_j = ...                    ->             v0, v1, v2 = ...
        B[v_i, v_j] = ...                                B[v0 * 4 + v2, v1] = ...
                  lambda i, j: (i // 4, j, i % 4)
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith.reading import Context, negated, of
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.edit.caching import index_dtype
from mlcnb.tir.schedule.edit.elementwise import axis_bounds
from mlcnb.tir.schedule.edit.layouts import Layout
from mlcnb.tir.schedule.edit.nests import looped, own_nest
from mlcnb.tir.schedule.edit.rebuild import AxisSubstitution
from mlcnb.tir.schedule.legality.promises import why_neither, why_offset
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, IterType, IterVar


@does(again=True)
def transform_block_layout(state: State, block: Block, index_map: Any) -> Change:
    """Replace the axes of a block by what a map makes of them, and its loops by loops over those.

    The extents of the new axes are what the map makes of the old ones, rounded up where a factor
    does not divide one; a predicate then leaves out the rest.

    Args:
        state: the program.
        block: a complete or reduction block whose axes are its loops, one for one.
        index_map: a function of the old axes that gives the new ones, or a tir.IndexMap.

    Raises:
        ScheduleError: the axes are not the loops, the map is not injective, or it mixes spatial and
            reduce axes.
    """
    name = "transform_block_layout"
    reason = (why_neither(state.tree, block) if state.checks else None) or why_offset(block)
    state.refuse_for(reason, f"{name}: {name_of(block)} cannot be reordered", block)
    top = own_nest(state.tree, block)
    if top is None:
        raise state.refusal(
            f"{name}: the axes of {name_of(block)} are not its loops, one for one",
            block,
            hint="transform it before its loops are split and fused",
        )
    shape = [axis.dom.extent for axis in block.iter_vars]
    layout = Layout(state, name, index_map, shape, block, needs_inverse=True)
    kind = index_dtype(state.tree, block)
    axes = _axes(state, block, layout, kind)
    old = layout.old_at([axis.var for axis in axes])
    values = {axis.var: x for axis, x in zip(block.iter_vars, old, strict=True)}
    if block.init is not None and any(x.const for x in values.values()):
        raise state.refusal(f"{name}: the first step of the reduction would move", block)
    edit = state.edit()
    known = axis_bounds(replace(block, iter_vars=(*axes, *block.iter_vars)))
    inner = AxisSubstitution(Context(known, values), edit.forward).stmt(block)
    made = replace(inner, iter_vars=axes)
    body = looped(made, predicate=negated(layout.unused_at([axis.var for axis in axes])))
    edit.put(top, body)
    edit.became(block, made)
    return Change.of(edit).noting(index_map=layout.map)


def _axes(state: State, block: Block, layout: Layout, kind: str) -> tuple[IterVar, ...]:
    types = {v.var: v.iter_type for v in block.iter_vars}
    places = dict(zip(layout.map.initial_indices, block.iter_vars, strict=True))
    axes = []
    for n, (index, extent) in enumerate(zip(layout.map.final_indices, layout.shape, strict=True)):
        kinds = {types[places[v].var] for v in of(index).variables() if v in places}
        if len(kinds) > 1:
            raise state.refusal(
                f"transform_block_layout: axis {n} would be spatial and reduce at once", block
            )
        domain = e.Range(p.const(0, kind), p.fitted(kind, extent))
        iter_type = next(iter(kinds), IterType.SPATIAL)
        axes.append(IterVar(domain, e.Var(f"v{n}", domain.min.dtype), iter_type))
    return tuple(axes)
