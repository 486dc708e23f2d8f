"""New variables where a program defines some a second time, or everywhere.

with T.LetStmt(16) as x: T.evaluate(x)          with T.LetStmt(16) as x: T.evaluate(x)
with T.LetStmt(32) as x: T.evaluate(x)    ->    with T.LetStmt(32) as y: T.evaluate(y)

A thread axis is one variable of its whole function, however often it is launched there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mlcnb.core.node import Node, identical, map_children, replace
from mlcnb.ir import expr as e
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.buffer import Buffer, MatchBufferRegion, layout_variables
from mlcnb.tir.function import PrimFunc

N = TypeVar("N", bound=Node)


def renew_defs(func: PrimFunc) -> PrimFunc:
    """`func` with all its variables and buffers new: a copy that shares none of them."""
    return Renewer(everywhere=True).function(func)


class Renewer:
    """Gives a name that is defined again a variable of its own, over one or several functions.

    everywhere: new variables at every definition, not only at the second.
    """

    def __init__(self, everywhere: bool = False) -> None:
        self.everywhere = everywhere
        self.defined: set[Node] = set()
        self.values: dict[Node, Any] = {}
        self.axes: set[Node] = set()
        self.views: dict[tuple, Buffer] = {}

    def function(self, func: PrimFunc) -> PrimFunc:
        """`func` with new variables where they are due; `func` itself where none is."""
        self.values, self.axes, self.views = {}, set(), {}
        with self.scope():
            params = tuple(self.define(param) for param in func.params)
            for buffer in func.buffer_map.values():
                self.define_buffer(buffer, with_dims=True)
            made = {self.visit(k): self.visit(v) for k, v in func.buffer_map.items()}
            body = self.visit(func.body)
        same = identical(params, func.params)
        if same and all(made.get(k) is v for k, v in func.buffer_map.items()):
            return replace(func, body=body)
        return replace(func, params=params, buffer_map=type(func.buffer_map)(made), body=body)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is defined inside is not seen outside."""
        outer = dict(self.values)
        try:
            yield
        finally:
            self.values = {**outer, **{a: self.values[a] for a in self.axes if a in self.values}}

    def define(self, var: Any) -> Any:
        """The variable (or buffer) that stands for `var` from here on."""
        new = var
        if self.everywhere or var in self.defined:
            new = type(var)(*var.values_of(var))
        self.defined.add(var)
        self.values[var] = new
        return new

    def define_buffer(self, buffer: Buffer, with_dims: bool = False) -> None:
        """A buffer with memory of its own; `with_dims`, its symbolic shape is defined here too."""
        for var in (*(layout_variables(buffer) if with_dims else ()), buffer.data):
            if var not in self.values:
                self.define(var)

    def visit(self, n: Any) -> Any:
        """`n` with the variables that are in force."""
        if isinstance(n, e.Var):
            return self.values.get(n, n)
        if isinstance(n, Buffer):
            return self.buffer(n)
        if isinstance(n, _SCOPED):
            with self.scope():
                return self.scoped(n)
        if isinstance(n, s.AttrStmt) and bound_axis(n) is not None:
            self.launch(n.node.var)
        return map_children(n, self.visit)

    def launch(self, var: e.Var) -> None:
        """A thread axis: the first launch in a function defines it."""
        if var not in self.axes:
            self.axes.add(var)
            self.define(var)

    def scoped(self, n: Any) -> Any:
        """A node that defines something for what is in it."""
        if isinstance(n, e.Let | s.LetStmt):
            value = self.visit(n.value)
            return replace(n, value=value, var=self.define(n.var), body=self.visit(n.body))
        if isinstance(n, s.For):
            start, extent = self.visit(n.min), self.visit(n.extent)
            var = self.define(n.loop_var)
            made = replace(n, min=start, extent=extent, loop_var=var, body=self.visit(n.body))
            return made
        if isinstance(n, s.Allocate):
            self.define(n.buffer_var)
        elif isinstance(n, s.DeclBuffer):
            self.redeclare(n.buffer)
        elif isinstance(n, s.BlockRealize):
            values = tuple(self.visit(v) for v in n.iter_values)
            predicate = self.visit(n.predicate)
            block = self.visit(n.block)
            return replace(n, iter_values=values, predicate=predicate, block=block)
        elif isinstance(n, s.Block):
            self.enter_block(n)
        return map_children(n, self.visit)

    def redeclare(self, buffer: Buffer) -> None:
        """A view that is declared again is a view of its own."""
        again = self.everywhere or buffer in self.defined
        self.defined.add(buffer)
        if again:
            known = self.buffer(buffer)
            self.values[buffer] = type(known)(*known.values_of(known))

    def enter_block(self, n: s.Block) -> None:
        """The axes of a block, its buffers and its views are defined in it."""
        for axis in n.iter_vars:
            self.define(axis.var)
        for buffer in n.alloc_buffers:
            self.define(buffer.data)
        for match in n.match_buffers:
            self.define_match(match)

    def define_match(self, match: MatchBufferRegion) -> None:
        """A view of a region defines its pointer, and the symbols of its shape."""
        self.define(match.buffer.data)
        for var in layout_variables(match.buffer):
            if var not in self.values:
                self.define(var)

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer over the variables in force: one object for the same ones."""
        if buffer in self.values:
            return self.values[buffer]
        made = map_children(buffer, self.visit)
        if made is buffer:
            return buffer
        key = (buffer, made.data, *layout_variables(made))
        return self.views.setdefault(key, made)


_SCOPED = (e.Let, s.LetStmt, s.For, s.Allocate, s.DeclBuffer, s.BlockRealize, s.Block)


def renewed(mod: IRModule) -> IRModule:
    """No variable belongs to two functions: the first of them to define one keeps it."""
    renewer = Renewer()
    functions = {k: renewer.function(f) for k, f in mod.of_kind(PrimFunc).items()}
    return mod.with_functions(functions)
