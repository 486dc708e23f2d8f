"""Which default rule took which function, and why those before it did not.

Rules for cuda: 2 functions
  function      rule                   steps
  main          gemv                      11
  other         fallback                   6
  passed over   why                             functions
  attention     no attention: it takes …        main, other
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.parts import Line, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, plural

#: names of functions that are told of one reason
_NAMED = 3


@shows("mlcnb.dlight.report:RuleReport")
def rules(r: Any) -> list[Part]:
    """Two tables: functions, then reasons."""
    title = f"Rules for {clip(str(r.target), 60)}: {plural(len(r), 'function')}"
    parts: list[Part] = [Title(title)]
    if r.choices:
        columns = heads("function: code | rule: code | steps: number")
        rows = [
            (clip(name, 60), x.rule or "none",
             "" if x.schedule is None else str(len(x.schedule.trace.insts)))
            for name, x in r.choices.items()
        ]  # fmt: skip
        parts.append(Table(columns, rows, 40, "report.choices"))
    if r.reasons:
        columns = heads("passed over: code | why: prose | functions")
        told = [(rule, clip(why, 300), _named(names)) for (rule, why), names in r.reasons.items()]
        parts.append(Table(columns, told, 60, "report.reasons"))
    if r.scheduled:
        names = _named(list(r.scheduled))
        parts.append(Line(f"scheduled already, so that no rule is asked: {names}", "note"))
    return parts


def _named(names: list[str]) -> str:
    first = ", ".join(clip(n, 40) for n in names[:_NAMED])
    return first if len(names) <= _NAMED else f"{first} and {len(names) - _NAMED} more"
