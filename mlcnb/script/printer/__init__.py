"""The printer: any node of both IRs to a doc, a page, a text.

`document(obj)` lays out the text with the place of every node; `script(obj)` is that text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.core.doc import NEWLINE, Doc, Page, Text, lines
from mlcnb.core.errors import MLCError
from mlcnb.core.node import EMPTY
from mlcnb.core.recursion import deep, roomy
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.ir.path import ObjectPath
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import symbolic_vars
from mlcnb.relax.analysis.variables import free_vars
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
from mlcnb.script.printer.buffer import declaration, declared_alone
from mlcnb.script.printer.context import Options, Printer
from mlcnb.script.printer.function import told_alone
from mlcnb.script.printer.module import META_NOTE, header, metadata
from mlcnb.tir.buffer import Buffer

#: options of TVM's that change nothing here: the letters and dtypes are TVM's defaults
_IGNORED = frozenset(
    "ir_prefix tir_prefix relax_prefix buffer_dtype int_dtype float_dtype show_object_address "
    "binding_names extra_config".split()
)
#: nodes of graph programs, whose bare integers are int64
_GRAPH = (rx.Expr, rx.Binding, rx.BindingBlock, StructInfo)


@roomy
def document(obj: Any, **options: Any) -> Page:
    """The text of `obj` as a page that knows where each node stands; options as in `script`."""
    opts = _options(options)
    p = Printer(opts)
    p.scoped = obj if opts.verbose_expr else None
    with deep():
        if opts.verbose_expr and isinstance(obj, rx.SeqExpr | rx.BindingBlock):
            _name_sizes(p, obj)
        doc = _doc(p, obj)
    if isinstance(obj, IRModule | BaseFunc):
        doc = _program(p, doc)
    elif opts.verbose_expr:
        doc = _with_prelude(p, obj, doc)
    return Page(doc, " " * opts.indent_spaces)


def _doc(p: Printer, obj: Any) -> Doc:
    with p.integers("int64" if isinstance(obj, _GRAPH) else "int32"):
        is_alone = isinstance(obj, Buffer) and not p.options.verbose_expr
        return declaration(p, obj) if is_alone else p.doc(obj)


def script(
    obj: Any,
    *,
    obj_to_underline: Sequence[Any] = (),
    obj_to_annotate: Mapping[Any, str] = EMPTY,
    path_to_underline: Sequence[Any] = (),
    path_to_annotate: Mapping[Any, str] = EMPTY,
    print_line_numbers: bool = False,
    **options: Any,
) -> str:
    """The TVMScript text of a module, function or any other node.

    Args:
        obj: what to print.
        obj_to_underline: nodes of it that get a line of carets underneath.
        obj_to_annotate: node -> a remark that is put behind the line where it begins.
        path_to_underline, path_to_annotate: the same by `ir.ObjectPath`s from `obj`.
        print_line_numbers: number the lines.
        **options: see `Options`: dialect, name, show_meta, syntax_sugar, show_all_struct_info,
            module_alias, indent_spaces, header.
    """
    page = document(obj, **options)
    text = page.text
    marked = [_at(obj, x) for x in (*(obj_to_underline or ()), *(path_to_underline or ()))]
    given = (*(obj_to_annotate or {}).items(), *(path_to_annotate or {}).items())
    if marked or given:
        text = page.underlined(marked, [(_at(obj, x), remark) for x, remark in given])
        text = _near(text, marked and options.get("num_context_lines", -1))
    return _numbered(text) if print_line_numbers else text


def _at(obj: Any, place: Any) -> Any:
    """The node that is meant: itself, or what stands at a path from `obj`."""
    return place.of(obj) if isinstance(place, ObjectPath) else place


def _near(text: str, context: Any) -> str:
    """The lines up to `context` away from one with carets under it, all for less than 0."""
    texts = text.split("\n")
    under = [n for n, x in enumerate(texts) if set(x.strip()) == {"^"}]
    if not isinstance(context, int) or context < 0 or not under:
        return text
    kept = [n for n in range(len(texts)) if any(-context - 1 <= n - u <= context for u in under)]
    out: list[str] = []
    for n, line in enumerate(kept):
        left_out = line - (kept[n - 1] + 1 if n else 0)
        out += [f"(... {left_out} lines skipped ...)"] if left_out else []
        out.append(texts[line])
    behind = len(texts) - 1 - kept[-1]
    return "\n".join(out + ([f"(... {behind} lines skipped ...)"] if behind else []))


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


def _with_prelude(p: Printer, obj: Any, doc: Doc) -> Doc:
    """Before a part of a program: what the variables and buffers are that it uses."""
    told: dict[int, Doc] = {}
    for x in p.names.free:
        if not isinstance(x, rx.Var):
            told.setdefault(id(x), declared_alone(p, x))
            continue
        with p.integers("int64"):
            line = told_alone(p, x)
        for size in symbolic_vars(x.struct_info):  # before the variable that has them
            if any(size is other for other in p.names.free):
                told.setdefault(id(size), declared_alone(p, size))
        told[id(x)] = line
    return lines([*told.values(), doc])


def _name_sizes(p: Printer, obj: Any) -> None:
    """The sizes of what a part of a graph uses: they are defined above it, not inside."""
    blocks = (obj,) if isinstance(obj, rx.BindingBlock) else getattr(obj, "blocks", ())
    for var in free_vars(rx.SeqExpr(tuple(blocks), rx.Tuple(()))):
        for size in symbolic_vars(var.struct_info):
            p.name_of(size, size.name)


def _options(given: dict[str, Any]) -> Options:
    known = Options.__dataclass_fields__
    given = {name: value for name, value in given.items() if name not in _IGNORED}
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
