"""Statements: loops, blocks, stores, and the lowered forms.

    for i, j in T.grid(128, 128):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            ...

A chain of statements that each hold the rest (let, allocate, attr …) is printed flat where it ends
the body around it, and with `with` elsewhere; long chains are walked with a stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core.doc import Doc, Mark, Text, block, join, lines
from mlcnb.core.node import children
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops
from mlcnb.script.printer import buffer, values
from mlcnb.script.printer.block import realize, unbound
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.prim import call, keyword, sequence, text_string
from mlcnb.script.ranges import range_end
from mlcnb.tir import stmt as s
from mlcnb.tir.constants import is_plain

_LOOP_WORDS = {
    s.ForKind.PARALLEL: "parallel",
    s.ForKind.VECTORIZED: "vectorized",
    s.ForKind.UNROLLED: "unroll",
    s.ForKind.SERIAL: "serial",
    s.ForKind.THREAD_BINDING: "thread_binding",
}


def body(p: Printer, stmt: s.Stmt) -> list[Doc]:
    """The lines of a body, in a scope of their own."""
    with p.names.scope():
        return statements(p, stmt)


def statements(p: Printer, stmt: s.Stmt) -> list[Doc]:
    """One doc for each statement, in the scope that is open."""
    out: list[Doc] = []
    rest: list[s.Stmt] = [stmt]
    while rest:
        n = rest.pop()
        if p.words.is_new and not isinstance(n, s.SeqStmt):
            out += buffer.declare_vars(p, _let_vars(n))
        if isinstance(n, s.SeqStmt):
            rest.extend(reversed(n.seq))
        elif type(n) in _HOLDERS:
            _holder(p, n, out, rest)
        else:
            out.append(p.doc(n))
    return out or [call(p.word("T", "evaluate"), "0")]


def _let_vars(n: s.Stmt) -> list[e.Var]:
    """What `T.Let` binds in the expressions of a statement: 0.27 wants it declared above."""
    found: dict[int, e.Var] = {}
    stack = [c for c in children(n) if not isinstance(c, s.Stmt | s.Block)]
    while stack:
        x = stack.pop()
        if isinstance(x, e.Let):
            found.setdefault(id(x.var), x.var)
        if isinstance(x, e.PrimExpr):
            stack.extend(children(x))
    return list(found.values())


def _holder(p: Printer, n: Any, out: list[Doc], rest: list[s.Stmt]) -> None:
    """A statement that holds what follows it: flat at the end of a body, else `with`.

    0.27 has no `with` for lets, assertions and memory: they are flat everywhere, so what they name
    is known until the end of the lines around them.
    """
    flat, scoped = _HOLDERS[type(n)]
    if p.words.is_new and _is_allocation(n):
        out.append(Mark(n, Mark(n.body, _alloc_buffer(p, n.body))))
        rest.append(n.body.body)
        return
    is_flat = not rest and n is not p.scoped
    if is_flat or (p.words.is_new and not isinstance(n, s.AttrStmt)):
        out.append(Mark(n, flat(p, n)))
        rest.append(n.body)
        return
    with p.names.scope():
        header: Doc = [Text("with ", "keyword"), scoped(p, n), ":"]
        out.append(Mark(n, block(header, statements(p, n.body))))


def _plain_loop(n: s.For) -> bool:
    """True for a loop that T.grid can hold: serial, from 0, no annotations."""
    return (
        n.kind is s.ForKind.SERIAL
        and not n.annotations
        and n.thread_binding is None
        and prim_ops.is_const(n.min, 0)
    )


def _grid(p: Printer, n: s.For) -> list[s.For]:
    """The perfect nest of plain loops that starts at `n`, until a bound uses an outer variable."""
    nest = [n]
    outer = {id(n.loop_var)}
    inner = n.body
    if not p.options.syntax_sugar or not _plain_loop(n):
        return nest
    while isinstance(inner, s.For) and _plain_loop(inner) and not values.used(inner.extent, outer):
        nest.append(inner)
        outer.add(id(inner.loop_var))
        inner = inner.body
    return nest


@prints(s.For)
def _loop(p: Printer, n: s.For) -> Doc:
    """A loop, or the grid that starts with it."""
    nest = _grid(p, n)
    extents = [_iterable(p, n)] if len(nest) == 1 else [p.doc(f.extent) for f in nest]
    with p.names.scope():
        names = [_loop_var(p, f, outermost=f is n) for f in nest]
        target = call(p.word("T", "grid"), *extents) if len(nest) > 1 else extents[0]
        header = [Text("for ", "keyword"), *join(names), Text(" in ", "keyword"), target, ":"]
        inner = statements(p, nest[-1].body)
    for f in nest:
        del p.loops[id(f.loop_var)]
    return block(header, inner)


def _loop_var(p: Printer, n: s.For, outermost: bool) -> Doc:
    p.loops[id(n.loop_var)] = (n.min, n.extent)
    name = Mark(n.loop_var, Text(p.names.define(n.loop_var, n.loop_var.name), "name"))
    return name if outermost else Mark(n, name)


def _iterable(p: Printer, n: s.For) -> Doc:
    """What stands after `in`: `range(8)`, `T.parallel(2, 5)`, `T.thread_binding(8, thread=…)`."""
    start = prim_ops.is_const(n.min, 0)
    bounds = [n.extent] if start else [n.min, range_end(n.min, n.extent)]
    args: list[Doc] = [p.doc(x) for x in bounds]
    if n.thread_binding is not None:
        args.append(keyword("thread", text_string(n.thread_binding)))
    if n.annotations:
        args.append(keyword("annotations", values.mapping(p, n.annotations)))
    if n.kind is s.ForKind.SERIAL and not n.annotations and n.thread_binding is None:
        return call(Text("range", "builtin"), *args)
    return call(p.word("T", _LOOP_WORDS[n.kind]), *args)


@prints(s.BlockRealize)
def _realize(p: Printer, n: s.BlockRealize) -> Doc:
    return realize(p, n, statements)


@prints(s.Block)
def _block(p: Printer, n: s.Block) -> Doc:
    return unbound(p, n, statements)


@prints(s.SeqStmt, s.LetStmt, s.AttrStmt, s.AssertStmt, s.Allocate, s.DeclBuffer)
def _many(p: Printer, n: s.Stmt) -> Doc:
    return lines(body(p, n))


@prints(s.While)
def _while(p: Printer, n: s.While) -> Doc:
    return block([Text("while ", "keyword"), p.doc(n.condition), ":"], body(p, n.body))


@prints(s.IfThenElse)
def _if(p: Printer, n: s.IfThenElse) -> Doc:
    parts: list[Doc] = []
    word, branch = "if ", n
    while True:
        header = [Text(word, "keyword"), p.doc(branch.condition), ":"]
        parts.append(block(header, body(p, branch.then_case)))
        if not isinstance(branch.else_case, s.IfThenElse):
            break
        word, branch = "elif ", branch.else_case
    if branch.else_case is not None:
        parts.append(block(Text("else:", "keyword"), body(p, branch.else_case)))
    return lines(parts)


@prints(s.BufferStore)
def _store(p: Printer, n: s.BufferStore) -> Doc:
    if n.predicate is None:
        return [p.doc(n.buffer), buffer.indices(p, n.indices), " = ", p.doc(n.value)]
    if p.words.is_new:
        masked = [p.doc(n.value), *map(p.doc, n.indices), p.doc(n.predicate)]
        return call(p.word("T", "masked_store"), p.doc(n.buffer), *masked)
    head = [p.doc(n.buffer), ".", Text("vstore", "function")]
    at = ["[", *join(p.doc(x) for x in n.indices), "]"]
    return call(head, at, p.doc(n.value), keyword("predicate", p.doc(n.predicate)))


@prints(s.Evaluate)
def _evaluate(p: Printer, n: s.Evaluate) -> Doc:
    value = n.value
    if isinstance(value, e.Call):
        alike = len(value.args) == 1 and value.dtype == value.args[0].dtype
        if value.op == "tir.ret" and alike:
            given = p.doc(value.args[0])
            plain = call(p.word("T", "ret"), given)
            return [Text("return ", "keyword"), given] if p.returns else plain
        return p.doc(value)
    return call(p.word("T", "evaluate"), p.doc(value))


def _new_name(p: Printer, v: e.Var) -> Doc:
    return Mark(v, Text(p.names.define(v, v.name), "name"))


def _let_flat(p: Printer, n: s.LetStmt) -> Doc:
    value = p.doc(n.value)
    kind = buffer.pointer_type(p, n.var)
    if p.words.is_new:
        known = n.var.dtype.lanes == 1 or n.var.dtype != n.value.dtype
        kind = [p.word("T", "let"), *(["[", kind, "]"] if known else [])]
    return [_new_name(p, n.var), ": ", kind, " = ", value]


def _let_scoped(p: Printer, n: s.LetStmt) -> Doc:
    kind = [buffer.pointer_type(p, n.var)] if n.var.pointee or n.var.dtype != n.value.dtype else []
    header = call(p.word("T", "LetStmt"), p.doc(n.value), *kind)
    return [header, Text(" as ", "keyword"), _new_name(p, n.var)]


def _attr(p: Printer, n: s.AttrStmt) -> list[Doc]:
    key = text_string(n.attr_key)
    return call(p.word("T", "attr"), values.value(p, n.node), key, values.value(p, n.value))


def _is_launch(n: s.AttrStmt) -> bool:
    axis = n.node
    return (
        n.attr_key == "thread_extent"
        and isinstance(axis, s.IterVar)
        and axis.iter_type is s.IterType.THREAD
        and prim_ops.is_const(axis.dom.min, 0)
        and values.same(axis.dom.extent, n.value)
    )


def _launch(p: Printer, n: s.AttrStmt) -> tuple[Doc, Doc]:
    header = call(p.word("T", "launch_thread"), text_string(n.node.thread_tag), p.doc(n.value))
    return header, _new_name(p, n.node.var)


def _attr_flat(p: Printer, n: s.AttrStmt) -> Doc:
    if _is_launch(n) and p.names.find(n.node.var) is None:
        header, name = _launch(p, n)
        return [name, " = ", header]
    return _attr(p, n)


def _attr_scoped(p: Printer, n: s.AttrStmt) -> Doc:
    if _is_launch(n) and p.names.find(n.node.var) is None:
        header, name = _launch(p, n)
        return [header, Text(" as ", "keyword"), name]
    return _attr(p, n)


def _assert_flat(p: Printer, n: s.AssertStmt) -> Doc:
    message: Doc = text_string(n.message)
    if p.words.is_new:
        message = sequence([text_string("RuntimeError"), ["[", message, "]"]])
    return [Text("assert ", "keyword"), p.doc(n.condition), ", ", message]


def _assert_scoped(p: Printer, n: s.AssertStmt) -> Doc:
    return call(p.word("T", "Assert"), p.doc(n.condition), text_string(n.message))


def _allocate(p: Printer, n: s.Allocate) -> list[Doc]:
    extents: Doc = ["[", *join(p.doc(x) for x in n.extents), "]"]
    args: list[Doc] = [extents, text_string(n.dtype), text_string(n.scope)]
    if n.data is not None:
        args = [_elements(p, n.data), text_string(n.dtype), extents]
    if not prim_ops.is_const(n.condition, 1):
        args.append(keyword("condition", p.doc(n.condition)))
    if n.annotations:
        args.append(keyword("annotations", values.mapping(p, n.annotations)))
    return call(p.word("T", "allocate" if n.data is None else "allocate_const"), *args)


#: a constant of more elements stands in the metadata
_MOST_ELEMENTS = 200


def _elements(p: Printer, data: np.ndarray) -> Doc:
    """The elements of a constant in the order of memory."""
    if data.size > _MOST_ELEMENTS:
        return p.stored(data)
    wide = data.astype("float64") if data.dtype.kind not in "biuf" else data
    return values.value(p, wide.reshape(-1).tolist())


def _allocate_flat(p: Printer, n: s.Allocate) -> Doc:
    header = _allocate(p, n)
    return [_new_name(p, n.buffer_var), " = ", header]


def _allocate_scoped(p: Printer, n: s.Allocate) -> Doc:
    header = _allocate(p, n)
    return [header, Text(" as ", "keyword"), _new_name(p, n.buffer_var)]


def _is_allocation(n: Any) -> bool:
    """True for memory with one plain buffer over it: `T.alloc_buffer` of 0.27."""
    inner = n.body
    return (
        isinstance(n, s.Allocate)
        and isinstance(inner, s.DeclBuffer)
        and inner.buffer.data is n.buffer_var
        and inner.buffer.dtype == n.dtype
        and values.same(inner.buffer.shape, n.extents)
        and prim_ops.is_const(n.condition, 1)
        and is_plain(n)
    )


def _alloc_buffer(p: Printer, n: s.DeclBuffer) -> Doc:
    p.pointers.pop(id(n.buffer.data), None)  # of memory that was made before, by the same name
    head = call(p.word("T", "alloc_buffer"), *buffer.declared(p, n.buffer))
    return [buffer.define(p, n.buffer), " = ", head]


def _decl_buffer(p: Printer, n: s.DeclBuffer) -> list[Doc]:
    if id(n.buffer.data) not in p.pointers:
        p.name_of(n.buffer.data, n.buffer.data.name)
    return call(p.word("T", "decl_buffer"), *buffer.declared(p, n.buffer))


def _decl_flat(p: Printer, n: s.DeclBuffer) -> Doc:
    header = _decl_buffer(p, n)
    return [buffer.define(p, n.buffer), " = ", header]


def _decl_scoped(p: Printer, n: s.DeclBuffer) -> Doc:
    header = _decl_buffer(p, n)
    return [header, Text(" as ", "keyword"), buffer.define(p, n.buffer)]


Form = Callable[[Printer, Any], Doc]
#: statements that hold the rest of a body: their flat form, and what stands after `with`
_HOLDERS: dict[type, tuple[Form, Form]] = {
    s.LetStmt: (_let_flat, _let_scoped),
    s.AttrStmt: (_attr_flat, _attr_scoped),
    s.AssertStmt: (_assert_flat, _assert_scoped),
    s.Allocate: (_allocate_flat, _allocate_scoped),
    s.DeclBuffer: (_decl_flat, _decl_scoped),
}
