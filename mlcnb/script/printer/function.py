"""Graph functions: signature, bindings, dataflow blocks, branches, nested functions.

@R.function
def main(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
    n = T.int64()
    R.func_attr({"num_input": 1})
    cls = Module
    with R.dataflow():
        lv: R.Tensor((n, 4), dtype="float32") = R.add(x, x)
        R.output(lv)
    return lv
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.doc import NEWLINE, Doc, Indent, Mark, Text, block, join, lines
from mlcnb.ir import expr as e
from mlcnb.relax import expr as rx
from mlcnb.script.names import identifier
from mlcnb.script.printer import values
from mlcnb.script.printer.buffer import declare_vars, new_var, undefined_vars
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.prim import call, keyword

#: calls that say the struct info of their result themselves
_TYPED_CALLS = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_dps_packed")


@prints(rx.Function)
def _function(p: Printer, n: rx.Function) -> Doc:
    return function(p, n, identifier(p.options.name or n.attrs.get("global_symbol") or "main"))


def function(p: Printer, n: rx.Function, name: str, nested: bool = False) -> Doc:
    """The function under a name, which is an identifier."""
    with p.names.scope(), p.integers("int64"), p.signature():
        params = [_param(p, v) for v in n.params]
        result = _result(p, n)
        declared = [_declare(p, v) for v in p.signature_vars]
        with p.body():
            inner = _inside(p, n, name, declared)
    title = [Text("def ", "keyword"), Text(name, "function"), "(", *join(params), ")"]
    header = [_decorator(p, n, nested), NEWLINE, *title, *result, ":"]
    return [*header, Indent([NEWLINE, lines(inner)])]


def _inside(p: Printer, n: rx.Function, name: str, declared: list[Doc]) -> list[Doc]:
    shown = {k: v for k, v in n.attrs.items() if (k, v) != ("global_symbol", name)}
    attrs = [call(p.word("R", "func_attr"), values.mapping(p, shown))] if shown else []
    alias, body = p.with_alias(lambda: _body(p, n.body))
    return [*declared, *attrs, *alias, *body]


def _param(p: Printer, v: rx.Var) -> Doc:
    name = Mark(v, Text(p.names.define(v, v.name_hint), "name"))
    return name if v.struct_info is None else [name, ": ", p.doc(v.struct_info)]


def _result(p: Printer, n: rx.Function) -> list[Doc]:
    return [] if n.ret_struct_info is None else [" -> ", p.doc(n.ret_struct_info)]


def _declare(p: Printer, v: e.Var) -> Doc:
    """`n = T.int64()` for a variable that the signature named in a string."""
    name = Mark(v, Text(p.name_of(v, v.name), "name"))
    return [name, " = ", new_var(p, v)]


def _decorator(p: Printer, n: rx.Function, nested: bool) -> Doc:
    flags = []
    if not nested and "global_symbol" not in n.attrs:
        flags.append(keyword("private", Text("True", "keyword")))
    if not n.is_pure:
        flags.append(keyword("pure", Text("False", "keyword")))
    p.prefixes.add("R")
    name = Text("@R.function", "decorator")
    return call(name, *flags) if flags else name


def _body(p: Printer, n: Any) -> list[Doc]:
    """The bindings and `return`; a body that is no SeqExpr is returned as it is."""
    out = _blocks(p, n)
    body = n.body if isinstance(n, rx.SeqExpr) else n
    return [*out, [Text("return ", "keyword"), p.doc(body)]]


def _blocks(p: Printer, n: Any) -> list[Doc]:
    out: list[Doc] = []
    for group in n.blocks if isinstance(n, rx.SeqExpr) else ():
        if isinstance(group, rx.DataflowBlock):
            out.append(p.doc(group))
        else:
            out += _bindings(p, group)
    return out


@prints(rx.SeqExpr)
def _seq(p: Printer, n: rx.SeqExpr) -> Doc:
    return lines([*_blocks(p, n), p.doc(n.body)])


@prints(rx.DataflowBlock)
def _dataflow(p: Printer, n: rx.DataflowBlock) -> Doc:
    inner = _bindings(p, n)
    outputs = [b.var for b in n.bindings if not isinstance(b.var, rx.DataflowVar)]
    inner.append(call(p.word("R", "output"), *map(p.doc, outputs)))
    return block([Text("with ", "keyword"), call(p.word("R", "dataflow")), ":"], inner)


@prints(rx.BindingBlock)
def _block(p: Printer, n: rx.BindingBlock) -> Doc:
    return lines(_bindings(p, n))


def _bindings(p: Printer, n: rx.BindingBlock) -> list[Doc]:
    out: list[Doc] = []
    for binding in n.bindings:
        out += declare_vars(p, _new_symbols(p, binding))
        out.append(p.doc(binding))
    return out


def _new_symbols(p: Printer, binding: Any) -> list[e.Var]:
    """Symbolic variables that a binding brings in."""
    if isinstance(getattr(binding, "value", None), rx.Function):
        return []  # the dimensions of a nested function are its own
    parts = [binding.var.struct_info]
    if isinstance(binding, rx.MatchCast):
        parts.append(binding.struct_info)
    elif isinstance(binding.value, rx.Call | rx.ShapeExpr | rx.PrimValue):
        parts += [*getattr(binding.value, "sinfo_args", ())]
        parts += [a for a in getattr(binding.value, "args", [binding.value]) if _is_symbolic(a)]
    return undefined_vars(p, *parts)


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, rx.ShapeExpr | rx.PrimValue)


@prints(rx.VarBinding)
def _var_binding(p: Printer, n: rx.VarBinding) -> Doc:
    if isinstance(n.value, rx.Function):
        name = p.names.define(n.var, n.var.name_hint)
        return Mark(n.var, function(p, n.value, name, nested=True))
    if isinstance(n.value, rx.If):
        return _branches(p, n.var, n.value)
    value = p.doc(n.value)
    return [_target(p, n.var, _says_type(n)), " = ", value]


def _says_type(n: rx.VarBinding) -> bool:
    """True where the value says its struct info itself, so that no annotation is needed."""
    value = n.value
    return (
        isinstance(value, rx.Call)
        and isinstance(value.op, rx.Op)
        and value.op.name in _TYPED_CALLS
        and len(value.sinfo_args) == 1
        and values.same(value.sinfo_args[0], n.var.struct_info)
    )


def _target(p: Printer, v: rx.Var, plain: bool = False) -> Doc:
    """The variable that is bound, with its annotation."""
    name = Mark(v, Text(p.names.define(v, v.name_hint), "name"))
    if plain or v.struct_info is None or not p.options.show_all_struct_info:
        return name
    return [name, ": ", p.doc(v.struct_info)]


def told_alone(p: Printer, v: rx.Var) -> Doc:
    """`x: R.Tensor((4,), dtype="float32")`: what a variable is that a part of a program uses."""
    name = Text(p.name_of(v, v.name_hint), "name")
    return name if v.struct_info is None else [name, ": ", p.doc(v.struct_info)]


@prints(rx.MatchCast)
def _match_cast(p: Printer, n: rx.MatchCast) -> Doc:
    right = call(p.word("R", "match_cast"), p.doc(n.value), p.doc(n.struct_info))
    return [_target(p, n.var), " = ", *right]


@prints(rx.If)
def _if(p: Printer, n: rx.If) -> Doc:
    return _branches(p, rx.Var("result", n.struct_info), n)


def _branches(p: Printer, v: rx.Var, n: rx.If) -> Doc:
    """Both branches end by binding the same name."""
    header: Doc = [Text("if ", "keyword"), p.doc(n.cond), ":"]
    name = p.names.define(v, v.name_hint)
    parts = []
    for head, branch in ((header, n.true_branch), (Text("else:", "keyword"), n.false_branch)):
        with p.names.scope():
            inner = _blocks(p, branch)
            value = p.doc(branch.body if isinstance(branch, rx.SeqExpr) else branch)
        target: Doc = Mark(v, Text(name, "name"))
        if v.struct_info is not None and p.options.show_all_struct_info:
            target = [target, ": ", p.doc(v.struct_info)]
        parts.append(Mark(branch, block(head, [*inner, [target, " = ", value]])))
    return lines(parts)
