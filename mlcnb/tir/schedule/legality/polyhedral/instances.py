"""Does each instance of a block compute one thing, however often it runs?

for i, k in T.grid(4, 6):
    with T.block("C"): ... C[v] = C[v] + A[v, r]
    with T.block("D"): D[v] = C[v]              D at v = 0 runs six times and sees six partial
                                                sums: no
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import isl
from mlcnb.tir.schedule.legality.polyhedral.equal import Comparison, Mismatch, Value
from mlcnb.tir.schedule.legality.polyhedral.flow import Flow
from mlcnb.tir.schedule.legality.polyhedral.program import Statement


def repeats_differ(flow: Flow) -> Statement | None:
    """The first statement whose value may differ in runs of one instance of its block: it reads
    different writes, and these are not shown to have written the same. None if there is none.
    """
    for x in flow.program.statements:
        for load, where in x.loads:
            seen = [
                instance_of(x).reverse().apply_range(_written(source, where))
                for source in flow.sources(x, load)
            ]
            if seen and not isl.union(seen).is_single_valued() and not _are_alike(flow, x):
                return x
    return None


def _are_alike(flow: Flow, x: Statement) -> bool:
    """True if all runs of an instance write equal values, though they read different writes."""
    instance = instance_of(x)
    try:
        Comparison(flow, flow).same(Value(x), Value(x), instance.apply_range(instance.reverse()))
    except Mismatch:
        return False
    return True


def axes_of(x: Statement) -> Any:
    """The values of the block's axes for each iteration."""
    return x.map(f"[{', '.join(x.place.axes)}]")


def instance_of(x: Statement) -> Any:
    """The values of the block's axes, and of loops inside the block, for each iteration."""
    return x.map(f"[{', '.join(x.place.instance)}]")


def _written(source: Any, where: Any) -> Any:
    """The writer's instances, under a name of their own."""
    found = source.map.intersect_domain(where)
    if source.writer is None:
        return found
    writer = source.writer
    instance = writer.map(f"{writer.name}[{', '.join(writer.place.instance)}]")
    return found.apply_range(instance)
