"""compute_inline: a block goes into the blocks that read what it writes.

for i in range(128):                            for i in range(128):
    with T.block("B"):                              with T.block("C"):
        B[v] = A[v] * 2.0             ->                C[v] = A[v] * 2.0 + 1.0
for i in range(128):
    with T.block("C"):
        C[v] = B[v] + 1.0

A padding block goes in as T.if_then_else(inside, A[v - 1], 0.0).
"""

from __future__ import annotations

from collections.abc import Mapping

from mlcnb.arith.reading import of
from mlcnb.arith.sum import Bounds
from mlcnb.ir import expr as e
from mlcnb.tir.schedule.edit.caching import refuse_views
from mlcnb.tir.schedule.edit.elementwise import LoadRule, axis_bounds, inverted, substituted_value
from mlcnb.tir.schedule.legality.dependence import why_inputs_change, why_uncovered
from mlcnb.tir.schedule.legality.pointers import refuse_held
from mlcnb.tir.schedule.legality.promises import is_output_block, why_not_complete
from mlcnb.tir.schedule.legality.regions import bindings
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State, arrived
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.stmt import Block, BufferStore, For, Stmt


@does(again=True, near="compute_at")
def compute_inline(state: State, block: Block) -> Change:
    """Put the value that a block computes where it is read, and take the block away.

    Shapes may be symbolic; each index has to say what axis it is, by sums, `//` and `%` of numbers.

    Args:
        state: the program.
        block: a complete block of one store, whose indices say which instance wrote an element; its
            output lives inside the scope.

    Raises:
        ScheduleError: the block is a reduction, writes an output of the scope, or its inputs
            change before they would be read.
    """
    tree = state.tree
    hint = "compute_at moves a reduction under a loop of its consumer"
    store = inlinable_store(state, "compute_inline", block, hint)
    if is_output_block(tree, block):
        raise state.refusal(
            f"compute_inline: {name_of(block)} writes {store.buffer.name}, an output of "
            f"{name_of(tree.scope(block))}",
            block,
            hint="reverse_compute_inline puts a consumer into its producer",
        )
    reason = why_inputs_change(tree, block) if state.checks else None
    state.refuse_for(reason, f"compute_inline: {name_of(block)} cannot move", block)
    refuse_held(state, "compute_inline", store.buffer, always=True)
    readers = tree.info(tree.scope(block)).readers.get(store.buffer, [])
    edit = state.edit()
    for user in tree.blocks_under(tree.scope(block)):
        realize = tree.realize(user)
        rule = _rule(state, block, store, bindings(tree, user).bounds, edit.forward)
        holds = rule.expr(realize.predicate)
        if holds is not realize.predicate and user not in readers:
            raise state.refusal(
                f"compute_inline: {name_of(user)} reads {store.buffer.name} in its predicate alone",
                user,
            )
        edit.update(realize, predicate=holds)
    for reader in readers:
        refuse_views(state, "compute_inline", store.buffer, [reader])
        rule = _rule(state, block, store, axis_bounds(reader), edit.forward)
        edit.put(reader, rule.stmt(reader))
    edit.put(tree.realize(block), None)
    edit.free(tree.scope(block), store.buffer)
    return Change.of(edit)


def inlinable_store(
    state: State, primitive: str, block: Block, hint: str | None = None
) -> BufferStore:
    """The one store of a complete block, else a refusal; the hint is for reductions."""
    reason = why_not_complete(state.tree, block) if state.checks else None
    if block.init is not None:
        reason = "it is a reduction"
    hint = hint if block.init is not None else None
    state.refuse_for(reason, f"{primitive}: {name_of(block)} is not elementwise", block, hint)
    store = block.body
    if not isinstance(store, BufferStore) or store.predicate is not None:
        kind = "several statements" if not isinstance(store, For) else "loops inside"
        raise state.refusal(f"{primitive}: {name_of(block)} has {kind}, not one store", block)
    return store


def refuse_early(state: State, primitive: str, block: Block, into: Block, change: Change) -> None:
    """Refuse where the block that another went into reads, in the program that came out, what is
    written later.
    """
    made = Tree(change.func)
    reason = why_uncovered(made, arrived(change.forward, into)) if state.checks else None
    message = f"{primitive}: {name_of(block)} is too early in {name_of(into)}"
    state.refuse_for(reason, message, block)


def _rule(
    state: State,
    block: Block,
    store: BufferStore,
    around: Mapping[e.Var, Bounds],
    forward: dict[Stmt, Stmt],
) -> LoadRule:
    """Loads of what the block writes become its value; around: the variables seen there."""
    known = {**axis_bounds(block), **around}

    def value_at(indices: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
        values = inverted(block, store.indices, [of(i) for i in indices], known)
        if values is None:
            raise state.refusal(
                f"compute_inline: the indices of {store.buffer.name} do not tell which instance "
                f"of {name_of(block)} wrote an element",
                block,
            )
        return substituted_value(store.value, values, known)

    return LoadRule(store.buffer, value_at, forward)
