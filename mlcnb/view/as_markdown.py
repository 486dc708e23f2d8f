"""Parts as Markdown that GitHub shows as it is meant: tables, fences, folds; no script, no style.

### IRModule: main; 3 operators
| name | kind |
| --- | --- |
| `main` | graph |

Pictures are their text: GitHub shows none that a file brings with it. Names are escaped, so that
one from a model is neither markup nor a link.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from mlcnb.view import parts as p
from mlcnb.view.as_text import bar
from mlcnb.view.words import visible

#: characters of one view
LIMIT = 200_000
#: kind of line -> how it is written around its text
_LINES = {"": "{}", "note": "<sub>{}</sub>", "error": "**{}**", "hint": "> {}"}
#: what starts a list, a heading or a rule where a paragraph begins
_START = re.compile(r"^(\s*)(\d+(?=[.)])|[-+=])")
_MARKUP = re.compile(r"([\\`*_\[\]|~$#!^])")
#: what GitHub makes a link or a mention of
_LINKS = re.compile(r"(:)(?=//)|(?<=\bwww)(\.)|(?<=mailto)(:)|(?<=xmpp)(:)|(@)", re.IGNORECASE)
_CLOSE = "</details>"
#: text that a code span holds as it is
_SPAN = re.compile(r"[^`|\\\s][^`|\\\n]*(?<!\s)")


def to_markdown(parts: Sequence[p.Part], limit: int = LIMIT) -> str:
    """The parts as Markdown of at most `limit` characters and a note; ends with a newline."""
    blocks, room = [], limit
    for block in _Writer().parts(parts):
        room -= len(block) + 2
        if room < 0:
            blocks.append("<sub>… the rest is too long for a page</sub>")
            is_open = sum(b.startswith("<details") - (b == _CLOSE) for b in blocks)
            blocks += [_CLOSE] * is_open
            break
        blocks.append(block)
    return "\n\n".join(blocks) + "\n"


def inline(text: str) -> str:
    """A text inside of a paragraph or a cell: all of it is text to a reader of Markdown."""
    line = " ".join(visible(text).split())
    escaped = _MARKUP.sub(r"\\\1", html.escape(line, quote=False))
    return _LINKS.sub(lambda found: f"&#{ord(found[0])};", escaped)


def paragraph(text: str) -> str:
    """A text at the start of a line."""
    return _START.sub(lambda m: f"{m[1]}&#{ord(m[2][0])};{m[2][1:]}", inline(text))


def span(text: str) -> str:
    """A text in fixed width; spaces before it are kept, as they show how deep it lies."""
    inside = visible(text)
    indent = "&nbsp;" * (len(inside) - len(inside.lstrip(" ")))
    inside = inside.strip(" ")
    if not inside:
        return ""
    shown = f"`{inside}`" if _SPAN.fullmatch(inside) else f"<code>{inline(inside)}</code>"
    return indent + shown


def fence(lines: Sequence[str], language: str = "") -> str:
    """A listing, between more backticks than it has in a row itself."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([f"{ticks}{language}", *lines, ticks])


class _Writer:
    """Writes parts as blocks, which blank lines part."""

    def parts(self, parts: Sequence[p.Part]) -> Iterator[str]:
        """The blocks of parts one after the other."""
        for part in parts:
            yield from self.part(part)

    def part(self, part: p.Part) -> Iterator[str]:
        """The blocks of one part."""
        match part:
            case p.Title(text):
                yield f"### {inline(text)}"
            case p.Line(text, kind):
                shown = inline(text) if kind else paragraph(text)
                yield from [_LINES[kind].format(shown)] if shown else ()
            case p.Facts(pairs):
                yield from _table([p.Column(""), p.Column("")], pairs)
            case p.Table():
                yield from _table(part.columns, part.rows[: part.most])
                yield from _note(p.more(len(part.rows) - part.most, "row", part.see))
            case p.Code():
                yield from self.code(part)
            case p.Picture():
                yield fence(visible(part.text or part.alt).splitlines())
            case p.Scroll(parts):
                yield from self.parts(parts)
            case p.Beside(columns):
                for title, inside in columns:
                    if title.strip():  # four stars alone are a line across the page
                        yield f"**{inline(title)}**"
                    yield from self.parts(inside)
            case p.Fold():
                yield from self.fold(part)

    def fold(self, part: p.Fold) -> Iterator[str]:
        """A fold: the only HTML there is, as Markdown has none."""
        title = html.escape(" ".join(visible(part.title).split()))
        yield f"<details{' open' if part.is_open else ''}>\n<summary>{title}</summary>"
        yield from self.parts(part.parts)
        yield _CLOSE

    def code(self, part: p.Code) -> Iterator[str]:
        """A listing, up to its limit."""
        lines, left = p.shown_lines(part, part.most)
        texts = ("".join(token.text for token in line) for line in lines)
        yield fence([text.replace("\n", "\\n") for text in texts], part.language)
        yield from _note(left)


def _note(text: str) -> Iterator[str]:
    if text:
        yield _LINES["note"].format(inline(text))


def _table(columns: Sequence[p.Column], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    rules = ["---:" if c.kind == "number" else "---" for c in columns]
    cells = [[_cell(value, c.kind) for value, c in zip(row, columns, strict=True)] for row in rows]
    lines = [[inline(c.title) for c in columns], rules, *cells]
    if rows:
        yield "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object, kind: str) -> str:
    if kind == "bar" and isinstance(value, float):
        return bar(value)
    text = "" if value is None else str(value)
    return span(text) if kind in ("code", "name") else inline(text)
