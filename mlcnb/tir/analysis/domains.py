"""Axes that leave their domain: the first iteration that does, where it can be told for certain.

for i in range(16):
    with T.block("B"):
        v = T.axis.spatial(8, i)          i = 8 gives the axis 8, its domain is 0 to 7
"""

from __future__ import annotations

from collections.abc import Mapping

from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir.linear import linear_form

#: loop variable -> its first and its last value
Loops = Mapping[Var, tuple[int, int]]


def outside(value: PrimExpr, domain: Range, loops: Loops) -> tuple[int, dict[Var, int]] | None:
    """A value outside of a domain, and the values of the loops where it is taken.

    None where there is none, or where it cannot be told: `value` must be a sum of loop variables
    with constant factors, over loops of constant bounds.
    """
    low, extent = p.as_int(domain.min), p.as_int(domain.extent)
    if low is None or extent is None:
        return None
    form = linear_form(value)
    ends: list[dict[Var, int]] = [{}, {}]
    for term, factor in form.terms.items():
        if not isinstance(term, Var) or term not in loops:
            return None
        first, last = loops[term]
        ends[0][term], ends[1][term] = (first, last) if factor > 0 else (last, first)
    for at in ends:
        found = form.constant + sum(form.terms[v] * i for v, i in at.items())
        if not low <= found < low + extent:
            return found, at
    return None
