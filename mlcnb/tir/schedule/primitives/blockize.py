"""blockize: a tile becomes one block, with the old block inside.

for i_0, j_0, i_1, j_1 in T.grid(...):        for i_0, j_0 in T.grid(...):
    with T.block("B"):                            with T.block("B_o"):
        v_i = i_0 * 4 + i_1           ->              v_i_o, v_j_o = T.axis.remap("SS", [i_0, j_0])
        v_j = j_0 * 4 + j_1                           for i_1, j_1 in T.grid(...):
        B[v_i, v_j] = ...                                 with T.block("B"):
                                                              v_i_i, v_j_i = remap([i_1, j_1])
                                                              B[v_i_o * 4 + v_i_i, ...] = ...
"""

from __future__ import annotations

from dataclasses import dataclass

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.digits import contiguous
from mlcnb.arith.extremes import extremes
from mlcnb.arith.reading import Context, divided, of
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.buffer import BufferRegion
from mlcnb.tir.reducers import init_of, update_of
from mlcnb.tir.schedule.edit.rebuild import AxisSubstitution, FreshCopy
from mlcnb.tir.schedule.legality import boxes, regions
from mlcnb.tir.schedule.legality.promises import why_not_affine, why_not_reduction, why_ragged
from mlcnb.tir.schedule.primitives.blockize_blocks import blockize_blocks, refuse_hole
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BlockRealize, For, IterType, IterVar, Stmt, seq


@dataclass
class _Axis:
    """One axis cut in two: value = outer * size + inner, with the inner part in 0..size."""

    axis: IterVar
    outer: Sum
    inner: Sum
    size: int


@does()
def blockize(state: State, target: For | list[Block], preserve_unit_iters: bool = True) -> Change:
    """Make everything under a loop, the loop included, one block; or put blocks into one.

    Args:
        state: the program.
        target: a loop that holds a single block; or a list of blocks that stand next to each other.
        preserve_unit_iters: bind axes of extent 1 of the new block to loops of one iteration; False
            binds them to 0.

    Returns:
        The outer block; the handle of the old one stands for the inner block.

    Raises:
        ScheduleError: there are several blocks under the loop, or an axis is not a tile times a
            number plus a place in the tile; blocks of a list are not next to each other, or a loop
            around them runs over a reduction.
    """
    if isinstance(target, list):
        return blockize_blocks(state, target, preserve_unit_iters)
    tree = state.tree
    blocks = tree.blocks_under(target)
    if len(blocks) != 1:
        raise state.refusal(f"blockize: {name_of(target)} holds {len(blocks)} blocks", target)
    block = blocks[0]
    parent = tree.enclosing(target)
    state.refuse_for(why_ragged(tree, block), f"blockize: {name_of(block)} cannot be cut", block)
    if block.init is not None and state.checks:
        reason = why_not_reduction(tree, block) or why_not_affine(tree, block, parent)
        state.refuse_for(reason, f"blockize: {name_of(block)} is no reduction block", block)
    loops = regions.loops_below(tree, block, parent)
    cut = _cut(state, block, loops)
    inner_predicate, outer_predicate = _predicates(state, block, loops)
    edit = state.edit()
    outer = _outer(state, block, cut, loops, parent, inner_predicate)
    values = tuple(
        (c.outer if preserve_unit_iters or _count(c) != 1 else _first(c)).expr(c.axis.var.dtype)
        for c in cut
    )
    realize = BlockRealize(values, outer_predicate, outer.block)
    edit.put(target, realize)
    for old, new in outer.forward.items():
        edit.became(old, new)
    return Change.of(edit, outer.block)


@dataclass
class _Made:
    block: Block
    forward: dict[Stmt, Stmt]


