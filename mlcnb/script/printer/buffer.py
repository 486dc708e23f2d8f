"""Buffers: how they are declared, read, written, and cut into regions.

A: T.Buffer((128, 128), "float32")        A[vi, vk]        A[vi * 4:vi * 4 + 4]        A[0:4]
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.doc import Doc, Mark, Text, join
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.prim import call, keyword, number, sequence, text_string
from mlcnb.script.ranges import is_printable_as_slice, range_end
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion, ProducerLoad


def shape(p: Printer, dims: tuple[e.PrimExpr, ...]) -> Doc:
    """`(128, n)`"""
    return sequence([p.doc(d) for d in dims])


def options(p: Printer, b: Buffer) -> list[Doc]:
    """The keyword arguments of a declaration, those that are not the default."""
    given: list[Doc] = []
    if p.names.find(b.data) is not None or id(b.data) in p.pointers:
        given.append(keyword("data", p.doc(b.data)))
    if b.strides:
        given.append(keyword("strides", shape(p, b.strides)))
    if b.elem_offset is not None:
        given.append(keyword("elem_offset", p.doc(b.elem_offset)))
    if b.scope != "global":
        given.append(keyword("scope", text_string(b.scope)))
    if b.data_alignment != 64:
        given.append(keyword("align", number(b.data_alignment)))
    if b.offset_factor:
        given.append(keyword("offset_factor", number(b.offset_factor)))
    if b.axis_separators:
        given.append(keyword("axis_separators", ["[", *join(map(number, b.axis_separators)), "]"]))
    return given


def is_plain(b: Buffer) -> bool:
    """True for a buffer that shape and dtype say everything about: `T.Buffer(shape, dtype)`."""
    return (
        all(isinstance(d, e.IntImm) for d in b.shape)
        and b.data.pointee == (str(b.dtype), "global")
        and not b.strides
        and b.elem_offset is None
        and b.data_alignment == 64
        and not b.offset_factor
        and not b.axis_separators
    )


def declared(p: Printer, b: Buffer) -> list[Doc]:
    """The arguments of a declaration: shape, dtype where it is not float32, options."""
    dtype = [text_string(b.dtype)] if b.dtype != "float32" else []
    return [shape(p, b.shape), *dtype, *options(p, b)]


def define(p: Printer, b: Buffer) -> Doc:
    """The name of a buffer that begins here, marked; its pointer is then called `name.data`."""
    p.pointers.setdefault(id(b.data), b)
    return Mark(b, Text(p.names.define(b, b.name), "name"))


def undefined_vars(p: Printer, *parts: Any) -> list[e.Var]:
    """Scalar variables in shapes, strides and offsets that have no name yet, in order."""
    found: dict[int, e.Var] = {}
    for part in parts:
        for n in walk(part) if part is not None else ():
            if isinstance(n, e.Var) and p.names.find(n) is None:
                found.setdefault(id(n), n)
    return list(found.values())


def buffer_vars(p: Printer, b: Buffer) -> list[e.Var]:
    """The variables that the declaration of `b` brings in."""
    return undefined_vars(p, *b.shape, *b.strides, b.elem_offset)


def declare_vars(p: Printer, variables: list[e.Var]) -> list[Doc]:
    """`n = T.int64()` for each."""
    return [_declaration(p, v) for v in variables]


def _declaration(p: Printer, v: e.Var) -> Doc:
    name = Text(p.names.define(v, v.name), "name")
    return [Mark(v, name), " = ", new_var(p, v)]


def new_var(p: Printer, v: e.Var) -> Doc:
    """`T.int64()`, what makes a variable; 0.27 does not tell sizes apart."""
    p.prefixes.add("T")
    is_size = isinstance(v, e.SizeVar) and not p.words.is_new
    size = [keyword("is_size_var", Text("True", "keyword"))] if is_size else []
    return call(Text(f"T.{v.dtype}", "type"), *size)


def pointer_type(p: Printer, v: e.Var) -> Doc:
    """`T.handle("float32", "global")`, `T.int32`: the annotation of a scalar or pointer."""
    p.prefixes.add("T")
    name = Text(f"T.{v.dtype}", "type")
    if v.pointee is None:
        return name
    element, scope = v.pointee
    return call(name, text_string(element), text_string(scope))


def declaration(p: Printer, b: Buffer) -> Doc:
    """`A: T.Buffer((16,), "float32")`: what a buffer alone shows."""
    args = [shape(p, b.shape), text_string(b.dtype), *options(p, b)]
    return [define(p, b), ": ", *call(p.word("T", "Buffer"), *args)]


def declared_alone(p: Printer, x: Any) -> Doc:
    """A line that says what a buffer or variable is that a part of a program uses."""
    name = Text(p.name_of(x, x.name), "name")
    if isinstance(x, Buffer):
        return [name, " = ", *call(p.word("T", "Buffer"), *declared(p, x))]
    made = pointer_type(p, x) if x.pointee is not None else new_var(p, x)
    return [name, " = ", made]


@prints(Buffer)
def _buffer(p: Printer, b: Buffer) -> Doc:
    return Text(p.name_of(b, b.name), "name")


def index(p: Printer, x: Any) -> Doc:
    """One index: a vector with stride 1 is a slice."""
    if isinstance(x, e.Ramp) and prim_ops.is_const(x.stride, 1):
        return Mark(x, _slice(p, x.base, prim_ops.const(x.lanes, x.base.dtype)))
    return p.doc(x)


def indices(p: Printer, xs: tuple[e.PrimExpr, ...]) -> Doc:
    """`[i, j]`, and `[()]` for a scalar."""
    return ["[", *join(index(p, x) for x in xs), "]"] if xs else "[()]"


def _slice(p: Printer, lo: e.PrimExpr, extent: e.PrimExpr) -> Doc:
    return [p.doc(lo), ":", p.doc(range_end(lo, extent))]


@prints(BufferLoad)
def _load(p: Printer, n: BufferLoad) -> Doc:
    if n.predicate is None:
        if p.words.is_new and n.indices and n.indices[-1].dtype.lanes > 1:
            return [p.doc(n.buffer), "[", *join(p.doc(x) for x in n.indices), "]"]
        return [p.doc(n.buffer), indices(p, n.indices)]
    if p.words.is_new:
        masked = [p.doc(n.buffer), *map(p.doc, n.indices), p.doc(n.predicate)]
        return call(p.word("T", "masked_load"), text_string(n.dtype), *masked)
    head = [p.doc(n.buffer), ".", Text("vload", "function")]
    at = ["[", *join(p.doc(x) for x in n.indices), "]"]
    return call(head, at, keyword("predicate", p.doc(n.predicate)))


@prints(ProducerLoad)
def _producer_load(p: Printer, n: ProducerLoad) -> Doc:
    return [Text(p.name_of(n.producer, n.producer.name), "name"), indices(p, n.indices)]


def _region_axis(p: Printer, r: e.Range) -> Doc:
    is_point = prim_ops.is_const(r.extent, 1) and r.extent.dtype == r.min.dtype
    if is_point:
        return Mark(r, p.doc(r.min))
    if is_printable_as_slice(r.min, r.extent):
        return Mark(r, _slice(p, r.min, r.extent))
    return Mark(r, [p.doc(r.min), ":", p.doc(r.min), " + ", p.doc(r.extent)])


@prints(BufferRegion)
def _region(p: Printer, n: BufferRegion) -> Doc:
    axes = ["[", *join(_region_axis(p, r) for r in n.region), "]"] if n.region else "[()]"
    return [p.doc(n.buffer), axes]


@prints(MatchBufferRegion)
def _match(p: Printer, n: MatchBufferRegion) -> Doc:
    source = p.doc(n.source)
    args = [source, *declared(p, n.buffer)]
    return [define(p, n.buffer), " = ", *call(p.word("T", "match_buffer"), *args)]
