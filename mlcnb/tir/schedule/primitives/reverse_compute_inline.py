"""reverse_compute_inline: an elementwise block goes into the block that makes what it reads.

for i in range(128):                            for i in range(128):
    with T.block("B"):                              with T.block("B"):
        B[v] = A[v] * 2.0             ->                C[v] = A[v] * 2.0 + 1.0
for i in range(128):
    with T.block("C"):
        C[v] = B[v] + 1.0

After cache_write of a reduction, this puts bias and activation into the copy out of the cache.
"""

from __future__ import annotations

from mlcnb.arith.atoms import structure_key
from mlcnb.arith.extremes import at_most, extremes
from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import Sum
from mlcnb.core.node import Node, replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.schedule.edit.caching import refuse_views
from mlcnb.tir.schedule.edit.elementwise import (
    axis_bounds,
    hits,
    inverted,
    loads_of,
    refreshed,
    substituted_value,
)
from mlcnb.tir.schedule.edit.moving import full, limits, reads_within
from mlcnb.tir.schedule.edit.nests import at_least, below
from mlcnb.tir.schedule.edit.rebuild import rewrite_values
from mlcnb.tir.schedule.legality.boxes import conjuncts, spans
from mlcnb.tir.schedule.legality.dependence import is_covered, why_inputs_change, why_readers_mind
from mlcnb.tir.schedule.legality.pointers import refuse_held
from mlcnb.tir.schedule.legality.promises import is_output_block, why_made_later
from mlcnb.tir.schedule.legality.regions import bindings
from mlcnb.tir.schedule.primitives.compute_inline import inlinable_store, refuse_early
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BufferStore


@does(again=True, near="reverse_compute_at")
def reverse_compute_inline(state: State, block: Block) -> Change:
    """Compute what an elementwise block computes where its input is made, and take the block away.

    The producer then writes the block's buffer, in its shape and dtype.

    Args:
        state: the program.
        block: a complete block of one store that alone reads a buffer made by one complete block.

    Raises:
        ScheduleError: the producer is a reduction, others read the buffer too, or the block reads
            it at indices that do not say which of its instances needs an element.
    """
    name = "reverse_compute_inline"
    last = inlinable_store(state, name, block)
    producer, middle = _producer(state, block)
    hint = f"cache_write {name_of(producer)} and inline into the copy"
    first = inlinable_store(state, name, producer, hint)
    _refuse_order(state, block, producer)
    _refuse_unread(state, block, middle)
    values = _axes_from_producer(state, block, producer, first, last)
    known = {**axis_bounds(block), **axis_bounds(producer)}

    def value_for(n: Node) -> Node | None:
        return first.value if isinstance(n, BufferLoad) and n.buffer is middle else None

    merged = rewrite_values(substituted_value(last.value, values, known), value_for)
    indices = tuple(substituted_value(i, values, known) for i in last.indices)
    store = replace(last, value=merged, indices=indices)
    edit = state.edit()
    fields = refreshed(replace(producer, body=store))
    edit.update(producer, reads=fields.reads, writes=fields.writes)
    edit.put(producer.body, store)
    guard = _guard(state, block, producer, values)
    realize = state.tree.realize(producer)
    conditions = _distinct([*conjuncts(realize.predicate), *conjuncts(guard)])
    edit.update(realize, predicate=p.all_of(*conditions))
    edit.put(state.tree.realize(block), None)
    edit.free(state.tree.scope(block), middle)
    change = Change.of(edit)
    refuse_early(state, name, block, producer, change)
    return change


def _producer(state: State, block: Block) -> tuple[Block, Buffer]:
    """The one block that makes one of the inputs, which nothing else reads; and that input."""
    tree = state.tree
    info = tree.info(tree.scope(block))
    makers = info.producers(block)
    alone = [m for m in makers if all(info.readers.get(r.buffer) == [block] for r in m.writes)]
    if len(alone) != 1 and len(makers) != 1:
        found = names_of(makers) or "none"
        raise state.refusal(
            f"reverse_compute_inline: {name_of(block)} needs one producer that makes something for "
            f"it alone, its producers are: {found}",
            block,
        )
    producer = (alone or makers)[0]
    if len(producer.writes) != 1:
        raise state.refusal(
            f"reverse_compute_inline: {name_of(producer)} writes several buffers", producer
        )
    middle = producer.writes[0].buffer
    others = [b for b in info.readers.get(middle, []) if b is not block]
    if others:
        raise state.refusal(
            f"reverse_compute_inline: {names_of(others)} also reads {middle.name}", block
        )
    if is_output_block(tree, producer):
        raise state.refusal(
            f"reverse_compute_inline: {middle.name}, which {name_of(producer)} writes, is an "
            f"output of {name_of(tree.scope(block))}",
            producer,
        )
    refuse_views(state, "reverse_compute_inline", middle, [block])
    refuse_held(state, "reverse_compute_inline", middle, always=True)
    return producer, middle


