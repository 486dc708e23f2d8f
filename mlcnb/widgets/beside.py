"""The functions of two modules that differ, side by side: what changed stands beside each other.

    Texts(lines).beside(before, after)
    [{"name": "main", "kind": "changed", "left": [0, 1, -1], "right": [0, 2, 3], "signs": " ~+"}, …]

Numbers are those of lines in the table; -1 is no line, -1 - n stands for n lines left out.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.doc import Page
from mlcnb.ir.module import IRModule
from mlcnb.script.printer import document
from mlcnb.view.diff import Change
from mlcnb.view.words import clip
from mlcnb.widgets.base import Lines

#: rows of one function
MOST_LINES = 400
#: unchanged lines around a change
CONTEXT = 3
#: functions whose text is shown: that changed, and that are new or gone
MOST_CHANGED, MOST_OTHERS = 8, 4

#: line before, line after, sign
Row = tuple[int, int, str]


class Texts:
    """Programs as numbers of lines in a table; each function is printed once."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        #: the functions are kept: an id alone may come again
        self._pages: dict[tuple[int, str], tuple[Any, Page]] = {}

    def page(self, function: Any, name: str) -> Page:
        """The text of a function under this name."""
        key = (id(function), name)
        if key not in self._pages:
            self._pages[key] = function, document(function, header=False, name=name)
        return self._pages[key][1]

    def beside(self, before: IRModule, after: IRModule) -> list[dict[str, Any]]:
        """The functions that differ, those that are on both sides first."""
        olds = {v.name_hint: f for v, f in before.items()}
        news = {v.name_hint: f for v, f in after.items()}
        both = [n for n in news if n in olds and olds[n] is not news[n]]
        both.sort(key=lambda name: name != "main")
        others = [n for n in news if n not in olds] + [n for n in olds if n not in news]
        shown = [*both[:MOST_CHANGED], *others[:MOST_OTHERS]]
        made = [self._function(name, olds.get(name), news.get(name)) for name in shown]
        left = [clip(n, 40) for n in (*both[MOST_CHANGED:], *others[MOST_OTHERS:])]
        found = [told for told in made if told["signs"].strip(" …")]
        return [*found, *([{"more": left}] if left else [])]

    def _function(self, name: str, old: Any, new: Any) -> dict[str, Any]:
        pages = [None if f is None else self.page(f, name) for f in (old, new)]
        change = Change(name, *([] if p is None else p.text_lines for p in pages))
        rows = aligned(change, CONTEXT)[:MOST_LINES]
        numbers = [[] if p is None else self.lines.add(p.lines) for p in pages]
        return {
            "name": clip(name, 60),
            "kind": change.kind,
            "left": [_number(numbers[0], old_line) for old_line, _, _ in rows],
            "right": [_number(numbers[1], new_line) for _, new_line, _ in rows],
            "signs": "".join(sign for _, _, sign in rows),
        }


def _number(numbers: list[int], line: int) -> int:
    return numbers[line] if line >= 0 else line


def aligned(change: Change, context: int) -> list[Row]:
    """Both texts line by line, changed stretches beside each other, long equal ones left out."""
    rows: list[Row] = []
    blocks = list(change.blocks)
    for number, (tag, i1, i2, j1, j2) in enumerate(blocks):
        if tag == "equal":
            ends = (number > 0, number + 1 < len(blocks))
            rows += _equal(i1, j1, i2 - i1, context, ends)
            continue
        for n in range(max(i2 - i1, j2 - j1)):
            old = i1 + n if i1 + n < i2 else -1
            new = j1 + n if j1 + n < j2 else -1
            rows.append((old, new, "~" if old >= 0 and new >= 0 else "-" if old >= 0 else "+"))
    return rows


def _equal(i: int, j: int, count: int, context: int, ends: tuple[bool, bool]) -> list[Row]:
    """Equal lines: those near a change at an end; between them how many are left out."""
    first, last = (context if end else 0 for end in ends)
    if count <= first + last + 2:
        return [(i + n, j + n, " ") for n in range(count)]
    left_out = count - first - last
    return [
        *((i + n, j + n, " ") for n in range(first)),
        (-1 - left_out, -1 - left_out, "…"),
        *((i + n, j + n, " ") for n in range(count - last, count)),
    ]
