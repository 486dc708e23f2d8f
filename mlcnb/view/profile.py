"""Profile: the slowest calls first, with bars.

Profile: 12.3 ms a run; 54 calls of 30 kernels; median of 10 runs, 1 thread
  call  kernel                    time    share                 GFLOP/s   GB/s  of roof
  lv94  fused_conv2d_add_relu   2.10 ms  17.1 %  ██              112.0    4.1   98.9 %
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.parts import Column, Fold, Line, Part, Table, Title
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, flops, percent, plural, seconds

#: rows that are shown unfolded
ROWS = 20


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
    parts: list[Part] = [Title("; ".join(told)), table(p, p.by_time()), *_rest(p)]
    if len(names) < len(p.rows):
        by_kernel = table(p, p.by_kernel())
        parts.append(Fold("the calls of each kernel together", [by_kernel], "profile.by_kernel()"))
    return parts


def table(p: Any, rows: Any) -> Table:
    """Rows, slowest first; bars are relative to the slowest."""
    columns = [Column("call", "code"), Column("kernel", "code"), Column("time", "number")]
    columns += [Column("share", "number"), Column("", "bar")]
    columns += [Column("GFLOP/s", "number"), Column("GB/s", "number")]
    columns += [Column("of roof", "number")] if p.roofline else []
    longest = rows[0].share if rows and rows[0].share else 1.0
    return Table(columns, [_row(p, row, longest) for row in rows], ROWS, "profile.rows")


def _row(p: Any, row: Any, longest: float) -> tuple[Any, ...]:
    rates = (row.gflops, row.bandwidth)
    shown = ("" if rate is None else f"{rate:.1f}" for rate in rates)
    time, share = seconds(row.seconds), percent(row.share)
    names = (clip(row.name, 24), clip(row.kernel or "", 48))
    roof = p.of_roof(row)
    reached = ["" if roof is None else percent(roof)] if p.roofline else []
    return (*names, time, share, float(row.share / longest), *shown, *reached)


def _rest(p: Any) -> list[Part]:
    left = p.by_time()[ROWS:]
    if not left:
        return []
    share = percent(sum(row.share for row in left))
    return [Line(f"the {plural(len(left), 'call')} that are folded take {share}", "note")]
