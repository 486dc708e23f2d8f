"""The iterations of a counter-example as a grid: two marked cells, and an arrow between.

    block C, k = 0          j  0  1  2  3
                       i 0     1  .  .  .
                         1     2  .  .  .

Axes are the two loops (or axes of the block) in which the iterations differ; the others are said
above. Far from the two cells, values are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.view.svg import FAINT, INK, LINE, Drawing
from mlcnb.view.words import clip

#: values of one axis that are shown around a marked one, and in all
AROUND, MOST = 2, 8
#: Okabe and Ito's sky and orange: the first iteration and the second
FIRST, SECOND, PLAIN = "#bfe3f7", "#ffd9b0", "#ffffff"
RED = "#a40e26"
CELL = 26.0


@dataclass(frozen=True)
class Axis:
    """A loop and the values of it that are shown; None stands for some that are left out."""

    name: str
    values: tuple[int | None, ...]


@dataclass(frozen=True)
class Grid:
    """Iterations of one block.

    marks: (row, column, number, what it does): 1 for the iteration that comes first.
    fixed: the other loops, `k = 0`.
    """

    block: str
    rows: Axis
    columns: Axis
    marks: tuple[tuple[int, int, int, str], ...]
    fixed: str = ""

    @property
    def lines(self) -> list[str]:
        """The grid as lines of text."""
        axes = (self.rows, self.columns)
        shown = [[_tick(v) if axis.name else "" for v in axis.values] for axis in axes]
        wide = max(len(v) for v in shown[1]) + 2
        edge = max(len(v) for v in shown[0])
        name = clip(self.rows.name, 24)
        head = f"{'':{len(name)}} {'':{edge}}" + "".join(f"{v:>{wide}}" for v in shown[1])
        lines = [f"{head}  {clip(self.columns.name, 24)}" if self.columns.name else head]
        signs = {(r, c): str(n) for r, c, n, _ in self.marks}
        for r, value in enumerate(shown[0]):
            cells = "".join(f"{signs.get((r, c), '·'):>{wide}}" for c in range(len(shown[1])))
            lines.append(f"{name if r == 0 else '':{len(name)}} {value:>{edge}}{cells}".rstrip())
        return lines

    @property
    def title(self) -> str:
        """`block C, k = 0`"""
        return ", ".join(filter(None, [clip(self.block, 60), clip(self.fixed, 80)]))

    def json(self) -> dict[str, Any]:
        """The grid for a page."""
        axes = [[axis.name, list(axis.values)] for axis in (self.rows, self.columns)]
        return {
            "title": self.title,
            "rows": axes[0],
            "columns": axes[1],
            "marks": [list(m) for m in self.marks],
        }


def grids(found: Any, func: Any = None) -> list[Grid]:
    """The grids of a counter-example: one where one block has both iterations, else two.

    Args:
        found: a CounterExample.
        func: the function that it is about, which says how far its loops go.
    """
    if found.first is None:
        return []
    first, second = found.first, found.second
    if first.block == second.block and set(first.iteration) == set(second.iteration):
        made = _grid([(1, first), (2, second)], func)
        return [made] if made is not None else []
    return [g for g in (_grid([(1, first)], func), _grid([(2, second)], func)) if g is not None]


def _grid(events: list[tuple[int, Any]], func: Any) -> Grid | None:
    """The grid of iterations of one block."""
    places = [e.iteration for _, e in events]
    names = _axes(places)
    if not names:
        return None
    extents = _extents(func, events[0][1])
    axes = [_axis(name, [at[name] for at in places], extents.get(name)) for name in names]
    if len(axes) == 1:
        axes.insert(0, Axis("", (0,)))
        names.insert(0, "\0")  # no loop's name
    marks = tuple(
        (
            axes[0].values.index(at.get(names[0], 0)),
            axes[1].values.index(at.get(names[1], 0)),
            n,
            _deed(event),
        )
        for (n, event), at in zip(events, places, strict=True)
    )
    others = [f"{name} = {value}" for name, value in places[0].items() if name not in names]
    return Grid(events[0][1].block, axes[0], axes[1], marks, ", ".join(others))


def _axes(places: list[Mapping[str, int]]) -> list[str]:
    """The two names to draw, in order: those that differ, then those next to them."""
    names = list(places[0])
    differ = [x for x in names if len({at[x] for at in places}) > 1][-2:]
    near = sorted(
        (x for x in names if x not in differ),
        key=lambda x: min((abs(names.index(x) - names.index(d)) for d in differ), default=0),
    )
    chosen = [*differ, *near][:2]
    return [x for x in names if x in chosen]


def _axis(name: str, wanted: list[int], extent: int | None) -> Axis:
    """The values around those that are wanted."""
    low, high = min(wanted), max(wanted)
    last = extent - 1 if extent is not None else high + AROUND
    if last < MOST:
        return Axis(name, tuple(range(min(0, low), max(last, high) + 1)))
    if high - low < MOST - 2:
        start = max(0, min(low - 1, last - MOST + 2))
        shown: list[int | None] = list(range(start, min(last, start + MOST - 2) + 1))
        return Axis(
            name,
            (*([None] if start > 0 else []), *shown, *([None] if shown[-1] != last else [])),
        )
    near: list[int | None] = [low, low + 1, None, high - 1, high]
    return Axis(name, tuple(near))


def _deed(event: Any) -> str:
    element = f"{event.buffer}[{', '.join(map(str, event.indices))}]"
    return f"{'writes' if event.is_write else 'reads'} {element}"


def _extents(func: Any, event: Any) -> dict[str, int]:
    """How far the loops and axes of these names go."""
    found: dict[str, int] = {}
    for n in walk(func) if func is not None else ():
        if isinstance(n, s.For):
            found.setdefault(n.loop_var.name, _known(n.extent))
        elif isinstance(n, s.Block) and n.name_hint == event.block.removeprefix("block "):
            found.update({axis.var.name: _known(axis.dom.extent) for axis in n.iter_vars})
    return {name: extent for name, extent in found.items() if extent}


def _known(x: Any) -> int:
    return p.as_int(x) or 0


def draw(found: list[Grid]) -> Drawing:
    """The grids side by side, and the arrow from 1 to 2."""
    d = Drawing()
    left, ends = 0.0, {}
    for grid in found:
        part, places = _drawn(grid)
        d.put(part, left, 0)
        ends.update({n: (left + x, y) for n, (x, y) in places.items()})
        left = d.width + 40
    if len(ends) == 2 and ends[1] != ends[2]:
        d.arrow(*ends[1], *ends[2], RED, CELL / 2 - 3)
    return d


def _drawn(grid: Grid) -> tuple[Drawing, dict[int, tuple[float, float]]]:
    """One grid, and where its marked cells have their middle."""
    d = Drawing()
    edge = 14 + 6.7 * max(len(str(v)) for v in grid.rows.values) if grid.rows.name else 0
    top, x0 = 40.0, max(edge + 6.7 * len(clip(grid.rows.name, 16)), 6.0)
    d.text(0, 11, grid.title, FAINT, 10.5)
    d.text(x0, 26, clip(grid.columns.name, 24), INK, 11, bold=True)
    d.text(0, top + 17, clip(grid.rows.name, 16), INK, 11, bold=True)
    marks = {(r, c): n for r, c, n, _ in grid.marks}
    places = {}
    for c, value in enumerate(grid.columns.values):
        d.text(x0 + (c + 0.5) * CELL, 37, _tick(value), FAINT, 9.5, "middle")
    for r, value in enumerate(grid.rows.values):
        y = top + r * CELL
        if grid.rows.name:
            d.text(x0 - 6, y + 17, _tick(value), FAINT, 9.5, "end")
        for c, column in enumerate(grid.columns.values):
            n = marks.get((r, c))
            x = x0 + c * CELL
            if value is None or column is None:
                d.text(x + CELL / 2, y + 17, "…", FAINT, 11, "middle")
                continue
            fill = {1: FIRST, 2: SECOND}.get(n or 0, PLAIN)
            d.rect(x, y, CELL - 2, CELL - 2, fill, INK if n else LINE, r=2)
            if n:
                d.text(x + CELL / 2 - 1, y + 16, str(n), INK, 12, "middle", bold=True)
                places[n] = (x + CELL / 2 - 1, y + CELL / 2 - 1)
    y = top + len(grid.rows.values) * CELL + 14
    for _, _, n, deed in grid.marks:
        d.text(x0, y, f"{n} {clip(deed, 40)}", INK, 10.5)
        y += 15
    return d, places


def _tick(value: int | None) -> str:
    return "…" if value is None else str(value)
