"""InstrumentBoundCheckers: accesses that are not proved to be in bounds are checked when they run.

B[i] = A[i * i]     ->     B[i] = A[T.check_index(i * i, 16, "A[i * i] is read, dimension 0")]

Of asynchronous copies (`cp.async`, also in bulk) it is checked where they begin in memory.
In the standard lowering, functions that `tir.analysis.safety` marked are changed; the pass changes
all that it is given. What is proved here, among loops whose
blocks are gone, stays as it is; lanes that a predicate leaves out are not looked at.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import display
from mlcnb.core.node import map_children, replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.access.inside import open_axes as not_proved
from mlcnb.tir.access.read import read
from mlcnb.tir.analysis.bulk import BULK
from mlcnb.tir.analysis.safety import CHECKED, DONE, span
from mlcnb.tir.analysis.wrapping import may_wrap
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.index_check import of_lanes
from mlcnb.tir.stmt import BufferStore
from mlcnb.tir.transform.flatten_buffer import check_index
from mlcnb.tir.transform.inject_ptx_async_copy import ASYNC_COPY

#: of a load, a store or a copy, and whether it is written there, the dimensions that are not proved
Open = dict[tuple[int, bool], set[int]]
#: of a copy, as there, the buffer
Copies = dict[tuple[int, bool], Buffer]
#: copies: their arguments 1 and 3 say where they write, and where they read
_COPIES = (ASYNC_COPY, BULK)


def instrument_bound_checkers(func: PrimFunc) -> PrimFunc:
    """`func` with a check around each index that is not proved, if it is marked."""
    return checked(func) if func.attrs.get(CHECKED, DONE) != DONE else func


def checked(func: PrimFunc) -> PrimFunc:
    """`func` with a check around each index that is not proved."""
    everything = may_wrap(func) is not None
    open_axes: Open = {}
    for node, is_write, axis in not_proved(func):
        open_axes.setdefault((id(node), is_write), set()).add(axis)
    copies = {
        (id(x.node), x.is_write): x.buffer
        for x in read(func).accesses
        if isinstance(x.node, e.Call) and x.node.op in _COPIES
        and (everything or (id(x.node), x.is_write) in open_axes)
    }  # fmt: skip
    return func.with_body(_checked(func.body, open_axes, copies, everything))


def _checked(n: Any, open_axes: Open, copies: Copies, everything: bool) -> Any:
    """A statement or expression with checks."""
    if isinstance(n, Buffer):
        return n
    new = map_children(n, lambda child: _checked(child, open_axes, copies, everything))
    if isinstance(n, e.Call) and n.op in _COPIES:
        return _checked_copy(n, new, copies)
    if not isinstance(n, BufferLoad | BufferStore):
        return new
    key = id(n), isinstance(n, BufferStore)
    axes = set(range(len(n.indices))) if everything else open_axes.get(key, set())
    indices = list(new.indices)
    for axis in axes:
        if not _is_surely_in(n.indices[axis], n.buffer.shape[axis]):
            indices[axis] = _of_active_lanes(n, check_index(n, axis), indices[axis])
    return replace(new, indices=tuple(indices)) if axes else new


def _checked_copy(n: e.Call, new: Any, copies: Copies) -> Any:
    """A copy with checks of where it begins: in its target, and in its source where it reads it."""
    args, count = list(new.args), (p.as_int(n.args[4]) or 0) // n.dtype.nbytes
    holds = args[5:6] if n.op == ASYNC_COPY else []
    for at, is_write in ((1, True), (3, False)):
        buffer = copies.get((id(n), is_write))
        if buffer is None:
            continue
        last = p.cast(args[at].dtype, span(buffer)) - (count - 1)
        verb = "written" if is_write else "read"
        told = f"{count} elements of {buffer.name} from {display.text(n.args[at])} on are {verb}"
        check = e.Call(args[at].dtype, "tir.check_index", (args[at], last, e.StringImm(told)))
        is_open = is_write or not holds
        args[at] = check if is_open else p.if_then_else(holds[0], check, args[at])
    return replace(new, args=tuple(args))


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
