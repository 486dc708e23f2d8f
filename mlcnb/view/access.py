"""Accesses through caches, as they stand still: counts, the first touches, where it misses, reuse.

Access replay of matmul: 3,548,160 accesses through L1 32K/8way/64B
  array            accesses  lines  L1 misses  of accesses  driven out of L1
  A      96 × 96    884,736    576        576        0.1 %               570
  B      96 × 96    884,736    576     55,296        6.2 %            54,796
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from mlcnb.machine.cache import EMPTY
from mlcnb.observe.access import Run, words_of
from mlcnb.view.cells import Grid, grid_of
from mlcnb.view.parts import Beside, Column, Fold, Line, Part, Picture, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, INK, Drawing
from mlcnb.view.words import clip, dims, listed, more_and_less, percent, plural

#: touches that are drawn one by one, and how many stand in a row
FIRST, ROW = 96, 32
#: cells of the maps of misses of all arrays together, and of one
MAPPED, ONE_MAP = 2_048, 1_024
#: what becomes of a touch: letter, fill
HIT, MISS, EVICT = ("h", "#d7f0e5"), ("M", "#f7c8a8"), ("E", "#e8a0c4")
LEGEND = "h: hit in the nearest cache, M: miss, E: miss that drives a line out"
_HEAT = ((255, 255, 255), (213, 94, 0))


@shows("mlcnb.observe.access:Run")
def one(r: Run) -> list[Part]:
    """One program."""
    return parts_of([r])


def parts_of(runs: Sequence[Run]) -> list[Part]:
    """Counts of all runs, then pictures and details of each."""
    title = f"Access replay of {listed([clip(r.name) for r in runs])}"
    count = f"{'the first ' if runs[0].is_part else ''}{len(runs[0]):,} accesses"
    parts: list[Part] = [Title(f"{title}: {count} through {levels(runs[0])}")]
    parts += [Line(sentence) for sentence in verdicts(runs)]
    for r in runs:
        if len(runs) > 1:
            part = "the first " if r.is_part else ""
            parts.append(Line(f"{clip(r.name)}: {part}{len(r):,} accesses"))
        parts.append(by_array(r))
    most = max((int(per_line(r).max(initial=0)) for r in runs), default=0)
    is_narrow = len(runs) > 1
    pictures = [[first_touches(r, is_narrow), misses_by_line(r, most, is_narrow)] for r in runs]
    if is_narrow:
        parts.append(Beside([(clip(r.name), p) for r, p in zip(runs, pictures, strict=True)]))
    else:
        parts += pictures[0]
    for r in runs:
        of = f" of {clip(r.name)}" if len(runs) > 1 else ""
        parts.append(Fold(f"reuse distances{of}", [*distances(r)], in_text=True))
        parts.append(Fold(f"loads and stores{of}", [by_site(r)], in_text=True))
    parts.append(Line(ASSUMED, "note"))
    return parts


#: what is counted, and what is not
ASSUMED = (
    "Accesses are those of the loops, element by element, as the reference interpreter makes them, "
    "parallel loops on one core; what a compiler keeps in registers is counted too. Caches are "
    "empty at first, the least recently used line goes, writes allocate; no prefetcher."
)


def levels(r: Run) -> str:
    """`L1 32K/8way/64B, L2 1M/8way/64B`"""
    return ", ".join(f"{level.name} {level}" for level in r.levels)


def verdicts(runs: Sequence[Run]) -> list[str]:
    """Who misses less, by level: `L1: 4,608 misses in …, 56,448 in … (12.2 times as many)`."""
    found = []
    for level in runs[0].levels if len(runs) > 1 else ():
        counts = [(r.counts[level.name].misses, r.name) for r in runs]
        found.append(f"{level.name}: {more_and_less(counts, 'misses')}")
    return found


def by_array(r: Run) -> Table:
    """A row for each array, and their sum."""
    nearest = r.levels[0].name
    columns = heads("array: code |  | accesses: number")
    columns += [Column("lines", "number"), Column(f"{nearest} misses", "number")]
    columns += [Column("of accesses", "number"), Column(f"driven out of {nearest}", "number")]
    columns += [Column(f"{level.name} misses", "number") for level in r.levels[1:]]
    rows = []
    for number, (array, found) in enumerate(zip(r.program.arrays, r.by_array, strict=True)):
        size = f"{dims(array.shape) or 'scalar'} {array.dtype}"
        lines, out = r.lines_of[number], int(r.evictions[number])
        rows.append((clip(array.name, 24), size, *_cells(found, lines, out)))
    total = r.by_array.sum(axis=0)
    rows.append(("all", "", *_cells(total, sum(r.lines_of), int(r.evictions.sum()))))
    return Table(columns, rows)


def _cells(found: np.ndarray, lines: int, driven: int) -> list[str]:
    accesses, missed = int(found.sum()), [int(n) for n in found[::-1].cumsum()[::-1][1:]]
    rate = percent(missed[0] / accesses) if accesses else ""
    return [f"{accesses:,}", f"{lines:,}", f"{missed[0]:,}", rate, f"{driven:,}"] + [
        f"{n:,}" for n in missed[1:]
    ]


def by_site(r: Run) -> Table:
    """A row for each load and store in the program's text."""
    columns = heads("access: code |  | in block: code | times: number")
    columns += [Column(f"{level.name} misses", "number") for level in r.levels]
    rows = []
    for site, found in zip(r.program.sites, r.by_site, strict=True):
        missed = [f"{int(found[n + 1 :].sum()):,}" for n in range(len(r.levels))]
        verb = "write" if site.is_write else "read"
        place = clip(site.block, 24)
        rows.append((clip(words_of(site), 48), verb, place, f"{int(found.sum()):,}", *missed))
    return Table(columns, rows, 24, "replay.runs[0].by_site")


