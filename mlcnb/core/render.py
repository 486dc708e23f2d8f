"""Lines of tokens as coloured text: ANSI for a terminal, static HTML for a cell.

The HTML is one `<pre>` that inherits ink and paper of the page around it, so it reads on light and
dark ones: what JupyterLab's sanitiser leaves of it, or GitHub, has keywords in bold and comments in
italics. Where a style sheet may be (a notebook that is trusted, an exported page) `SHEET` gives
tokens the colours of the theme (contrast 4.5:1 or more). Every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Protocol


class Text:
    """A piece of one line, and its kind (a key of `COLOURS`, "" for plain)."""

    __slots__ = ("kind", "text")

    def __init__(self, text: str, kind: str = "") -> None:
        self.text = text
        self.kind = kind

    def __repr__(self) -> str:
        return f"Text({self.text!r}, {self.kind!r})"


class Range(Protocol):
    """From (line, column) up to (end_line, end_column), counted from 1."""

    @property
    def line(self) -> int:
        """First line."""

    @property
    def column(self) -> int:
        """First column."""

    @property
    def end_line(self) -> int:
        """Last line."""

    @property
    def end_column(self) -> int:
        """The column after the last one, in the last line."""


#: kind of token -> colour on light paper, colour on dark paper, ANSI code
COLOURS: dict[str, tuple[str, str, str]] = {
    "keyword": ("#9a2485", "#f09be0", "35"),
    "builtin": ("#1f5fa8", "#79b8ff", "34"),
    "type": ("#0b6676", "#6cd0de", "36"),
    "function": ("#6639ba", "#c9a8ff", "94"),
    "number": ("#8a4600", "#f0b072", "33"),
    "string": ("#1a6b35", "#7ee2a0", "32"),
    "comment": ("#4d5661", "#aeb7c2", "90"),
    "decorator": ("#6639ba", "#c9a8ff", "94"),
    "name": ("", "", ""),
    "op": ("", "", ""),
}
#: kind of token -> letter of its class; what has no colour has none
LETTERS = {kind: {"decorator": "f"}.get(kind, kind[0]) for kind, c in COLOURS.items() if c[0]}
#: elements of these classes say more than a token: on light paper, on dark paper
WORDS = {"error": ("#a40e26", "#ff9a9a"), "bar": ("#1f5fa8", "#79b8ff")}
#: a page that says of itself that it is dark
DARK = (
    'body[data-jp-theme-light="false"]',
    'html[theme="dark"]',
    'html[data-theme="dark"]',
    "html.dark",
    'body[data-theme="dark"]',
    "body.vscode-dark",
)
#: the class of everything that `SHEET` is for
VIEW = "mlc-view"
#: ground of a listing, and lines around things: seen on any paper
TINT, LINE = "rgba(128,128,128,0.08)", "rgba(128,128,128,0.4)"
#: a listing with a longer line may have to scroll in a narrow window
NARROW = 60
#: what scrolls is reached by Tab. JupyterLab's sanitiser leaves a tabindex to <a>, <button> and
#: fields alone; the role and the label stay where there is no sanitiser.
REACHED = {
    "tabindex": "0",
    "role": "group",
    "aria-label": "scrolls",
    "style": "color:inherit;text-decoration:none",
}


def _sheet() -> str:
    """The style sheet: colours of tokens and words, and pictures, drawn on white, turned dark."""
    named = {LETTERS[kind]: COLOURS[kind] for kind in LETTERS} | WORDS
    light, dark = ("".join(f"--mlc-{n}:{c[i]};" for n, c in named.items()) for i in (0, 1))
    inside = f".{VIEW}.{VIEW}"  # said twice it weighs more than what JupyterLab says of <code>
    used = "".join(f"{inside} .mlc-{name}{{color:var(--mlc-{name})}}" for name in named)
    used += f"{inside} td{{vertical-align:top}}"
    used += f"{inside}>div:first-of-type{{text-wrap:balance}}"  # no single word of a title alone
    used += f"{inside} .mlc-bar{{letter-spacing:-0.5px}}"  # no seams between blocks
    where = f":is({','.join(DARK)}) .{VIEW}"
    turned = f"{where} img{{filter:invert(0.93) hue-rotate(180deg)}}"
    return f"<style>.{VIEW}{{{light}}}{where}{{{dark}}}{used}{turned}</style>"


SHEET = _sheet()


def ansi(lines: Sequence[Sequence[Text]], line_numbers: bool = False) -> str:
    """The lines in ANSI colours."""
    width = len(str(len(lines)))
    out = []
    for number, line in enumerate(lines, 1):
        prefix = f"\x1b[90m{number:>{width}}\x1b[0m  " if line_numbers else ""
        out.append(prefix + "".join(_ansi(token) for token in line))
    return "\n".join(out)


def _ansi(token: Text) -> str:
    code = COLOURS.get(token.kind, ("", "", ""))[2]
    return f"\x1b[{code}m{token.text}\x1b[0m" if code else token.text


def html(
    lines: Sequence[Sequence[Text]],
    line_numbers: bool = False,
    highlight: Iterable[tuple[Range, str]] = (),
) -> str:
    """The lines as one `<pre>`; `highlight` gives stretches of text a background colour."""
    marks = list(highlight)
    width = len(str(len(lines)))
    out = []
    for number, line in enumerate(lines, 1):
        prefix = _span(f"{number:>{width}}  ", "c") if line_numbers else ""
        here = [(r, c) for r, c in marks if r.line <= number <= r.end_line]
        out.append(prefix + (_html_marked(line, number, here) if here else _html(line)))
    style = (
        f"background:{TINT};padding:8px 10px;margin:0;overflow-x:auto;"
        "font-family:monospace;font-size:12px;line-height:1.45;white-space:pre"
    )
    inside = "\n".join(out)
    if max((sum(len(token.text) for token in line) for line in lines), default=0) > NARROW:
        given = "".join(f' {name}="{value}"' for name, value in REACHED.items())
        inside = f"<a{given}>{inside}</a>"
    return f'<pre class="{VIEW}" style="{style}">{inside}</pre>'


def _html(line: Sequence[Text], background: str = "") -> str:
    """The tokens of one line, neighbours of one colour in one element."""
    out: list[str] = []
    text, letter = "", ""
    for token in line:
        own = LETTERS.get(token.kind, "") if token.text.strip() else letter
        if own != letter:
            out.append(_span(text, letter, background))
            text, letter = "", own
        text += token.text
    out.append(_span(text, letter, background))
    return "".join(out)


#: what stands out where there are no colours
_TAGS = {"k": "b", "c": "i"}


def _span(text: str, letter: str, background: str = "") -> str:
    tag = _TAGS.get(letter, "span")
    given = f' class="mlc-{letter}"' if letter else ""
    given += f' style="background:{background}"' if background else ""
    shown = escape(text, quote=True)
    return f"<{tag}{given}>{shown}</{tag}>" if given and text else shown


def _html_marked(line: Sequence[Text], number: int, marks: list[tuple[Range, str]]) -> str:
    """A line with highlighted stretches; the last mark that covers a character wins."""
    backgrounds = _backgrounds(sum(len(t.text) for t in line), number, marks)
    out, column = [], 0
    for token in line:
        start = 0
        while start < len(token.text):
            stop, shade = start + 1, backgrounds[column + start]
            while stop < len(token.text) and backgrounds[column + stop] == shade:
                stop += 1
            out.append(_html([Text(token.text[start:stop], token.kind)], shade))
            start = stop
        column += len(token.text)
    return "".join(out)


def _backgrounds(length: int, number: int, marks: list[tuple[Range, str]]) -> list[str]:
    shades = [""] * length
    for where, colour in marks:
        first = where.column - 1 if number == where.line else 0
        last = where.end_column - 1 if number == where.end_line else length
        shades[first:last] = [colour] * len(shades[first:last])
    return shades


def carets(texts: Sequence[str], ranges: Iterable[Range]) -> dict[int, str]:
    """Line number -> the line of `^` to put under it; indentation gets no carets."""
    marked: dict[int, list[str]] = {}
    for where in ranges:
        for number in range(where.line, where.end_line + 1):
            text = texts[number - 1]
            first = where.column - 1 if number == where.line else len(text) - len(text.lstrip())
            last = where.end_column - 1 if number == where.end_line else len(text)
            row = marked.setdefault(number, [" "] * len(text))
            row[first:last] = ["^"] * len(row[first:last])
    return {number: "".join(row).rstrip() for number, row in marked.items()}
