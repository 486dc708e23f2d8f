"""InstrumentBoundCheckers: accesses that are not proved to be in bounds are checked when they run.

B[i] = A[i * i]     ->     B[i] = A[T.check_index(i * i, 16, "A[i * i] is read, dimension 0")]

In the standard lowering, functions that `tir.analysis.safety` marked are changed; the pass changes
all that it is given. What is proved here, among loops whose
blocks are gone, stays as it is; lanes that a predicate leaves out are not looked at.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import map_children, replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.access.inside import check_bounds
from mlcnb.tir.analysis.safety import CHECKED
from mlcnb.tir.analysis.wrapping import may_wrap
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.index_check import of_lanes
from mlcnb.tir.stmt import BufferStore
from mlcnb.tir.transform.flatten_buffer import check_index

#: id of a load or store -> the dimensions that are not proved
Open = dict[int, set[int]]


def instrument_bound_checkers(func: PrimFunc) -> PrimFunc:
    """`func` with a check around each index that is not proved, if it is marked."""
    return checked(func) if CHECKED in func.attrs else func


def checked(func: PrimFunc) -> PrimFunc:
    """`func` with a check around each index that is not proved."""
    everything = may_wrap(func) is not None
    open_axes: Open = {}
    for problem in check_bounds(func):
        open_axes.setdefault(id(problem.access.node), set()).add(problem.axis)
    return func.with_body(_checked(func.body, open_axes, everything))


def _checked(n: Any, open_axes: Open, everything: bool) -> Any:
    """A statement or expression with checks."""
    if isinstance(n, Buffer):
        return n
    new = map_children(n, lambda child: _checked(child, open_axes, everything))
    if not isinstance(n, BufferLoad | BufferStore):
        return new
    axes = set(range(len(n.indices))) if everything else open_axes.get(id(n), set())
    indices = list(new.indices)
    for axis in axes:
        if not _is_surely_in(n.indices[axis], n.buffer.shape[axis]):
            indices[axis] = _of_active_lanes(n, check_index(n, axis), indices[axis])
    return replace(new, indices=tuple(indices)) if axes else new


def _is_surely_in(index: e.PrimExpr, extent: e.PrimExpr) -> bool:
    at, size = p.as_int(index), p.as_int(extent)
    return at is not None and size is not None and 0 <= at < size


def _of_active_lanes(n: Any, check: Any, index: e.PrimExpr) -> e.PrimExpr:
    """The check of an index; of lanes those that the predicate lets through."""
    check = replace(check, args=(index, *check.args[1:]))
    return check if n.predicate is None or index.dtype.lanes == 1 else of_lanes(check, n.predicate)


class InstrumentBoundCheckers(PrimFuncPass):
    """Check the accesses that are not proved to be in bounds; who runs the pass asks for it."""

    work = staticmethod(checked)
