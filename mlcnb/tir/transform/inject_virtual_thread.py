"""InjectVirtualThread: a virtual thread becomes loops around what differs between them.

for v in T.thread_binding(2, "vthread.x"):           r = T.allocate([2, 1], "float32", "local")
    r = T.allocate([1], "float32", "local")          for v in T.unroll(2):
    r[0] = A[v * 8 + tx]                      ->         r[v, 0] = A[v * 8 + tx]
    T.tvm_storage_sync("shared")                     T.tvm_storage_sync("shared")
    B[v * 8 + tx] = r[0]                             for v in T.unroll(2):
                                                         B[v * 8 + tx] = r[v, 0]

Memory that is allocated inside and differs gets a place for each virtual thread; what is the same
for all of them, barriers above all, is done once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, children, map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.escapes import Escape, escapes
from mlcnb.tir.analysis.kernels import VIRTUAL_AXES, bound_axis, is_collective
from mlcnb.tir.analysis.structure import allocations
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import PyStmtExprMutator, bodies, heads, map_bodies


def inject_virtual_thread(func: PrimFunc) -> PrimFunc:
    """`func` without virtual threads.

    Raises:
        PassError: their number is not known, or they would wait at a barrier one by one.
    """

    def visit(n: Any) -> Any:
        new = map_bodies(n, visit)
        if isinstance(new, s.AttrStmt) and is_virtual(new):
            return _FlatInjector(func, _as_loop(new)).visit_stmt(new.body)
        if isinstance(new, s.For) and bound_axis(new) in VIRTUAL_AXES:
            return _Injector(func, new).visit_stmt(new.body)
        return s.flattened(new) or new

    return func.with_body(visit(func.body))


def is_virtual(n: s.AttrStmt) -> bool:
    """True for a virtual thread as an attribute: `virtual_thread`, or a launch of "vthread"."""
    keys = ("virtual_thread", "thread_extent")
    if n.attr_key not in keys or not isinstance(n.node, s.IterVar):
        return False
    return n.attr_key == keys[0] or n.node.thread_tag in VIRTUAL_AXES


def _as_loop(n: s.AttrStmt) -> s.For:
    kind, var = s.ForKind.THREAD_BINDING, n.node.var
    extent = p.fitted(var.dtype, n.value)
    return s.For(var, p.const(0, var.dtype), extent, kind, n.body, VIRTUAL_AXES[0])


class _Injector(PyStmtExprMutator):
    """Rewrites the body of one virtual thread loop."""

    def __init__(self, func: PrimFunc, loop: s.For) -> None:
        self.func = func
        self.loop = loop
        if p.as_int(loop.extent) is None:
            raise self.refusal("has no fixed number of iterations", loop)
        self.allocated = {n.buffer_var for n in allocations(loop.body)}
        #: variables, and memory by its pointer, that differ between virtual threads
        self.differing: set[Var] = {loop.loop_var}
        self.buffers: dict[Buffer, Buffer] = {}
        while self.spread(loop.body, False):
            pass

    def refusal(self, message: str, where: Node) -> PassError:
        name = self.loop.loop_var.name
        return PassError(
            f"InjectVirtualThread: virtual thread {name} {message}", where=where, root=self.func
        )

    # what differs

    def spread(self, n: s.Stmt, controlled: bool) -> bool:
        """Find more that differs; True if there was any."""
        found = False
        for var in self.defined(n, controlled):
            if var not in self.differing:
                self.differing.add(var)
                found = True
        controlled = controlled or any(map(self.differs, heads(n)))
        for x in bodies(n):
            found = self.spread(x, controlled) or found
        return found

    def defined(self, n: Node, controlled: bool) -> Iterator[Var]:
        if isinstance(n, s.LetStmt) and (controlled or self.differs(n.value)):
            yield n.var
        if isinstance(n, s.BufferStore) and n.buffer.data in self.allocated:
            if controlled or self.differs(n.value) or any(map(self.differs, n.indices)):
                yield n.buffer.data
        if isinstance(n, s.Evaluate) and self.differs(n.value):
            only_read = {id(x) for x in walk(n) if _is_read_pointer(x)}
            parts = (x for call in walk(n) if id(call) not in only_read for x in children(call))
            yield from (v for v in parts if isinstance(v, Var) and v in self.allocated)

    def differs(self, n: Node) -> bool:
        """True if a node is not the same for all virtual threads."""
        if isinstance(n, Var):
            return n in self.differing
        if isinstance(n, Buffer):
            return n.data in self.differing
        return any(self.differs(c) for c in children(n))

    # rewriting

    def visit_stmt(self, n: s.Stmt) -> s.Stmt:
        """The statement for all virtual threads, a loop around it where it differs."""
        return self.looped(n) if any(map(self.differs, heads(n))) else super().visit_stmt(n)

    def visit_inside(self, n: s.Stmt) -> s.Stmt:
        """The statements in one."""
        return map_bodies(n, self.visit_stmt)

    def visit_seq_stmt_(self, n: s.SeqStmt) -> s.Stmt:
        """One after the other, in one row."""
        return s.seq(*map(self.visit_stmt, n.seq))

    def visit_buffer_store_(self, n: s.BufferStore) -> s.Stmt:
        """A store to memory that each has of its own."""
        return self.looped(n) if self.differs(n.buffer) else n

    def visit_allocate_(self, n: s.Allocate) -> s.Stmt:
        """Memory, with a place for each that has its own."""
        made = replace(n, body=self.visit_stmt(n.body))
        if n.buffer_var not in self.differing:
            return made
        return replace(made, extents=self.extents(n.buffer_var, n.extents))

    def extents(self, data: Var, own: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The size of the memory of all virtual threads, given that of one."""
        return (self.count, *own)

    def visit_decl_buffer_(self, n: s.DeclBuffer) -> s.Stmt:
        """A view of such memory."""
        return replace(n, buffer=self.wide(n.buffer), body=self.visit_stmt(n.body))

    @property
    def count(self) -> PrimExpr:
        return p.fitted("int32", self.loop.extent)

    def looped(self, n: s.Stmt) -> s.Stmt:
        for x in walk(n):
            if is_collective(x):
                raise self.refusal("would come to a barrier or shuffle by itself", n)
        x = self.loop
        return s.For(x.loop_var, x.min, x.extent, s.ForKind.UNROLLED, self.own(n), span=x.span)

    def own(self, n: Any) -> Any:
        """A statement with the memory of one virtual thread."""
        if isinstance(n, s.Evaluate) and any(x.data in self.differing for x in _handed(n)):
            raise self.refusal("passes a pointer to memory of its own", n)
        new = map_children(n, self.own) if not isinstance(n, Buffer) else n
        if isinstance(new, BufferLoad | s.BufferStore):
            wide = self.wide(new.buffer)
            if wide is not new.buffer:
                return replace(new, buffer=wide, indices=(self.number, *new.indices))
        return new

    @property
    def number(self) -> PrimExpr:
        return p.subtract(self.loop.loop_var, self.loop.min)

    def wide(self, buffer: Buffer) -> Buffer:
        """The buffer with a place for each virtual thread, if it differs between them."""
        if buffer.data not in self.differing:
            return buffer
        if not self.is_plain(buffer):
            raise self.refusal(f"has memory of its own with strides, {buffer.name}", self.loop)
        if buffer not in self.buffers:
            shape = self.extents(buffer.data, buffer.shape)
            self.buffers[buffer] = replace(buffer, shape=shape)
        return self.buffers[buffer]

    def is_plain(self, buffer: Buffer) -> bool:
        """Whether a buffer can be widened."""
        return not buffer.strides and buffer.elem_offset is None


