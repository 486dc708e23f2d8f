"""A tree of `mlcnb.script.printer.doc` as Python text, with carets under what is asked for.

Parentheses stand where Python needs them to read the same tree, and nowhere else:

    mult(add(x, y), z)      (x + y) * z         pow(neg(x), neg(y))     (-x) ** -y
    or_(or_(x, y), z)       x or y or z         or_(x, or_(y, z))       x or (y or z)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from mlcnb.core.doc import NEWLINE, Indent, Mark, Page, join
from mlcnb.core.doc import Doc as Layout
from mlcnb.core.errors import ArgumentError
from mlcnb.ir.path import ObjectPath
from mlcnb.script import operators as op
from mlcnb.script.printer import doc as d
from mlcnb.script.printer.doc import OperationKind as Kind

_UNARIES = {Kind.USub: ("-", op.UNARY), Kind.Invert: ("~", op.UNARY), Kind.Not: ("not ", op.NOT)}
_QUOTE = '"""'


def to_python_script(
    doc: d.Doc,
    indent_spaces: int = 4,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
    path_to_underline: Sequence[ObjectPath] | None = None,
) -> str:
    """The text of a doc.

    Args:
        doc: what to print.
        indent_spaces: of one level.
        print_line_numbers: number the lines.
        num_context_lines: show so many lines around what is underlined; None or below 0 for all.
        path_to_underline: what stands at these `ir.ObjectPath`s gets carets underneath, or else
            what stands nearest above it.

    Raises:
        ArgumentError: an operator has a wrong number of operands, or a comment on the line of its
            statement has several lines.
    """
    page = Page(_layout(doc), " " * indent_spaces)
    texts = [line.rstrip() for line in page.text_lines]
    while texts and not texts[-1]:
        texts.pop()
    marked = [x for path in path_to_underline or () for x in _nearest(page, path)]
    carets = page.carets(marked)
    return "\n".join(_shown(texts, carets, print_line_numbers, num_context_lines))


def _nearest(page: Page, path: ObjectPath) -> list[d.Doc]:
    """The docs of the longest path that `path` begins with."""
    found: dict[int, list[d.Doc]] = {}
    for doc in page.nodes.values():
        lengths = [len(p.steps) for p in doc.source_paths if p.steps == path.steps[: len(p.steps)]]
        if lengths:
            found.setdefault(max(lengths), []).append(doc)
    return found[max(found)] if found else []


def _shown(
    texts: Sequence[str], carets: dict[int, str], numbered: bool, context: int | None
) -> Iterator[str]:
    """The lines that are shown, with carets; a gap of one line is shown too."""
    width = len(str(len(texts))) if numbered else 0
    margin = " " * (width + 1) if numbered else ""
    last = 0
    shown = [n for n in range(1, len(texts) + 1) if _is_near(n, carets, context)]
    for number in (*shown, len(texts) + 1):
        gap = range(last + 1, number)
        if len(gap) == 1:
            yield _numbered(texts, gap[0], width)
        elif gap:
            yield f"{margin}(... {len(gap)} lines skipped ...)"
        if number <= len(texts):
            yield _numbered(texts, number, width)
            if number in carets:
                yield margin + carets[number]
        last = number


def _is_near(number: int, carets: dict[int, str], context: int | None) -> bool:
    if context is None or context < 0 or not carets:
        return True
    return any(abs(number - n) <= context for n in carets)


def _numbered(texts: Sequence[str], number: int, width: int) -> str:
    return f"{number:>{width}} {texts[number - 1]}" if width else texts[number - 1]


def _layout(x: d.Doc) -> Layout:
    if isinstance(x, d.ExprDoc):
        return _expr(x)
    if isinstance(x, d.StmtBlockDoc):
        return Mark(x, _stmts(x.stmts))
    if isinstance(x, d.StmtDoc):
        return _stmts([x])
    return Mark(x, _slice(x)) if isinstance(x, d.SliceDoc) else _unknown(x)


def _unknown(x: Any) -> Layout:
    raise ArgumentError(f"{type(x).__name__} is no doc of Python")


