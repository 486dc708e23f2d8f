"""reorder: loops of a perfect nest change places.

for i, j, k in T.grid(...):         for j, k, i in T.grid(...):
    with T.block("C"):        ->        with T.block("C"):

Legal where iterations that touch the same elements stay in order, or are steps of one reduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlcnb.arith.reading import of
from mlcnb.core.node import replace
from mlcnb.tir.schedule.legality.dependence import why_not_reordered
from mlcnb.tir.schedule.legality.promises import why_not_chain
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, owned
from mlcnb.tir.schedule.record.site import Named, Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, Stmt


def _exchanges(site: Site) -> Iterator[list[Named]]:
    """The loop and each other one of its nest, the inner one first."""
    for other in site.nest:
        outer = site.tree.inside(site.target.node, other.node)
        yield [site.target, other] if outer else [other, site.target]


@does(again=True, near="split fuse parallel", tries={"ordered_loops": _exchanges})
def reorder(state: State, *ordered_loops: For) -> Change:
    """Put the given loops into the given order, outermost first; loops between them stay where
    they are.

    Extents may be symbolic, and may depend on loops that stay outside (a triangle).

    Raises:
        ScheduleError: the loops do not lie in one chain, the range of one would depend on a loop
            inside it,
            or a dependence would be reversed.
    """
    _refuse(state, ordered_loops)
    chain = _chain(state, ordered_loops)
    wanted = iter(ordered_loops)
    order = [next(wanted) if x in ordered_loops else x for x in chain]
    if order == chain:
        return Change(state.func, {})
    _refuse_ranges(state, chain, order)
    if state.checks:
        reason = why_not_reordered(state.tree, chain, order)
        told = f"reorder: the loops {_names(chain)} cannot become {_names(order)}"
        state.refuse_for(reason, told, ordered_loops[0])
    edit = state.edit()
    body: Stmt = chain[-1].body
    for x in reversed(order):
        body = replace(x, body=body)
        edit.became(x, body)
    edit.put(chain[0], body)
    return Change.of(edit)


def _refuse(state: State, loops: tuple[For, ...]) -> None:
    if not loops:
        raise state.refusal("reorder: no loops given")
    twice = [x for n, x in enumerate(loops) if x in loops[:n]]
    if twice:
        raise state.refusal(f"reorder: {name_of(twice[0])} is given twice", twice[0])


def _chain(state: State, loops: tuple[For, ...]) -> list[For]:
    """The loops from the outermost given one to the innermost, those between them too."""
    tree = state.tree
    innermost = max(loops, key=lambda x: tree.position[x])
    around = [*tree.loops(innermost), innermost]
    for x in loops:
        if x not in around:
            raise state.refusal(
                f"reorder: {owned(x, tree)} and {owned(innermost, tree)} are not in one nest",
                x,
            )
    chain = around[min(around.index(x) for x in loops) :]
    state.refuse_for(why_not_chain(tree, chain), "reorder", innermost)
    return chain


def _names(loops: Sequence[For]) -> str:
    return ", ".join(x.loop_var.name for x in loops)


def _refuse_ranges(state: State, chain: list[For], order: list[For]) -> None:
    for n, x in enumerate(order):
        inside = {y.loop_var for y in order[n + 1 :]}
        if of(x.extent).uses(inside) or of(x.min).uses(inside):
            raise state.refusal(
                f"reorder: the range of {name_of(x)} depends on a loop that would be inside it", x
            )
