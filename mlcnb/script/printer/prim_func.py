"""PrimFunc: signature, attributes, buffers matched to handles, body.

@T.prim_func(private=True)
def matmul(A: T.Buffer((128, 128), "float32"), n: T.int32, c: T.handle):
    T.func_attr({"tir.noalias": True})
    m = T.int32()
    C = T.match_buffer(c, (m, 4), "float32")
    # with T.block("root"):
    ...
"""

from __future__ import annotations

from collections import Counter

from mlcnb.core.doc import NEWLINE, Doc, Indent, Mark, Text, join, lines
from mlcnb.ir import expr as e
from mlcnb.script.names import identifier
from mlcnb.script.printer import buffer, values
from mlcnb.script.printer.block import contents, root_block
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.prim import call, keyword, text_string
from mlcnb.script.printer.stmt import body, statements
from mlcnb.tir.analysis.structure import has_block
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc, TensorIntrin


@prints(PrimFunc)
def _prim_func(p: Printer, n: PrimFunc) -> Doc:
    return prim_func(p, n, identifier(p.options.name or n.attrs.get("global_symbol") or "main"))


def prim_func(p: Printer, n: PrimFunc, name: str) -> Doc:
    """The function under a name, which is an identifier."""
    with p.names.scope(), p.integers("int32"):
        plain = _plain_params(n)
        params = [_param(p, n, v, plain) for v in n.params]
        attrs, matched = _attrs(p, n, name), _match_buffers(p, n, plain)
        known = len(p.names.free)
        p.returns = n.ret_type is not None
        alias, lines_inside = p.with_alias(lambda: _body(p, n))
        unbound = [
            buffer.declared_alone(p, x) for x in p.names.free[known:] if isinstance(x, e.Var)
        ]
        inner = [*attrs, *alias, *matched, *unbound, *lines_inside]
        result = _result(p, n)
    title = [Text("def ", "keyword"), Text(name, "function"), "(", *join(params), ")"]
    header = [_decorator(p, n), NEWLINE, *title, *result, ":"]
    return [*header, Indent([NEWLINE, lines(inner)])]


def _decorator(p: Printer, n: PrimFunc) -> Doc:
    flags = []
    if "global_symbol" not in n.attrs:
        flags.append(keyword("private", Text("True", "keyword")))
    if p.words.is_new and has_block(n.body):
        flags.append(keyword("s_tir", Text("True", "keyword")))
    p.prefixes.add("T")
    name = Text("@T.prim_func", "decorator")
    return call(name, *flags) if flags else name


def _result(p: Printer, n: PrimFunc) -> list[Doc]:
    if n.ret_type is None:
        return []
    p.prefixes.add("T")
    return [" -> ", Text(f"T.{n.ret_type}", "type")]


def _plain_params(n: PrimFunc) -> dict[int, Buffer]:
    """Handles written `A: T.Buffer(…)`: shape and dtype say all, the handle is used nowhere."""
    pointers = Counter(id(b.data) for b in n.buffer_map.values())
    found = {
        id(v): n.buffer_map[v]
        for v in n.params
        if v in n.buffer_map and v.dtype == "handle" and v.pointee is None
    }
    plain = {k: b for k, b in found.items() if buffer.is_plain(b) and pointers[id(b.data)] == 1}
    used = values.used(n.body, set(plain))
    return {k: b for k, b in plain.items() if k not in used}


def _param(p: Printer, n: PrimFunc, v: e.Var, plain: dict[int, Buffer]) -> Doc:
    if id(v) in plain:
        return Mark(v, _buffer_param(p, plain[id(v)]))
    hint = v.name
    if v in n.buffer_map and hint == n.buffer_map[v].name:
        hint = f"var_{hint}"
    name = Mark(v, Text(p.names.define(v, hint), "name"))
    return [name, ": ", buffer.pointer_type(p, v)]


def _buffer_param(p: Printer, b: Buffer) -> Doc:
    kind = call(p.word("T", "Buffer"), buffer.shape(p, b.shape), text_string(b.dtype))
    return [buffer.define(p, b), ": ", kind]


def _attrs(p: Printer, n: PrimFunc, name: str) -> list[Doc]:
    shown = {p.attr_key(k): v for k, v in n.attrs.items() if (k, v) != ("global_symbol", name)}
    return [call(p.word("T", "func_attr"), values.mapping(p, shown))] if shown else []


def _match_buffers(p: Printer, n: PrimFunc, plain: dict[int, Buffer]) -> list[Doc]:
    out: list[Doc] = []
    for v in n.params:
        if v not in n.buffer_map or id(v) in plain:
            continue
        b = n.buffer_map[v]
        out += buffer.declare_vars(p, buffer.buffer_vars(p, b))
        args = [p.doc(v), *buffer.declared(p, b)]
        out.append([buffer.define(p, b), " = ", *call(p.word("T", "match_buffer"), *args)])
    return out


def _body(p: Printer, n: PrimFunc) -> list[Doc]:
    """The body; a root block that says nothing of its own is a comment."""
    root = root_block(p, n.body)
    if root is None:
        return body(p, n.body)
    comment = Text(f'# with T.{p.words.block}("root"):', "comment")
    return [Mark(root, comment), *contents(p, root, statements)]


@prints(TensorIntrin)
def _intrin(p: Printer, n: TensorIntrin) -> Doc:
    return [prim_func(p, n.desc, "desc"), NEWLINE, NEWLINE, prim_func(p, n.impl, "impl")]
