"""Pieces of SVG: rectangles, texts, lines, on white paper with text of high contrast.

Drawing(240, 80).rect(…).text(…)   ->   "<svg …>…</svg>"

What is drawn is escaped; there is nothing in it that runs, links or loads.
"""

from __future__ import annotations

from html import escape
from typing import Self

from mlcnb.view.words import visible

INK, FAINT, LINE = "#1b1f24", "#57606a", "#8c959f"
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
#: left, top, width, height, fill, text
Cell = tuple[float, float, float, float, str, str]
#: width of a character at 11 pixels
CHARACTER = 6.7


class Drawing:
    """Shapes in the order in which they are drawn, and how far they reach."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.height = 0.0

    def rect(
        self, x: float, y: float, w: float, h: float, fill: str, stroke: str = LINE, r: float = 0
    ) -> Self:
        """A rectangle, its corners rounded by `r`."""
        corner = f' rx="{number(r)}"' if r else ""
        place = f'x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}"'
        self.parts.append(f'<rect {place}{corner} fill="{fill}" stroke="{stroke}"/>')
        return self._reach(x + w, y + h)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = INK,
        size: float = 11,
        anchor: str = "start",
        bold: bool = False,
    ) -> Self:
        """A text whose baseline begins, is centred or ends at (x, y)."""
        look = f'fill="{colour}" font-size="{number(size)}"'
        look += ' font-weight="bold"' if bold else ""
        look += f' text-anchor="{anchor}"' if anchor != "start" else ""
        shown = escape(visible(text), quote=True)
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" {look}>{shown}</text>')
        wide = len(text) * CHARACTER * size / 11
        return self._reach(x + wide * {"start": 1, "middle": 0.5, "end": 0}[anchor], y + 4)

    def arrow(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = INK, gap: float = 0
    ) -> Self:
        """An arrow, `gap` pixels short of both ends."""
        length = max(1e-6, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        room = min(gap, length / 2 - 7)
        a, b = (x1 + ux * room, y1 + uy * room), (x2 - ux * room, y2 - uy * room)
        tips = [(b[0] - 7 * ux + k * uy, b[1] - 7 * uy - k * ux) for k in (3.5, -3.5)]
        head = " ".join(f"L{number(x)} {number(y)}" for x, y in tips)
        path = f"M{number(a[0])} {number(a[1])}L{number(b[0])} {number(b[1])}"
        self.parts.append(f'<path d="{path}" stroke="{colour}" stroke-width="2" fill="none"/>')
        self.parts.append(f'<path d="M{number(b[0])} {number(b[1])}{head}z" fill="{colour}"/>')
        return self._reach(max(x1, x2), max(y1, y2))

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = INK) -> Self:
        """A line from one place to the other."""
        path = f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"
        self.parts.append(f'<path d="{path}" stroke="{colour}" stroke-width="1" fill="none"/>')
        return self._reach(max(x1, x2), max(y1, y2))

    def cells(self, boxes: list[Cell], size: float = 9.5) -> Self:
        """Boxes with short texts in them: many, so what they have in common is said once."""
        paths, texts = [], []
        for x, y, w, h, fill, text in boxes:
            box = f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h-{number(w)}z"
            paths.append(f'<path fill="{fill}" d="{box}"/>')
            if text:
                place = f'x="{number(x + w / 2)}" y="{number(y + h / 2 + size / 2 - 1)}"'
                texts.append(f"<text {place}>{escape(visible(text), quote=True)}</text>")
            self._reach(x + w, y + h)
        self.parts.append(f'<g stroke="{LINE}">{"".join(paths)}</g>')
        look = f'fill="{INK}" font-size="{number(size)}" text-anchor="middle"'
        self.parts.append(f"<g {look}>{''.join(texts)}</g>")
        return self

    def put(self, other: Drawing, x: float, y: float) -> Self:
        """Another drawing, moved to (x, y)."""
        inside = "".join(other.parts)
        self.parts.append(f'<g transform="translate({number(x)} {number(y)})">{inside}</g>')
        return self._reach(x + other.width, y + other.height)

    def _reach(self, x: float, y: float) -> Self:
        self.width, self.height = max(self.width, x), max(self.height, y)
        return self

    def svg(self, title: str, margin: float = 8) -> str:
        """The picture with a margin around it."""
        w, h = number(self.width + 2 * margin), number(self.height + 2 * margin)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{w}" height="{h}" '
            f'viewBox="0 0 {w} {h}"><title>{escape(visible(title), quote=True)}</title>'
            f'<rect width="{w}" height="{h}" fill="#ffffff"/>'
            f'<g font-family="{FONT}" transform="translate({number(margin)} {number(margin)})">'
            f"{''.join(self.parts)}</g></svg>"
        )


def number(x: float) -> str:
    """A coordinate to a tenth of a pixel."""
    return f"{x:.1f}".removesuffix(".0")
