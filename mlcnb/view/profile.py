"""Profile: the slowest calls first, with bars.

Profile: 12.3 ms a run; 54 calls of 30 kernels; median of 10 runs, 1 thread
  call  kernel                    time    share                 GFLOP/s   GB/s  of roof
  lv94  fused_conv2d_add_relu   2.10 ms  17.1 %  ██              112.0    4.1   98.9 %
timeline: a bar as long as each call took, in the order of the run
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.graph import kinds
from mlcnb.view.parts import Column, Fold, Line, Part, Picture, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.svg import CHARACTER, FAINT, Cell, Drawing
from mlcnb.view.words import clip, flops, percent, plural, rate, seconds

#: rows that are shown unfolded
ROWS = 20
#: pixels of the timeline
WIDTH, BAR = 640.0, 34.0


@shows("mlcnb.runtime.profile:Profile")
def profile(p: Any) -> list[Part]:
    """Totals, and a row for each call."""
    names = {row.kernel for row in p.rows}
    done = sum(row.flops or 0 for row in p.rows)
    told = [f"Profile: {seconds(p.seconds)} a run"]
    if done and p.total:
        told.append(f"{flops(done)} at {done / p.total / 1e9:.3g} GFLOP/s")
    told.append(f"{plural(len(p.rows), 'call')} of {plural(len(names), 'kernel')}")
    told.append(f"median of {plural(p.repeat, 'run')}, {plural(p.threads, 'thread')}")
    if p.sizes is not None:
        told.append(f"compiled for {', '.join(f'{v.name}={n}' for v, n in p.sizes.items())}")
    parts: list[Part] = [Title("; ".join(told)), table(p, p.by_time()), *_rest(p)]
    if len(p.rows) > 1:
        parts.append(Fold("timeline of one run", [timeline(p)], "profile.rows", True))
    if len(names) < len(p.rows):
        by_kernel = table(p, p.by_kernel())
        parts.append(Fold("the calls of each kernel together", [by_kernel], "profile.by_kernel()"))
    return parts


def table(p: Any, rows: Any) -> Table:
    """Rows, slowest first; bars are relative to the slowest."""
    columns = heads(
        "call: code | kernel: code | time: number | share: number | : bar | "
        "GFLOP/s: number | GB/s: number"
    )
    columns += [Column("of roof", "number")] if p.roofline else []
    longest = rows[0].share if rows and rows[0].share else 1.0
    return Table(columns, [_row(p, row, longest) for row in rows], ROWS, "profile.rows")


def _row(p: Any, row: Any, longest: float) -> tuple[Any, ...]:
    rates = (row.gflops, row.bandwidth)
    shown = ("" if x is None else rate(x) for x in rates)
    time, share = seconds(row.seconds), percent(row.share)
    names = (clip(row.name, 24), clip(row.kernel or "", 48))
    roof = p.of_roof(row)
    reached = ["" if roof is None else percent(roof)] if p.roofline else []
    return (*names, time, share, float(row.share / longest), *shown, *reached)


def timeline(p: Any) -> Picture:
    """A bar for each call, as long as it took, one after the other; coloured by sort of work."""
    told = f"{plural(len(p.rows), 'call')} one after the other, {seconds(p.total)} in all"
    return Picture(lambda: _drawn(p, told), told)


def _drawn(p: Any, told: str) -> str:
    d, scale, at = Drawing(), WIDTH / (p.total or 1.0), 0.0
    sorts = [kinds.of_name(clip(row.kernel or "", 60)) for row in p.rows]
    boxes: list[Cell] = []
    for row, sort in zip(p.rows, sorts, strict=True):
        wide = max(row.seconds * scale, 0.5)
        name = clip(row.name or "", 40)
        label = name if len(name) * CHARACTER < wide else ""
        boxes.append((at, 0, wide, BAR, kinds.LOOKS[sort].fill, label))
        at += wide
    d.cells(boxes)
    for tenth in range(0, 11, 2):
        x = at * tenth / 10
        d.rect(x, BAR, 0.5, 5, FAINT, FAINT)
        d.text(x, BAR + 18, seconds(p.total * tenth / 10), FAINT, 10, "middle" if x else "start")
    x = 0.0
    for sort in dict.fromkeys(sorts):
        look = kinds.LOOKS[sort]
        share = sum(r.share for r, s in zip(p.rows, sorts, strict=True) if s == sort)
        words = f"{look.words} {percent(share)}"
        d.rect(x, BAR + 30, 12, 12, look.fill).text(x + 17, BAR + 40, words)
        x += 40 + len(words) * CHARACTER
    return d.svg(told)


def _rest(p: Any) -> list[Part]:
    left = p.by_time()[ROWS:]
    if not left:
        return []
    share = percent(sum(row.share for row in left))
    return [Line(f"the {plural(len(left), 'call')} that are folded take {share}", "note")]
