"""Two programs side by side: equal lines at the same height, the others on red and on green.

The signature is shown where it differs. Programs that are too wide to stand side by side wherever a
reader looks have no empty lines: one below the other these would be holes.

before                            after
for i in range(16):         -     for i_0, i_1 in T.grid(4, 4):        +
    with T.block("B"):                with T.block("B"):
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from mlcnb.core.doc import Page, Where
from mlcnb.core.render import Text
from mlcnb.script.printer import document
from mlcnb.view.diff import ADDED, REMOVED
from mlcnb.view.parts import Beside, Code

#: lines at the head of a PrimFunc that are the same in all of them
_HEADS = ("@T.prim_func", "T.func_attr(", "# with T.block(")
#: letters of two lines that stand beside each other in a window of 900 pixels
_ABREAST = 84


def side_by_side(
    before: Any, after: Any, see: str = "", titles: tuple[str, str] = ("before", "after")
) -> Beside:
    """The texts of two functions as two columns."""
    old, new = _page(before), _page(after)
    if _stripped(old[:1]) == _stripped(new[:1]):
        old, new = ([_dedented(line) for line in lines[1:]] for lines in (old, new))
    left, right = _Column("-", REMOVED), _Column("+", ADDED)
    abreast = _width(old) + _width(new) <= _ABREAST
    matcher = SequenceMatcher(None, _stripped(old), _stripped(new), autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for line in old[i1:i2]:
            left.add(line, tag != "equal")
        for line in new[j1:j2]:
            right.add(line, tag != "equal")
        if abreast:
            height = max(len(left.lines), len(right.lines))
            left.fill(height)
            right.fill(height)
    return Beside(((titles[0], [left.code(see)]), (titles[1], [right.code(see)])))


def _page(func: Any) -> list[Sequence[Text]]:
    """The lines of a function, from its signature on."""
    page: Page = document(func, header=False)
    return [
        line
        for line, text in zip(page.lines, page.text_lines, strict=True)
        if not text.strip().startswith(_HEADS)
    ]


def _dedented(line: Sequence[Text]) -> Sequence[Text]:
    """A line of the body without the first four blanks."""
    first = line[0].text if line else ""
    return [Text(first.removeprefix("    "), line[0].kind), *line[1:]] if line else line


def _stripped(lines: Sequence[Sequence[Text]]) -> list[str]:
    return ["".join(token.text for token in line).strip() for line in lines]


def _width(lines: Sequence[Sequence[Text]]) -> int:
    """Letters of the longest line, with its sign."""
    return 2 + max((sum(len(token.text) for token in line) for line in lines), default=0)


class _Column:
    """The lines of one side, with a sign before each that the other side does not have."""

    def __init__(self, sign: str, colour: str) -> None:
        self.sign, self.colour = sign, colour
        self.lines: list[Sequence[Text]] = []
        self.marks: list[tuple[Where, str]] = []

    def add(self, line: Sequence[Text], differs: bool) -> None:
        """A line, marked where it differs."""
        self.lines.append([Text(f"{self.sign if differs else ' '} "), *line])
        if differs:
            number = len(self.lines)
            end = 3 + sum(len(token.text) for token in line)
            self.marks.append((Where(number, 1, number, end), self.colour))

    def fill(self, height: int) -> None:
        """Empty lines until both sides are of one height."""
        self.lines += [[Text("")] for _ in range(height - len(self.lines))]

    def code(self, see: str) -> Code:
        """The column as a listing."""
        return Code(self.lines, self.marks, see)
