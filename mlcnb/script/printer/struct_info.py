"""Struct infos: `R.Tensor((n, 4), dtype="float32")`, `R.Shape([n, 4])`, `R.Tuple(…)` …

In a signature symbolic dimensions are strings, `R.Tensor(("n", 4), …)`: the names do not exist yet.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.doc import Doc, Mark, Page, Text, join
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.global_info import DummyGlobalInfo, VDevice, vdevice_name
from mlcnb.relax import struct_info as si
from mlcnb.relax.expr import ShapeExpr
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.prim import call, keyword, number, sequence, text_string
from mlcnb.script.printer.values import value


def dim(p: Printer, d: e.PrimExpr) -> Doc:
    """One dimension: in a signature a string where it holds a variable of this function."""
    if not p.quoted_dims or isinstance(d, e.IntImm):
        return p.doc(d)
    variables = {id(v): v for v in walk(d) if isinstance(v, e.Var)}
    if all(id(v) in p.outer_vars for v in variables.values()):
        return p.doc(d)
    for v in variables.values():
        if p.names.find(v) is None:
            p.names.define(v, v.name)
            p.signature_vars.append(v)
    return Mark(d, text_string(Page(p.doc(d)).text))


def dims(p: Printer, values: tuple[e.PrimExpr, ...]) -> list[Doc]:
    """Dimensions, one by one."""
    return [dim(p, d) for d in values]


@prints(si.ObjectStructInfo)
def _object(p: Printer, n: si.ObjectStructInfo) -> Doc:
    return p.word("R", p.words.any_object)


@prints(si.PrimStructInfo)
def _prim(p: Printer, n: si.PrimStructInfo) -> Doc:
    if n.value is not None:
        return call(p.word("R", "Prim"), keyword("value", dim(p, n.value)))
    if p.words.is_new:
        return p.word("T", n.dtype)
    return call(p.word("R", "Prim"), text_string(n.dtype))


@prints(si.ShapeStructInfo)
def _shape(p: Printer, n: si.ShapeStructInfo) -> Doc:
    if n.values is not None:
        return call(p.word("R", "Shape"), ["[", *join(dims(p, n.values)), "]"])
    return call(p.word("R", "Shape"), keyword("ndim", number(n.ndim)))


@prints(si.TensorStructInfo)
def _tensor(p: Printer, n: si.TensorStructInfo) -> Doc:
    args: list[Doc] = []
    if isinstance(n.shape, ShapeExpr):
        args.append(Mark(n.shape, sequence(dims(p, n.shape.values))))
    elif n.shape is not None:
        args.append(p.doc(n.shape))
    if n.dtype is not None:
        args.append(keyword("dtype", text_string(n.dtype)))
    if n.shape is None and n.ndim != -1:
        args.append(keyword("ndim", number(n.ndim)))
    if n.vdevice is not None:
        args.append(keyword("vdevice", vdevice(p, n.vdevice)))
    name = p.word("R", "Tensor")
    return call(name, *args) if args else name


def vdevice(p: Printer, v: Any) -> Doc:
    """A virtual device by its name in the module, `"cuda:0"`; of another one all that it is."""
    if not isinstance(v, VDevice):
        return text_string(str(v))
    if v in p.vdevices:
        return text_string(vdevice_name(v, p.vdevices))
    if p.module_name is None and v.target is not None and not v.target.attrs:
        return text_string(vdevice_name(v))
    return p.doc(v)


@prints(VDevice)
def _vdevice(p: Printer, n: VDevice) -> Doc:
    target = n.target.export() if n.target is not None else None
    short = target if target is None or len(target) > 1 else target["kind"]
    scope = text_string(n.memory_scope)
    return call(p.word("I", "vdevice"), value(p, short), number(n.vdevice_id), scope)


@prints(DummyGlobalInfo)
def _dummy(p: Printer, _n: DummyGlobalInfo) -> Doc:
    return call(p.word("I", "dummy_global_info"))


@prints(si.TupleStructInfo)
def _tuple(p: Printer, n: si.TupleStructInfo) -> Doc:
    name = p.word("R", "Tuple")
    return call(name, *map(p.doc, n.fields)) if n.fields else name


@prints(si.FuncStructInfo)
def _func(p: Printer, n: si.FuncStructInfo) -> Doc:
    name = p.word("R", "Callable")
    purity = Text(str(n.purity), "keyword")
    if n.params is not None:
        return call(name, sequence([p.doc(x) for x in n.params]), p.doc(n.ret), purity)
    args: list[Doc] = []
    if not isinstance(n.ret, si.ObjectStructInfo):
        args.append(keyword("ret", p.doc(n.ret)))
    if not n.purity:
        args.append(keyword("purity", purity))
    return call(name, *args) if args else name
