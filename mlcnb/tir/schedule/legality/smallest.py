"""smallest: the smallest shapes on which a step goes wrong.

    for i in range(1024):                      wrong on (2,), (2,)
        B[i] = A[i] + B[i - 1]                 B[1] is 9.0, and would be 4.0

Both programs, as they are and as they would be, are written again with smaller sizes in place of
those of the parameters, and run. What does not fit such a size (a loop that was split for the
large one) steps out of bounds, and is no answer; the loops are then cut short, where the step keeps
them as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Range
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.proof import backwards, run

#: sizes that are tried for each dimension, and how many different ones are told apart
LARGEST, MOST = 4, 3
#: elements of each dimension that loops which are cut short can come to
REACH = (64, 256)


def first_wrong(before: PrimFunc, after: PrimFunc) -> dict[str, Any]:
    """The first element with another value on these programs as they are; {} where there is none.

    Its fields are those of a CounterExample.
    """
    try:
        expected, got = run(before, small=True), run(backwards(after), small=True)
    except (MLCError, AttributeError, TypeError):
        return {}  # a program that cannot even be run: a buffer has no memory where it is used
    for buffer, x, y in zip(before.buffers, expected, got, strict=False):
        if x.shape != y.shape:
            return {}
        close = np.isclose(x.astype("float64"), y.astype("float64"), 1e-4, 1e-4, True)
        if not close.all():
            at = tuple(int(i) for i in np.unravel_index(np.argmin(close), x.shape))
            return {
                "buffer": buffer.name,
                "indices": at,
                "expected": x[at].item(),
                "got": y[at].item(),
                "shapes": tuple(a.shape for a in expected),
            }
    return {}


def smallest(before: PrimFunc, after: PrimFunc) -> dict[str, Any]:
    """The same on the smallest shapes that show it; {} where no smaller ones do."""
    for sizes in _choices(before):
        found = first_wrong(_resized(before, sizes), _resized(after, sizes))
        if found:
            return found
    return {}


def cut_short(before: PrimFunc, after: PrimFunc) -> dict[str, Any]:
    """The same with every loop cut to its first 2, 3 or 4 iterations; {} where the step changes
    the loops or no such cut shows it.
    """
    if _loops(before) != _loops(after):
        return {}
    for most, reach in product(range(2, LARGEST + 1), REACH):
        found = first_wrong(_shortened(before, most, reach), _shortened(after, most, reach))
        if found:
            return {**found, "shapes": (), "cut": most}
    return {}


def _loops(func: PrimFunc) -> Counter[tuple[str, int | None]]:
    loops = (n for n in walk(func.body) if isinstance(n, s.For))
    return Counter((n.loop_var.name, p.as_int(n.extent)) for n in loops)


def _shortened(func: PrimFunc, most: int, reach: int) -> PrimFunc:
    """The first iterations of each loop, on the first elements of each buffer."""

    def at_most(x: Any, limit: int) -> Any:
        known = p.as_int(x)
        return x if known is None or known <= limit else p.const(limit, x.dtype)

    def rule(n: Node) -> Node | None:
        if isinstance(n, Buffer):
            return replace(n, shape=tuple(at_most(x, reach) for x in n.shape))
        return replace(n, extent=at_most(n.extent, most)) if isinstance(n, s.For) else None

    return rewrite(func, rule)  # type: ignore[return-value]


def _choices(func: PrimFunc) -> Iterator[Mapping[int, int]]:
    """Size -> smaller size, the smallest programs first; sizes that are equal stay equal."""
    extents = [p.as_int(x) for buffer in func.buffers for x in buffer.shape]
    sizes = sorted({x for x in extents if x is not None and x > 1})
    if not sizes:
        return
    if len(sizes) > MOST:
        yield from ({x: min(n, x) for x in sizes} for n in range(2, LARGEST + 1))
        return
    tries = product(*(range(1, min(LARGEST, x) + 1) for x in sizes))
    for chosen in sorted(tries, key=lambda ns: (prod(ns), ns)):
        yield dict(zip(sizes, chosen, strict=True))


def _resized(func: PrimFunc, sizes: Mapping[int, int]) -> PrimFunc:
    """The function for other sizes of its parameters."""

    def smaller(x: Any) -> Any:
        known = p.as_int(x)
        return x if known is None or known not in sizes else p.const(sizes[known], x.dtype)

    def rule(n: Node) -> Node | None:
        if isinstance(n, Buffer):
            return replace(n, shape=tuple(map(smaller, n.shape)))
        if isinstance(n, s.For | Range):
            return replace(n, extent=smaller(n.extent))
        return None

    return rewrite(func, rule)  # type: ignore[return-value]
