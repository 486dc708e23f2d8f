"""What is known of an element of a buffer: facts, and what ends them.

for i in range(14):
    A[i + 2] = i           ->      Fact(A, (i + 2,), i, ranges={i: 0 .. 14})

Used by `mlcnb.tir.transform.simplify_contents`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.node import Node, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.stmt import Block, BufferStore, Evaluate, Stmt

#: vectors of at most so many lanes are followed
LANES = 16


@dataclass(frozen=True, eq=False)
class Fact:
    """`buffer[indices] == value` for all `ranges` of its variables for which all of `when` hold."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    value: PrimExpr
    when: tuple[PrimExpr, ...] = ()
    ranges: Mapping[Var, Range] = field(default_factory=dict)

    @property
    def axes(self) -> range:
        """The axes of the buffer."""
        return range(len(self.indices))

    def uses(self, var: Var) -> bool:
        """Whether the fact speaks of a variable."""
        return any(n is var for x in (*self.indices, self.value, *self.when) for n in walk(x))


def assumed(n: Node) -> list[PrimExpr]:
    """What `T.assume` says."""
    match n:
        case Evaluate(e.Call(_, "tir.assume", (condition,))):
            return [condition]
    return []


def stored_in(n: Stmt) -> set[Var] | None:
    """The memory that a statement may change, by its pointers; None where nobody knows."""
    found: set[Var] = set()
    for x in walk(n):
        if isinstance(x, BufferStore):
            found.add(x.buffer.data)
        if isinstance(x, Block) and x.match_buffers:
            return None
        if isinstance(x, Evaluate) and not assumed(x) and has_effect(x.value):
            return None
    return found


def stores_to(data: Var, n: Stmt) -> list[BufferStore]:
    """The stores to the memory behind a pointer."""
    return [x for x in walk(n) if isinstance(x, BufferStore) and x.buffer.data is data]


def own_place(stores: list[BufferStore], buffer: Buffer, axis: int, var: Var) -> PrimExpr | None:
    """`var + 2` where all stores go there along an axis, so that iterations share no element."""
    found: PrimExpr | None = None
    for store in stores:
        offset = offset_from(store.indices[axis], var) if store.buffer is buffer else None
        if offset is None or p.as_int(offset) is None:
            return None
        if found is not None and p.as_int(found) != p.as_int(offset):
            return None
        found = offset
    return None if found is None else p.add(var, found)


def is_pure(*expressions: PrimExpr) -> bool:
    """Whether values depend on variables alone."""
    return not any(isinstance(n, BufferLoad) for x in expressions for n in walk(x)) and not any(
        has_effect(x) for x in expressions
    )


def lanes_of(
    indices: tuple[PrimExpr, ...], value: PrimExpr
) -> Iterator[tuple[tuple[PrimExpr, ...], PrimExpr]]:
    """Where a store writes what, of a vector lane by lane; nothing where lanes are not plain."""
    if value.dtype.lanes == 1:
        yield indices, value
        return
    for lane in range(value.dtype.lanes if value.dtype.lanes <= LANES else 0):
        found = [x for x in (lane_of(x, lane) for x in (*indices, value)) if x is not None]
        if len(found) == len(indices) + 1:
            yield tuple(found[:-1]), found[-1]


def lane_of(n: PrimExpr, lane: int) -> PrimExpr | None:
    """One lane of a value that is the same in all, or grows from lane to lane."""
    match n:
        case e.Broadcast(value):
            return value
        case e.Ramp(base, stride):
            return p.add(base, p.multiply(stride, p.const(lane, stride.dtype)))
    return n if n.dtype.lanes == 1 else None


def is_plain(kind: Any) -> bool:
    """Whether a dtype is that of one number."""
    return kind.lanes == 1 and not kind.is_handle


def is_said(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether `a == b` says what the element `a` holds; of floats 0.0 and -0.0 are equal too."""
    return (
        isinstance(a, BufferLoad)
        and a.predicate is None
        and is_plain(a.dtype)
        and not a.dtype.is_float
        and is_pure(b, *a.indices)
    )


def fact_of(a: PrimExpr, b: PrimExpr, when: list[PrimExpr]) -> Fact:
    """`a == b` where all of `when` hold, of an element `a`."""
    assert isinstance(a, BufferLoad)
    return Fact(a.buffer, a.indices, b, tuple(when))


def offset_from(index: PrimExpr, var: Var) -> PrimExpr | None:
    """The c of `var + c`, where c does not use the variable; None of anything else."""
    if index is var:
        return p.const(0, var.dtype)
    match index:
        case e.Add(a, b) if a is var or b is var:
            other = b if a is var else a
        case e.Sub(a, b) if a is var:
            other = p.subtract(p.const(0, var.dtype), b)
        case _:
            return None
    return None if any(n is var for n in walk(other)) else other
