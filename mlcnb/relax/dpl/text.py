"""Patterns as text: `is_op("relax.nn.relu")(is_op("relax.matmul")(a:=*, const) | b:=*)`.

A part that stands in more than one place gets a letter where it is first met, and is that letter
from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.text import kind_of
from mlcnb.ir.expr import FloatImm, GlobalVar, IntImm
from mlcnb.ir.expr import StringImm as PrimString
from mlcnb.relax import expr as rx
from mlcnb.relax.dpl import nodes as dp
from mlcnb.relax.operator import OpDecl
from mlcnb.relax.struct_info import describe


def text_of(pattern: dp.DFPattern) -> str:
    """The pattern on one line."""
    return _Writer(pattern).text(pattern)


class _Writer:
    def __init__(self, root: dp.DFPattern) -> None:
        met: dict[dp.DFPattern, int] = {}
        for one in dp.walk(root):
            for part in dp.parts_of(one):
                met[part] = met.get(part, 0) + 1
        self.shared = {p for p, n in met.items() if n > 1 and not isinstance(p, _ALIKE)}
        self.letters: dict[dp.DFPattern, str] = {}

    def text(self, pattern: dp.DFPattern) -> str:
        """A part of the pattern."""
        if pattern in self.letters:
            return self.letters[pattern]
        if pattern not in self.shared:
            return _WORDS[type(pattern)](self, pattern)
        self.letters[pattern] = letter = _letter(len(self.letters))
        return f"{letter}:={_WORDS[type(pattern)](self, pattern)}"

    def all(self, patterns: Any) -> str:
        """Several, with commas between."""
        return ", ".join(map(self.text, patterns))


#: patterns of leaves: the same one twice says nothing
_ALIKE = (dp.ExprPattern, dp.GlobalVarPattern, dp.ExternFuncPattern)


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"a{number}"


def _expr(w: _Writer, p: Any) -> str:
    return f'is_op("{p.expr.name}")' if isinstance(p.expr, rx.Op) else f"is_expr({told(p.expr)})"


def _named(word: str, attribute: str) -> Callable[[_Writer, Any], str]:
    def write(w: _Writer, p: Any) -> str:
        name = getattr(p, attribute)
        return f'{word}("{name}")' if name else f"{word}()"

    return write


def _call(w: _Writer, p: Any) -> str:
    rest = ["…"] if p.varg_default_wildcard else []
    return f"{w.text(p.op)}({', '.join([*map(w.text, p.args), *rest])})"


def _item(w: _Writer, p: Any) -> str:
    return f"{w.text(p.tuple_value)}[{'*' if p.index is None else p.index}]"


def _attrs(w: _Writer, p: Any) -> str:
    inside = ", ".join(f"{k}={plain(v)!r}" for k, v in p.attrs.items())
    return f"{w.text(p.pattern)}.has_attr({inside})"


_WORDS: dict[type, Callable[[_Writer, Any], str]] = {
    dp.WildcardPattern: lambda w, p: "*",
    dp.ExprPattern: _expr,
    dp.VarPattern: _named("is_var", "name"),
    dp.DataflowVarPattern: _named("is_dfv", "name"),
    dp.GlobalVarPattern: _named("is_gv", "name"),
    dp.ExternFuncPattern: _named("extern", "global_symbol"),
    dp.ConstantPattern: lambda w, p: "is_const()",
    dp.CallPattern: _call,
    dp.FunctionPattern: lambda w, p: f"({w.all(p.params)}) -> {w.text(p.body)}",
    dp.TuplePattern: lambda w, p: f"is_tuple([{w.all(p.fields)}])",
    dp.UnorderedTuplePattern: lambda w, p: f"is_tuple([{w.all(p.fields)}], unordered=True)",
    dp.TupleGetItemPattern: _item,
    dp.OrPattern: lambda w, p: f"({w.text(p.left)} | {w.text(p.right)})",
    dp.AndPattern: lambda w, p: f"({w.text(p.left)} & {w.text(p.right)})",
    dp.NotPattern: lambda w, p: f"~{w.text(p.reject)}",
    dp.StructInfoPattern: lambda w, p: (
        f"{w.text(p.pattern)}.has_struct_info({described(p.struct_info)})"
    ),
    dp.DataTypePattern: lambda w, p: f'{w.text(p.pattern)}.has_dtype("{p.dtype}")',
    dp.ShapePattern: lambda w, p: f"{w.text(p.pattern)}.has_shape({shape_text(p.shape)})",
    dp.PrimArrPattern: lambda w, p: f"is_shape({shape_text(p.fields)})",
    dp.AttrPattern: _attrs,
}


def told(value: Any) -> str:
    """An expression in some words: `relax.add(…)`, `variable x`, `a constant`."""
    if isinstance(value, rx.Call):
        head = value.op
        name = getattr(head, "name", getattr(head, "name_hint", getattr(head, "global_symbol", "")))
        return f"{name}(…)"
    if isinstance(value, rx.Op):
        return value.name
    if isinstance(value, rx.Var):
        return f"variable {value.name_hint}"
    if isinstance(value, GlobalVar):
        return f"function {value.name_hint}"
    if isinstance(value, rx.ExternFunc):
        return f"extern {value.global_symbol}"
    if isinstance(value, rx.ShapeExpr):
        return f"shape {shape_text(value.values)}"
    if isinstance(value, rx.TupleGetItem):
        return f"field {value.index} of a tuple"
    words = {rx.Constant: "a constant", rx.Tuple: "a tuple", rx.Function: "a function"}
    return words.get(type(value), kind_of(value))


def described(info: Any) -> str:
    """A struct info in words."""
    return "of no known type" if info is None else describe(info)


def shape_text(dims: Any) -> str:
    """`(4, n)`, or `unknown`."""
    if dims is None:
        return "unknown"
    inside = ", ".join(getattr(d, "name", None) or str(getattr(d, "value", d)) for d in dims)
    return f"({inside},)" if len(dims) == 1 else f"({inside})"


def plain(value: Any) -> Any:
    """An attribute's value in Python's own types: numbers, strings, tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, IntImm | FloatImm | PrimString | rx.StringImm):
        return value.value
    if isinstance(value, OpDecl):
        return value
    return str(value) if type(value).__name__ == "DType" else value
