"""Replays: a row for each stage of a schedule, and the stages as dots under the roof.

Replay of main: 12 stages of 23 steps on 1 thread
  step  then       time               GFLOP/s  of roof  hot loop  vector  FMA  loads  stores  spills
     0  as given  390 ms  ▏               0.6    0.5 %        26   0.0 %   11     22       0       0
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from mlcnb.view.parts import Column, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.roofline import DOT, ROOF
from mlcnb.view.words import clip, percent, plural, rate, seconds

#: rows that are shown unfolded
ROWS = 40


@shows("mlcnb.observe.replay:Replay")
def replay(r: Any) -> list[Part]:
    """A row for each stage; the bar is its speed."""
    stages, steps = plural(len(r), "stage"), plural(r.steps, "step")
    title = f"Replay of {clip(r.name)}: {stages} of {steps} on {plural(r.threads, 'thread')}"
    columns = heads("step: number | then: code | time: number | : bar")
    names = ("GFLOP/s", "of roof", "hot loop", "vector", "FMA", "loads", "stores", "spills")
    columns += [Column(name, "number") for name in names]
    fastest = min((s.strip.seconds for s in r), default=1.0)
    rows = [_row(s, fastest) for s in r]
    return [Title(title), Table(columns, rows, ROWS, "found.stages")]


def _row(s: Any, fastest: float) -> tuple[Any, ...]:
    strip, hot = s.strip, s.strip.hot
    return (
        str(s.step),
        clip(label(s), 40),
        seconds(strip.seconds),
        float(fastest / strip.seconds),
        rate(strip.gflops) if strip.gflops else "",
        "" if strip.share is None else percent(strip.share),
        f"{hot.instructions:,}" if strip.facts.hot else "none",
        percent(hot.vector_share),
        *(str(n) for n in (hot.fma, hot.loads, hot.stores, strip.spills)),
    )


def label(s: Any) -> str:
    """`as given`; `unroll ×4`; `split ×2, reorder`; of more kinds how many, and the last."""
    names = [name for name in s.done if name != "start"]
    runs = [(name, len(list(run))) for name, run in groupby(names)]
    told = [name if n == 1 else f"{name} ×{n}" for name, n in runs]
    if len(told) > 3:
        return f"{plural(len(names), 'step')} to {names[-1]}"
    return ", ".join(told) or "as given"


def plot(r: Any, ax: Any) -> Any:
    """Left the speed of each stage, logarithmic; right where they stand under the roof.

    ax: two axes; by default new ones.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        size = (9.5, 1.2 + 0.24 * len(r))
        _, ax = plt.subplots(1, 2, figsize=size, layout="constrained", width_ratios=(3, 4))
    shown = [s for s in r if s.strip.gflops and s.strip.intensity]
    roof = r[0].strip.roofline
    _bars(ax[0], shown, roof)
    roof.plot([(label(s), s.strip.intensity, s.strip.gflops) for s in shown], ax[1])
    ax[1].get_legend().remove()  # the numbers stand in the left picture
    return ax


def _bars(ax: Any, shown: list[Any], roof: Any) -> None:
    speeds = [s.strip.gflops for s in shown]
    bars = ax.barh(range(len(shown)), speeds, color=DOT, height=0.7)
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    ax.bar_label(bars, [f"{x:.1f}" for x in speeds], padding=3, fontsize=7, bbox=paper)
    names = [f"{label(s)}  {n}" for n, s in enumerate(shown, 1)]
    ax.set_yticks(range(len(shown)), names, fontsize=8)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(min(speeds) / 2, max(roof.peak, *speeds) * 3)
    ax.axvline(roof.peak, color=ROOF, linewidth=1.5)
    ax.set_xlabel(f"GFLOP/s on {plural(roof.threads, 'thread')}")
    ax.spines[["top", "right"]].set_visible(False)
