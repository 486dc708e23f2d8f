"""decompose_padding: a block that pads becomes one that fills with the constant, and one that
copies.

for i in range(140):                              for i in range(140):
    with T.block("P"):                                with T.block("P_pad_const"):
        P[vi] = T.if_then_else(             ->            P[vi] = 0
            vi >= 6 and vi < 134, A[vi - 6], 0)       for i in range(128):
                                                          with T.block("P"):
                                                              P[vi + 6] = A[vi]

Neither of the two has a test: both can be vectorized, the first is a memset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.extremes import at_most
from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.schedule.edit.caching import refuse_uncovered
from mlcnb.tir.schedule.edit.elementwise import axis_bounds, refreshed, substituted_value
from mlcnb.tir.schedule.edit.moving import full, only_values
from mlcnb.tir.schedule.edit.nests import at_least, below, innermost
from mlcnb.tir.schedule.edit.rebuild import FreshCopy, mentions
from mlcnb.tir.schedule.legality import boxes, regions
from mlcnb.tir.schedule.legality.promises import why_not_complete
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IterVar, Stmt

NAME = "decompose_padding"


@dataclass
class _Padding:
    """What a padding block does: `value` where each axis is within its ends, else `constant`."""

    store: BufferStore
    value: e.PrimExpr
    constant: e.PrimExpr
    ends: dict[e.Var, tuple[Sum, Sum]]


@does(again=True)
def decompose_padding(state: State, block: Block, loop: For) -> Change:
    """Fill with the constant before `loop`, and let the block write the rest only.

    Args:
        state: the program.
        block: a complete block of one store of `T.if_then_else(condition, value, constant)`; the
            condition bounds single axes, the constant is a number or one element of a buffer.
        loop: a loop around it.

    Returns:
        The block that fills; the handle of `block` stands for the one that copies.

    Raises:
        ScheduleError: the block pads in no such way, or a reader would see the constant in place
            of a value that another iteration has written.
    """
    loops = state.tree.loops(block)
    if loop not in loops:
        raise state.refusal(f"{NAME}: {name_of(loop)} is not around {name_of(block)}", loop)
    padding = _matched(state, block)
    if state.checks:
        _refuse_readers(state, block)
    realize = _settled(state, block, loop)
    filling = _filling(realize, padding, loops[loops.index(loop) :])
    top, chain = _nest(state, block, loop)
    copying, made = _copying(state, realize, padding, chain)
    edit = state.edit()
    edit.put(top, copying)
    for old, new in made.items():
        edit.became(old, new)
    edit.before(loop, filling)
    return Change.of(edit, innermost(filling))


def _matched(state: State, block: Block) -> _Padding:
    reason = why_not_complete(state.tree, block) if state.checks else None
    store = block.body
    value = store.value if isinstance(store, BufferStore) else None
    is_choice = isinstance(value, e.Call) and value.op == "tir.if_then_else"
    if reason is None and not is_choice:
        reason = "it is no single store of T.if_then_else"
    if reason is None and not _is_fixed(value.args[2], store.buffer):  # type: ignore
        reason = "what it pads with is no constant"
    state.refuse_for(reason, f"{NAME}: {name_of(block)} is no padding", block)
    condition, inner, constant = value.args  # type: ignore[union-attr]
    return _Padding(store, inner, constant, _ends(state, block, condition))  # type: ignore[arg-type]


def _is_fixed(x: e.PrimExpr, written: Buffer) -> bool:
    """True for a number, and for an element of another buffer that no loop moves."""
    if isinstance(x, BufferLoad):
        return x.buffer is not written and all(isinstance(i, e.IntImm) for i in x.indices)
    return isinstance(x, e.IntImm | e.FloatImm)


def _ends(state: State, block: Block, condition: e.PrimExpr) -> dict[e.Var, tuple[Sum, Sum]]:
    """First and last value of each axis for which the condition holds, where it bounds the axis."""
    known = {**axis_bounds(block), **regions.dimensions(state.func)}
    axes = {axis.var: axis for axis in block.iter_vars}
    found: dict[e.Var, tuple[Sum, Sum]] = {}
    for part in boxes.conjuncts(condition):
        limit = boxes.limit_of(part, Context(axis_bounds(block)))
        only = None if limit is None else _single(limit[0], axes)
        if limit is None or only is None:
            raise state.refusal(
                f"{NAME}: {name_of(block)} is no padding: a part of its condition is no bound of "
                "a single axis",
                block,
            )
        axis, is_upper = only
        low, high = found.get(axis) or (full(axes[axis]).low, full(axes[axis]).high)
        if is_upper:
            high = _picked(state, block, axis, limit[1], high, known)
        else:
            low = _picked(state, block, axis, low, limit[1].scaled(-1), known, largest=True)
        found[axis] = (low, high)
    if any(at_most(high.shifted(1), low, known) for low, high in found.values()):
        raise state.refusal(
            f"{NAME}: {name_of(block)} is no padding: its condition never holds", block
        )
    whole = [
        full(axes[v]).low.is_same(x[0]) and full(axes[v]).high.is_same(x[1])
        for v, x in found.items()
    ]
    if all(whole):
        raise state.refusal(
            f"{NAME}: {name_of(block)} is no padding: its condition always holds", block
        )
    return {v: x for (v, x), same in zip(found.items(), whole, strict=True) if not same}


def _single(x: Sum, axes: Mapping[e.Var, IterVar]) -> tuple[e.Var, bool] | None:
    """The axis in a sum that is one axis, and whether it stands with a plus."""
    if x.const or len(x.terms) != 1:
        return None
    ((atom, step),) = x.terms.items()
    return (atom, step == 1) if atom in axes and abs(step) == 1 else None


def _picked(
    state: State,
    block: Block,
    axis: e.Var,
    x: Sum,
    y: Sum,
    known: Mapping[e.Var, Bounds],
    largest: bool = False,
) -> Sum:
    """The smaller of two ends (or the larger), where it can be told."""
    if at_most(x, y, known):
        return y if largest else x
    if at_most(y, x, known):
        return x if largest else y
    raise state.refusal(
        f"{NAME}: {name_of(block)} is no padding: which end of axis {axis.name} holds cannot be "
        "told",
        block,
    )


def _refuse_readers(state: State, block: Block) -> None:
    """While the buffer is filled anew, nobody may count on what another iteration has written."""
    buffer = block.writes[0].buffer
    readers = state.tree.info(state.tree.scope(block)).readers.get(buffer, [])
    refuse_uncovered(state, NAME, readers, buffer, block)


def _settled(state: State, block: Block, loop: For) -> BlockRealize:
    """Where the block runs, without the loops of one iteration that stand around `loop`."""
    realize = state.tree.realize(block)
    single = only_values(regions.known_bounds(state.tree, state.tree.parent[loop]))
    values = tuple(
        simplified(v, single) if mentions(v, single.values) else v for v in realize.iter_values
    )
    return replace(realize, iter_values=values)


def _filling(realize: BlockRealize, padding: _Padding, loops: list[For]) -> Stmt:
    """The loops and the block that write the constant everywhere."""
    block = realize.block
    constant = replace(
        block,
        reads=tuple(
            r for r in block.reads if r.buffer is getattr(padding.constant, "buffer", None)
        ),
        name_hint=f"{block.name_hint}_pad_const",
        body=replace(padding.store, value=padding.constant),
    )
    body: Stmt = replace(realize, block=constant)
    for x in reversed(loops):
        body = For(x.loop_var, x.min, x.extent, ForKind.SERIAL, body)
    return FreshCopy({}).stmt(body)


def _nest(state: State, block: Block, loop: For) -> tuple[Stmt, list[For]]:
    """What holds nothing but the block, at most `loop`; and the loops in it."""
    tree = state.tree
    top: Stmt = tree.realize(block)
    chain: list[For] = []
    for x in reversed(tree.loops(block)):
        if x.body is not top:
            break
        top = x
        chain.insert(0, x)
        if x is loop:
            break
    return top, chain


def _copying(
    state: State, realize: BlockRealize, padding: _Padding, chain: list[For]
) -> tuple[Stmt, dict[Stmt, Stmt]]:
    """The loops and the block that write the values, over as few iterations as can be."""
    block = realize.block
    context = regions.bindings(state.tree, block)
    shorter = _shorter_loops(block, realize, padding, chain, context)
    moved = {v: Sum(0, {v: 1}).plus(padding.ends[axis][0]) for v, axis in shorter.items()}
    conditions = []
    axes, values, starts = [], [], {}
    for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if axis.var in padding.ends:
            low, high = padding.ends[axis.var]
            kind = axis.var.dtype
            starts[axis.var] = Sum(0, {axis.var: 1}).plus(low)
            extent = high.minus(low).shifted(1).expr(kind)
            axis = replace(axis, dom=e.Range(p.const(0, kind), extent))
            if axis.var not in shorter.values():
                at = context.values[axis.var]
                conditions += _tests(at, low, high, context.bounds, kind)
                value = at.minus(low).expr(kind)
        axes.append(axis)
        values.append(value)
    conditions += [
        simplified(c, Context(context.bounds, moved)) for c in boxes.conjuncts(realize.predicate)
    ]
    known = axis_bounds(replace(block, iter_vars=tuple(axes)))
    store = replace(
        padding.store,
        value=substituted_value(padding.value, starts, known),
        indices=tuple(substituted_value(i, starts, known) for i in padding.store.indices),
    )
    made = refreshed(replace(block, iter_vars=tuple(axes), body=store))
    body: Stmt = BlockRealize(tuple(values), p.all_of(*conditions), made)
    forward: dict[Stmt, Stmt] = {block: made}
    for x in reversed(chain):
        if x.loop_var in shorter:
            low, high = padding.ends[shorter[x.loop_var]]
            extent = high.minus(low).shifted(1).expr(x.loop_var.dtype)
            body = replace(x, min=p.const(0, x.loop_var.dtype), extent=extent, body=body)
        else:
            body = replace(x, body=body)
        forward[x] = body
    return body, forward


def _shorter_loops(
    block: Block, realize: BlockRealize, padding: _Padding, chain: list[For], context: Context
) -> dict[e.Var, e.Var]:
    """Loops that can run over the copied part alone: each is one axis, and nothing else."""
    found: dict[e.Var, e.Var] = {}
    for x in chain:
        users = [v.var for v in block.iter_vars if context.values[v.var].uses({x.loop_var})]
        others = any(of(y.extent).uses({x.loop_var}) or of(y.min).uses({x.loop_var}) for y in chain)
        if len(users) != 1 or others or x.kind is ForKind.THREAD_BINDING:
            continue
        (axis,) = (v for v in block.iter_vars if v.var is users[0])
        same_range = of(x.min).is_same(of(axis.dom.min)) and of(x.extent).is_same(
            of(axis.dom.extent)
        )
        if context.values[axis.var].only_atom is x.loop_var and same_range:
            if axis.var in padding.ends:
                found[x.loop_var] = axis.var
    return found


def _tests(
    value: Sum, low: Sum, high: Sum, known: Mapping[e.Var, Bounds], kind: Any
) -> list[e.PrimExpr]:
    """The conditions that an axis stays within its ends, where its loops run further."""
    found = []
    if not at_most(low, value, known):
        found.append(at_least(value, low, kind))
    if not at_most(value, high, known):
        found.append(below(value, high.shifted(1), kind))
    return found
