"""Blocks: their axes, regions, buffers and annotations, in the order in which TVM writes them.

with T.block("C"):
    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
    T.where(i < 100)
    T.reads(A[vi, vk], B[vk, vj])
    T.writes(C[vi, vj])
    T.block_attr({"key": 1})
    D = T.alloc_buffer((16,))
    E = T.match_buffer(A[0:4], (4,))
    with T.init():
        C[vi, vj] = T.float32(0.0)
    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

from __future__ import annotations

from collections.abc import Callable

from mlcnb.core.doc import Doc, Mark, Text, block, join
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops
from mlcnb.script.intrinsics import ITER_TYPES
from mlcnb.script.printer import values
from mlcnb.script.printer.buffer import declare_vars, declared, define, undefined_vars
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.prim import call, keyword, sequence, text_string
from mlcnb.script.ranges import range_end
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.structure import has_block
from mlcnb.tir.index_map import IndexMap

Statements = Callable[[Printer, s.Stmt], list[Doc]]


def realize(p: Printer, n: s.BlockRealize, statements: Statements) -> Doc:
    """`with T.block("name"):` and all that is inside."""
    inner = n.block
    header = [
        Text("with ", "keyword"),
        call(p.word("T", p.words.block), text_string(inner.name_hint)),
    ]
    with p.names.scope():
        lines = [*_axes(p, n), *_where(p, n), *_details(p, inner)]
        lines += [*contents(p, inner, statements)]
    return Mark(inner, block([*header, ":"], lines))


def unbound(p: Printer, n: s.Block, statements: Statements) -> Doc:
    """A block alone: its axes are bound to nothing."""
    head = call(
        p.word("T", p.words.block), text_string(n.name_hint), keyword("no_realize", Text("True"))
    )
    with p.names.scope():
        lines = [_axis(p, axis, None) for axis in n.iter_vars]
        lines += [*_details(p, n), *contents(p, n, statements)]
    return block([Text("with ", "keyword"), head, ":"], lines)


def contents(p: Printer, inner: s.Block, statements: Statements) -> list[Doc]:
    """The buffers, the init and the body of a block."""
    lines: list[Doc] = []
    for buffer in inner.alloc_buffers:
        lines += declare_vars(p, undefined_vars(p, *buffer.shape, *buffer.strides))
        head = call(p.word("T", p.words.alloc_buffer), *declared(p, buffer))
        lines.append([define(p, buffer), " = ", head])
    for match in inner.match_buffers:
        b = match.buffer
        lines += declare_vars(p, undefined_vars(p, *b.shape, *b.strides, b.elem_offset))
        lines.append(p.doc(match))
    if inner.init is not None:
        with p.names.scope():
            init = statements(p, inner.init)
        header = [Text("with ", "keyword"), call(p.word("T", "init")), ":"]
        lines.append(Mark(inner.init, block(header, init)))
    with p.names.scope():
        lines += statements(p, inner.body)
    return lines


def _where(p: Printer, n: s.BlockRealize) -> list[Doc]:
    if prim_ops.is_const(n.predicate, 1):
        return []
    return [call(p.word("T", "where"), p.doc(n.predicate))]


def _details(p: Printer, n: s.Block) -> list[Doc]:
    lines: list[Doc] = [
        call(p.word("T", "reads"), *map(p.doc, n.reads)),
        call(p.word("T", "writes"), *map(p.doc, n.writes)),
    ]
    if n.annotations:
        lines.append(call(p.word("T", p.words.block_attr), values.mapping(p, n.annotations)))
    return lines


def _axes(p: Printer, n: s.BlockRealize) -> list[Doc]:
    """The axes, runs of two or more that each take one whole loop as T.axis.remap.

    A domain may use an axis defined before it, so each line is made after the names above it.
    """
    lines: list[Doc] = []
    run: list[tuple[s.IterVar, e.PrimExpr]] = []
    for axis, val in zip(n.block.iter_vars, n.iter_values, strict=True):
        if _is_simple(p, axis, val):
            run.append((axis, val))
            continue
        lines += _remap(p, run)
        lines.append(_axis(p, axis, val))
        run = []
    return lines + _remap(p, run)


def _is_simple(p: Printer, axis: s.IterVar, val: e.PrimExpr) -> bool:
    """True where the axis is S or R and takes a loop variable whose range is the axis' domain."""
    bounds = p.loops.get(id(val))
    return (
        p.options.syntax_sugar
        and bounds is not None
        and axis.iter_type in (s.IterType.SPATIAL, s.IterType.REDUCE)
        and isinstance(val, e.Var)
        and axis.var.dtype == val.dtype
        and values.same(bounds[0], axis.dom.min)
        and values.same(bounds[1], axis.dom.extent)
    )


