"""Scalar expressions: Python operators with the fewest parentheses, `T.` for everything else.

(i * 4 + j) // 2        T.float32(1.0)        T.if_then_else(i < 4, A[i], T.float32(0.0))
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.doc import Doc, Mark, Text, join
from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.types import PointerType, PrimType, TupleType
from mlcnb.script import intrinsics, literals
from mlcnb.script.names import identifier
from mlcnb.script.operators import ATOM, BITS, COMPARE, NOT, OPERATORS, UNARY, Operator
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.ranges import range_end

#: nodes that are written with an operator
_BINARY = {x.makes: x for x in OPERATORS.values() if isinstance(x.makes, type)}
_OPS = {
    x.sign: Text(f" {x.sign} ", "keyword" if x.sign.isalpha() else "op") for x in OPERATORS.values()
}


def number(value: int) -> Text:
    """A bare integer."""
    return Text(str(value), "number")


def text_string(value: str) -> Text:
    """A quoted string."""
    return Text(literals.string(value), "string")


def call(function: Doc, *args: Doc) -> list[Doc]:
    """`function(args)`"""
    return [function, "(", *join(args), ")"]


def keyword(name: str, value: Doc) -> list[Doc]:
    """`name=value`"""
    return [name, "=", value]


def sequence(items: list[Doc]) -> list[Doc]:
    """A tuple of Python source: `(a,)` for one, `()` for none."""
    return ["(", *join(items), ",)" if len(items) == 1 else ")"]


def _spelling(n: e.PrimExpr) -> Operator | None:
    """The operator of an expression that is written infix, or None."""
    kind = type(n)
    if kind is e.Call:
        return _operator_call(n)
    found = _BINARY.get(kind)
    if kind is e.Div and not n.dtype.is_float:
        return None
    if kind in (e.FloorDiv, e.FloorMod) and n.dtype.is_float:
        return None
    return found


def _operator_call(n: Any) -> Operator | None:
    name = n.op[4:] if isinstance(n.op, str) and n.op.startswith("tir.") else ""
    if name not in BITS or len(n.args) != 2:
        return None
    same = n.args[0].dtype == n.args[1].dtype == n.dtype
    return OPERATORS[BITS[name]] if same and not n.dtype.is_float else None


def _precedence(p: Printer, n: e.PrimExpr) -> int:
    if isinstance(n, e.IntImm):
        return UNARY if n.value < 0 and p.int_dtype == n.dtype else ATOM
    if isinstance(n, e.Not):
        return NOT
    if _is_flip(n):
        return UNARY
    found = _spelling(n)
    return ATOM if found is None else found.strength


def _is_flip(n: Any) -> bool:
    return isinstance(n, e.Call) and n.op == "tir.bitwise_not" and n.dtype == n.args[0].dtype


def operand(p: Printer, n: e.PrimExpr, least: int) -> Doc:
    """An operand, in parentheses where it binds looser than `least`."""
    doc = p.doc(n)
    return ["(", doc, ")"] if _precedence(p, n) < least else doc


def is_bare(p: Printer, n: Any) -> bool:
    """True for an integer printed without its dtype: Python would fold `2 * 3` of two of these."""
    return isinstance(n, e.IntImm) and n.dtype == p.int_dtype


def _left(p: Printer, a: Any, b: Any, least: int) -> Doc:
    if is_bare(p, a) and is_bare(p, b):
        return Mark(a, typed(p, a.dtype, number(a.value)))
    return operand(p, a, least)


def typed(p: Printer, kind: DType | str, *args: Doc) -> Doc:
    """`T.float32(…)`"""
    p.prefixes.add("T")
    return call(Text(f"T.{kind}", "type"), *args)


@prints(*_BINARY)
def _binary(p: Printer, n: Any) -> Doc:
    if isinstance(n.a, e.IntImm) and isinstance(n.b, e.IntImm) and not isinstance(n, e.And | e.Or):
        return call(p.word("T", type(n).__name__), p.doc(n.a), p.doc(n.b))
    found = _spelling(n)
    if found is None:
        name = {"Div": "Div", "FloorDiv": "floordiv", "FloorMod": "floormod"}[type(n).__name__]
        return call(p.word("T", name), p.doc(n.a), p.doc(n.b))
    return _infix(p, found, n.a, n.b)


def _infix(p: Printer, spelling: Operator, a: Any, b: Any) -> Doc:
    level = spelling.strength
    least = level + 1 if level == COMPARE else level
    return [_left(p, a, b, least), _OPS[spelling.sign], operand(p, b, level + 1)]


@prints(e.Mod, e.Min, e.Max)
def _named_binary(p: Printer, n: Any) -> Doc:
    name = {"Mod": "truncmod", "Min": "min", "Max": "max"}[type(n).__name__]
    return call(p.word("T", name), p.doc(n.a), p.doc(n.b))


@prints(e.Not)
def _not(p: Printer, n: e.Not) -> Doc:
    return [Text("not ", "keyword"), operand(p, n.a, NOT)]


@prints(e.Var)
def _var(p: Printer, n: e.Var) -> Doc:
    owner = p.pointers.get(id(n))
    if owner is not None and p.names.find(n) is None:
        return [Text(p.name_of(owner, owner.name), "name"), ".data"]
    return Text(p.name_of(n, n.name), "name")


@prints(e.IntImm)
def _int(p: Printer, n: e.IntImm) -> Doc:
    if n.dtype == p.int_dtype:
        return number(n.value)
    if n.dtype.is_bool:
        return typed(p, n.dtype, Text(str(bool(n.value)), "keyword"))
    return typed(p, n.dtype, number(n.value))


@prints(e.FloatImm)
def _float(p: Printer, n: e.FloatImm) -> Doc:
    exact = p.words.name == "0.27" and literals.is_rounded_beyond(n.value, n.dtype)
    text = repr(n.value) if exact else literals.number(n.value, n.dtype)
    return typed(p, n.dtype, Text(text, "string" if text[0] == '"' else "number"))


@prints(e.StringImm)
def _string(p: Printer, n: e.StringImm) -> Doc:
    return text_string(n.value)


@prints(e.Cast)
def _cast(p: Printer, n: e.Cast) -> Doc:
    return call(p.word("T", "Cast"), text_string(n.dtype), p.doc(n.value))


@prints(e.Select)
def _select(p: Printer, n: e.Select) -> Doc:
    """`T.Select(c, a, b)`: two bare numbers are of int32, and to TVM 0.27 one is."""
    values = (n.true_value, n.false_value)
    told = p.words.name == "0.27" or all(is_bare(p, a) for a in values)
    args = [_with_dtype(p, a) if told and is_bare(p, a) else p.doc(a) for a in values]
    return call(p.word("T", "Select"), p.doc(n.condition), *args)


def _with_dtype(p: Printer, n: Any) -> Doc:
    return Mark(n, typed(p, n.dtype, number(n.value)))


@prints(e.Let)
def _let(p: Printer, n: e.Let) -> Doc:
    value = p.doc(n.value)
    if p.options.verbose_expr:
        p.name_of(n.var, n.var.name)
    known = p.names.find(n.var)  # declared above, as 0.27 has it
    with p.names.scope():
        name = Text(known or p.names.define(n.var, n.var.name), "name")
        where: Doc = ["{", Mark(n.var, name), ": ", value, "}"]
        return call(p.word("T", "Let"), p.doc(n.body), keyword("where", where))


def _lanes(p: Printer, lanes: Any) -> Doc:
    return number(lanes) if isinstance(lanes, int) else p.doc(lanes)


@prints(e.Ramp)
def _ramp(p: Printer, n: e.Ramp) -> Doc:
    return call(p.word("T", "Ramp"), p.doc(n.base), p.doc(n.stride), _lanes(p, n.lanes))


@prints(e.Broadcast)
def _broadcast(p: Printer, n: e.Broadcast) -> Doc:
    return call(p.word("T", "Broadcast"), p.doc(n.value), _lanes(p, n.lanes))


@prints(e.Shuffle)
def _shuffle(p: Printer, n: e.Shuffle) -> Doc:
    vectors, indices = ([p.doc(x) for x in xs] for xs in (n.vectors, n.indices))
    return call(p.word("T", "Shuffle"), ["[", *join(vectors), "]"], ["[", *join(indices), "]"])


@prints(e.Range)
def _range(p: Printer, n: e.Range) -> Doc:
    letter = "I" if n is p.scoped else "T"
    return call(p.word(letter, "Range"), p.doc(n.min), p.doc(range_end(n.min, n.extent)))


@prints(PrimType)
def _prim_type(p: Printer, n: PrimType) -> Doc:
    p.prefixes.add("T")
    return Text(f"T.{n.dtype}", "type")


@prints(PointerType)
def _pointer_type(p: Printer, n: PointerType) -> Doc:
    element = n.element_type
    name = text_string(element.dtype) if isinstance(element, PrimType) else p.doc(element)
    return typed(p, "handle", name, text_string(n.storage_scope))


@prints(TupleType)
def _tuple_type(p: Printer, n: TupleType) -> Doc:
    return call(p.word("T", "Tuple"), *map(p.doc, n.fields))


@prints(e.GlobalVar)
def global_var(p: Printer, n: e.GlobalVar) -> Doc:
    """`cls.name`, or the bare name where there is no module around."""
    p.uses_module = True
    if p.module_name is None and not isinstance(p.scoped, BaseFunc | None):
        return Text(identifier(n.name_hint), "function")
    alias = p.options.module_alias or p.module_name or "Module"
    return [Text(alias, "name"), ".", Text(identifier(n.name_hint), "function")]


@prints(e.Call)
def _call(p: Printer, n: e.Call) -> Doc:
    if not isinstance(n.op, str):
        return _function_call(p, n)
    name = n.op.removeprefix("tir.")
    spelling = _operator_call(n)
    if spelling is not None:
        return _infix(p, spelling, *n.args)
    if _is_flip(n):
        return [Text("~", "op"), _left(p, n.args[0], n.args[0], UNARY)]
    if n.op.startswith("tir."):
        if name in intrinsics.TYPED_LAST:
            return call(p.word("T", name), *map(p.doc, n.args), text_string(n.dtype))
        if name in intrinsics.TYPED:
            return call(p.word("T", name), text_string(n.dtype), *map(p.doc, n.args))
        if intrinsics.result_dtype(name, n.args) == n.dtype:
            word = intrinsics.WRITTEN.get(name, name)
            return call(p.word("T", word), *map(p.doc, n.args))
    head = (text_string(n.dtype), text_string(p.attr_key(n.op)))
    return call(p.word("T", "call_intrin"), *head, *map(p.doc, n.args))


def _function_call(p: Printer, n: e.Call) -> Doc:
    """A call of a function of the module; its dtype is said where it returns something."""
    function = p.doc(n.op) if isinstance(n.op, Node) else text_string(str(n.op))
    if n.dtype == "void":
        return call(function, *map(p.doc, n.args))
    args: Doc = ["[", *join(map(p.doc, n.args)), "]"]
    return call(p.word("T", "Call"), text_string(n.dtype), function, args)