def _cut(state: State, block: Block, loops: list[For]) -> list[_Axis]:
    context = regions.bindings(state.tree, block)
    inside = {x.loop_var for x in loops}
    values = [context.values[axis.var] for axis in block.iter_vars]
    inner = boxes.spans(loops, context.bounds)
    found, starts = [], []
    for axis, value in zip(block.iter_vars, values, strict=True):
        mine = {t: c for t, c in value.terms.items() if boxes.mentions_any(t, inside)}
        rest = {t: c for t, c in value.terms.items() if t not in mine}
        part = Sum(0, mine)
        ends = extremes(part, inner, context.bounds)
        size = None if ends is None else ends[1].shifted(1).value
        low = None if ends is None else ends[0].value
        first = of(axis.dom.min).value
        if (
            low != 0
            or size is None
            or (size > 1 and (first is None or first % size))
            or any(c % size for c in rest.values())
            or value.const % size
        ):
            raise state.refusal(
                f"blockize: axis {axis.var.name} of {name_of(block)} is no tile of fixed size "
                "at a multiple of that size",
                block,
                hint="split its loop so that the inner part lies inside and the outer outside",
            )
        starts.append((part, 0))
        quotient = Sum(value.const // size, {t: c // size for t, c in rest.items()})
        found.append(_Axis(axis, quotient, part, size))
    if not contiguous(starts, inside, context.bounds):
        raise state.refusal(f"blockize: the loops of {name_of(block)} do not fill a tile", block)
    return found


def _predicates(state: State, block: Block, loops: list[For]) -> tuple[e.PrimExpr, e.PrimExpr]:
    """The conditions that speak of loops inside, and the others."""
    inside = {x.loop_var for x in loops}
    inner, outer = [], []
    for condition in boxes.conjuncts(state.tree.realize(block).predicate):
        used = variables_of(condition)
        if not used & inside:
            outer.append(condition)
        elif used <= inside:
            inner.append(condition)
        else:
            raise state.refusal(
                f"blockize: the predicate of {name_of(block)} cuts through a tile", block
            )
    return p.all_of(*inner), p.all_of(*outer)


def _first(cut: _Axis) -> Sum:
    """The first value of the outer axis."""
    return divided(of(cut.axis.dom.min), cut.size, {})


def _count(cut: _Axis) -> int | None:
    extent = of(cut.axis.dom.extent).value
    return None if extent is None else -(-extent // cut.size)


def _outer(
    state: State,
    block: Block,
    cut: list[_Axis],
    loops: list[For],
    parent: Stmt,
    predicate: e.PrimExpr,
) -> _Made:
    """The new block around the loops."""
    axes: list[IterVar] = []
    at_outer: dict[e.Var, Sum] = {}
    for c in cut:
        kind = c.axis.var.dtype
        var = e.Var(f"{c.axis.var.name}_o", kind)
        extent = p.ceildiv(c.axis.dom.extent, c.size)
        first = _first(c)
        axes.append(IterVar(e.Range(first.expr(kind), extent), var, c.axis.iter_type))
        single = _count(c) == 1
        at_outer[c.axis.var] = first.scaled(c.size) if single else Sum(0, {var: c.size})
    forward: dict[Stmt, Stmt] = {}
    old = block if block.init is None else update_of(block)
    body: Stmt = _inner(old, cut, at_outer, predicate, forward)
    if old is not block and old in forward:
        forward[block] = forward[old]
    for x in reversed(loops):
        body = replace(x, body=body)
        forward[x] = body
    reads, writes = _regions(state, block, at_outer, cut, parent, predicate)
    init = None if block.init is None else _init(block, cut, loops, at_outer, predicate)
    made = Block(tuple(axes), reads, writes, f"{block.name_hint}_o", body, init)
    return _Made(made, forward)


def _inner(
    block: Block,
    cut: list[_Axis],
    at_outer: dict[e.Var, Sum],
    predicate: e.PrimExpr,
    forward: dict[Stmt, Stmt],
    suffix: str = "i",
) -> BlockRealize:
    """The block over the places in one tile: axes of one place are gone."""
    axes, values = [], []
    places: dict[e.Var, Sum] = {}
    known: dict[e.Var, Bounds] = {}
    for c in cut:
        places[c.axis.var] = at_outer[c.axis.var]
        if c.size == 1:
            continue
        kind = c.axis.var.dtype
        var = e.Var(f"{c.axis.var.name}_{suffix}", kind)
        domain = e.Range(p.const(0, kind), p.const(c.size, kind))
        axes.append(IterVar(domain, var, c.axis.iter_type))
        values.append(c.inner.expr(kind))
        places[c.axis.var] = at_outer[c.axis.var].plus(Sum(0, {var: 1}))
        known[var] = (0, c.size - 1)
    made = AxisSubstitution(Context(known, places), forward).stmt(replace(block, iter_vars=()))
    made = replace(made, iter_vars=tuple(axes))
    forward[block] = made
    return BlockRealize(tuple(values), predicate, made)


def _init(
    block: Block,
    cut: list[_Axis],
    loops: list[For],
    at_outer: dict[e.Var, Sum],
    predicate: e.PrimExpr,
) -> Stmt:
    """The init over the spatial part of the tile."""
    spatial = [c for c in cut if c.axis.iter_type is not IterType.REDUCE]
    used = {v for c in spatial for v in c.inner.variables()}
    conditions = p.all_of(*(c for c in boxes.conjuncts(predicate) if variables_of(c) <= used))
    realize = _inner(init_of(block), spatial, at_outer, conditions, {}, "i_init")
    inner = replace(realize.block, reads=detect_buffer_access(realize.block)[0])
    copied = [x for x in loops if x.loop_var in used]
    fresh = FreshCopy({})
    for x in copied:
        fresh.renew(x.loop_var, f"{x.loop_var.name}_init")
    body: Stmt = replace(
        realize,
        iter_values=fresh.exprs(realize.iter_values),
        predicate=fresh.expr(realize.predicate),
        block=inner,
    )
    for x in reversed(copied):
        body = replace(x, loop_var=fresh.values[x.loop_var], body=body)
    return seq(body)


def _regions(
    state: State,
    block: Block,
    at_outer: dict[e.Var, Sum],
    cut: list[_Axis],
    parent: Stmt,
    predicate: e.PrimExpr,
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Reads and writes of the whole tile, in terms of the outer axes.

    predicate: the conditions inside of the tile; the others keep the whole tile from running.
    """
    tree = state.tree
    known = regions.bindings(tree, block).bounds
    values = {c.axis.var: at_outer[c.axis.var].plus(c.inner) for c in cut}
    context = Context(known, values)

    def tile(r: BufferRegion) -> BufferRegion:
        box = regions.box_of(tree, block, r, parent, context, predicate=predicate)
        if r in block.writes and state.checks:
            refuse_hole(state, block, box, known)
        kind = r.region[0].min.dtype if r.region else "int32"
        sides = []
        for side in box.sides:
            extent = side.high.minus(side.low).shifted(1)
            sides.append(e.Range(side.low.expr(kind), extent.expr(kind)))
        return BufferRegion(r.buffer, tuple(sides))

    return tuple(map(tile, block.reads)), tuple(map(tile, block.writes))
