"""Parts as text: for the terminal, for screen readers, and beside the HTML in every cell.

Kernels: 2 kernels, 12.3 kB
  kernel  parts      bytes
  matmul  matmul    8.1 kB
  relu    relu      4.2 kB
LLVM IR: ex.kernels["matmul"].llvm_ir
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlcnb.core import render
from mlcnb.view import parts as p
from mlcnb.view.words import visible

#: kind of line -> ANSI code
_COLOURS = {"title": "1", "note": "90", "error": "31", "hint": "36"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 12


def to_text(parts: Sequence[p.Part], colours: bool = False, most: int = p.MAX_LINES) -> str:
    """The parts as lines of text, at most `most` of them, with ANSI colours if wanted."""
    writer = _Writer(colours)
    lines = [line.rstrip() for part in parts for line in writer.part(part)]
    left = p.more(len(lines) - most, "line", "")
    return "\n".join([*lines[:most], *([left] if left else [])])


def bar(share: float, width: int = BAR) -> str:
    """A share from 0 to 1 as a bar of blocks, to an eighth of a character; never nothing."""
    eighths = max(1, round(min(max(share, 0.0), 1.0) * width * 8)) if share > 0 else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


class _Writer:
    """Writes parts line by line."""

    def __init__(self, colours: bool) -> None:
        self.colours = colours

    def part(self, part: p.Part) -> Iterator[str]:
        """The lines of a part."""
        match part:
            case p.Title(text):
                yield self.paint(text, "title")
            case p.Line(text, kind):
                yield self.paint(text, kind)
            case p.Facts(pairs):
                width = max((len(name) for name, _ in pairs), default=0)
                yield from (f"  {visible(n):<{width}}  {visible(v)}" for n, v in pairs)
            case p.Table():
                yield from self.table(part)
            case p.Code():
                yield from self.code(part)
            case p.Picture():
                yield from (part.text or part.alt).splitlines()
            case p.Scroll(parts):
                for inner in parts:
                    yield from self.part(inner)
            case p.Beside(columns):
                for title, inside in columns:
                    yield self.paint(f"{visible(title)}:", "note")
                    for inner in inside:
                        yield from (f"  {line}" for line in self.part(inner) if line.strip())
            case p.Fold():
                yield from self.fold(part)

    def paint(self, text: str, kind: str) -> str:
        """The text, coloured where wanted."""
        code = _COLOURS.get(kind)
        shown = visible(text)
        return f"\x1b[{code}m{shown}\x1b[0m" if self.colours and code else shown

    def fold(self, part: p.Fold) -> Iterator[str]:
        """The body where the text has it, else the title and how to see it."""
        if not part.in_text:
            yield f"{visible(part.title)}: {part.see}" if part.see else visible(part.title)
            return
        yield f"{visible(part.title)}:"
        for inner in part.parts:
            yield from (f"  {line}" for line in self.part(inner))

    def code(self, part: p.Code) -> Iterator[str]:
        """The listing, up to its limit."""
        lines, left = p.shown_lines(part, part.most)
        text = render.ansi(lines) if self.colours else "\n".join(_plain(line) for line in lines)
        yield from text.splitlines() if lines else ()
        if left:
            yield self.paint(left, "note")

    def table(self, part: p.Table) -> Iterator[str]:
        """Aligned columns."""
        shown = [
            [_cell(c, k.kind) for c, k in zip(row, part.columns, strict=True)] for row in part.rows
        ]
        shown = shown[: part.most]
        header = [c.title for c in part.columns]
        widths = [max(map(len, column)) for column in zip(header, *shown, strict=True)]
        rights = [c.kind == "number" for c in part.columns]
        if any(header):
            yield self.paint(_row(header, widths, rights), "note")
        yield from (_row(row, widths, rights) for row in shown)
        left = p.more(len(part.rows) - len(shown), "row", part.see)
        if left:
            yield self.paint(left, "note")


def _plain(line: Sequence[render.Text]) -> str:
    return "".join(token.text for token in line)


def _cell(value: object, kind: str) -> str:
    if kind == "bar" and isinstance(value, float):
        return bar(value)
    return visible("" if value is None else str(value)).replace("\n", " ")


def _row(cells: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    pairs = zip(cells, widths, rights, strict=True)
    return "  " + "  ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in pairs)
