"""Accesses to some buffers as first and last indices, each with what it stands under.

for i in range(8):                   write C[i]          in loop i
    C[i] = A[i]                ->    read  C[i - 1]      in loop i, if 1 - i <= 0
    if i > 0:
        B[i] = C[i - 1]

Indices and conditions are expressions over loop variables: the axes of blocks and the variables of
lets are replaced by their values. A part that depends on values in memory is None: unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlcnb.arith.forms import in_order
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.depend import never_meet
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.relation import Relations
from mlcnb.tir.access.scope import Access, InBlock, InLoop, Named, Scope, Under
from mlcnb.tir.analysis.edges import conjuncts
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.functor import substitute

#: accesses to one buffer of which isl is asked
FEW = 16
#: first and last index of one dimension; None where it cannot be told
Side = tuple[e.PrimExpr, e.PrimExpr] | None


@dataclass(frozen=True, slots=True)
class Condition:
    """What an access stands under: `form` <= 0, or == 0; a form of None is something else.

    owner: what asks; accesses under one owner stand under one answer.
    """

    owner: Scope
    form: e.PrimExpr | None
    is_equality: bool = False


@dataclass(frozen=True, slots=True)
class Ordered:
    """One load or store, or a box that a call may touch.

    access: it, as it was read; buffer: what it touches; sides: the indices in each dimension;
    loops: around it, outermost first; is_sure: a write that covers all of its sides whenever it
    runs.
    """

    access: Access
    buffer: Buffer
    sides: tuple[Side, ...]
    loops: tuple[s.For, ...]
    conditions: tuple[Condition, ...]
    is_sure: bool = False

    @property
    def is_write(self) -> bool:
        """Whether it writes."""
        return self.access.is_write


@dataclass(frozen=True, slots=True)
class _Known:
    """A scope over loop variables; the values of other variables, None where unknown."""

    loops: tuple[s.For, ...]
    conditions: tuple[Condition, ...]
    values: dict[e.Var, e.PrimExpr | None]


class Order:
    """The accesses below a statement to memory that some buffers have: by its pointer, in order.

    reading: the statement, read; unknown: pointers that something uses in a way that nothing tells
    about.
    """

    def __init__(self, body: s.Stmt, buffers: Iterable[Buffer]) -> None:
        buffers = tuple(buffers)
        self.reading = Reading(body, buffers)
        pointers = {buffer.data: self.reading.pointer(buffer.data) for buffer in buffers}
        found: dict[e.Var, list[Ordered]] = {pointer: [] for pointer in pointers.values()}
        self.unknown: set[e.Var] = set()
        self._known: dict[Scope, _Known] = {}
        for access in self.reading.accesses:
            if access.buffer.data in found:
                found[access.buffer.data] += self._ordered(access)
        self.of = {data: found[pointer] for data, pointer in pointers.items()}
        self.unknown |= {data for data, pointer in pointers.items() if pointer in self.unknown}

    def never_meet(self, accesses: Sequence[Ordered], loop: s.For) -> bool:
        """True if no two iterations of a loop touch one element: isl decides it."""
        if len(accesses) > FEW:
            return False
        return never_meet([self._relations.related(x.access) for x in accesses], loop)

    @cached_property
    def _relations(self) -> Relations:
        return Relations.inside(self.reading)

    def _ordered(self, access: Access) -> Iterator[Ordered]:
        known, indices = self._at(access.scope), access.indices
        if indices is None:
            yield from self._anywhere(access, known)
            return
        sides = tuple(self._side(i, known) for i in indices)
        gapless = all(not isinstance(i, e.Ramp) or p.is_const(i.stride, 1) for i in indices)
        runs = not (access.is_masked or self.reading.ends_early)
        is_sure = access.is_write and gapless and runs
        yield Ordered(access, access.buffer, sides, known.loops, known.conditions, is_sure)

    def _anywhere(self, access: Access, known: _Known) -> Iterator[Ordered]:
        """Memory handed over as a whole: what the block around says of it is believed."""
        block, data = access.block, access.buffer.data
        regions = () if block is None else (*block.reads, *block.writes)
        mine = [region for region in regions if region.buffer.data is data]
        if not mine:
            self.unknown.add(data)
        for region in mine:
            sides = tuple(self._sides(region, known))
            yield Ordered(access, region.buffer, sides, known.loops, known.conditions)

    def _sides(self, region: BufferRegion, known: _Known) -> Iterator[Side]:
        for bounds in region.region:
            first = _value(bounds.min, known)
            last = _value(bounds.min + bounds.extent - 1, known)
            yield None if first is None or last is None else (first, last)

    def _side(self, index: e.PrimExpr, known: _Known) -> Side:
        if isinstance(index, e.Ramp):
            stride = p.as_int(index.stride)
            base = _value(index.base, known)
            if base is None or stride is None or stride < 0:
                return None
            return base, base + stride * (index.lanes - 1)
        value = _value(index, known) if index.dtype.lanes == 1 else None
        return None if value is None else (value, value)

    def _at(self, scope: Scope) -> _Known:
        """A scope over loop variables."""
        found = self._known.get(scope)
        if found is None:
            outer = _Known((), (), {}) if scope.outer is None else self._at(scope.outer)
            found = self._known[scope] = _inner(scope, outer)
        return found


def _inner(scope: Scope, known: _Known) -> _Known:
    match scope:
        case InLoop(node=s.For() as loop):
            return _Known((*known.loops, loop), known.conditions, known.values)
        case InLoop(node=s.While()):
            return _Known(known.loops, (*known.conditions, Condition(scope, None)), known.values)
        case Under(condition=condition, holds=holds):
            condition = condition if holds else p.logical_not(condition)
            asked = (x for x in conjuncts(condition) if not p.is_const(x, 1))
            parts = (Condition(scope, *_compared(x, known)) for x in asked)
            return _Known(known.loops, (*known.conditions, *parts), known.values)
        case Named(var=var, value=value):
            values = {**known.values, var: _value(value, known)}
            return _Known(known.loops, known.conditions, values)
        case InBlock(node=n) if n.block.iter_vars:
            bound = zip(n.block.iter_vars, n.iter_values, strict=True)
            axes = {axis.var: _value(value, known) for axis, value in bound}
            return _Known(known.loops, known.conditions, {**known.values, **axes})
    return known


def _value(x: e.PrimExpr, known: _Known) -> e.PrimExpr | None:
    """`x` over loop variables; None where it depends on memory."""
    if x.dtype not in ("int32", "int64", "bool"):
        return None
    for n in walk(x):
        if isinstance(n, BufferLoad | e.Let):
            return None
        if isinstance(n, e.Call) and n.op != "tir.vscale":
            return None
        if isinstance(n, e.Var) and known.values.get(n, n) is None:
            return None
    return substitute(x, known.values)


def _compared(condition: e.PrimExpr, known: _Known) -> tuple[e.PrimExpr | None, bool]:
    """A comparison of integers as (form, is_equality): form <= 0, or form == 0."""
    x = _value(condition, known)
    sides = (x.a, x.b, 0) if isinstance(x, e.EQ) else in_order(x)
    if sides is None or not sides[0].dtype.is_integer:
        return None, False
    return sides[0] - sides[1] + sides[2], isinstance(x, e.EQ)
