"""What can be done at a block or loop: a call in each row, and why the others are refused.

legal at loop i in 0..8 of block C: 22 calls of 14 primitives
  primitive  call                                            known
  split      sch.split(sch.get_loops("C")[0], factors=[None, 2])  by rule
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.parts import Fold, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, plural

#: calls that are shown unfolded
ROWS = 40


@shows("mlcnb.tir.schedule.offers.legal:LegalSteps")
def legal(found: Any) -> list[Part]:
    """The calls under the name of each primitive, those that need an argument of the caller's, and
    the refusals.
    """
    count = len({x.primitive for x in found})
    told = f"{plural(len(found), 'call')} of {plural(count, 'primitive')}"
    columns = heads("primitive | call: code | known")
    before = ["", *(x.primitive for x in found)]
    rows = [
        ("" if x.primitive == last else x.primitive, x.text, x.proof)
        for x, last in zip(found, before, strict=False)
    ]
    parts: list[Part] = [
        Title(f"legal at {clip(found.where, 120)}: {told}"),
        Table(columns, rows, ROWS, "list(steps)"),
    ]
    if found.free:
        free = Table(heads("primitive | yours to choose"), list(found.free.items()), ROWS)
        parts.append(Fold(f"{len(found.free)} with an argument of your choice", [free], "", False))
    if found.refused:
        why = Table(heads("primitive | why not: prose"), list(found.refused.items()), ROWS)
        parts.append(Fold(f"{len(found.refused)} refused", [why], "steps.refused", False, True))
    return parts
