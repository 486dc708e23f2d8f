"""Statements that hold the lines that follow: what `T.attr`, `T.Assert`, `T.launch_thread`,
`T.LetStmt`, `T.allocate` and `T.decl_buffer` say, in a text or by calls of an IRBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.ir import prim_ops as p
from mlcnb.ir.attrs import frozen
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.script import frames
from mlcnb.script.tir.dtypes import dtype_of
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.constants import AllocateConst

#: makes the statement of those that follow
Wrap = Callable[[s.Stmt], s.Stmt]
#: the variable that a statement defines, if any, and the statement
Held = tuple[Var | None, Wrap]
#: a value as an expression
Read = Callable[[Any], PrimExpr]


def held(value: Any, name: str | None, read: Read) -> Held:
    """What a word of `HOLDING` makes of the lines that follow; its variable is called `name`."""
    return HOLDING[type(value)](value, name, read)


def declared(buffer: Buffer, allocates: bool) -> Wrap:
    """A buffer declared, and memory for it where it has none."""
    if not allocates:
        return lambda body: s.DeclBuffer(buffer, body)
    return lambda body: s.Allocate(
        buffer.data, buffer.dtype, buffer.shape, p.const(True), s.DeclBuffer(buffer, body)
    )


def _attr(x: frames.Attr, name: str | None, read: Read) -> Held:
    subject = p.const(x.node) if isinstance(x.node, int) else x.node
    value = tuple(x.value) if isinstance(x.value, list) else x.value
    return None, lambda body: s.AttrStmt(subject, x.key, value, body)


def _assert(x: frames.Asserted, name: str | None, read: Read) -> Held:
    condition = read(x.condition)
    return None, lambda body: s.AssertStmt(condition, message_of(x.message), body)


def _launch(x: frames.LaunchThread, name: str | None, read: Read) -> Held:
    extent = read(x.extent)
    if isinstance(x.thread, frames.EnvThread):
        var, tag = x.thread.var, x.thread.tag
    else:
        tag = str(x.thread)
        var = Var(name or tag.replace(".", "_"), extent.dtype)
    axis = s.IterVar(Range(p.const(0, extent.dtype), extent), var, s.IterType.THREAD, tag)
    return var, lambda body: s.AttrStmt(axis, "thread_extent", extent, body)


def _let(x: frames.LetValue, name: str | None, read: Read) -> Held:
    found, made = read(x.value), None if x.kind is None else dtype_of(x.kind)
    var = x.var
    if var is None:
        var = Var(name or "v", found.dtype) if made is None else made.make(name or "v")
    return var, lambda body: s.LetStmt(var, found, body)


def _allocate(x: frames.AllocateMemory, name: str | None, read: Read) -> Held:
    var = Var(name or "memory", dtype("handle"), (x.dtype, x.scope))
    kind, extents, marks = dtype(x.dtype), tuple(map(read, x.extents)), frozen(x.annotations)
    if x.data is not None:
        given = getattr(x.data, "data", x.data)  # a constant of `metadata`
        return var, lambda body: AllocateConst(var, kind, extents, given, body, marks)
    condition = read(x.condition)
    return var, lambda body: s.Allocate(var, kind, extents, condition, body, marks)


def message_of(value: Any) -> str:
    """The text of an assertion's message; 0.27 writes a kind and a list of parts."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], tuple | list):
        return "".join(str(part) for part in value[1])
    return str(value)


HOLDING: dict[type, Callable[[Any, str | None, Read], Held]] = {
    frames.Attr: _attr,
    frames.Asserted: _assert,
    frames.LaunchThread: _launch,
    frames.LetValue: _let,
    frames.AllocateMemory: _allocate,
}
