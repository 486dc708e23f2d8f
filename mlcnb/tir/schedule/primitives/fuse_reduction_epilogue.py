"""fuse_reduction_epilogue: what is combined with the result of a reduction is what it starts from.

for i, j, k in T.grid(...):                     for i, j, k in T.grid(...):
    with T.block("C"):                              with T.block("C"):
        with T.init():                                  with T.init():
            C[vi, vj] = 0.0               ->                D[vi, vj] = bias[vj]
        C[vi, vj] += A[vi, vk] * B[vk, vj]              D[vi, vj] += A[vi, vk] * B[vk, vj]
for i, j in T.grid(...):
    with T.block("D"):
        D[vi, vj] = C[vi, vj] + bias[vj]

The epilogue must combine as the reduction does: a sum plus something, a maximum with something.
TVM also takes max(sum + bias, 0), and applies it in every step: that computes something else, and
is refused here.
"""

from __future__ import annotations

from mlcnb.arith.reading import of
from mlcnb.core.node import Node, replace
from mlcnb.ir import expr as e
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.functor import substitute
from mlcnb.tir.reducers import Reducer, is_neutral, matched_update
from mlcnb.tir.schedule.edit.elementwise import loads_of, refreshed
from mlcnb.tir.schedule.edit.rebuild import rewrite_values
from mlcnb.tir.schedule.legality.boxes import inside
from mlcnb.tir.schedule.legality.dependence import why_inputs_change, why_readers_mind
from mlcnb.tir.schedule.legality.promises import (
    is_output_block,
    why_made_later,
    why_not_affine,
    why_not_reduction,
)
from mlcnb.tir.schedule.legality.regions import box_of, known_bounds
from mlcnb.tir.schedule.primitives.compute_inline import inlinable_store, refuse_early
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BufferStore, IterType, IterVar

NAME = "fuse_reduction_epilogue"


@does(again=True)
def fuse_reduction_epilogue(state: State, reduction_block: Block, epilogue_block: Block) -> Change:
    """Let a reduction start from what its epilogue adds, and take the epilogue away.

    The reduction then writes the epilogue's buffer, whose shape and dtype stay.

    Args:
        state: the program.
        reduction_block: a reduction block of one store; nothing but the epilogue reads its result.
        epilogue_block: a complete block that combines each element of it with something.

    Raises:
        ScheduleError: the epilogue does not combine as the reduction does, others read the result,
            or what the epilogue reads is not there yet when the reduction starts.
    """
    update, init, reducer = _reduction(state, reduction_block)
    store = inlinable_store(state, NAME, epilogue_block)
    middle = update.buffer
    _refuse_users(state, reduction_block, epilogue_block, middle)
    axes = _axes(state, reduction_block, epilogue_block, update, store)
    if state.checks:
        _refuse_order(state, reduction_block, epilogue_block)
        _refuse_partial(state, reduction_block, epilogue_block, middle)
    added = substitute(_combined(state, epilogue_block, store, middle, reducer), axes)
    start = init.value
    indices = tuple(substitute(i, axes) for i in store.indices)

    def into_output(n: Node) -> Node | None:
        if isinstance(n, BufferLoad) and n.buffer is middle:
            return BufferLoad(store.buffer, indices)
        return None

    body = BufferStore(store.buffer, rewrite_values(update.value, into_output), indices)
    if not is_neutral(reducer, start):
        added = reducer.combine(start, added)
    first = BufferStore(store.buffer, added, indices)
    new = refreshed(replace(reduction_block, body=body, init=first))
    edit = state.edit()
    edit.put(reduction_block, new)
    edit.became(reduction_block, new)
    edit.put(state.tree.realize(epilogue_block), None)
    edit.free(state.tree.scope(reduction_block), middle)
    change = Change.of(edit)
    refuse_early(state, NAME, epilogue_block, reduction_block, change)
    return change


def _reduction(state: State, block: Block) -> tuple[BufferStore, BufferStore, Reducer]:
    reason = why_not_reduction(state.tree, block)
    if block.init is None or (state.checks and reason):
        raise state.refusal(f"{NAME}: {name_of(block)} is no reduction block: {reason}", block)
    found = matched_update(block.body) if isinstance(block.body, BufferStore) else None
    if found is None or not isinstance(block.init, BufferStore):
        raise state.refusal(f"{NAME}: {name_of(block)} combines by none of +, *, min, max", block)
    return block.body, block.init, found[0]  # type: ignore[return-value]


