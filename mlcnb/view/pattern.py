"""Patterns: the graph with what a pattern found lit, and the first part that stopped it elsewhere.

is_op("relax.nn.relu")(is_op("relax.matmul")(*, *)): found 1 time
  in main: lv1 with lv
nearest miss at gv in main: 1 part matched, but lv2 is relax.add, not relax.matmul; wanted …
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.graph import graph
from mlcnb.view.parts import Line, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, plural

_COLUMNS = heads("function: code | bound to: code | with: code")
#: matches that one table has at most
_MOST = 60


@shows("mlcnb.relax.dpl.explain:Explanation")
def explanation(e: Any) -> list[Part]:
    """Title, matches, the graph of each function with matches, the nearest miss."""
    pattern = repr(e.pattern) if hasattr(e.pattern, "match") else "the patterns of the context"
    parts: list[Part] = [Title(f"{clip(pattern, 200)}: found {plural(len(e.found), 'time')}")]
    if e.found:
        rows = [_row(f) for f in e.found]
        parts.append(Table(_COLUMNS, rows, _MOST, "explanation.found"))
    if e.why:
        parts.append(Line(clip(e.why, 400), "note"))
    lit = set(e.variables) or ({e.missed_at[1]} if e.missed_at else set())
    names = [f.function for f in e.found] or ([e.missed_at[0]] if e.missed_at else [])
    for name in dict.fromkeys(names):
        parts += graph(e.mod, name, lit=lit).parts("graph(mod, lit=explanation.variables)")
    return parts


def _row(found: Any) -> tuple[str, str, str]:
    rest = ", ".join(v.name_hint for v in found.variables if v is not found.root)
    return found.function, found.root.name_hint, clip(rest, 80)
