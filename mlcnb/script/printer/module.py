"""IRModule: header comments, constants, attributes, functions.

    # from tvm.script import ir as I
    # from tvm.script import tir as T
    # from tvm.script import relax as R

    @I.ir_module
    class Module:
        I.module_attrs({"key": 1})
        @T.prim_func(private=True)
        def add(…): …

        @R.function
        def main(…): …

Order as TVM's: loop functions, extern functions, graph functions, each by name; `main` comes last.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from mlcnb.core.doc import NEWLINE, Doc, Indent, Mark, Text, join, lines
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.external import ExternalModule
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.script.names import identifier
from mlcnb.script.printer import values
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.function import function
from mlcnb.script.printer.prim import call, text_string
from mlcnb.script.printer.prim_func import prim_func
from mlcnb.tir.function import PrimFunc

META_NOTE = "# Metadata omitted. Use show_meta=True in script() method to show it."


def in_order(mod: IRModule) -> list[tuple[GlobalVar, Any]]:
    """The functions in the order in which they are printed."""
    return sorted(mod.functions.items(), key=_rank)


def _rank(item: tuple[GlobalVar, Any]) -> tuple[int, str]:
    name, value = item[0].name_hint, item[1]
    if name == "main":
        return 3, name
    if isinstance(value, PrimFunc):
        return 0, name
    return (1 if isinstance(value, rx.ExternFunc) else 2), name


@prints(ExternalModule)
def _external(p: Printer, n: ExternalModule) -> Doc:
    return call(p.word("I", "external_module"), text_string(n.library), values.value(p, n.symbols))


@prints(IRModule)
def _module(p: Printer, mod: IRModule) -> Doc:
    p.module_name = identifier(p.options.name or "Module")
    p.prefixes.add("I")
    members: list[Doc] = []
    if mod.attrs:
        members.append(call(p.word("I", "module_attrs"), values.mapping(p, mod.attrs)))
    if mod.global_infos:
        infos = values.mapping(p, mod.global_infos)
        members.append(call(p.word("I", "module_global_infos"), infos))
        p.vdevices = tuple(mod.global_infos.get("vdevice", ()))
    functions = [Mark(var, _member(p, var, f)) for var, f in in_order(mod)]
    body = lines([*members, *join(functions, "")] or [Text("pass", "keyword")])
    title = [Text("class ", "keyword"), Text(p.module_name, "function"), ":"]
    decorator = Text("@I.ir_module", "decorator")
    return [decorator, NEWLINE, *title, Indent([NEWLINE, body])]


def _member(p: Printer, var: GlobalVar, value: Any) -> Doc:
    name = identifier(var.name_hint)
    if isinstance(value, PrimFunc):
        return Mark(value, prim_func(p, value, name))
    if isinstance(value, rx.Function):
        return Mark(value, function(p, value, name))
    return [Text(name, "function"), " = ", p.doc(value)]


def header(p: Printer) -> list[Doc]:
    """The comment lines that say which namespaces the text uses."""
    modules = [("I", "ir"), ("T", p.words.tir), ("R", "relax")]
    out: list[Doc] = []
    for prefix, name in modules:
        if prefix in p.prefixes:
            out.append(Text(f"# from tvm.script import {name} as {prefix}", "comment"))
        if prefix == "T" and p.words.is_new and "T" in p.prefixes:
            out.append(Text("# from tvm.tirx.layout import Axis", "comment"))
    return out


def metadata(p: Printer) -> Doc:
    """`metadata = {"relax.expr.Constant": [{…}, …]}`: the constants, as text that reads back."""
    entries = [_entry(p, data) for _, data in p.constants.values()]
    table = Indent([NEWLINE, *join(entries, [",", NEWLINE]), ","])
    key = text_string(p.words.constants)
    inner: Doc = [NEWLINE, key, ": [", table, NEWLINE, "],"]
    return [Text("metadata", "name"), " = {", Indent(inner), NEWLINE, "}"]


def _entry(p: Printer, data: np.ndarray) -> Doc:
    little = data.astype(data.dtype.newbyteorder("<"), copy=False)
    raw = base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()
    shape = values.value(p, data.shape)
    pairs = [("dtype", text_string(data.dtype.name)), ("shape", shape), ("data", text_string(raw))]
    return ["{", *join([text_string(k), ": ", v] for k, v in pairs), "}"]
