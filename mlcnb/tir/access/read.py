"""The walk of a loop program: each read and write of memory, with all that stands around it.

for i in range(8):                     read  A[i]        loop i
    C[i] = A[i]                 ->     write C[i]        loop i
    if i > 0:
        B[i] = C[i - 1]                read  C[i - 1]    loop i, under i > 0
                                       write B[i]        loop i, under i > 0

What stands around an access is a chain of scopes, which accesses share: loops, conditions that hold
or do not, names for values, blocks. A `match_buffer` is looked through to the buffer outside. A
pointer that is handed on reaches the whole buffer behind it, under whatever name (a `let`, the
pointer of a `match_buffer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar

from mlcnb.core.node import children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.instructions import INSTRUCTIONS
from mlcnb.tir.access.scope import ROOT, Access, Indices, Placed, Scope, parts
from mlcnb.tir.analysis.kernels import reduced_over_threads
from mlcnb.tir.analysis.leaving import leaves
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import heads


def read(func: PrimFunc) -> Reading:
    """All that a function touches, in the order of the program."""
    return Reading(func.body, func.buffers)


class Reading:
    """The accesses and statements of a program or a part of it, in order.

    Args:
        root: a statement or expression.
        buffers: those that are known there.
        scope: what stands around it.
        outer: the reading of what is around it, whose names hold.

    accesses: each read and write; statements: stores, evaluations, allocations, declarations and
    blocks; matched: a buffer of a `match_buffer` -> the region that it stands for.
    """

    #: class of a node -> what is done with it
    handlers: ClassVar[dict[type, Handler]]

    def __init__(
        self,
        root: Any,
        buffers: Iterable[Buffer] = (),
        scope: Scope = ROOT,
        outer: Reading | None = None,
    ) -> None:
        self.root: Any = outer.root if outer else root
        self.accesses: list[Access] = []
        self.statements: list[Placed] = []
        self.matched: dict[Buffer, BufferRegion] = outer.matched if outer else {}
        #: pointer -> the buffer that it belongs to; other names of a pointer -> the pointer
        self.pointers: dict[Var, Buffer] = outer.pointers if outer else {}
        self.aliases: dict[Var, Var] = outer.aliases if outer else {}
        self.pointers.update((buffer.data, buffer) for buffer in buffers)
        self._scope = scope
        self._stmt: s.Stmt | None = None
        self._path = [0] * (len(scope.loops) + 1)
        self._visit(root)

    @cached_property
    def ends_early(self) -> bool:
        """True if some iterations may not run: a loop, or the function, is left on the way."""
        return any(leaves(n) for n in walk(self.root))

    # what is found

    def _access(self, node: Any, is_write: bool, is_atomic: bool = False) -> None:
        buffer, indices = node.buffer, node.indices
        while buffer in self.matched:
            source = self.matched[buffer]
            buffer, indices = source.buffer, outside(source, indices)
        pointer = self.pointer(buffer.data)
        if pointer is buffer.data:
            self.pointers.setdefault(pointer, buffer)
            self._note(buffer, node, indices, is_write, is_atomic)
        else:
            self._whole(pointer, node, (is_write,))

    def _whole(self, pointer: Var, node: Any, writes: Iterable[bool] = (False, True)) -> None:
        """Any element of the buffer behind a pointer."""
        buffer = self._behind(self.pointer(pointer))
        if buffer is not None:
            for is_write in writes:
                self._note(buffer, node, None, is_write)

    def _note(
        self, buffer: Buffer, node: Any, indices: Any, is_write: bool, is_atomic: bool = False
    ) -> None:
        path = tuple(self._path)
        made = Access(
            buffer, node, indices, is_write, self._scope, path, self._stmt, is_atomic=is_atomic
        )
        self.accesses.append(made)
        self._next()

    def pointer(self, data: Var) -> Var:
        """The pointer that another name stands for."""
        while data in self.aliases:
            data = self.aliases[data]
        return data

    def _behind(self, data: Var) -> Buffer | None:
        """The buffer that a pointer belongs to; None for memory that the program does not know."""
        if data not in self.pointers:
            for n in walk(self.root):
                if isinstance(n, BufferLoad | s.BufferStore | s.DeclBuffer):
                    self.pointers.setdefault(n.buffer.data, n.buffer)
                elif isinstance(n, s.Allocate):
                    made = decl_buffer(n.extents, n.dtype, n.buffer_var.name, data=n.buffer_var)
                    self.pointers.setdefault(n.buffer_var, made)
        return self.pointers.get(data)

    # statements

    def _visit(self, n: Any) -> None:
        handler = self.handlers.get(type(n))
        if handler is not None:
            handler(self, n)
            return
        for child in children(n):
            if not isinstance(child, Buffer):
                self._visit(child)

    def _visit_all(self, parts: Iterable[Any]) -> None:
        for part in parts:
            if part is not None:
                self._visit(part)

    def _next(self) -> None:
        """What comes now comes after what was."""
        self._path[-1] += 1

    def _inside(self, scope: Scope, body: Any) -> None:
        outer, self._scope = self._scope, scope
        if is_loop := len(scope.loops) > len(outer.loops):
            self._path.append(0)
        self._visit(body)
        if is_loop:
            self._path.pop()
        self._scope = outer
        self._next()

    def _under(self, node: Any, condition: PrimExpr, holds: bool, body: Any) -> None:
        self._inside(self._scope.under(node, condition, holds), body)

    def _place(self, n: s.Stmt) -> None:
        self._stmt = n
        made = Placed(n, self._scope, tuple(self._path), len(self.accesses))
        self.statements.append(made)

    def _statement(self, n: s.Stmt) -> None:
        """What it computes before the statements in it run, and then these."""
        self._stmt = n
        if not isinstance(n, s.AttrStmt):
            self._visit_all(heads(n))
        for part, scope in parts(n, self._scope):
            self._inside(scope, part)

    def _repeat(self, n: s.While) -> None:
        """A `while` asks in each of its rounds."""
        self._stmt = n
        ((body, scope),) = parts(n, self._scope)
        self._path.append(0)
        outer, self._scope = self._scope, scope
        for part in (n.condition, body):
            self._visit(part)
            self._next()
        self._path.pop()
        self._scope = outer
        self._next()

    def _let(self, n: Any) -> None:
        if isinstance(n, s.Stmt):
            self._stmt = n
        known = self._pointed(n.value) if n.var.dtype.is_handle else None
        if known is None:
            self._visit(n.value)
        else:
            self.aliases[n.var] = known
        self._inside(self._scope.named(n.var, n.value), n.body)

    def _pointed(self, value: Any) -> Var | None:
        """The pointer that a value is, or points into."""
        if isinstance(value, Var):
            return value
        if isinstance(value, e.Call) and value.op == "tir.address_of":
            load: Any = value.args[0]
            self._visit_all(load.indices)
            return load.buffer.data  # type: ignore[no-any-return]
        if isinstance(value, e.Call) and value.op == "tir.tvm_access_ptr":
            self._visit_all(value.args[2:4])
            return self._pointed(value.args[1])
        return None

    def _realize(self, n: s.BlockRealize) -> None:
        self._place(n)
        block = n.block
        for buffer in block.alloc_buffers:
            self.pointers[buffer.data] = buffer
        for match in block.match_buffers:
            self.matched[match.buffer] = match.source
            self.aliases[match.buffer.data] = match.source.buffer.data
        self._statement(n)

    def _placed(self, n: s.Stmt) -> None:
        self._place(n)
        self._statement(n)

    def _declare(self, n: s.DeclBuffer) -> None:
        self._place(n)
        if self.pointer(n.buffer.data) is n.buffer.data:
            self.pointers.setdefault(n.buffer.data, n.buffer)
        self._visit(n.body)

    def _store(self, n: s.BufferStore) -> None:
        """A write, after the reads in it."""
        self._place(n)
        self._visit_all((*n.indices, n.value, n.predicate))
        self._access(n, True)

    # expressions

    def _load(self, n: BufferLoad) -> None:
        """A read, after the reads in its indices."""
        self._visit_all((*n.indices, n.predicate))
        self._access(n, False)

    def _call(self, n: e.Call) -> None:
        """A call; of `if_then_else` one value only is computed. Pointers reach anything."""
        special = _CALLS.get(n.op) if isinstance(n.op, str) else None
        reduced = reduced_over_threads(n)
        if special is not None:
            special(self, n)
        elif reduced is not None:
            self._visit_all(reduced[0])
            for result in reduced[1]:
                self._access(result, True)
        else:
            self._visit_all(n.args)

    def _conditional(self, n: e.Call) -> None:
        condition, yes, no = n.args
        self._visit(condition)
        if condition.dtype.lanes == 1:
            self._under(n, condition, True, yes)
            self._under(n, condition, False, no)
        else:  # where lanes differ both are computed, for all lanes
            self._visit_all((yes, no))

    def _address(self, n: e.Call) -> None:
        load: Any = n.args[0]
        if isinstance(load, BufferLoad):
            self._visit_all(load.indices)
            self._whole(load.buffer.data, n)
        else:
            self._visit(load)

    def _access_pointer(self, n: e.Call) -> None:
        _, data, offset, extent, mask = n.args
        self._visit_all((offset, extent))
        allowed = p.as_int(mask) or 3
        if isinstance(data, Var):
            self._whole(data, n, [w for w in (False, True) if allowed & (2 if w else 1)])
        else:
            self._visit(data)

    def _variable(self, n: Var) -> None:
        """A bare pointer: whoever gets it may read and write."""
        if n.dtype.is_handle:
            self._whole(n, n)

    def _junction(self, n: Any) -> None:
        """`and`, `or`: the right side is computed where the left one leaves it open."""
        self._visit(n.a)
        if n.dtype.lanes == 1:
            self._under(n, n.a, isinstance(n, e.And), n.b)
        else:
            self._visit(n.b)


def outside(source: BufferRegion, indices: Indices) -> Indices:
    """The place in the source of a `match_buffer`: ranges of one element may have no index."""
    missing = len(source.region) - len(indices)
    given = iter(indices)
    places = []
    for bounds in source.region:
        if missing > 0 and p.is_const(bounds.extent, 1):
            missing -= 1
            places.append(bounds.min)
        else:
            places.append(_shifted(bounds.min, next(given, p.const(0))))
    return tuple(places)


def _shifted(start: PrimExpr, index: PrimExpr) -> PrimExpr:
    if isinstance(index, e.Ramp):
        return e.Ramp(p.add(start, index.base), index.stride, index.lanes)
    if index.dtype.lanes > 1:
        start = e.Broadcast(start, index.dtype.lanes)
    return p.add(start, index)


Handler = Callable[[Any, Any], None]

_CALLS: dict[str, Handler] = {
    "tir.if_then_else": Reading._conditional,
    "tir.address_of": Reading._address,
    "tir.tvm_access_ptr": Reading._access_pointer,
    **INSTRUCTIONS,
}

Reading.handlers = {
    **dict.fromkeys((s.For, s.SeqStmt, s.IfThenElse, s.AssertStmt), Reading._statement),
    s.AttrStmt: Reading._statement,
    s.While: Reading._repeat,
    s.BlockRealize: Reading._realize,
    s.LetStmt: Reading._let,
    e.Let: Reading._let,
    s.Allocate: Reading._placed,
    s.Evaluate: Reading._placed,
    s.DeclBuffer: Reading._declare,
    s.BufferStore: Reading._store,
    BufferLoad: Reading._load,
    e.Call: Reading._call,
    e.And: Reading._junction,
    e.Or: Reading._junction,
    Var: Reading._variable,
}
