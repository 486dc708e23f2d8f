"""Roofline: the ceilings as a table, and as a plot with programs under them.

Roofline of 1 thread: 113 GFLOP/s in float32, measured
  level    holds   GB/s  compute-bound from
  L1      32 KiB    420         0.27 FLOP/B
  memory             20         5.70 FLOP/B
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.view.parts import Column, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, memory, plural

#: colours of the roof, of the levels of memory, of the dots
ROOF, SLOPES, DOT = "#a40e26", ("#8c959f", "#57606a", "#1f5fa8", "#1b1f24"), "#1f5fa8"
#: decades within which dots are drawn as one
CLOSE = 0.05
#: name, FLOP per byte, GFLOP/s
Dot = tuple[str, float, float]


@shows("mlcnb.machine.roofline:Roofline")
def roofline(r: Any) -> list[Part]:
    """A row for each level of memory."""
    title = (
        f"Roofline of {plural(r.threads, 'thread')}: {r.peak:.0f} GFLOP/s in {r.dtype}, measured"
    )
    columns = heads("level | holds: number | GB/s: number")
    columns.append(Column("compute-bound from", "number"))
    return [Title(title), Table(columns, [_row(r, v) for v in r.levels])]


def _row(r: Any, level: Any) -> tuple[str, ...]:
    held = "" if level.nbytes is None else memory(level.nbytes)
    return (
        clip(level.name),
        held,
        f"{level.bandwidth:.0f}",
        f"{r.peak / level.bandwidth:.2f} FLOP/B",
    )


def plot(r: Any, dots: Any, ax: Any, span: tuple[float, float] | None) -> Any:
    """A slope for each level, the flat roof, dots with numbers for programs; logarithmic."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    dots = list(dots)
    low, high = span or _range([x for _, x, _ in dots], r)
    ridges = [r.peak / v.bandwidth for v in r.levels]
    across = _points(ax) / math.log10(high / low)
    rows = _rows(
        [(math.log10(x) * across, clip(v.name)) for x, v in zip(ridges, r.levels, strict=True)]
    )
    for level, colour, ridge, row in zip(r.levels, SLOPES, ridges, rows, strict=False):
        ends = (min(low, ridge), ridge)
        ax.plot(ends, [level.bandwidth * x for x in ends], color=colour, linewidth=1)
        ax.annotate(
            clip(level.name), (ridge, r.peak), (2, 3 + 10 * row), textcoords="offset points",
            color=colour, size=8,
        )  # fmt: skip
    ax.plot((min(ridges), high), (r.peak, r.peak), color=ROOF, linewidth=1.5)
    ax.annotate(
        f"{r.peak:.0f} GFLOP/s", (high, r.peak), (0, 7), textcoords="offset points",
        color=ROOF, ha="right", size=8,
    )  # fmt: skip
    _dots(ax, dots, r.peak)
    ax.set_xscale("log")
    ax.set_yscale("log")
    slowest = min([y for _, _, y in dots] or [r.levels[-1].bandwidth * low])
    ax.set_xlim(low, high)
    ax.set_ylim(slowest / 2, max([r.peak, *(y for _, _, y in dots)]) * 1.7)
    ax.set_xlabel("FLOP per byte of the arguments")
    ax.set_ylabel(f"GFLOP/s on {plural(r.threads, 'thread')}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _range(intensities: list[float], r: Any) -> tuple[float, float]:
    """Left and right end of the plot: what is shown, and the ridges."""
    ridges = [r.peak / v.bandwidth for v in r.levels]
    known = [x for x in intensities if x > 0] or ridges
    return min(*known, min(ridges)) / 2, max(*known, max(ridges)) * 3


def _points(ax: Any) -> float:
    """How wide the axes are at least, in points: labels and neighbours take some of their place."""
    return float(0.8 * 72 * ax.figure.get_figwidth() * ax.get_position().width)


def _rows(names: list[tuple[float, str]]) -> list[int]:
    """For each (place in points, name) the lowest row above the roof where it stands on none."""
    ends: list[float] = []
    found = {}
    for number, (at, name) in sorted(enumerate(names), key=lambda item: item[1][0]):
        row = next((n for n, end in enumerate(ends) if end <= at), len(ends))
        ends[row:] = [at + 5.5 * (len(name) + 1), *ends[row + 1 :]]
        found[number] = row
    return [found[number] for number in range(len(names))]


def _dots(ax: Any, dots: list[Dot], roof: float) -> None:
    """Dots with numbers beside them, off the line of the roof, and a legend that says what the
    numbers are.
    """
    for where, numbers in _clusters(dots):
        ax.plot(*[[x] for x in where], "o", color=DOT, markersize=7, gid="dot")
        up = math.log10(where[1] / roof)
        side = "center" if abs(up) > CLOSE else "bottom" if up > 0 else "top"
        place = {"xytext": (-7, 0), "textcoords": "offset points", "ha": "right", "va": side}
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        ax.annotate(spans(numbers), where, color=DOT, size=8, bbox=paper, **place)
    for number, (name, x, y) in enumerate(dots, 1):
        ax.plot([x], [y], " ", label=f"{number}  {clip(str(name), 32)}")
    if dots:
        look = {"handlelength": 0, "handletextpad": 0, "frameon": False, "fontsize": 8}
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), **look)


def _clusters(dots: list[Dot]) -> list[tuple[tuple[float, float], list[int]]]:
    """Places and the numbers of the dots there: those that would cover each other are one."""
    found: list[tuple[tuple[float, float], list[int]]] = []
    for number, (_, x, y) in enumerate(dots, 1):
        near = (c for c in found if _apart(c[0], (x, y)) < CLOSE)
        place, numbers = next(near, ((x, y), []))
        if not numbers:
            found.append((place, numbers))
        numbers.append(number)
    return found


def _apart(a: tuple[float, float], b: tuple[float, float]) -> float:
    """How many decades two places are apart, along the axis where they are further apart."""
    return max(abs(math.log10(p / q)) for p, q in zip(a, b, strict=True))


def spans(numbers: list[int]) -> str:
    """`1-3, 5`"""
    told: list[list[int]] = []
    for n in numbers:
        if told and told[-1][-1] == n - 1:
            told[-1] = [told[-1][0], n]
        else:
            told.append([n])
    return ", ".join("-".join(map(str, span)) for span in told)
