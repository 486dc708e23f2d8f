"""Errors: the message, the lines around the place with the place marked, what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core import render
from mlcnb.core.doc import Page, Where
from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.core.render import Text
from mlcnb.script.printer import document
from mlcnb.tir.schedule.offers.repairs import repairs
from mlcnb.view import iterations
from mlcnb.view.highlight import code
from mlcnb.view.parts import Code, Column, Facts, Line, Part, Picture, Table, Title, heads
from mlcnb.view.registry import shows

#: background of the place at fault
FAULT = "rgba(255,150,60,0.22)"
#: lines shown before and after it
CONTEXT = 3


@shows("mlcnb.core.errors:MLCError")
def error(e: MLCError) -> list[Part]:
    """Class and message, excerpt, hint."""
    parts: list[Part] = [Line(f"{type(e).__name__}: {e.message}", "error")]
    shown = excerpt(e)
    if shown is not None:
        parts.append(shown)
    if isinstance(e, ScheduleError) and e.counterexample is not None:
        parts += evidence(e.counterexample, e.root)
    if e.advice:
        parts.append(Line(f"hint: {e.advice}", "hint"))
    if isinstance(e, ScheduleError):
        parts += instead(e)
    return parts


def instead(e: ScheduleError) -> list[Part]:
    """Legal steps near the one that was refused, as lines of Python."""
    rows = [(x.text, x.proof) for x in repairs(e)]
    if not rows:
        return []
    table = Table(heads("legal instead: code | known"), rows)
    return [table]


@shows("mlcnb.tir.schedule.legality.counterexample:CounterExample")
def counterexample(found: Any) -> list[Part]:
    """A counter-example without the program that it is about."""
    return evidence(found, None)


def evidence(found: Any, func: Any) -> list[Part]:
    """The two iterations in a table and as a grid, what would be different, and the values."""
    parts: list[Part] = [Title(f"counter-example{f' for {found.loop}' if found.loop else ''}")]
    if found.first is not None:
        rows = [_event(n, x) for n, x in enumerate((found.first, found.second), 1)]
        columns = [Column("order", "number"), *map(Column, ("block", "iteration", "access"))]
        parts.append(Table(columns, rows))
    drawn = iterations.grids(found, func)
    if drawn:
        parts.append(picture(drawn))
    if found.change:
        parts.append(Line(found.change))
    if found.is_certain:
        shapes = ", ".join(map(str, found.shapes))
        facts = [
            ("element", found.element),
            ("value expected", str(found.expected)),
            ("value got", str(found.got)),
        ]
        if shapes and found.shapes != found.smallest:
            facts.append(("run on shapes", shapes))
        if found.cut:
            facts.append(("run with", f"each loop cut to its first {found.cut} iterations"))
        if found.smallest:
            facts.append(("smallest failing shapes", ", ".join(map(str, found.smallest))))
        parts.append(Facts(facts))
    return parts


def picture(drawn: list[iterations.Grid]) -> Picture:
    """The iterations as a picture, and as text."""
    alt = "iterations: " + "; ".join(f"{n} {deed}" for g in drawn for *_, n, deed in g.marks)
    text = "\n".join(line for g in drawn for line in (f"{g.title}:", *(f"  {x}" for x in g.lines)))
    return Picture(lambda: iterations.draw(drawn).svg(alt), alt, text)


def _event(order: int, event: Any) -> tuple[str, str, str, str]:
    at = ", ".join(f"{name} = {value}" for name, value in event.iteration.items())
    element = f"{event.buffer}[{', '.join(map(str, event.indices))}]"
    return str(order), event.block, at, f"{'writes' if event.is_write else 'reads'} {element}"


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
    """The lines around a place, numbered; of several lines, the first one is marked."""
    if where.end_line > where.line:
        end = len(page.text_lines[where.line - 1]) + 1
        where = Where(where.line, where.column, where.line, end)
    first, stop = max(1, where.line - CONTEXT), min(len(page.lines), where.line + CONTEXT)
    carets = render.carets(page.text_lines, [where])
    width = len(str(stop))
    lines: list[Sequence[Text]] = []
    marks = []
    for number in range(first, stop + 1):
        sign = ">" if number == where.line else " "
        prefix = f"{sign} {number:>{width}} | "
        lines.append([Text(prefix, "comment"), *page.lines[number - 1]])
        if number in carets:
            shift = len(prefix)
            row = len(lines)
            marks.append((Where(row, where.column + shift, row, where.end_column + shift), FAULT))
            lines.append([Text(f"  {'':>{width}} | ", "comment"), Text(carets[number], "")])
    return Code(lines, marks)
