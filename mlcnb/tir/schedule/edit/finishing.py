"""Under loops of a reduction: what waits for the last of their iterations.

for k in range(4):                            for k in range(4):
    for i in range(8):                            for i in range(8):
        with T.block("C"): …        ->                with T.block("C"): …
for i in range(8):                                    with T.block("D"):
    with T.block("D"): …                                  T.where(3 <= k)

By then the reduction is done for the values that all other loops have: in program order no later
iteration has the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlcnb.arith.reading import of
from mlcnb.arith.sum import Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.edit.nests import at_least
from mlcnb.tir.schedule.legality.promises import reduce_variables, spatial_variables
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.stmt import Block, For, ForKind


def reducing(tree: Tree, block: Block, loops: Iterable[For]) -> list[For]:
    """The loops among `loops` that the reduction of a block runs over."""
    variables = reduce_variables(tree, block)
    return [x for x in loops if x.loop_var in variables]


def has_last(tree: Tree, block: Block, loop: For) -> bool:
    """True if a loop of a block's reduction runs its iterations in order, at least one, and over
    nothing but that reduction.
    """
    return (
        loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        and (p.as_int(loop.extent) or 0) > 0
        and loop.loop_var not in spatial_variables(tree, block)
    )


def waited_for(tree: Tree, writers: Iterable[Block], loops: Sequence[For]) -> list[For]:
    """The loops among `loops` whose last iteration finishes the reductions of the writers; none
    where one of them has no last iteration.
    """
    running = {w: reducing(tree, w, loops) for w in writers}
    if not all(has_last(tree, w, x) for w, found in running.items() for x in found):
        return []
    return [x for x in loops if any(x in found for found in running.values())]


def in_the_last(loops: Sequence[For], dtype: str) -> list[e.PrimExpr]:
    """The conditions that each of the loops is in its last iteration; none for one of one."""
    found = []
    for loop in loops:
        if p.as_int(loop.extent) != 1:
            last = of(loop.min).plus(of(loop.extent)).shifted(-1)
            found.append(at_least(Sum(0, {loop.loop_var: 1}), last, dtype))
    return found
