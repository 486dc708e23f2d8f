"""The accesses to some buffers in the order of the program, each with where it stands.

for i in range(8):                   write C[i]          in loop i
    C[i] = A[i]                ->    read  C[i - 1]      in loop i, if 1 - i <= 0
    if i > 0:
        B[i] = C[i - 1]

Indices and conditions are expressions over loop variables: the axes of blocks and the variables of
lets are replaced by their values. A part that depends on values in memory is None: unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.node import children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import reduced_over_threads
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.functor import substitute

#: first and last index of one dimension; None where it cannot be told
Side = tuple[e.PrimExpr, e.PrimExpr] | None


@dataclass(frozen=True, slots=True)
class Condition:
    """What an access stands under: `form` <= 0, or == 0; a form of None is something else.

    owner: the branch that asks; accesses under one owner stand under one answer.
    """

    owner: tuple[int, str]
    form: e.PrimExpr | None
    is_equality: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store.

    sides: the indices in each dimension; loops: around it, outermost first; is_sure: a write that
    covers all of its sides whenever it runs.
    """

    buffer: Buffer
    sides: tuple[Side, ...]
    loops: tuple[s.For, ...]
    conditions: tuple[Condition, ...]
    is_write: bool
    is_sure: bool = False


class Accesses:
    """The accesses below a statement to memory that some buffers have: by its pointer, in order.

    unknown: pointers that something uses in a way that nothing tells about.
    """

    def __init__(self, body: s.Stmt, buffers: Iterable[Buffer]) -> None:
        self.of: dict[e.Var, list[Access]] = {buffer.data: [] for buffer in buffers}
        self.unknown: set[e.Var] = set()
        self._loops: tuple[s.For, ...] = ()
        self._conditions: tuple[Condition, ...] = ()
        self._values: dict[e.Var, e.PrimExpr | None] = {}
        self._block: s.Block | None = None
        self._visit(body)

    def _visit(self, n: Any) -> None:
        handler = _HANDLERS.get(type(n))
        if handler is not None:
            handler(self, n)
        elif not isinstance(n, Buffer):
            for child in children(n):
                self._visit(child)

    # accesses

    def _load(self, n: BufferLoad) -> None:
        self._visit_all((*n.indices, n.predicate))
        self._note(n.buffer, n.indices, is_write=False)

    def _store(self, n: s.BufferStore) -> None:
        self._visit_all((*n.indices, n.value, n.predicate))
        self._note(n.buffer, n.indices, is_write=True, is_sure=n.predicate is None)

    def _call(self, n: e.Call) -> None:
        """What threads reduce together is written; any other call reads its arguments.

        The address of one element is a pointer to the memory that it lies in.
        """
        if n.op == "tir.address_of" and isinstance(n.args[0], BufferLoad):
            self._visit_all(n.args[0].indices)
            self._pointer(n.args[0].buffer.data)
            return
        inputs, results = reduced_over_threads(n) or (n.args, ())
        self._visit_all(inputs)
        for result in results:
            self._note(result.buffer, result.indices, is_write=True, is_sure=True)

    def _note(
        self, buffer: Buffer, indices: Sequence[e.PrimExpr], is_write: bool, is_sure: bool = False
    ) -> None:
        if buffer.data in self.of:
            sides = tuple(self._side(i) for i in indices)
            gapless = all(not isinstance(i, e.Ramp) or p.is_const(i.stride, 1) for i in indices)
            self._add(buffer, sides, is_write, is_sure and gapless)

    def _add(self, buffer: Buffer, sides: tuple, is_write: bool, is_sure: bool) -> None:
        access = Access(buffer, sides, self._loops, self._conditions, is_write, is_sure)
        self.of[buffer.data].append(access)

    def _side(self, index: e.PrimExpr) -> Side:
        if isinstance(index, e.Ramp):
            stride = p.as_int(index.stride)
            base = self._value(index.base)
            if base is None or stride is None or stride < 0:
                return None
            return base, base + stride * (index.lanes - 1)
        value = self._value(index) if index.dtype.lanes == 1 else None
        return None if value is None else (value, value)

    def _value(self, x: e.PrimExpr) -> e.PrimExpr | None:
        """`x` over loop variables; None where it depends on memory."""
        if x.dtype not in ("int32", "int64", "bool"):
            return None
        for n in walk(x):
            if isinstance(n, BufferLoad | e.Let):
                return None
            if isinstance(n, e.Call) and n.op != "tir.vscale":
                return None
            if isinstance(n, e.Var) and self._values.get(n, n) is None:
                return None
        return substitute(x, self._values)

    def _pointer(self, n: e.Var) -> None:
        """Memory handed over as a whole: what the block around says of it is believed."""
        if n not in self.of:
            return
        regions = () if self._block is None else (*self._block.reads, *self._block.writes)
        mine = [region for region in regions if region.buffer.data is n]
        if not mine:
            self.unknown.add(n)
        for region in mine:
            self._region(region)

    def _region(self, region: BufferRegion) -> None:
        """A box that is read, and perhaps written."""
        sides = []
        for bounds in region.region:
            first = self._value(bounds.min)
            last = self._value(bounds.min + bounds.extent - 1)
            sides.append(None if first is None or last is None else (first, last))
        for is_write in (False, True):
            self._add(region.buffer, tuple(sides), is_write, is_sure=False)

    # statements

    def _visit_all(self, parts: Iterable[Any]) -> None:
        for part in parts:
            if part is not None:
                self._visit(part)

    def _loop(self, n: s.For) -> None:
        self._visit_all((n.min, n.extent))
        outer, self._loops = self._loops, (*self._loops, n)
        self._visit(n.body)
        self._loops = outer

    def _repeat(self, n: s.While) -> None:
        self._visit(n.condition)
        self._under(n.body, (id(n), "while"), None)

    def _branch(self, n: s.IfThenElse) -> None:
        self._visit(n.condition)
        self._under(n.then_case, (id(n), "then"), n.condition)
        if n.else_case is not None:
            self._under(n.else_case, (id(n), "else"), p.logical_not(n.condition))

    def _under(self, body: s.Stmt, owner: tuple[int, str], condition: e.PrimExpr | None) -> None:
        outer = self._conditions
        self._conditions = (*outer, *self._parts(owner, condition))
        self._visit(body)
        self._conditions = outer

    def _parts(self, owner: tuple[int, str], condition: e.PrimExpr | None) -> list[Condition]:
        """A condition taken apart at its `and`s."""
        if isinstance(condition, e.And):
            return self._parts(owner, condition.a) + self._parts(owner, condition.b)
        if condition is not None and p.is_const(condition, 1):
            return []
        value = None if condition is None else self._value(condition)
        return [Condition(owner, *_compared(value))]

    def _let(self, n: Any) -> None:
        self._visit(n.value)
        self._values[n.var] = self._value(n.value)
        self._visit(n.body)

    def _realize(self, n: s.BlockRealize) -> None:
        self._visit_all((*n.iter_values, n.predicate))
        block, outer = n.block, self._block
        for axis, value in zip(block.iter_vars, n.iter_values, strict=True):
            self._values[axis.var] = self._value(value)
        self._block = block
        owner = (id(n), "block")
        self._under_all([owner], [n.predicate], lambda: self._inside(block))
        self._block = outer

    def _inside(self, block: s.Block) -> None:
        for match in block.match_buffers:
            if match.source.buffer.data in self.of:
                self._region(match.source)
        if block.init is not None:
            starts = [
                p.equal(axis.var, axis.dom.min)
                for axis in block.iter_vars
                if axis.iter_type is s.IterType.REDUCE
            ]
            init = block.init
            owners = [(id(block), "init")] * len(starts)
            self._under_all(owners, starts, lambda: self._visit(init))
        self._visit(block.body)

    def _under_all(self, owners: list, conditions: list, run: Any) -> None:
        outer = self._conditions
        for owner, condition in zip(owners, conditions, strict=True):
            self._conditions = (*self._conditions, *self._parts(owner, condition))
        run()
        self._conditions = outer


def _compared(x: e.PrimExpr | None) -> tuple[e.PrimExpr | None, bool]:
    """A comparison of integers as (form, is_equality): form <= 0, or form == 0."""
    if not isinstance(x, e.LT | e.LE | e.GT | e.GE | e.EQ) or not x.a.dtype.is_integer:
        return None, False
    match x:
        case e.LT(a, b):
            return a - b + 1, False
        case e.LE(a, b):
            return a - b, False
        case e.GT(a, b):
            return b - a + 1, False
        case e.GE(a, b):
            return b - a, False
    return x.a - x.b, True


_HANDLERS: Mapping[type, Any] = {
    BufferLoad: Accesses._load,
    e.Call: Accesses._call,
    s.BufferStore: Accesses._store,
    e.Var: Accesses._pointer,
    e.SizeVar: Accesses._pointer,
    s.For: Accesses._loop,
    s.While: Accesses._repeat,
    s.IfThenElse: Accesses._branch,
    s.LetStmt: Accesses._let,
    e.Let: Accesses._let,
    s.BlockRealize: Accesses._realize,
}
