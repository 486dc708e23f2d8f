"""What a name stands for in a loop program: variables, axes, buffers, memory, lets.

n = T.int64()                     a variable            C = T.alloc_buffer((4,))     a buffer
vi = T.axis.spatial(16, i)        an axis               v = T.allocate([16], …)      memory
x = n + 1                         a let, which holds all lines that follow
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.script import build, frames
from mlcnb.script.parser.body import Body
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.symbols import resolve_dims
from mlcnb.script.parser.tir_block import BlockParser
from mlcnb.script.tir.holding import Wrap, declared, held
from mlcnb.script.tir.statements import Buffer as BufferWord
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, decl_buffer

if TYPE_CHECKING:
    from mlcnb.script.parser.tir_func import PrimFuncParser


class Bindings:
    """Gives names; knows the loops and blocks that the current line stands in."""

    def __init__(self, ev: Evaluator, function: PrimFuncParser) -> None:
        self.ev = ev
        self.function = function
        #: the blocks that the current line stands in, innermost last
        self.blocks: list[BlockParser] = []
        #: loop variable -> its range
        self.loops: dict[Var, Range] = {}
        #: GPU axes named by T.env_thread: variable -> tag
        self.threads: dict[Var, str] = {}
        #: "for", "while" and "block", as they stand around the current line, innermost last
        self.around: list[str] = []
        #: the macros that the current line is read for, with the suffix of their blocks
        self.expanding: list[tuple[Any, str]] = []
        self.expanding_count: dict[Any, int] = {}
        #: variables that stand for a value
        self.lets: set[Var] = set()

    @contextmanager
    def inside_loop(self, what: str) -> Iterator[None]:
        """Lines of a loop or of a block: what `break` means depends on it."""
        self.around.append(what)
        try:
            yield
        finally:
            self.around.pop()

    def plain_name(self, target: ast.expr) -> str:
        """The name that a target is."""
        if not isinstance(target, ast.Name):
            raise self.ev.error(target, "a name is expected here")
        return target.id

    def let(self, var: Var, value: PrimExpr, out: Body) -> None:
        """`var = value`, seen by the lines that follow."""
        self.lets.add(var)
        self.ev.scope.define(var.name, var)
        out.hold(lambda body: s.LetStmt(var, value, body))

    def bind(self, target: ast.expr, value: Any, place: ast.expr, out: Body) -> None:
        """Give a value its name; what that means depends on the value."""
        if isinstance(target, ast.Tuple | ast.List):
            self._bind_many(target, value, place, out)
            return
        name = self.plain_name(target)
        rule = BINDINGS.get(type(value))
        if rule is not None:
            rule(self, name, value, place, out)
        elif isinstance(value, frames.Frame):
            raise self.ev.error(place, f"{type(value).__name__} gives nothing that has a name")
        elif isinstance(value, PrimExpr | frames.Sliced | int | float):
            self._bind_value(name, value, target, place, out)
        elif isinstance(value, Buffer) and self._is_declaration(place):
            self._bind_alias(name, value, place, out)
        else:
            self.ev.scope.define(name, value)

    def _bind_value(
        self, name: str, value: Any, target: ast.expr, place: ast.expr, out: Body
    ) -> None:
        """`x = n + 1`: a change of the memory that x is, a let, or a name for a number."""
        cell = self.ev.scope.find(name)
        if isinstance(cell, frames.Cell):
            self.change(cell, value, place, out)
            return
        self._not_lost(name, target)
        if self.function.is_new and _has_memory(value):
            self.cell(name, self.ev.as_expr(value, place), place, out)
        elif isinstance(value, int | float | e.Var):
            self.ev.scope.define(name, value)
        else:
            expr = self.ev.as_expr(value, place)
            self.let(Var(name, expr.dtype), expr, out)

    def _not_lost(self, name: str, target: ast.expr) -> None:
        """Refuse a new value that ends with the lines of a loop or branch, as Python's does not."""
        *outer, inner = self.ev.scope.frames
        if name in inner:
            return
        known = next((frame[name] for frame in reversed(outer) if name in frame), None)
        number = isinstance(known, int | float) and not isinstance(known, bool)
        if number or (isinstance(known, Var) and known in self.lets):
            raise self.ev.error(
                target,
                f"{name} is a name for one value: a new one here would end with these lines",
                f'a value that changes needs memory: {name} = T.alloc_buffer((1,), "int32", '
                f'scope="local"), then {name}[0] = …',
            )

    def cell(self, name: str, value: PrimExpr | None, place: ast.expr, out: Body) -> None:
        """`x: T.int32 = 0` of 0.27: memory of one element, that starts with a value."""
        assert value is not None
        self.empty_cell(name, value.dtype, place, out)
        out.add(s.BufferStore(self.ev.scope.find(name).buffer, value, (p.const(0),)))

    def empty_cell(self, name: str, kind: DType, place: ast.expr, out: Body) -> None:
        """`x: T.int32`: memory of one element."""
        buffer = decl_buffer((1,), kind, name, "local")
        out.hold(self.declare(name, frames.DeclareBuffer(buffer, True), place))
        self.ev.scope.define(name, frames.Cell(self.ev.scope.find(name)))

    def change(self, cell: frames.Cell, value: Any, place: ast.expr, out: Body) -> None:
        """A new value for a cell; numbers and narrower scalars are converted."""
        kind = cell.buffer.dtype
        if isinstance(value, int | float):
            with self.ev.blame(place):
                value = build.cast(kind, value)
        found = self.ev.as_expr(value, place)
        if found.dtype.lanes != 1:
            raise self.ev.error(place, f"{cell.buffer.name} is {kind}, this is {found.dtype}")
        stored = found if found.dtype == kind else e.Cast(kind, found)
        out.add(s.BufferStore(cell.buffer, stored, (p.const(0),)))

    def _is_declaration(self, place: ast.expr) -> bool:
        """True for `T.Buffer(…)`, in contrast to a buffer that has a name already."""
        return isinstance(place, ast.Call) and self.ev.value(place.func) is BufferWord

    def _bind_alias(self, name: str, value: Buffer, place: ast.expr, out: Body) -> None:
        """`B = T.Buffer((4,), data=A.data)` in a body: another view of memory."""
        keywords = {k.arg for k in place.keywords} if isinstance(place, ast.Call) else set()
        if "data" not in keywords:
            hint = "data=A.data makes a view of A; T.alloc_buffer makes memory"
            raise self.ev.error(place, "T.Buffer in a body is a view and needs data=…", hint)
        out.hold(self.declare(name, frames.DeclareBuffer(value, False), place))

    def _bind_many(
        self, target: ast.Tuple | ast.List, value: Any, place: ast.expr, out: Body
    ) -> None:
        if isinstance(value, frames.Remap):
            names = [self.plain_name(t) for t in target.elts]
            self.block_of_axis(place).remap(names, value, self.loops, place)
            return
        if isinstance(value, frames.Meta) and isinstance(value.value, tuple | list):
            value = [frames.Meta(item) for item in value.value]
        if not isinstance(value, tuple | list) or len(value) != len(target.elts):
            count = f", not {len(value)}" if isinstance(value, tuple | list) else ""
            raise self.ev.error(
                place, f"{len(target.elts)} names need {len(target.elts)} values{count}"
            )
        for one, item in zip(target.elts, value, strict=True):
            self.bind(one, item, place, out)

    def block_of_axis(self, place: ast.expr) -> BlockParser:
        """The block that an axis or a view of a region belongs to."""
        if not self.blocks:
            raise self.ev.error(place, "an axis belongs in a block", 'with T.block("name"):')
        return self.blocks[-1]

    def _bind_axis(self, name: str, value: frames.Axis, place: ast.expr, out: Body) -> None:
        self.block_of_axis(place).axis(name, value, place)

    def _bind_remap(self, name: str, value: frames.Remap, place: ast.expr, out: Body) -> None:
        self.block_of_axis(place).remap([name], value, self.loops, place)

    def _bind_new(self, name: str, value: frames.NewVar, place: ast.expr, out: Body) -> None:
        known = self.function.symbols.pop(name, None)
        self.ev.scope.define(name, value.make(name) if known is None else known)

    def _named(self, name: str, buffer: Buffer, place: ast.expr) -> Buffer:
        made = renamed(resolve_dims(self.ev, buffer, place), name)
        self.ev.scope.define(name, made)
        return made

    def _bind_alloc(self, name: str, value: frames.AllocBuffer, place: ast.expr, out: Body) -> None:
        buffer = self._named(name, value.buffer, place)
        owner = self.blocks[-1].alloc_buffers if self.blocks else self.function.root_buffers
        owner.append(buffer)

    def _bind_match(self, name: str, value: frames.MatchBuffer, place: ast.expr, out: Body) -> None:
        wanted = value.buffer
        if wanted.offset_factor and wanted.elem_offset is None and self._asks_offset(name):
            kind = wanted.shape[0].dtype if wanted.shape else dtype("int32")
            wanted = replace(wanted, elem_offset=Var(f"{name}_elem_offset", kind))
        buffer = self._named(name, wanted, place)
        if isinstance(value.source, Var):
            if value.source not in self.function.params:
                raise self.ev.error(place, f"{value.source.name} is no parameter of the function")
            self.function.buffer_map[value.source] = buffer
        else:
            self.block_of_axis(place).match(buffer, value.source, place)

    def _asks_offset(self, name: str) -> bool:
        """Whether the function speaks of where the buffer begins: it is a variable then."""
        return any(
            isinstance(n, ast.Attribute)
            and n.attr in ("elem_offset", "access_ptr")
            and isinstance(n.value, ast.Name)
            and n.value.id == name
            for n in ast.walk(self.function.node)
        )

    def _bind_decl(
        self, name: str, value: frames.DeclareBuffer, place: ast.expr, out: Body
    ) -> None:
        out.hold(self.declare(name, value, place))

    def declare(self, name: str, value: frames.DeclareBuffer, place: ast.expr) -> Any:
        """The statement that declares a buffer, and memory for it where it has none."""
        return declared(self._named(name, value.buffer, place), value.allocates)

    def _bind_thread(self, name: str, value: frames.EnvThread, place: ast.expr, out: Body) -> None:
        value.var = Var(name, dtype(value.dtype))
        self.ev.scope.define(name, value.var)
        self.threads[value.var] = value.tag

    def _bind_holder(self, name: str, value: Any, place: ast.expr, out: Body) -> None:
        out.hold(self.holder(value, name, place))

    def _bind_meta(self, name: str, value: frames.Meta, place: ast.expr, out: Body) -> None:
        self.ev.scope.define(name, value.value)

    def holder(self, value: Any, name: str | None, place: Any) -> Wrap:
        """The statement that holds the lines that follow."""
        is_launch = isinstance(value, frames.LaunchThread)
        if is_launch and isinstance(value.thread, Var):
            axis = frames.EnvThread(self.threads.get(value.thread, ""), var=value.thread)
            value = frames.LaunchThread(axis, value.extent)
        var, wrap = held(value, name, lambda x: self.ev.as_expr(x, place))
        if name is not None and var is not None:
            self.ev.scope.define(name, var)
        return wrap


def _has_memory(value: Any) -> bool:
    """True for a scalar that 0.27 keeps in memory: not a pointer, not a vector."""
    if isinstance(value, PrimExpr):
        return value.dtype.lanes == 1 and not value.dtype.is_handle
    return isinstance(value, int | float)


def renamed(buffer: Buffer, name: str) -> Buffer:
    """The buffer under another name; its own pointer follows."""
    data = buffer.data
    if data.name == buffer.name:
        data = Var(name, data.dtype, data.pointee)
    return replace(buffer, name=name, data=data)


BINDINGS: dict[type, Callable[..., None]] = {
    frames.Axis: Bindings._bind_axis,
    frames.Remap: Bindings._bind_remap,
    frames.NewVar: Bindings._bind_new,
    frames.AllocBuffer: Bindings._bind_alloc,
    frames.MatchBuffer: Bindings._bind_match,
    frames.DeclareBuffer: Bindings._bind_decl,
    frames.AllocateMemory: Bindings._bind_holder,
    frames.EnvThread: Bindings._bind_thread,
    frames.LaunchThread: Bindings._bind_holder,
    frames.LetValue: Bindings._bind_holder,
    frames.Meta: Bindings._bind_meta,
}
