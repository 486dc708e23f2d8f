"""pad_einsum: the axes of a product or convolution are rounded up, with zeros in what is added.

for i, j, k in T.grid(127, 127, 127):        A_pad, B_pad = copies with zeros around
    with T.block("C"):                 ->    for i, j, k in T.grid(128, 128, 128):
        C[v_i, v_j] += ...                       with T.block("C"):
                                                     C_pad[v_i, v_j] += A_pad[...] * B_pad[...]
                                             C = the part of C_pad that is wanted

What is read in another way (`W[v_j // 32, v_k, v_j % 32]`) is read as it lies, where all that the
new iterations read is inside of it; of sums over more steps nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlcnb.arith import can_prove
from mlcnb.arith.reading import of
from mlcnb.arith.sum import Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, decl_buffer
from mlcnb.tir.reducers import matched_update
from mlcnb.tir.schedule.edit.nests import copying, looped, point
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.edit.reindexing import runs_everywhere
from mlcnb.tir.schedule.legality.dependence import why_inputs_change, why_readers_mind
from mlcnb.tir.schedule.legality.promises import why_not_reduction, why_offset
from mlcnb.tir.schedule.legality.regions import bindings
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BufferStore, IterType, IterVar, Stmt


def _paddings(site: Site) -> list[list[int]]:
    return [[n] * len(site.block.iter_vars) for n in (2, 4, 8)]


@does(tries={"padding": _paddings})
def pad_einsum(state: State, block: Block, padding: list[int]) -> Change:
    """Round the extents of a block's axes up to multiples of `padding`.

    Args:
        state: the program.
        block: a sum of products of its inputs, whose axes are its loops, and whose indices are
            axes, or lie inside of what is read for the new iterations too.
        padding: for each axis the number that its extent shall be a multiple of.

    Raises:
        ScheduleError: the block is no such sum, or the list has another length.
    """
    _refuse(state, block, padding)
    extents = [
        _rounded(axis, factor) for axis, factor in zip(block.iter_vars, padding, strict=True)
    ]
    by_axis = {axis.var: x for axis, x in zip(block.iter_vars, extents, strict=True)}
    swaps: dict[Buffer, Buffer] = {}
    copies: list[Stmt] = []
    for region in block.reads:
        if _axes_of(region, by_axis) is None:
            continue
        new = _padded_buffer(region, by_axis)
        if new is not region.buffer:
            swaps[region.buffer] = new
            copies.append(_fill(region.buffer, new))
    old = block.writes[0].buffer
    new = _padded_buffer(block.writes[0], by_axis)
    back = []
    if new is not old:
        swaps[old] = new
        back.append(_crop(new, old))
    nest, top = _wider_nest(state, block, extents, swaps)
    edit = state.edit()
    edit.put(top, nest[0])
    edit.became(block, nest[1])
    if copies:
        edit.before(top, *copies)
    if back:
        edit.after(top, *back)
    edit.allocate(state.tree.scope(block), *swaps.values())
    return Change.of(edit)


def _refuse(state: State, block: Block, padding: list[int]) -> None:
    tree = state.tree
    if len(padding) != len(block.iter_vars) or any(x < 1 for x in padding):
        raise state.refusal(
            f"pad_einsum: {name_of(block)} has {len(block.iter_vars)} axes, padding is {padding}",
            block,
        )
    reason = why_not_reduction(tree, block) or why_offset(block)
    reason = reason or why_inputs_change(tree, block) or why_readers_mind(tree, block)
    found = matched_update(block.body) if isinstance(block.body, BufferStore) else None
    if reason is None and (found is None or found[0].name != "sum" or not _is_product(found[1])):
        reason = "it is no sum of products of its inputs"
    extents = {v.var: of(v.dom.extent) for v in block.iter_vars}
    sums_more = any(
        axis.iter_type is IterType.REDUCE and not of(_rounded(axis, n)).is_same(extents[axis.var])
        for axis, n in zip(block.iter_vars, padding, strict=True)
    )
    for region in (*block.reads, *block.writes):
        axes, name = _axes_of(region, extents), region.buffer.name
        if axes is None:
            if region in block.writes or sums_more or not _is_inside(region, block, padding):
                reason = reason or f"the indices of {name} are not axes of it"
            continue
        whole = zip(axes, region.buffer.shape, strict=True)
        if not all(extents[x].is_same(of(y)) for x, y in whole):
            reason = reason or f"it works on a part of {name} alone"
    for axis, factor in zip(block.iter_vars, padding, strict=True):
        if axis.iter_type is IterType.REDUCE and factor > 1:
            without = [r.buffer.name for r in block.reads if not _indexed_by(r, axis.var)]
            if without:
                reason = reason or (
                    f"{without[0]} is not indexed by {axis.var.name}, so an infinity in it would "
                    "meet the zeros that are added"
                )
    spatial = [v for v in block.iter_vars if v.iter_type is IterType.SPATIAL]
    if not runs_everywhere(tree, block, spatial):
        reason = reason or (
            f"its predicate keeps elements of {block.writes[0].buffer.name} from being written, "
            "and the copy would write them"
        )
    state.refuse_for(reason, f"pad_einsum: {name_of(block)} cannot be padded", block)


def _axes_of(region: BufferRegion, known: Mapping[e.Var, object]) -> list[e.Var] | None:
    """The axes that the indices of a region are; None where one is none."""
    found = [of(r.min).only_atom for r in region.region]
    return found if all(x in known for x in found) else None  # type: ignore[return-value]


def _is_inside(region: BufferRegion, block: Block, padding: list[int]) -> bool:
    """Whether all that the rounded axes read of a buffer lies in it."""
    bounds = {
        axis.var: e.Range(axis.dom.min, _rounded(axis, n))
        for axis, n in zip(block.iter_vars, padding, strict=True)
    }
    return all(
        can_prove(p.all_of(r.min >= 0, r.min + r.extent <= size), bounds)
        for r, size in zip(region.region, region.buffer.shape, strict=True)
    )


def _indexed_by(region: BufferRegion, axis: e.Var) -> bool:
    return any(of(r.min).uses({axis}) for r in region.region)


def _is_product(x: e.PrimExpr) -> bool:
    """A product of loads, casts of them in between: zero as soon as one of them is."""
    if isinstance(x, e.Mul):
        return _is_product(x.a) and _is_product(x.b)
    return _is_product(x.value) if isinstance(x, e.Cast) else isinstance(x, BufferLoad)


def _rounded(axis: IterVar, factor: int) -> e.PrimExpr:
    extent = p.as_int(axis.dom.extent)
    if extent is None:
        return p.ceildiv(axis.dom.extent, factor) * factor
    return p.const(-(-extent // factor) * factor, axis.dom.extent.dtype)


def _padded_buffer(region: BufferRegion, extents: dict[e.Var, e.PrimExpr]) -> Buffer:
    """A buffer as large as the padded axes need; the old one where that is the same."""
    shape = [extents[of(r.min).only_atom] for r in region.region]
    old = region.buffer
    if all(of(x).is_same(of(y)) for x, y in zip(shape, old.shape, strict=True)):
        return old
    return decl_buffer(shape, old.dtype, f"{old.name}_pad", old.scope)


def _fill(old: Buffer, new: Buffer) -> Stmt:
    """Loops that copy, with zeros outside of the old shape."""
    axes = _axes(new.shape)
    indices = tuple(axis.var for axis in axes)
    ends = [
        p.less(index, extent)
        for index, extent, wider in zip(indices, old.shape, new.shape, strict=True)
        if not of(extent).is_same(of(wider))
    ]
    load = BufferLoad(old, indices)
    value = p.if_then_else(p.all_of(*ends), load, p.const(0, old.dtype))
    store = BufferStore(new, value, indices)
    block = Block(axes, (point(old, indices),), (point(new, indices),), new.name, store)
    return looped(block, "i")


def _crop(new: Buffer, old: Buffer) -> Stmt:
    """Loops that copy the part that is wanted."""
    axes = _axes(old.shape)
    indices = tuple(axis.var for axis in axes)
    return looped(copying(axes, (new, indices), (old, indices), new.name), "i")


def _axes(shape: Sequence[e.PrimExpr]) -> tuple[IterVar, ...]:
    return tuple(
        IterVar(e.Range(p.const(0, extent.dtype), extent), e.Var(f"v{n}", extent.dtype))
        for n, extent in enumerate(shape)
    )


def _wider_nest(
    state: State, block: Block, extents: list[e.PrimExpr], swaps: dict[Buffer, Buffer]
) -> tuple[tuple[Stmt, Block], Stmt]:
    """The loops of the block with the new extents, and what they replace."""
    tree = state.tree
    context = bindings(tree, block)
    wanted = {}
    ranges = {x.loop_var: of(x.extent) for x in tree.loops(block)}
    for axis, extent in zip(block.iter_vars, extents, strict=True):
        loop = context.values[axis.var].only_atom
        if loop is None and not of(extent).is_same(Sum(1)):
            raise state.refusal(
                f"pad_einsum: axis {axis.var.name} of {name_of(block)} is no loop of its own",
                block,
                hint="pad before its loops are split and fused",
            )
        if loop in ranges and not ranges[loop].is_same(of(axis.dom.extent)):
            raise state.refusal(
                f"pad_einsum: loop {loop.name} does not run over all values of the axis "
                f"{axis.var.name} of {name_of(block)}",
                block,
                hint="pad before its loops are partitioned",
            )
        wanted[loop] = extent
    made = BufferSwap(swaps, {}).stmt(block)
    axes = tuple(
        replace(v, dom=e.Range(v.dom.min, x)) for v, x in zip(block.iter_vars, extents, strict=True)
    )
    made = replace(made, iter_vars=axes)
    top: Stmt = tree.realize(block)
    body: Stmt = replace(tree.realize(block), block=made)
    for loop in reversed(tree.loops(block)):
        if loop.body is not top:
            break
        top = loop
        body = replace(loop, extent=wanted.get(loop.loop_var, loop.extent), body=body)
    return (body, made), top
