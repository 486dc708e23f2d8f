"""Errors: the message, the lines around the place with the place marked, what to try."""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.core import render
from mlcnb.core.doc import Page, Where
from mlcnb.core.errors import MLCError
from mlcnb.core.render import Text
from mlcnb.script.printer import document
from mlcnb.view.highlight import code
from mlcnb.view.parts import Code, Line, Part
from mlcnb.view.registry import shows

#: background of the place at fault
FAULT = "#ffe3cc"
#: lines shown before and after it
CONTEXT = 3
#: a place of more lines is marked in its first one
LONGEST = 6


@shows("mlcnb.core.errors:MLCError")
def error(e: MLCError) -> list[Part]:
    """Class and message, excerpt, hint."""
    parts: list[Part] = [Line(f"{type(e).__name__}: {e.message}", "error")]
    shown = excerpt(e)
    if shown is not None:
        parts.append(shown)
    if e.hint:
        parts.append(Line(f"hint: {e.hint}", "hint"))
    return parts


def excerpt(e: MLCError) -> Code | None:
    """The program around the place, with carets and a background; None where it is not known."""
    if e.where is None or e.root is None:
        return None
    page = document(e.root, header=False)
    spans = page.spans_of(e.where)
    if not spans:
        text = e.excerpt()
        return code(text) if text else None
    return around(page, spans[0])


def around(page: Page, where: Where) -> Code:
    """The lines around a place, numbered."""
    if where.end_line - where.line >= LONGEST:
        end = len(page.text_lines[where.line - 1]) + 1
        where = Where(where.line, where.column, where.line, end)
    last = where.end_line
    first, stop = max(1, where.line - CONTEXT), min(len(page.lines), last + CONTEXT)
    carets = render.carets(page.text_lines, [where])
    width = len(str(stop))
    lines: list[Sequence[Text]] = []
    marks = []
    for number in range(first, stop + 1):
        line = page.lines[number - 1]
        sign = ">" if where.line <= number <= last else " "
        prefix = f"{sign} {number:>{width}} | "
        lines.append([Text(prefix, "comment"), *line])
        if sign == ">":
            marks.append((_mark(where, number, len(lines), len(prefix), page), FAULT))
            if number in carets:
                lines.append([Text(f"  {'':>{width}} | ", "comment"), Text(carets[number], "")])
    return Code(lines, marks)


def _mark(where: Where, number: int, row: int, shift: int, page: Page) -> Where:
    """The part of one line that is at fault, in the listing."""
    text = page.text_lines[number - 1]
    start = where.column if number == where.line else len(text) - len(text.lstrip()) + 1
    end = where.end_column if number == where.end_line else len(text) + 1
    return Where(row, start + shift, row, end + shift)
