"""rfactor: a reduction is done in parts, which one loop tells apart, and the parts are reduced
then.

for i, k_0, k_1 in T.grid(...):             for i, k_0, k_1 in T.grid(...):
    with T.block("B"):                          with T.block("B_rf"):
        B[v_i] += A[v_i, v_k]       ->              B_rf[v_k_1, v_i] += A[v_i, v_k_0 * 4 + v_k_1]
                                            for i, k_1 in T.grid(...):
                                                with T.block("B"):
                                                    B[v_i] += B_rf[v_k_1, v_i]

In the first block the loop (k_1) is spatial: it can be vectorized or run in parallel. Where no axis
is left to reduce there, it stores the values as they are. Several buffers may be reduced at once,
by lets (argmax: the place and the value).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.reading import Context, of, simplified
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.reducers import Step, stored
from mlcnb.tir.schedule.edit.elementwise import axis_bounds, refreshed
from mlcnb.tir.schedule.edit.moving import body_items
from mlcnb.tir.schedule.edit.rebuild import FreshCopy
from mlcnb.tir.schedule.edit.reductions import reading_in_order, reduction_of
from mlcnb.tir.schedule.legality.boxes import conjuncts
from mlcnb.tir.schedule.legality.promises import (
    reduce_variables,
    spatial_variables,
    why_not_affine,
    why_not_reduction,
)
from mlcnb.tir.schedule.legality.regions import bindings, known_bounds
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, text_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State


@dataclass
class _Parts:
    """What is known of the reduction to be factored."""

    block: s.Block
    realize: s.BlockRealize
    loops: list[s.For]
    loop: s.For
    step: Step
    starts: tuple[e.PrimExpr, ...]
    axis: int
    #: conditions under which there is something to reduce, where a part may have nothing at first
    guard: tuple[e.PrimExpr, ...] = ()


def _positions(site: Site) -> range:
    return range(max((len(r.region) for r in site.block.writes), default=0) + 1)


@does(near="decompose_reduction", tries={"factor_axis": _positions})
def rfactor(state: State, loop: s.For, factor_axis: int) -> Change:
    """Factor an associative and commutative reduction by one of its loops.

    Args:
        state: the program.
        loop: a serial loop of the reduction of one block.
        factor_axis: where in the shape of the new buffer the loop's extent goes; negative counts
            from the end.

    Returns:
        The block that makes the parts; the handle of the old block stands for the one that
        combines them.

    Raises:
        ScheduleError: the loop is no reduction loop of a single reduction block, or the combiner is
            none of + * min max, starting from its identity.
    """
    parts = _parts(state, loop, factor_axis)
    new = [_buffer(x.buffer, loop.extent, parts.axis) for x in parts.step.stores]
    top = _top(state, parts.loops)
    _refuse_outside(state, parts, top)
    parts.guard = _unstarted(state, parts)
    making = _making_block(state, parts, new)
    combining, nest = _combining_nest(state, parts, new, parts.loops[parts.loops.index(top) :])
    edit = state.edit()
    if top is not parts.loops[0] and _may_go_first(state, parts):
        edit.before(parts.loops[0], _copied(parts.loops, making))
        edit.put(top, nest)
    else:
        edit.put(parts.realize, making)
        edit.after(top, nest)
    edit.allocate(state.tree.scope(parts.block), *new)
    edit.became(parts.block, combining)
    return Change.of(edit, making.block)


def _may_go_first(state: State, parts: _Parts) -> bool:
    """Whether the parts can be made before all loops: the block stands first in each of them, and
    nothing in them writes what it reads."""
    tree = state.tree
    around: s.Stmt = parts.loops[0]
    for inner in (*parts.loops[1:], parts.realize):
        if body_items(around)[0] is not inner:  # type: ignore[arg-type]
            return False
        around = inner
    read = {r.buffer for r in parts.block.reads}
    others = (b for b in tree.blocks_under(parts.loops[0]) if b is not parts.block)
    return not any(r.buffer in read for b in others for r in b.writes)


def _copied(loops: Sequence[s.For], inner: s.BlockRealize) -> s.Stmt:
    """A block in loops of its own."""
    fresh = FreshCopy({})
    for x in loops:
        fresh.renew(x.loop_var)
    values = tuple(fresh.expr(v) for v in inner.iter_values)
    nest: s.Stmt = replace(inner, iter_values=values, predicate=fresh.expr(inner.predicate))
    for x in reversed(loops):
        bounds = fresh.expr(x.min), fresh.expr(x.extent)
        var = fresh.values[x.loop_var]
        nest = replace(x, loop_var=var, min=bounds[0], extent=bounds[1], body=nest)
    return nest


def _parts(state: State, loop: s.For, factor_axis: int) -> _Parts:
    tree = state.tree
    blocks = tree.blocks_under(loop)
    if len(blocks) != 1:
        raise state.refusal(f"rfactor: {name_of(loop)} holds {len(blocks)} blocks, not one", loop)
    block = blocks[0]
    loops = tree.loops(block)
    reason = why_not_reduction(tree, block) or why_not_affine(tree, block)
    state.refuse_for(reason, f"rfactor: {name_of(block)} is no reduction block", block)
    _refuse_loops(state, block, loop, loops)
    step, starts = reduction_of(state, "rfactor", block)
    _refuse_swaps(state, block, loop, loops, step)
    ndim = step.stores[0].buffer.ndim
    axis = factor_axis + ndim + 1 if factor_axis < 0 else factor_axis
    if not 0 <= axis <= ndim:
        raise state.refusal(
            f"rfactor: factor_axis {factor_axis} is none of the {ndim + 1} axes of the new buffer",
            loop,
            hint=f"{-ndim - 1} to {ndim}",
        )
    return _Parts(block, tree.realize(block), loops, loop, step, starts, axis)


def _refuse_loops(state: State, block: s.Block, loop: s.For, loops: list[s.For]) -> None:
    tree = state.tree
    spatial = spatial_variables(tree, block)
    reducing = reduce_variables(tree, block)
    once = of(loop.extent).value == 1 and loop.loop_var not in spatial | reducing
    if not once and (loop.loop_var not in reducing or loop.loop_var in spatial):
        raise state.refusal(
            f"rfactor: {name_of(loop)} is no loop of the reduction of {name_of(block)}", loop
        )
    if of(loop.min).value != 0:
        raise state.refusal(
            f"rfactor: {name_of(loop)} starts at {text_of(loop.min)}, not at 0", loop
        )
    mixed = [x for x in loops if x.loop_var in reducing & spatial]
    if mixed:
        raise state.refusal(
            f"rfactor: {name_of(mixed[0])} runs over spatial and reduce axes at once", mixed[0]
        )
    odd = [x for x in loops if x.kind is not s.ForKind.SERIAL and x.loop_var in reducing]
    if odd:
        raise state.refusal(
            f"rfactor: {name_of(odd[0])} is {odd[0].kind.value}, not serial", odd[0]
        )


def _refuse_swaps(
    state: State, block: s.Block, loop: s.For, loops: list[s.For], step: Step
) -> None:
    """Where the first of equal values counts, only the outermost loop keeps their order."""
    tree = state.tree
    reducing = reduce_variables(tree, block)
    before = [x for x in loops[: loops.index(loop)] if x.loop_var in reducing]
    outer = [x for x in before if of(x.extent).value != 1]
    if state.checks and step.in_order and outer:
        raise state.refusal(
            f"rfactor: of equal values {name_of(block)} takes the first, and with "
            f"{name_of(outer[0])} inside of {name_of(loop)} another would come first",
            loop,
            hint=f"rfactor {name_of(outer[0])}, let the smaller index win where values are equal, "
            'or check="none", if any of equal ones will do',
        )


def _buffer(old: Buffer, extent: e.PrimExpr, axis: int) -> Buffer:
    shape = list(old.shape)
    shape.insert(axis, p.fitted(shape[0].dtype, extent) if shape else extent)
    return decl_buffer(shape, old.dtype, f"{old.name}_rf", old.scope)


def _making_block(state: State, parts: _Parts, new: Sequence[Buffer]) -> s.BlockRealize:
    """The block over the old loops, in which the factored loop is spatial."""
    tree, block = state.tree, parts.block
    context = bindings(tree, block)
    factor = _axis_of(parts.loop, s.IterType.SPATIAL)
    axes, values = [factor], [parts.loop.loop_var]
    over: dict[e.Var, e.PrimExpr] = {parts.loop.loop_var: factor.var}
    replaced: dict[e.Var, e.PrimExpr] = {}
    for axis, value in zip(block.iter_vars, parts.realize.iter_values, strict=True):
        used = context.values[axis.var].variables()
        if axis.iter_type is s.IterType.REDUCE and parts.loop.loop_var in used:
            for x in parts.loops:
                if x.loop_var in used and x.loop_var not in over:
                    own = _axis_of(x, s.IterType.REDUCE)
                    over[x.loop_var] = own.var
                    axes.append(own)
                    values.append(x.loop_var)
            replaced[axis.var] = substituted_expr(value, over)
        else:
            axes.append(axis)
            values.append(value)  # type: ignore[arg-type]
    step_values = parts.step.values
    if parts.guard:
        held = p.all_of(*(substituted_expr(x, over) for x in parts.guard))
        pairs = zip(step_values, parts.starts, strict=True)
        step_values = tuple(p.if_then_else(held, x, start) for x, start in pairs)
    known = {**known_bounds(tree, block), **axis_bounds(replace(block, iter_vars=tuple(axes)))}
    sums = Context(known, {v: of(x, Context(known)) for v, x in replaced.items()})
    if not any(axis.iter_type is s.IterType.REDUCE for axis in axes):
        stores = _written(parts, new, factor.var, step_values)
        body, init = s.seq(*(_simplified_store(x, sums) for x in stores)), None
    else:
        body = _updated(parts, new, factor.var, step_values, sums)
        starts = _written(parts, new, factor.var, parts.starts)
        init = s.seq(*(_simplified_store(x, sums) for x in starts))
    made = replace(
        block,
        iter_vars=tuple(axes),
        name_hint=f"{block.name_hint}_rf",
        body=body,
        init=init,
    )
    fresh = FreshCopy({})
    named = reading_in_order(refreshed(made), [r.buffer for r in block.reads])
    kept = (x for x in conjuncts(parts.realize.predicate) if x not in parts.guard)
    return fresh.stmt(s.BlockRealize(tuple(values), p.all_of(*kept), named))


def substituted_expr(x: e.PrimExpr, values: dict[e.Var, e.PrimExpr]) -> e.PrimExpr:
    """An expression with variables replaced, simplified."""
    return simplified(x, Context(values={v: of(y) for v, y in values.items()}))


def _axis_of(loop: s.For, kind: s.IterType) -> s.IterVar:
    var = e.Var(f"v_{loop.loop_var.name}", loop.loop_var.dtype)
    return s.IterVar(e.Range(loop.min, loop.extent), var, kind)


def _simplified_store(store: s.BufferStore, context: Context) -> s.BufferStore:
    return replace(
        store,
        value=simplified(store.value, context),
        indices=tuple(simplified(i, context) for i in store.indices),
    )


def _written(
    parts: _Parts, new: Sequence[Buffer], factor: e.Var, values: Sequence[e.PrimExpr]
) -> list[s.BufferStore]:
    """Stores of these values where the parts are."""
    return [
        s.BufferStore(buffer, value, _inserted(old.indices, factor, parts.axis))
        for buffer, value, old in zip(new, values, parts.step.stores, strict=True)
    ]


def _updated(
    parts: _Parts,
    new: Sequence[Buffer],
    factor: e.Var,
    values: Sequence[e.PrimExpr],
    context: Context,
) -> s.Stmt:
    """The step on the parts."""
    at = [_inserted(x.indices, factor, parts.axis) for x in parts.step.stores]
    old = [BufferLoad(b, i) for b, i in zip(new, at, strict=True)]
    found = parts.step.combine(old, values)
    stores = [
        _simplified_store(s.BufferStore(b, x, i), context)
        for b, x, i in zip(new, found, at, strict=True)
    ]
    return stored(stores)


def _inserted(indices: Sequence[e.PrimExpr], factor: e.PrimExpr, axis: int) -> tuple:
    return (*indices[:axis], factor, *indices[axis:])


def _unstarted(state: State, parts: _Parts) -> tuple[e.PrimExpr, ...]:
    """Conditions that may not hold in the first step of a part, which would then have no start.

    They stand in the value that is reduced, the identity where they do not hold, and not around
    the block. Only conditions of loops of the reduction can: those are axes of the block.
    """
    tree = state.tree
    reducing = reduce_variables(tree, parts.block)
    first = {
        x.loop_var: of(x.min) for x in parts.loops if x.loop_var in reducing and x is not parts.loop
    }
    context = Context(known_bounds(tree, parts.realize), first)
    found: list[e.PrimExpr] = []
    for condition in conjuncts(parts.realize.predicate):
        at_first = simplified(condition, context)
        used = variables_of(condition)
        if parts.loop.loop_var in used and not p.is_const(at_first, 1):
            loops = {x.loop_var for x in parts.loops}
            if len(parts.starts) > 1 or (used & loops) - reducing:
                raise state.refusal(
                    f"rfactor: some iterations of {name_of(parts.loop)} have nothing to reduce",
                    parts.loop,
                )
            found.append(condition)
    return tuple(found)


def _top(state: State, loops: list[s.For]) -> s.For:
    """The outermost loop that holds nothing but this nest."""
    top = loops[-1]
    for x in reversed(loops[:-1]):
        if x.body is not top:
            break
        top = x
    return top


def _refuse_outside(state: State, parts: _Parts, top: s.For) -> None:
    """All loops of the reduction must be in the nest: else it is seen half done."""
    reducing = reduce_variables(state.tree, parts.block)
    outside = [x for x in parts.loops[: parts.loops.index(top)] if x.loop_var in reducing]
    if outside:
        raise state.refusal(
            f"rfactor: {name_of(outside[0])} of the reduction holds other statements too",
            outside[0],
        )


def _combining_nest(
    state: State, parts: _Parts, new: Sequence[Buffer], loops: list[s.For]
) -> tuple[s.Block, s.Stmt]:
    """Loops over the spatial axes and the factor, and the block that reduces the parts."""
    block = parts.block
    reducing = reduce_variables(state.tree, block) - {parts.loop.loop_var}
    kept = [x for x in loops if x.loop_var not in reducing]
    factor = _axis_of(parts.loop, s.IterType.REDUCE)
    spatial = [
        (axis, value)
        for axis, value in zip(block.iter_vars, parts.realize.iter_values, strict=True)
        if axis.iter_type is s.IterType.SPATIAL
    ]
    stores = parts.step.stores
    loads = [
        BufferLoad(b, _inserted(x.indices, factor.var, parts.axis))
        for b, x in zip(new, stores, strict=True)
    ]
    found = parts.step.combine([BufferLoad(x.buffer, x.indices) for x in stores], loads)
    body = stored([replace(x, value=v) for x, v in zip(stores, found, strict=True)])
    made = replace(block, iter_vars=(factor, *(axis for axis, _ in spatial)), body=body)
    values = (parts.loop.loop_var, *(value for _, value in spatial))
    fresh = FreshCopy({})
    for x in kept:
        fresh.renew(x.loop_var)
    predicate = _spatial_predicate(parts, {*reducing, parts.loop.loop_var})
    realized = fresh.stmt(s.BlockRealize(values, predicate, reading_in_order(refreshed(made), new)))
    nest: s.Stmt = realized
    for x in reversed(kept):
        nest = replace(x, loop_var=fresh.values[x.loop_var], body=nest)
    return realized.block, nest


def _spatial_predicate(parts: _Parts, reducing: set[e.Var]) -> e.PrimExpr:
    kept = [c for c in conjuncts(parts.realize.predicate) if not variables_of(c) & reducing]
    return p.all_of(*kept)