def _refuse_users(state: State, reduction: Block, epilogue: Block, middle: Buffer) -> None:
    tree = state.tree
    if tree.scope(reduction) is not tree.scope(epilogue):
        raise state.refusal(
            f"{NAME}: {name_of(reduction)} and {name_of(epilogue)} are in different blocks",
            epilogue,
        )
    if is_output_block(tree, reduction):
        raise state.refusal(
            f"{NAME}: {middle.name}, which {name_of(reduction)} writes, is an output of "
            f"{name_of(tree.scope(reduction))}",
            reduction,
        )
    readers = tree.info(tree.scope(reduction)).readers.get(middle, [])
    others = [b for b in readers if b not in (epilogue, reduction)]
    if others or epilogue not in readers:
        who = f"{names_of(others)} also reads" if others else f"{name_of(epilogue)} does not read"
        raise state.refusal(f"{NAME}: {who} {middle.name}", epilogue)


def _combined(
    state: State, block: Block, store: BufferStore, middle: Buffer, reducer: Reducer
) -> e.PrimExpr:
    """What the epilogue combines with the result of the reduction."""
    value = store.value
    if type(value) is type(reducer.combine(e.Var("x", middle.dtype), e.Var("y", middle.dtype))):
        left, right = value.a, value.b  # type: ignore[attr-defined]
        for result, other in ((left, right), (right, left)):
            if isinstance(result, BufferLoad) and result.buffer is middle:
                if not loads_of(other, middle):
                    return other
    raise state.refusal(
        f"{NAME}: {name_of(block)} does not combine {middle.name} by {reducer.name} with something "
        "else: in every step of the reduction it would be applied to a part of the result",
        block,
        hint="reverse_compute_at moves it behind the reduction, into the same tile",
    )


def _axes(
    state: State, reduction: Block, epilogue: Block, update: BufferStore, store: BufferStore
) -> dict[e.Var, e.Var]:
    """The axes of the epilogue, each with the axis of the reduction that it is."""
    loads = loads_of(store.value, update.buffer)
    own = {axis.var: axis for axis in epilogue.iter_vars}
    spatial = {v.var: v for v in reduction.iter_vars if v.iter_type is IterType.SPATIAL}
    found: dict[e.Var, e.Var] = {}
    for there, here in zip(update.indices, loads[0].indices, strict=True):
        x, y = of(there).only_atom, of(here).only_atom
        if x in spatial and y in own and _same_domain(spatial[x], own[y]):
            found[y] = x
    if len(found) != len(own) or len(set(found.values())) != len(spatial):
        raise state.refusal(
            f"{NAME}: the axes of {name_of(epilogue)} are not the spatial axes of "
            f"{name_of(reduction)}, one for one",
            epilogue,
        )
    return found


def _same_domain(x: IterVar, y: IterVar) -> bool:
    return of(x.dom.min).is_same(of(y.dom.min)) and of(x.dom.extent).is_same(of(y.dom.extent))


def _refuse_order(state: State, reduction: Block, epilogue: Block) -> None:
    """What the epilogue reads must be there before the reduction, and stay."""
    tree = state.tree
    reason = why_not_affine(tree, reduction) or why_inputs_change(tree, epilogue)
    reason = reason or why_readers_mind(tree, epilogue)
    reason = reason or why_made_later(tree, epilogue, reduction)
    state.refuse_for(reason, f"{NAME}: {name_of(epilogue)} cannot move", epilogue)


def _refuse_partial(state: State, reduction: Block, epilogue: Block, middle: Buffer) -> None:
    """Each element that the reduction makes must be one that the epilogue takes, and back."""
    tree = state.tree
    scope = tree.scope(reduction)
    known = known_bounds(tree, scope)
    made = box_of(tree, reduction, reduction.writes[0], scope)
    region = next(r for r in epilogue.reads if r.buffer is middle)
    taken = box_of(tree, epilogue, region, scope)
    equal = inside(made, taken, known) and inside(taken, made, known)
    if not (made.exact and taken.exact and equal):
        raise state.refusal(
            f"{NAME}: {name_of(epilogue)} does not take all elements of {middle.name} that "
            f"{name_of(reduction)} makes",
            epilogue,
        )
