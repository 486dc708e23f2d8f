"""smallest: the smallest shapes on which a step goes wrong.

    for i in range(1024):                      wrong on (2,), (2,)
        B[i] = A[i] + B[i - 1]                 B[1] is 9.0, and would be 4.0

Both programs, as they are and as they would be, are written again with smaller sizes in place of
those of the parameters, and run. What does not fit such a size (a loop that was split for the
large one) steps out of bounds, and is no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Range
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.proof import backwards, run

#: sizes that are tried for each dimension, and how many different ones are told apart
LARGEST, MOST = 4, 3


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