def _refuse_order(state: State, block: Block, producer: Block) -> None:
    """What the block reads must be there at the producer, and nobody may see it come early."""
    tree = state.tree
    reason = why_readers_mind(tree, block) or why_inputs_change(tree, block)
    reason = reason or why_made_later(tree, block, producer)
    if state.checks:
        state.refuse_for(reason, f"reverse_compute_inline: {name_of(block)} cannot move", block)


def _refuse_unread(state: State, block: Block, middle: Buffer) -> None:
    """Instances that read nothing (a border that is set to zero) would no longer be run."""
    tree = state.tree
    among = tree.blocks_under(tree.scope(block))
    within = all(reads_within(block, r) for r in block.reads if r.buffer is middle)
    if state.checks and not (within and is_covered(tree, block, middle, among)):
        raise state.refusal(
            f"reverse_compute_inline: some instances of {name_of(block)} may read no element of "
            f"{middle.name} that is written, and would not be run",
            block,
        )


def _axes_from_producer(
    state: State, block: Block, producer: Block, first: BufferStore, last: BufferStore
) -> dict[e.Var, Sum]:
    """The axes of the block as sums of the producer's axes."""
    loads = loads_of(last.value, first.buffer)
    context = Context(axis_bounds(block))
    forms = [[of(i, context) for i in load.indices] for load in loads]
    if not loads or any(not _same(forms[0], other) for other in forms[1:]):
        raise state.refusal(
            f"reverse_compute_inline: {name_of(block)} reads {first.buffer.name} at several places",
            block,
        )
    known = axis_bounds(producer)
    given = [of(i, Context(known)) for i in first.indices]
    values = inverted(block, loads[0].indices, given, known)
    if values is None or not hits(loads[0].indices, given, values, known):
        raise state.refusal(
            f"reverse_compute_inline: the indices at which {name_of(block)} reads "
            f"{first.buffer.name} do not tell which of its instances needs an element",
            block,
        )
    return values


def _same(xs: list[Sum], ys: list[Sum]) -> bool:
    return all(x.is_same(y) for x, y in zip(xs, ys, strict=True))


def _guard(state: State, block: Block, producer: Block, values: dict[e.Var, Sum]) -> e.PrimExpr:
    """The condition, in terms of loops, that an instance of the producer is one of the block
    too.
    """
    around = bindings(state.tree, producer)
    said = limits(state.tree, block)
    if said is None:
        raise state.refusal(
            f"reverse_compute_inline: {name_of(block)} has a predicate that is not about single "
            "axes of it",
            block,
        )
    known = around.bounds
    inner = spans(state.tree.loops(producer), known)
    conditions: list[e.PrimExpr] = []
    for axis in block.iter_vars:
        kind = axis.var.dtype
        value = of(values[axis.var].expr(kind), around)
        low, high = extremes(value, inner, known) or (value, value)
        for side in (full(axis), said.get(axis.var, full(axis))):
            lows = [x for x in side.lows if not at_most(x, low, known)]
            highs = [x for x in side.highs if not at_most(high, x, known)]
            conditions.extend(at_least(value, x, kind) for x in lows)
            conditions.extend(below(value, x.shifted(1), kind) for x in highs)
    return simplified(p.all_of(*_distinct(conditions)), Context(around.bounds))


def _distinct(conditions: list[e.PrimExpr]) -> list[e.PrimExpr]:
    kept: dict[object, e.PrimExpr] = {}
    for condition in conditions:
        kept.setdefault(structure_key(condition), condition)
    return list(kept.values())
