"""Does the element of an access say which thread makes it? By own arithmetic, without isl.

S[ty * 32 + tx]             yes: the threads are digits of the index
S[f // 64, f % 64]          yes, where f = (n * 8 + ty) * 32 + tx of a loop n: f is known, and so
                            are its digits
S[ty]                       no: tx may be anything
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any

from mlcnb.arith.digits import Start, determined
from mlcnb.arith.isl import Undecided, ask, image, is_missing, library, smallest
from mlcnb.arith.reading import of
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.relation import Related, Relations
from mlcnb.tir.access.scope import Access, InLoop
from mlcnb.tir.analysis.edges import ends_of
from mlcnb.tir.buffer import Buffer, BufferLoad


def names_thread(
    access: Access,
    own: Mapping[Var, PrimExpr],
    apart: Mapping[Var, PrimExpr],
    fixed: Mapping[Var, PrimExpr],
) -> bool:
    """True where threads that differ in one of `apart` touch different elements by an access, in
    whichever iterations of loops; False is not sure.

    own: axes that threads have for themselves, with their extents; fixed: those that they share.
    """
    values = {var for var, _ in access.scope.values}
    starts = [_start(x) for x in access.indices or ()]
    parts = chain.from_iterable(walk(x) for x in access.indices or ())
    if None in starts or any(isinstance(n, e.Call | BufferLoad) or n in values for n in parts):
        return False
    known = {v: ends_of(e.Range(p.const(0, v.dtype), extent)) for v, extent in own.items()}
    for x in access.scope.around():
        if isinstance(x, InLoop) and x.var is not None and x.domain is not None:
            if x.var not in fixed:
                known.setdefault(x.var, ends_of(x.domain))
    told = determined([x for x in starts if x is not None], known, known)
    return all(v in told or p.is_const(extent, 1) for v, extent in apart.items())


def _start(index: PrimExpr) -> Start | None:
    """An index, and how far its lanes reach beyond it; None where these are no neighbours."""
    if isinstance(index, e.Ramp) and p.is_const(index.stride, 1):
        return of(index.base), index.dtype.lanes - 1
    return (of(index), 0) if index.dtype.lanes == 1 else None


@dataclass(frozen=True)
class Strange:
    """A read of what only other threads have filled: the buffer, the element, who reads, who
    filled it (by the axes of the threads, in order).
    """

    buffer: Buffer
    index: tuple[int, ...]
    reader: tuple[int, ...]
    writer: tuple[int, ...]


def strange_read(kernel: s.Stmt, axes: int, memories: Iterable[Var]) -> Strange | None:
    """A read of memory that each thread has for itself, at an element that another one fills and
    the reader never does; None where none is proved.

    kernel: launches that many axes first.
    """
    if is_missing():
        return None
    known = Relations.inside(Reading(kernel))
    accesses = known.accesses()
    for data in memories:
        found = _strange([a for a in accesses if a.buffer.data is data], axes)
        if found is not None:
            return found
    return None


def _strange(accesses: Sequence[Related], axes: int) -> Strange | None:
    buffer = accesses[0].buffer
    if not all(a.exact and a.buffer is buffer for a in accesses):
        return None
    reads = [_by_thread(a, axes) for a in accesses if not a.is_write]
    first, *rest = (_by_thread(a, axes) for a in accesses if a.is_write)

    def asked() -> tuple[Any, Any]:
        filled = reduce(lambda a, b: a.union(b), rest, first)
        missing = [r.subtract(filled).intersect_range(filled.range()) for r in reads]
        return filled, next((m for m in missing if not m.is_empty()), None)

    filled, missing = ask(asked) or (None, None)
    if filled is None or missing is None:
        return None
    try:
        pair = smallest(missing)
        writer = image(filled.reverse(), pair.parameters, pair.second)
    except Undecided:
        return None
    return Strange(buffer, pair.second, pair.first, writer)


def _by_thread(access: Related, axes: int) -> Any:
    """The elements that each thread touches."""
    relation, kind = access.relation, library().dim_type.in_
    return relation.project_out(kind, axes, relation.dim(kind) - axes)