def _is_read_pointer(n: Node) -> bool:
    """True for `B.access_ptr("r")`, behind which nothing is written."""
    return isinstance(n, e.Call) and n.op == "tir.tvm_access_ptr" and p.as_int(n.args[-1]) == 1


class _FlatInjector(_Injector):
    """For virtual threads that are attributes, around memory that is flat already: it stays flat.

    B[i] = vt                     ->      B[vt * 4 + i] = vt           of 4 elements each
    T.call_extern(…, B.access_ptr("r"))   B.access_ptr("r", offset=vt * 4)
    """

    def __init__(self, func: PrimFunc, loop: s.For) -> None:
        super().__init__(func, loop)
        self.sizes = {
            n.buffer_var: p.fitted(loop.loop_var.dtype, n.extents[0])
            for n in allocations(loop.body)
            if len(n.extents) == 1
        }

    def extents(self, data: Var, own: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """As of the base: the parts of all virtual threads, one behind the other."""
        return (p.multiply(self.size(data), self.count),)

    def is_plain(self, buffer: Buffer) -> bool:
        """As of the base, and flat."""
        return super().is_plain(buffer) and buffer.ndim == 1

    def size(self, data: Var) -> PrimExpr:
        """The elements of one virtual thread."""
        if data not in self.sizes:
            raise self.refusal(f"has memory of its own that is not flat, {data.name}", self.loop)
        return self.sizes[data]

    def own(self, n: Any) -> Any:
        """A statement with the memory of one virtual thread."""
        if isinstance(n, s.Evaluate) and any(not self.moves(x) for x in _handed(n)):
            raise self.refusal("passes a pointer to memory of its own", n)
        new = map_children(n, self.own) if not isinstance(n, Buffer) else n
        if isinstance(new, BufferLoad | s.BufferStore) and new.buffer.data in self.differing:
            first = p.multiply(self.number, self.size(new.buffer.data))
            buffer = self.wide(new.buffer)
            return replace(new, buffer=buffer, indices=(_moved(new.indices[0], first),))
        if isinstance(new, e.Call) and new.op == "tir.tvm_access_ptr":
            kind, data, offset, *rest = new.args
            if isinstance(data, Var) and data in self.differing:
                first = p.multiply(self.number, self.size(data))
                return replace(new, args=(kind, data, p.add(first, offset), *rest))
        return new

    def moves(self, handed: Escape) -> bool:
        """Whether a pointer that is passed on can be that of one virtual thread."""
        is_pointer = isinstance(handed.node, e.Call) and handed.node.op == "tir.tvm_access_ptr"
        return is_pointer or handed.data not in self.differing


def _moved(index: PrimExpr, by: PrimExpr) -> PrimExpr:
    """An index moved; of a vector its first element."""
    if isinstance(index, e.Ramp):
        return replace(index, base=p.add(by, index.base))
    return p.add(by, index)


def _handed(n: s.Stmt) -> list[Escape]:
    """Pointers to a whole memory: that of one element moves with the element."""
    return [
        x for x in escapes(n) if not (isinstance(x.node, e.Call) and x.node.op == "tir.address_of")
    ]


class InjectVirtualThread(PrimFuncPass):
    """Turn virtual threads into loops around what differs between them."""

    work = staticmethod(inject_virtual_thread)
