"""The gallery of primitives: the call, both programs, the order of writes, a refusal.

split: Cuts a loop into two or more …
sch.split(i, [None, 4])
before / after, side by side; a picture of loops and of the order in which elements are written
same results, bit for bit
refused: sch.split(i_1, [3, 1])    ScheduleError: …
"""

from __future__ import annotations

from typing import Any

from mlcnb.view import nest, order
from mlcnb.view.beside import side_by_side
from mlcnb.view.error import error
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Column, Fold, Line, Part, Picture, Table, Title
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, Drawing
from mlcnb.view.words import clip, plural

#: pixels between the two halves of a picture
_GAP = 60.0
#: points: two halves that are wider together stand one below the other
_WIDE = 1000.0


@shows("mlcnb.view.order:Order")
def written(x: order.Order) -> list[Part]:
    """Loops and grids of one program."""
    rows = nest.rows(x.func)
    alt = "the loops, and for each element the step in which it is written"
    text = order.text(x.grids or [])
    several = any(t is not None for g in x.grids or [] for t in g.thread.values())
    told = "; each colour is a thread that counts its own steps" if several else ""
    return [
        Title(f"the step in which each element is written{told}"),
        Picture(lambda: _half(rows, rows, x.grids).svg(alt), alt, text or alt),
    ]


@shows("mlcnb.testing.gallery.example:Example")
def example(x: Any) -> list[Part]:
    """One primitive."""
    prepare, call, refused = x.source
    parts: list[Part] = [Title(clip(f"{x.name}: {x.says}", 200))]
    parts.append(Fold("from the program to the call", [code(prepare, PYTHON)], "example.source[0]"))
    parts += [code(call, PYTHON), side_by_side(x.before, x.after)]
    parts += [picture(x.before, x.after, x.name), Line(_checked(x), "note")]
    title = f"refused: {clip(refused.splitlines()[-1], 120)}"
    body = [code(refused, PYTHON), *error(x.refusal)]
    return [*parts, Fold(title, body, "example.refusal", is_open=True, in_text=True)]


def _checked(x: Any) -> str:
    told = "both programs were run by the reference interpreter on the same random numbers: "
    if x.difference == 0:
        return f"{told}the results are the same, bit for bit"
    return f"{told}the largest difference is {x.difference:.1e} of the largest element"


def picture(before: Any, after: Any, name: str) -> Picture:
    """Loops and order of writes of two programs, side by side."""
    old, new = order.grids(before), order.grids(after)
    alt = f"{clip(name)}: the loops and the order in which elements are written, before and after"
    told = []
    for when, found in (("before", old), ("after", new)):
        if found:
            told += [f"written {when}, by step:", *_indented(order.text(found))]
    return Picture(lambda: _draw(before, after, old, new, alt), alt, "\n".join(told) or alt)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _draw(before: Any, after: Any, old: Any, new: Any, title: str) -> str:
    nests = [nest.rows(f) for f in (before, after)]
    left = _half(nests[0], nests[1], old)
    right = _half(nests[1], nests[0], new)
    d = Drawing()
    d.put(left, 0, 0)
    if left.width + _GAP + right.width <= _WIDE:
        d.text(left.width + _GAP / 2, 16, "→", FAINT, 22, "middle")
        d.put(right, left.width + _GAP, 0)
    else:
        d.text(_GAP / 2, left.height + 24, "↓", FAINT, 22, "middle")
        d.put(right, 0, left.height + _GAP)
    return d.svg(title)


def _half(rows: list[nest.Row], others: list[nest.Row], grids: list[order.Grid] | None) -> Drawing:
    d = Drawing()
    loops = nest.draw(rows, others)
    d.put(loops, 0, 0)
    if grids:
        d.put(order.draw(grids), 0, loops.height + 14)
    return d


@shows("mlcnb.testing.gallery.example:Gallery")
def gallery(g: Any) -> list[Part]:
    """A row for each primitive, by family."""
    parts: list[Part] = [Title(f"{plural(len(g), 'primitive')} of Schedule")]
    for family, examples in g.families.items():
        columns = [Column(clip(family), "code"), Column("what it does", "prose")]
        parts.append(
            Table(columns, [(clip(x.name), clip(x.says, 200)) for x in examples.values()], 60)
        )
    return [*parts, Line('one of them, before and after: gallery("split")', "note")]
