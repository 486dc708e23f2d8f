"""The lines of a program around one node, with carets: what an error message shows.

   3 |     for i in range(128):
>  4 |         C[i] = A[i] + T.float32(1.0)
     |                ^^^^
   5 |     ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core import render
from mlcnb.core.doc import Where
from mlcnb.script.printer import document

CONTEXT = 2


def excerpt(about: tuple[Any, Any]) -> str:
    """The text of `root` around `where`, for about = (root, where); '' where it is not printed."""
    root, where = about
    page = document(root, header=False)
    spans = page.spans_of(where)
    return around(page.text_lines, spans[0]) if spans else ""


def around(texts: Sequence[str], where: Where, context: int = CONTEXT) -> str:
    """The lines of `texts` around `where`, numbered, with a line of carets under it.

    Of a loop, a block or anything else of several lines, the first one is marked.
    """
    if where.end_line > where.line:
        first = texts[where.line - 1]
        where = Where(where.line, where.column, where.line, len(first) + 1)
    start = max(1, where.line - context)
    stop = min(len(texts), where.end_line + context)
    carets = render.carets(texts, [where])
    width = len(str(stop))
    out = []
    for number in range(start, stop + 1):
        sign = ">" if where.line <= number <= where.end_line else " "
        out.append(f"{sign} {number:>{width}} | {texts[number - 1]}".rstrip())
        if number in carets:
            out.append(f"  {'':>{width}} | {carets[number]}")
    return "\n".join(out)
