"""Statements that know their line in the printed program, so that what becomes of them does too.

    marked = placed(func)        marked.func: the same program; each statement's span is its place
    lower(marked.func)           what came out of a statement still says where it stood

    origin(stmt)                 Origin(line, column, number), or None
    marked.numbers[id(stmt)]     the number of a statement of the function as it was given

Several loops may stand in one line, `for i, j in T.grid(4, 4)`: the number tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from mlcnb.core.doc import Page
from mlcnb.core.node import replace
from mlcnb.ir.span import Span
from mlcnb.script.printer import document
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies

#: the source of such spans
SOURCE = "listing"


class Origin(NamedTuple):
    """Where a statement stood, from 1, and which one it was."""

    line: int
    column: int
    number: int


@dataclass(frozen=True)
class Placed:
    """A function whose statements know their places, its listing, and the statements' numbers."""

    func: PrimFunc
    page: Page
    numbers: dict[int, int]


def placed(func: PrimFunc) -> Placed:
    """The function with the places of its statements in it."""
    page = document(func, header=False)
    done: dict[int, Any] = {}
    numbers: dict[int, int] = {}

    def mark(n: Any) -> Any:
        if id(n) not in done:
            rebuilt = map_bodies(n, mark)
            where = page.places.get(id(n))
            if where and "span" in n.node_fields:
                line, column = min(where)[:2]
                numbers[id(n)] = len(numbers)
                span = Span(SOURCE, str(numbers[id(n)]), line, column)
                rebuilt = replace(rebuilt, span=span)
            done[id(n)] = rebuilt
        return done[id(n)]

    return Placed(func.with_body(mark(func.body)), page, numbers)


def origin(n: Any) -> Origin | None:
    """Where the statement stood that this one was made of."""
    span = getattr(n, "span", None)
    if span is None or span.source != SOURCE:
        return None
    return Origin(span.line, span.column, int(span.name))
