"""Statements that know their line in the printed program, so that what becomes of them does too.

page, marked = placed(func)      marked: the same program; each statement's span is its place
lower(marked)                    what came out of a statement still says where it stood

origin(stmt)                     (line, column), or None
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.doc import Page
from mlcnb.core.node import map_children, replace
from mlcnb.ir.span import Span
from mlcnb.script.printer import document
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Stmt

#: the source of such spans
SOURCE = "listing"


def placed(func: PrimFunc) -> tuple[Page, PrimFunc]:
    """The listing of a function, and the function with the places of its statements in it."""
    page = document(func, header=False)
    done: dict[int, Any] = {}

    def mark(n: Any) -> Any:
        if not isinstance(n, Stmt):
            return n
        if id(n) not in done:
            rebuilt = map_children(n, mark)
            where = page.places.get(id(n))
            if where and "span" in n.node_fields:
                line, column = min(where)[:2]
                rebuilt = replace(rebuilt, span=Span(SOURCE, line=line, column=column))
            done[id(n)] = rebuilt
        return done[id(n)]

    return page, func.with_body(mark(func.body))


def origin(n: Any) -> tuple[int, int] | None:
    """Where the statement stood that this one was made of."""
    span = getattr(n, "span", None)
    return (span.line, span.column) if span is not None and span.source == SOURCE else None
