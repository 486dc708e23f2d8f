"""Benchmarks: a row for each contestant with a bar of its speed; a plot with the machine's peak.

2.15 GFLOP on 1 thread; medians of CPU time, calls in turns
  contestant   median   GFLOP/s              numpy = 1  runs
  numpy       22.0 ms      97.4  ███████████         1    20
  tiled       21.5 ms      99.7  ████████████     1.02    20
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.view.parts import Column, Line, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, flops, plural, rate, seconds

#: colours of the bars: the first contestant's, the others'; of the line of the peak
PEER, OWN, PEAK = "#8c959f", "#1f5fa8", "#a40e26"


@shows("mlcnb.observe.benchmark:Benchmark")
def benchmark(b: Any) -> list[Part]:
    """A row for each contestant, in the order given."""
    first = b.timings[0]
    work = flops(first.flops)
    told = f"{work} on" if work else "on"
    columns = heads("contestant: code | median: number")
    columns += [Column("GFLOP/s", "number")] if work else []
    columns += [Column("", "bar"), Column(f"{clip(first.name, 20)} = 1", "number")]
    fastest = min(t.seconds for t in b.timings)
    rows = [_row(b, t, bool(work), fastest) for t in b.timings]
    apart = max(t.difference for t in b.timings)
    note = f"largest difference of the results {apart:.1e} of the largest element"
    return [
        Title(f"{told} {plural(b.threads, 'thread')}; medians of {b.clock}, calls in turns"),
        Table([*columns, Column("runs", "number")], rows),
        *([Line(note, "note")] if len(b) > 1 else []),
    ]


def _row(b: Any, t: Any, work: bool, fastest: float) -> tuple[Any, ...]:
    told = [rate(t.gflops)] if work else []
    share = float(fastest / t.seconds)
    return (clip(t.name, 40), seconds(t.seconds), *told, share, f"{b.ratio(t.name):.3g}", t.runs)


def bars(b: Any, peak: float | None, ax: Any) -> Any:
    """Horizontal bars, top to bottom in the order given, each with its figure."""
    if any(t.gflops is None for t in b.timings):
        raise MLCError("plot: the work of a call is not known", hint="benchmark(..., flops=N)")
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(8, 0.9 + 0.36 * len(b)), layout="constrained")
    names = [t.name for t in b.timings]
    rates = [t.gflops for t in b.timings]
    colours = [PEER] + [OWN] * (len(names) - 1)
    drawn = ax.barh(range(len(names)), rates, color=colours, height=0.7)
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    ax.bar_label(drawn, fmt="%.1f", padding=3, bbox=paper)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(f"GFLOP/s on {plural(b.threads, 'thread')}")
    ax.set_xlim(0, 1.12 * max([*rates, peak or 0]))
    if peak:
        ax.axvline(peak, color=PEAK, linestyle="--", linewidth=1)
        where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        ax.annotate(
            f"peak {peak:.0f}", (peak, 1), (0, 2), **where, ha="center", va="bottom", color=PEAK
        )
    ax.spines[["top", "right"]].set_visible(False)
    return ax
