"""What a view says, before it is text or HTML.

    Part = Title(text)                  one line that says what it is
         | Line(text, kind)             a sentence; kind: "", "note", "error", "hint"
         | Facts(pairs)                 names and values
         | Table(columns, rows)         cells are text, or a share from 0 to 1 for a bar
         | Code(lines, see)             tokens, as the printer lays them out
         | Fold(title, body, see)       parts that open on a click; text says how to see them
         | Scroll(parts)                parts in a window of limited height
         | Beside(columns)              titles and parts next to each other
         | Picture(draw, alt)           an SVG, made only where it is shown

A view is one function from an object to parts. `mlcnb.view.as_text` and `mlcnb.view.as_html` write
the parts, so that text and HTML say the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.doc import Page
from mlcnb.core.render import Range, Text
from mlcnb.view.words import visible

#: lines of one listing that are shown
MAX_LINES = 300
#: characters of one line that are shown
MAX_WIDTH = 1000


class Part:
    """Base of all parts."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Title(Part):
    """What the object is, in one line."""

    text: str


@dataclass(frozen=True, slots=True)
class Line(Part):
    """A sentence. kind: "" as it is, "note" in grey, "error" and "hint" with that word's look."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Facts(Part):
    """Names and values, one pair a line."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and kind.

    kind: "text", "prose" (may go over several lines), "code", "name" (code that stays on its line),
    "number" (to the right), or "bar" (a share).
    """

    title: str
    kind: str = "text"


def heads(line: str) -> list[Column]:
    """Columns as a line says them, `"kernel: code | made of | calls: number"`: titles and kinds."""
    told = (head.rpartition(":") for head in line.split("|"))
    return [
        Column(t.strip(), kind.strip()) if colon else Column(kind.strip())
        for t, colon, kind in told
    ]


@dataclass(frozen=True, slots=True)
class Table(Part):
    """Rows of cells; from row `most` on they are folded; `see` says how to get at all of them."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    most: int = 40
    see: str = ""


@dataclass(frozen=True, slots=True)
class Code(Part):
    """A listing: lines of tokens, stretches with a background, how to see all of it, its language.

    The language is the word that Markdown has for it.
    """

    lines: Sequence[Sequence[Text]]
    marks: Sequence[tuple[Range, str]] = ()
    see: str = ""
    most: int = MAX_LINES
    language: str = ""


@dataclass(frozen=True, slots=True)
class Fold(Part):
    """Parts under a title, opened by a click.

    body: the parts, or a function that makes them; see: what shows them in text; is_open: open at
    first; in_text: the text has the body too.
    """

    title: str
    body: Sequence[Part] | Callable[[], Sequence[Part]]
    see: str = ""
    is_open: bool = False
    in_text: bool = False

    @property
    def parts(self) -> Sequence[Part]:
        """The parts inside."""
        return self.body() if callable(self.body) else self.body


@dataclass(frozen=True, slots=True)
class Scroll(Part):
    """Parts in a window of limited height."""

    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Beside(Part):
    """Parts next to each other, each column with its title; in text one below the other."""

    columns: Sequence[tuple[str, Sequence[Part]]]


@dataclass(frozen=True, slots=True)
class Picture(Part):
    """An SVG that `draw` makes, its name, and the text that stands for it."""

    draw: Callable[[], str]
    alt: str
    text: str = ""


def code_of(page: Page, marks: Iterable[tuple[Any, str]] = (), see: str = "") -> Code:
    """The listing of a printed program; `marks` are pairs of node and background colour."""
    ranges = [(where, colour) for node, colour in marks for where in page.spans_of(node)]
    return Code(page.lines, ranges, see, language="python")


def shown_lines(code: Code, most: int) -> tuple[list[list[Text]], str]:
    """The first `most` lines as they are shown, and a sentence for what is left out."""
    kept = [narrow(line) for line in code.lines[:most]]
    return kept, more(len(code.lines) - len(kept), "line", code.see)


def filled(columns: Sequence[Column], rows: Sequence[Sequence[Any]], most: int, see: str) -> Table:
    """A table without the columns in which no row says anything."""
    every = range(len(columns))
    told = [n for n in every if not rows or any(row[n] not in ("", None) for row in rows)]
    return Table([columns[n] for n in told], [[row[n] for n in told] for row in rows], most, see)


def more(left: int, noun: str, see: str) -> str:
    """`… 1,200 more lines: mod.show()`; '' where nothing is left."""
    if left <= 0:
        return ""
    return f"… {left:,} more {noun}{'s' if left > 1 else ''}{': ' + see if see else ''}"


def narrow(line: Sequence[Text]) -> list[Text]:
    """A line with hidden characters spelled out, and cut where it is too long."""
    room, kept = MAX_WIDTH, []
    for token in line:
        text = visible(token.text)
        if len(text) > room:
            left = sum(len(t.text) for t in line) - MAX_WIDTH
            kept.append(Text(f"{text[:room]}… ({left:,} more characters)", token.kind))
            break
        kept.append(token if text is token.text else Text(text, token.kind))
        room -= len(text)
    return kept