def distances(r: Run) -> list[Part]:
    """How many touches come after how many other lines."""
    found, lines = r.histogram, r.levels[0].lines
    most = max([*found.counts, found.cold, 1])
    rows: list[tuple[Any, ...]] = []
    for bucket, count in enumerate(found.counts):
        low, high = found.bounds(bucket)
        name = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        rows.append((name, f"{count:,}", count / most, _fits(r, low, high)))
    rows.append(("never before", f"{found.cold:,}", found.cold / most, "always a miss"))
    columns = heads("other lines in between: number | touches: number | : bar | ")
    told = f"{r.levels[0].name} holds {plural(lines, 'line')} of {found.line} bytes"
    return [Line(told, "note"), Table(columns, rows, 40)]


def _fits(r: Run, low: int, high: int) -> str:
    """The first level that would hold such a distance, if it had one set."""
    for level in r.levels:
        if high < level.lines:
            return f"fits {level.name}"
        if low < level.lines:
            return f"some fit {level.name}"
    return "fits nowhere"


def outcome(r: Run, at: int) -> tuple[str, str]:
    """Letter and fill of a touch."""
    if r.served[at] == 0:
        return HIT
    return MISS if r.nearest.victim[at] == EMPTY else EVICT


def first_touches(r: Run, is_narrow: bool = False) -> Picture:
    """The first touches as a strip of boxes, in words where there is no picture."""
    count = min(len(r), FIRST)
    arrays = r.arrays[:count]
    names = [clip(r.program.arrays[n].name, 8) for n in arrays]
    told = [f"{name}:{outcome(r, at)[0]}" for at, name in enumerate(names)]
    head = f"the first {plural(count, 'touch', 'touches')}"
    lines = [" ".join(told[n : n + ROW // 2]) for n in range(0, count, ROW // 2)]
    text = "\n".join([f"{head} ({LEGEND})", *lines])
    return Picture(
        lambda: _strip(r, names, head, ROW // 2 if is_narrow else ROW).svg(head),
        f"{head} of {clip(r.name)}",
        text,
    )


def _strip(r: Run, names: list[str], head: str, row_length: int) -> Drawing:
    d = Drawing()
    d.text(0, 10, head, bold=True)
    wide = max(20.0, 6.2 * max((len(n) for n in names), default=1) + 14)
    row_length = row_length if wide < 26 else max(row_length * 20 // int(wide), 4)
    boxes = []
    for at, name in enumerate(names):
        letter, fill = outcome(r, at)
        row, column = divmod(at, row_length)
        boxes.append((column * wide, 18 + row * 22.0, wide, 20.0, fill, f"{name} {letter}"))
    d.cells(boxes)
    d.text(0, d.height + 14, "h hit · M miss · E miss that drives a line out", FAINT, size=10)
    return d


def per_line(r: Run) -> np.ndarray:
    """Misses of each line of memory in the nearest cache."""
    end = max((a.base + a.nbytes for a in r.program.arrays), default=0)
    return np.bincount(r.lines[r.served > 0], minlength=end // r.levels[0].line + 2)


def misses_by_line(r: Run, scale: int, is_narrow: bool = False) -> Picture:
    """Each array as a grid, darker where its lines miss more often, darkest at `scale` misses."""
    alt = f"where {clip(r.name)} misses in {r.levels[0].name}"
    misses = per_line(r)
    lines = [alt]
    for grid in _mapped(r):
        array = grid.array
        cells = grid.spread(misses)
        lines.append(f"  {clip(array.name, 24)}: {_spread(cells)} for each {_cell_word(grid)}")
    return Picture(
        lambda: _maps(r, scale, 96.0 if is_narrow else 160.0).svg(alt), alt, "\n".join(lines)
    )


def _spread(cells: np.ndarray) -> str:
    """`3`, or `1 to 96`."""
    least, most = int(cells.min()), int(cells.max())
    return f"{least:,}" if most == least else f"{least:,} to {most:,}"


def _mapped(r: Run) -> list[Grid]:
    most = max(64, min(ONE_MAP, MAPPED // max(len(r.program.arrays), 1)))
    return [grid_of(array, r.levels[0].line, most) for array in r.program.arrays]


def _cell_word(grid: Grid) -> str:
    return (
        "element's line"
        if not grid.says
        else grid.says.removeprefix("a cell is ").removeprefix("a ")
    )


def _maps(r: Run, scale: int, side: float) -> Drawing:
    d = Drawing()
    d.text(0, 10, f"misses of each line in {r.levels[0].name}", bold=True)
    grids = _mapped(r)
    misses = per_line(r)
    values = [grid.spread(misses) for grid in grids]
    x, top = 0.0, 18.0
    for grid, cells in zip(grids, values, strict=True):
        size = min(16.0, max(2.0, side / max(grid.columns, grid.rows)))
        d.text(x, top + 12, clip(grid.array.name, 16), INK, bold=True)
        boxes = []
        for row in range(grid.rows):
            own = cells[row * grid.columns : (row + 1) * grid.columns].tolist()
            for first, length, count in _alike(own):
                place = (x + first * size, top + 18 + row * size, length * size, size)
                boxes.append((*place, _shade(count, scale), ""))
        for x0, y0, w, h, fill, _ in boxes if size < 5 else ():
            d.rect(x0, y0, w, h, fill, fill)  # too small for lines between them
        d.cells(boxes if size >= 5 else [])
        width, height = grid.columns * size, grid.rows * size
        d.rect(x, top + 18, width, height, "none")
        told = f"{_spread(cells)} {'miss' if cells.max() == 1 else 'misses'}"
        d.text(x, top + 30 + height, told, FAINT, size=10)
        x += max(width, 6.2 * len(told)) + 16
    return d


def _alike(values: list[int]) -> Iterator[tuple[int, int, int]]:
    """(first, how many, value) of neighbours that are the same."""
    at = 0
    for value, group in groupby(values):
        length = len(list(group))
        yield at, length, value
        at += length


def _shade(count: int, most: int) -> str:
    """White for none, to the colour of misses for the most; by the logarithm."""
    share = min(float(np.log1p(count) / np.log1p(most)), 1.0) if most else 0.0
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(*_HEAT, strict=True))


@shows("mlcnb.observe.counts:AccessCounts")
def counts(x: Any) -> list[Part]:
    """Accesses that were counted and not kept: what is known of them without their order."""
    runs = x.runs
    names = listed([clip(r.name) for r in runs])
    title = f"Accesses of {names}, counted: {len(runs[0]):,} through {levels(runs[0])}"
    parts: list[Part] = [Title(title), *(Line(sentence) for sentence in verdicts(runs))]
    for r in runs:
        of = f" of {clip(r.name)}" if len(runs) > 1 else ""
        if of:
            parts.append(Line(f"{clip(r.name)}: {len(r):,} accesses"))
        parts.append(by_array(r))
        parts.append(Fold(f"loads and stores{of}", [by_site(r)], in_text=True))
    return [*parts, Line(ASSUMED, "note")]
