"""Which variables a program uses without defining them, and which sizes a function leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.core.node import Node, children
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.function import PrimFunc


def undefined_vars(n: Node, defined: Iterable[Var] = ()) -> list[Var]:
    """The variables that `n` uses and neither it nor `defined` defines, in order of first use.

    Symbolic dimensions of a function's buffers are defined by them, as are the data pointers.
    """
    finder = _Finder(set(defined))
    finder.visit(n)
    return list(finder.free)


class _Finder:
    def __init__(self, defined: set[Var]) -> None:
        self.defined = defined
        self.free: dict[Var, None] = {}
        self.buffers: set[Buffer] = set()

    def visit(self, n: Any) -> None:
        handler = _HANDLERS.get(type(n))
        if handler is not None:
            handler(self, n)
            return
        if isinstance(n, Var):
            if n not in self.defined:
                self.free.setdefault(n)
            return
        for child in children(n):
            self.visit(child)

    def define(self, *variables: Var) -> set[Var]:
        """Mark as defined; gives those that were not before, to undo it."""
        new = {v for v in variables if v not in self.defined}
        self.defined |= new
        return new

    def scoped(self, variables: Iterable[Var], parts: Iterable[Any]) -> None:
        new = self.define(*variables)
        for part in parts:
            if part is not None:
                self.visit(part)
        self.defined -= new

    def loop(self, n: s.For) -> None:
        self.visit(n.min)
        self.visit(n.extent)
        self.scoped([n.loop_var], [n.body])

    def let(self, n: Any) -> None:
        self.visit(n.value)
        self.scoped([n.var], [n.body])

    def allocate(self, n: s.Allocate) -> None:
        for x in (*n.extents, n.condition):
            self.visit(x)
        self.scoped([n.buffer_var], [n.body])

    def buffer(self, n: Buffer) -> None:
        """A buffer that is used: its shape and pointer are."""
        if n not in self.buffers:
            self.buffers.add(n)
            for child in children(n):
                self.visit(child)

    def block(self, n: s.Block) -> None:
        for axis in n.iter_vars:
            self.visit(axis.dom)
        local = [b.data for b in n.alloc_buffers]
        for matched in n.match_buffers:
            local += match_defines(matched.buffer)
        inside = [*n.reads, *n.writes, *(m.source for m in n.match_buffers), n.init, n.body]
        self.scoped([*(axis.var for axis in n.iter_vars), *local], inside)

    def function(self, n: PrimFunc) -> None:
        bound = [*n.params]
        for buffer in n.buffers:
            bound += match_defines(buffer)
        self.scoped(bound, [*(b for b in n.buffers), n.body])

    def region(self, n: BufferRegion) -> None:
        self.buffer(n.buffer)
        for bounds in n.region:
            self.visit(bounds)

    def attribute(self, n: s.AttrStmt) -> None:
        thread = n.node if isinstance(n.node, s.IterVar) else None
        if isinstance(n.value, Node):
            self.visit(n.value)
        if thread is not None:
            self.scoped([thread.var], [n.body])
        else:
            for part in (n.node, n.body):
                if isinstance(part, Node):
                    self.visit(part)


def match_defines(buffer: Buffer) -> list[Var]:
    """The variables that matching a buffer binds: pointer, plain dimensions, strides, offset."""
    fields = (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset)
    return [x for x in fields if isinstance(x, Var)]


_HANDLERS: dict[type, Any] = {
    s.For: _Finder.loop,
    s.LetStmt: _Finder.let,
    e.Let: _Finder.let,
    s.Allocate: _Finder.allocate,
    s.Block: _Finder.block,
    s.AttrStmt: _Finder.attribute,
    Buffer: _Finder.buffer,
    BufferRegion: _Finder.region,
    PrimFunc: _Finder.function,
}


def unknown_parameter(func: PrimFunc) -> str | None:
    """The name of the first parameter that is a number, or of an open size: none that anybody
    could draw a value for.
    """
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None or None in map(as_int, buffer.shape):
            return param.name
    return None
