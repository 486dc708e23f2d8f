"""The printer: any node of both IRs to a doc, a page, a text.

`document(obj)` lays out the text with the place of every node; `script(obj)` is that text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.core.doc import NEWLINE, Doc, Page, Text, lines
from mlcnb.core.errors import MLCError
from mlcnb.core.node import EMPTY
from mlcnb.core.recursion import deep
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import StructInfo
from mlcnb.script.printer import (  # noqa: F401  the rules of every node, kept by `prints`
    block,
    buffer,
    function,
    prim,
    prim_func,
    relax,
    stmt,
    struct_info,
)
from mlcnb.script.printer.buffer import declaration
from mlcnb.script.printer.context import Options, Printer
from mlcnb.script.printer.module import META_NOTE, header, metadata
from mlcnb.tir.buffer import Buffer

#: nodes of graph programs, whose bare integers are int64
_GRAPH = (rx.Expr, rx.Binding, rx.BindingBlock, StructInfo)


def document(obj: Any, **options: Any) -> Page:
    """The text of `obj` as a page that knows where each node stands; options as in `script`."""
    opts = _options(options)
    p = Printer(opts)
    with deep():
        doc = _doc(p, obj)
    if isinstance(obj, IRModule | BaseFunc):
        doc = _program(p, doc)
    return Page(doc, " " * opts.indent_spaces)


def _doc(p: Printer, obj: Any) -> Doc:
    try:
        with p.integers("int64" if isinstance(obj, _GRAPH) else "int32"):
            return declaration(p, obj) if isinstance(obj, Buffer) else p.doc(obj)
    except RecursionError:
        raise MLCError(f"{type(obj).__name__} nests too deeply to be printed") from None


def script(
    obj: Any,
    *,
    obj_to_underline: Sequence[Any] = (),
    obj_to_annotate: Mapping[Any, str] = EMPTY,
    print_line_numbers: bool = False,
    **options: Any,
) -> str:
    """The TVMScript text of a module, function or any other node.

    Args:
        obj: what to print.
        obj_to_underline: nodes of it that get a line of carets underneath.
        obj_to_annotate: node -> a remark that is put behind the line where it begins.
        print_line_numbers: number the lines.
        **options: see `Options`: dialect, name, show_meta, syntax_sugar, show_all_struct_info,
            module_alias, indent_spaces, header.
    """
    page = document(obj, **options)
    text = page.text
    if obj_to_underline or obj_to_annotate:
        text = page.underlined(obj_to_underline, list(obj_to_annotate.items()))
    return _numbered(text) if print_line_numbers else text


def _numbered(text: str) -> str:
    lines = text.split("\n")
    width = len(str(len(lines)))
    return "\n".join(f"{i:>{width}}  {line}".rstrip() for i, line in enumerate(lines, 1))


def script_with_constants(obj: Any, **options: Any) -> tuple[str, list[Any]]:
    """The text, and the arrays that it names `metadata[…][i]`, in order.

    `parse(text, metadata={"relax.expr.Constant": [relax.Constant(a) for a in arrays]})` reads it.
    """
    p = Printer(_options({**options, "show_meta": False}))
    with deep():
        doc = p.doc(obj)
    text = Page(_program(p, doc), " " * p.options.indent_spaces).text
    return text, [data for _, data in p.constants.values()]


def _options(given: dict[str, Any]) -> Options:
    known = Options.__dataclass_fields__
    unknown = [name for name in given if name not in known]
    if unknown:
        raise MLCError(
            f"script() has no option {unknown[0]!r}", hint=f"there are {', '.join(known)}"
        )
    return Options(**given)


def _program(p: Printer, doc: Doc) -> Doc:
    """The comments above, the constants, and the note below."""
    parts: list[Doc] = []
    if p.options.header:
        parts += [lines(header(p)), NEWLINE, NEWLINE]
    if p.constants and p.options.show_meta:
        parts += [metadata(p), NEWLINE, NEWLINE]
    parts.append(doc)
    if p.constants and not p.options.show_meta:
        parts += [NEWLINE, NEWLINE, Text(META_NOTE, "comment")]
    return parts