# -- expressions --------------------------------------------------------------------


def _expr(x: Any, at_least: int = op.LAMBDA) -> Layout:
    """The text of an expression, in parentheses where it holds together less than `at_least`."""
    write = _EXPRS.get(type(x))
    if write is None:
        return _unknown(x)
    text, strength = write(x)
    return Mark(x, text if strength >= at_least else ["(", text, ")"])


def _all(items: Sequence[Any]) -> Layout:
    return join([_layout(x) for x in items])


def _literal(x: d.LiteralDoc) -> tuple[Layout, int]:
    value = x.value
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"', op.ATOM
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")', op.TRAIL
    text = repr(value)
    return text, op.UNARY if text.startswith("-") else op.ATOM


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def _attr(x: d.AttrAccessDoc) -> tuple[Layout, int]:
    value = _expr(x.value, op.TRAIL)
    if isinstance(x.value, d.LiteralDoc) and isinstance(x.value.value, int):
        value = ["(", _expr(x.value), ")"]
    return [value, ".", x.name], op.TRAIL


def _index(x: d.IndexDoc) -> tuple[Layout, int]:
    return [_expr(x.value, op.TRAIL), "[", _all(x.indices) if x.indices else "()", "]"], op.TRAIL


def _call(x: d.CallDoc) -> tuple[Layout, int]:
    named = [
        [key, "=", _expr(value)] for key, value in zip(x.kwargs_keys, x.kwargs_values, strict=True)
    ]
    args = [*map(_expr, x.args), *named]
    return [_expr(x.callee, op.TRAIL), "(", join(args), ")"], op.TRAIL


def _operation(x: d.OperationDoc) -> tuple[Layout, int]:
    wanted = 1 if x.kind in _UNARIES else 2 if x.kind.name in op.OPERATORS else 3
    if len(x.operands) != wanted:
        raise ArgumentError(
            f"OperationDoc: {x.kind.name} has {wanted} operands, not {len(x.operands)}"
        )
    if x.kind in _UNARIES:
        sign, strength = _UNARIES[x.kind]
        return [sign, _expr(x.operands[0], strength)], strength
    if x.kind is Kind.IfThenElse:
        test, then, other = (_expr(operand, op.OR) for operand in x.operands)
        return [then, " if ", test, " else ", other], op.CHOICE
    found = op.OPERATORS[x.kind.name]
    left, right = found.strength, found.strength + 1
    if x.kind is Kind.Pow:
        left, right = op.TRAIL, op.UNARY
    elif found.strength == op.COMPARE:
        left = right
    a, b = x.operands
    return [_expr(a, left), f" {found.sign} ", _expr(b, right)], found.strength


def _lambda(x: d.LambdaDoc) -> tuple[Layout, int]:
    return ["lambda ", _all(x.args), ": ", _expr(x.body)], op.LAMBDA


def _tuple(x: d.TupleDoc) -> tuple[Layout, int]:
    return ["(", _all(x.elements), ",)" if len(x.elements) == 1 else ")"], op.ATOM


def _dict(x: d.DictDoc) -> tuple[Layout, int]:
    pairs = zip(x.keys, x.values, strict=True)
    return ["{", join([[_expr(k), ": ", _expr(v)] for k, v in pairs]), "}"], op.ATOM


def _slice(x: d.SliceDoc) -> Layout:
    start, stop, step = ("" if e is None else _expr(e) for e in (x.start, x.stop, x.step))
    return [start, ":", stop, *([":", step] if x.step is not None else [])]


_EXPRS: dict[type, Any] = {
    d.LiteralDoc: _literal,
    d.IdDoc: lambda x: (x.name, op.ATOM),
    d.AttrAccessDoc: _attr,
    d.IndexDoc: _index,
    d.CallDoc: _call,
    d.OperationDoc: _operation,
    d.LambdaDoc: _lambda,
    d.TupleDoc: _tuple,
    d.ListDoc: lambda x: (["[", _all(x.elements), "]"], op.ATOM),
    d.DictDoc: _dict,
}

# -- statements --------------------------------------------------------------------


