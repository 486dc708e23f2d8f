"""merge: loops that stand one after the other become one, with their bodies in turn.

for i in range(8):                     for i_m in range(8):
    with T.block("C"):                     with T.block("C"):
        C[vi] = ...                            C[vi] = ...
for i in range(8):             ->          with T.block("D"):
    with T.block("D"):                         D[vi] = ...
        D[vi] = ...

Iteration x of the first loop now runs behind iterations 0 .. x - 1 of the second: legal where those
touch nothing that it writes, and write nothing that it touches.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.edit.rebuild import Substitution
from mlcnb.tir.schedule.legality.dependence import touched
from mlcnb.tir.schedule.legality.interleave import why_overtaken
from mlcnb.tir.schedule.primitives.split import refuse_marked
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, owned, text_of
from mlcnb.tir.schedule.record.site import Named, Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, For, ForKind, SeqStmt, Stmt, seq

#: the loops from the common place inwards, the innermost is the one that was given
Nest = list[For]


def _pairs(site: Site) -> Iterator[list[Named]]:
    """The loop with each one of another nest."""
    for other in site.loops:
        if other not in site.nest and other.node is not site.target.node:
            yield [site.target, other]


@does(again=True, tries={"loops": _pairs})
def merge(state: State, *loops: For) -> Change:
    """Merge loops, with the loops around them up to the innermost loop or block that holds them
    all.

    The merged nest stands where the last of them stood, the bodies in the order of the program.

    Args:
        state: the program.
        loops: two or more, each the innermost loop of a perfect nest; nests as deep as each
            other, with the same extents.

    Returns:
        The innermost merged loop.

    Raises:
        ScheduleError: the nests differ, or an iteration would come behind one that needs it.
    """
    nests = _nests(state, loops)
    _refuse_different(state, nests)
    if state.checks:
        _refuse_reordered(state, nests)
    variables = [e.Var(f"{x.loop_var.name}_m", x.loop_var.dtype) for x in nests[0]]
    edit = state.edit()
    bodies = []
    for nest in nests:
        new = {x.loop_var: Sum(0, {v: 1}) for x, v in zip(nest, variables, strict=True)}
        bodies.append(Substitution(Context(values=new), edit.forward).stmt(nest[-1].body))
    made: Stmt = seq(*bodies)
    merged: list[Stmt] = []
    for x, variable in reversed(list(zip(nests[0], variables, strict=True))):
        made = replace(x, loop_var=variable, kind=ForKind.SERIAL, body=made)
        merged.insert(0, made)
    for nest in nests:
        edit.put(nest[0], made if nest is nests[-1] else None)
        for old, new_loop in zip(nest, merged, strict=True):
            edit.became(old, new_loop)
    return Change.of(edit, merged[-1])


def _nests(state: State, loops: tuple[For, ...]) -> list[Nest]:
    tree = state.tree
    if len(loops) < 2:
        raise state.refusal(f"merge: two or more loops are needed, {len(loops)} given")
    first = loops[0]
    for n, x in enumerate(loops):
        if x in loops[:n]:
            raise state.refusal(f"merge: {name_of(x)} is given twice", x)
        if tree.scope(x) is not tree.scope(first):
            raise state.refusal(
                f"merge: {name_of(first)} and {name_of(x)} are in different blocks", x
            )
        around = next((y for y in loops if y is not x and tree.inside(x, y)), None)
        if around is not None:
            raise state.refusal(f"merge: {name_of(x)} is inside {name_of(around)}", x)
    place = tree.common_ancestor(loops)
    nests = [_nest(state, x, place) for x in loops]
    return sorted(nests, key=lambda nest: tree.position[nest[0]])


def _nest(state: State, loop: For, place: Stmt) -> Nest:
    """The loops between the common place and the given loop, which hold nothing else."""
    tree = state.tree
    nest = [x for x in (*tree.loops(loop), loop) if x is not place and tree.inside(x, place)]
    for outer, inner in zip(nest, nest[1:], strict=False):
        if outer.body is not inner:
            raise state.refusal(
                f"merge: {name_of(inner)} is not the whole body of {name_of(outer)}",
                inner,
                hint=f"merge at {name_of(outer)}, or at another loop outside of it",
            )
    parent = tree.parent[nest[0]]
    if not (isinstance(parent, SeqStmt) and tree.parent[parent] is place):
        raise state.refusal(f"merge: {name_of(nest[0])} stands in a branch of its own", nest[0])
    return nest


def _refuse_different(state: State, nests: list[Nest]) -> None:
    first = nests[0]
    for nest in nests:
        for x in nest:
            refuse_marked(state, "merge", x)
            if p.as_int(x.min) != 0:
                raise state.refusal(f"merge: {name_of(x)} starts at {text_of(x.min)}, not at 0", x)
        if len(nest) != len(first):
            raise state.refusal(
                f"merge: {name_of(nest[-1])} is the loop number {len(nest)} of its nest, "
                f"{name_of(first[-1])} number {len(first)}",
                nest[-1],
            )
        for x, y in zip(first, nest, strict=True):
            same = of(x.extent).is_same(of(y.extent)) and x.loop_var.dtype == y.loop_var.dtype
            if not same:
                raise state.refusal(
                    f"merge: {owned(x, state.tree)} has {text_of(x.extent)} iterations, "
                    f"{owned(y, state.tree)} has {text_of(y.extent)}",
                    y,
                    hint="split them so that their outer loops are the same",
                )


def _refuse_reordered(state: State, nests: list[Nest]) -> None:
    tree = state.tree
    blocks = [tree.blocks_under(nest[0]) for nest in nests]
    for n, nest in enumerate(nests[:-1]):
        passed = _between(state, nest[0], nests[-1][0], {x[0] for x in nests})
        shared = _shared(state, blocks[n], passed)
        if shared is not None:
            buffer, other = shared
            raise state.refusal(
                f"merge: {name_of(nest[0])} would move behind {name_of(other)}, and both touch "
                f"{buffer}, which one of them writes",
                other,
            )
        for m in range(n + 1, len(nests)):
            reason = why_overtaken(tree, (nest, blocks[n]), (nests[m], blocks[m]))
            both = f"{owned(nest[-1], tree)} and {owned(nests[m][-1], tree)}"
            state.refuse_for(reason, f"merge: {both} cannot be one", nests[m][-1])


def _between(state: State, first: Stmt, last: Stmt, merged: set[For]) -> list[Block]:
    """The blocks that stand between two statements of a sequence and are not merged."""
    tree = state.tree
    items = tree.parent[first].seq  # type: ignore[attr-defined]
    passed = items[items.index(first) + 1 : items.index(last)]
    return [b for x in passed if x not in merged for b in tree.blocks_under(x)]


def _shared(state: State, moved: list[Block], passed: list[Block]) -> tuple[str, Block] | None:
    """A buffer that blocks of both lists touch and one writes, and the block that is passed."""
    for buffer, users in touched(state.tree, [*moved, *passed]).items():
        others = [b for b in users if b in passed]
        if others and any(b in moved for b in users):
            return buffer.name, others[0]
    return None
