"""Replays: a row for each stage of a schedule, and the stages as dots under the roof.

Replay of main: 12 stages of 23 steps on 1 thread
  step  then       time               GFLOP/s  of roof  hot loop  vector  FMA  loads  stores  spills
     0  as given  390 ms  ▏               0.6    0.5 %        26   0.0 %   11     22       0       0
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from mlcnb.view.parts import Column, Part, Table, Title
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, percent, plural, seconds

#: rows that are shown unfolded
ROWS = 40


@shows("mlcnb.replay:Replay")
def replay(r: Any) -> list[Part]:
    """A row for each stage; the bar is its speed."""
    stages, steps = plural(len(r), "stage"), plural(r.steps, "step")
    title = f"Replay of {clip(r.name)}: {stages} of {steps} on {plural(r.threads, 'thread')}"
    columns = [Column("step", "number"), Column("then", "code"), Column("time", "number")]
    columns += [Column("", "bar")]
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
        f"{strip.gflops:.1f}" if strip.gflops else "",
        "" if strip.share is None else percent(strip.share),
        f"{hot.instructions:,}" if strip.facts.hot else "none",
        percent(hot.vector_share),
        *(str(n) for n in (hot.fma, hot.loads, hot.stores, strip.spills)),
    )


def label(s: Any) -> str:
    """`as given`; `unroll ×4`; `split ×2, reorder`."""
    names = [name for name in s.done if name != "start"]
    runs = [(name, len(list(run))) for name, run in groupby(names)]
    told = [name if n == 1 else f"{name} ×{n}" for name, n in runs]
    return ", ".join(told) or "as given"


def plot(r: Any, ax: Any) -> Any:
    """The first stage's roofline, and each stage where it stands."""
    shown = [s for s in r if s.strip.gflops and s.strip.intensity]
    dots = [(f"{s.step}: {label(s)}", s.strip.intensity, s.strip.gflops) for s in shown]
    return r[0].strip.roofline.plot(dots, ax)
