"""reorder_block_iter_var: the axes of a block change places; the loops around it stay.

with T.block("C"):                                       with T.block("C"):
    vi, vj, vk = T.axis.remap("SSR", [i, j, k])   ->         vj, vi, vk = T.axis.remap("SSR", ...)

The order of axes means nothing for what is computed: it is how layouts and intrinsics name them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from mlcnb.core.node import replace
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


def _exchanges(site: Site) -> Iterator[list[int]]:
    """Every exchange of two axes."""
    for a, b in combinations(range(len(site.block.iter_vars)), 2):
        order = list(range(len(site.block.iter_vars)))
        order[a], order[b] = b, a
        yield order


@does(still=True, tries={"new_order": _exchanges})
def reorder_block_iter_var(state: State, block: Block, new_order: list[int]) -> Change:
    """Put the axes of a block into another order: axis `new_order[n]` becomes number n.

    Their extents and bindings go along.

    Raises:
        ScheduleError: `new_order` does not name each axis once.
    """
    count = len(block.iter_vars)
    if sorted(new_order) != list(range(count)):
        names = ", ".join(axis.var.name for axis in block.iter_vars) or "none"
        raise state.refusal(
            f"reorder_block_iter_var: {list(new_order)} is no order of the {count} axes of "
            f"{name_of(block)}",
            block,
            hint=f"name each of 0 to {count - 1} once; the axes are {names}" if count else None,
        )
    realize = state.tree.realize(block)
    edit = state.edit()
    new = replace(block, iter_vars=tuple(block.iter_vars[n] for n in new_order))
    values = tuple(realize.iter_values[n] for n in new_order)
    edit.put(realize, replace(realize, iter_values=values, block=new))
    edit.became(block, new)
    return Change.of(edit)