def _remap(p: Printer, run: list[tuple[s.IterVar, e.PrimExpr]]) -> list[Doc]:
    if len(run) < 2:
        return [_axis(p, axis, val) for axis, val in run]
    kinds = "".join(axis.iter_type.value for axis, _ in run)
    loops = ["[", *join(p.doc(val) for _, val in run), "]"]
    right = call(p.word("T", "axis.remap"), text_string(kinds), loops)
    return [[*join(_axis_name(p, axis) for axis, _ in run), " = ", *right]]


def _axis_name(p: Printer, axis: s.IterVar) -> Doc:
    name = Text(p.names.define(axis.var, axis.var.name), "name")
    return Mark(axis, Mark(axis.var, name))


def _axis(p: Printer, axis: s.IterVar, val: e.PrimExpr | None) -> Doc:
    dom = axis.dom
    domain: Doc = p.doc(dom.extent)
    if not prim_ops.is_const(dom.min, 0):
        domain = sequence([p.doc(dom.min), p.doc(range_end(dom.min, dom.extent))])
    bound = [] if val is None else [p.doc(val)]
    right = call(p.word("T", f"axis.{axis.iter_type.name.lower()}"), domain, *bound)
    return [_axis_name(p, axis), " = ", *right]


_ITER_KINDS = {kind: name for name, kind in ITER_TYPES.items()}


@prints(s.IterVar)
def _iter_var(p: Printer, n: s.IterVar) -> Doc:
    head = [p.doc(n.var), p.doc(n.dom), text_string(_ITER_KINDS[n.iter_type])]
    return call(p.word("T", "iter_var"), *head, text_string(n.thread_tag))


@prints(s.CommReducer)
def _reducer(p: Printer, n: s.CommReducer) -> Doc:
    with p.names.scope():
        names = [Text(p.names.define(v, v.name), "name") for v in (*n.lhs, *n.rhs)]
        result = [p.doc(x) for x in n.result]
        body: Doc = result[0] if len(result) == 1 else sequence(result)
    function = [Text("lambda ", "keyword"), *join(names), ": ", body]
    identity = ["[", *join(p.doc(x) for x in n.identity_element), "]"]
    return call(p.word("T", "comm_reducer"), function, identity)


@prints(IndexMap)
def _index_map(p: Printer, n: IndexMap) -> Doc:
    options = []
    if n.inverse_index_map is not None:
        options.append(["inverse_index_map=", _layout(p, n.inverse_index_map)])
    kinds = [str(var.dtype) for var in n.initial_indices]
    if set(kinds) - {"int64"}:
        told = kinds[0] if len(set(kinds)) == 1 else kinds
        options.append(["index_dtype=", values.value(p, told)])
    return call(p.word("T", "index_map"), _layout(p, n), *options)


def _layout(p: Printer, n: IndexMap) -> Doc:
    """The map as a lambda; bare integers are of the dtype of its first index."""
    kind = str(n.initial_indices[0].dtype) if n.initial_indices else "int64"
    with p.names.scope(), p.integers(kind):
        names = [Text(p.names.define(v, v.name), "name") for v in n.initial_indices]
        final = join(p.doc(x) for x in n.final_indices)
    return [Text("lambda ", "keyword"), *join(names), ": [", *final, "]"]


@prints(s.Reduce)
def _reduce(p: Printer, n: s.Reduce) -> Doc:
    source, axes = ([p.doc(x) for x in xs] for xs in (n.source, n.axis))
    parts = (["[", *join(part), "]"] for part in (source, axes))
    return call(p.word("T", "reduce"), p.doc(n.combiner), *parts, str(n.value_index))


def root_block(p: Printer, body: s.Stmt) -> s.Block | None:
    """The block of a function body that is written as a comment, if the body is such a block."""
    if not (p.options.syntax_sugar and isinstance(body, s.BlockRealize)):
        return None
    inner = body.block
    bare = not (inner.iter_vars or inner.reads or inner.writes or inner.annotations)
    if (
        not bare
        or inner.name_hint != "root"
        or inner.match_buffers
        or inner.init
        or not prim_ops.is_const(body.predicate, 1)
    ):
        return None
    if isinstance(inner.body, s.BlockRealize) and not inner.alloc_buffers:
        return inner if inner.body.block.iter_vars else None
    return inner if inner.alloc_buffers or has_block(inner.body) else None
