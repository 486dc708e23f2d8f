"""The choice by measurement: a row for each group, what each contestant took, who was taken.

2 groups: 1 goes to a library
group              calls  ours    blas    taken
fused_…_matmul     1      420 us  130 us  blas
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.parts import Column, Line, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, plural, seconds

#: groups that one table has at most
_MOST = 60


@shows("mlcnb.observe.choice:Choices")
def choices(c: Any) -> list[Part]:
    """The table, then who could not run what."""
    names = list(dict.fromkeys(n for g in c.groups for n in (*g.seconds, *g.refused)))
    won = sum(g.taken not in ("ours", "tuned") for g in c.groups)
    title = f"{plural(len(c), 'group')}: {won} go{'es' if won == 1 else ''} to a library"
    columns = (
        *heads("group: code | calls: number"),
        *(Column(n, "number") for n in names),
        Column("taken", "code"),
    )
    parts: list[Part] = [Title(title)]
    if c.groups:
        rows = [
            (clip(g.name, 60), str(g.times), *(_time(g, n) for n in names), g.taken)
            for g in c.groups
        ]
        parts.append(Table(columns, rows, _MOST, "choose.choices.groups"))
    told = dict.fromkeys(f"{n}: {why}" for g in c.groups for n, why in g.refused.items())
    parts += [Line(clip(text, 200), "note") for text in list(told)[:5]]
    return parts


def _time(group: Any, name: str) -> str:
    return seconds(group.seconds[name]) if name in group.seconds else "-"