def _stmts(stmts: Sequence[Any]) -> Layout:
    """One after the other; a function ends with an empty line."""
    out: list[Layout] = []
    for stmt in stmts:
        text = _stmt(stmt)
        if text is None:
            continue
        out += [NEWLINE] if out else []
        out.append(Mark(stmt, text))
        out += [NEWLINE] if isinstance(stmt, d.FunctionDoc) else []
    return out


def _body(header: Layout, body: Sequence[Any], docstring: str | None = None) -> Layout:
    inner = [_docstring(docstring), NEWLINE] if docstring else []
    return [header, ":", Indent([NEWLINE, *inner, _stmts(body) if body else "pass"])]


def _stmt(x: Any) -> Layout | None:
    """The text of a statement; None for an empty remark."""
    if isinstance(x, d.CommentDoc | d.DocStringDoc):
        remark = _remark if isinstance(x, d.CommentDoc) else _docstring
        return remark(x.comment) if x.comment else None
    if type(x) in _LINES:
        text = _LINES[type(x)](x)
        if x.comment and "\n" in x.comment:
            raise ArgumentError(
                f"a comment of {type(x).__name__} cannot have newline: {x.comment!r}"
            )
        return [text, f"  # {x.comment}"] if x.comment else text
    write = _BLOCKS.get(type(x))
    if write is None:
        return _unknown(x)
    if isinstance(x, d.FunctionDoc | d.ClassDoc) or not x.comment:
        return write(x)
    return [_remark(x.comment), NEWLINE, write(x)]


def _remark(text: str) -> Layout:
    return join([f"# {line}".rstrip() for line in text.split("\n")], NEWLINE)


def _docstring(text: str) -> Layout:
    return join([_QUOTE, *text.split("\n"), _QUOTE], NEWLINE)


def _names(x: Any) -> Layout:
    """The left side of `=` or `in`: a tuple needs no parentheses there."""
    if isinstance(x, d.TupleDoc) and x.elements:
        return Mark(x, [_all(x.elements), "," if len(x.elements) == 1 else ""])
    return _expr(x)


def _assign(x: d.AssignDoc) -> Layout:
    kind = "" if x.annotation is None else [": ", _expr(x.annotation)]
    return [_names(x.lhs), kind, "" if x.rhs is None else [" = ", _expr(x.rhs)]]


def _if(x: d.IfDoc) -> Layout:
    then = _body(["if ", _expr(x.predicate)], x.then_branch)
    return [then, NEWLINE, _body("else", x.else_branch)] if x.else_branch else then


def _with(x: d.ScopeDoc) -> Layout:
    name = "" if x.lhs is None else [" as ", _expr(x.lhs)]
    return _body(["with ", _expr(x.rhs), name], x.body)


def _decorated(x: Any, header: Layout) -> Layout:
    above = [["@", _expr(decorator), NEWLINE] for decorator in x.decorators]
    return [above, _body(header, x.body, x.comment)]


def _function(x: d.FunctionDoc) -> Layout:
    kind = "" if x.return_type is None else [" -> ", _expr(x.return_type)]
    args = [Mark(arg, _assign(arg)) for arg in x.args]
    return _decorated(x, ["def ", _expr(x.name), "(", join(args), ")", kind])


_LINES: dict[type, Any] = {
    d.AssignDoc: _assign,
    d.ExprStmtDoc: lambda x: _expr(x.expr),
    d.AssertDoc: lambda x: ["assert ", _expr(x.test), [", ", _expr(x.msg)] if x.msg else ""],
    d.ReturnDoc: lambda x: ["return ", _expr(x.value)],
}
_BLOCKS: dict[type, Any] = {
    d.IfDoc: _if,
    d.WhileDoc: lambda x: _body(["while ", _expr(x.predicate)], x.body),
    d.ForDoc: lambda x: _body(["for ", _names(x.lhs), " in ", _expr(x.rhs)], x.body),
    d.ScopeDoc: _with,
    d.FunctionDoc: _function,
    d.ClassDoc: lambda x: _decorated(x, ["class ", _expr(x.name)]),
}
