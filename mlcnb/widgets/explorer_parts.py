"""The explorer in words: its static view, and two branches side by side.

Explorer: schedule of main, 3 steps
     step  call                              known    L1 misses  vector  tasks
        0  as given                                   2,163,200       1      1
  >     3  vectorize(loop j_1)               by rule     66,560      16      1
predicted for …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core import display
from mlcnb.core.render import Text
from mlcnb.machine.prediction import Prediction, cpu
from mlcnb.script.printer import document
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.offers.cell_code import cell_code
from mlcnb.view.beside import side_by_side
from mlcnb.view.diff import Diff, change_parts
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.loops import loop_tree
from mlcnb.view.parts import Code, Column, Fold, Line, Part, Table, Title, heads
from mlcnb.view.program import folded
from mlcnb.view.registry import shows
from mlcnb.view.schedule import call_text, own_names, step_cells
from mlcnb.view.words import clip, count, listed, memory, plural
from mlcnb.widgets.storyboard import margins, missed, predicted

__all__ = ["Comparison", "explorer", "machine"]

#: steps that are shown unfolded
ROWS = 60
#: column of a program's costs, at most
MARGIN = 72


def explorer(page: Any, asked: Sequence[Any]) -> list[Part]:
    """Each branch with its steps; of the schedule itself the last diff, the loops and the code."""
    sch = page.sch
    names = page._shown_functions()
    parts: list[Part] = [Title(_title(page, names))]
    for name, branch in page.branches.items():
        if len(page.branches) > 1:
            begun = page._from.get(name)
            since = f", from step {begun[1]} of {begun[0]}" if begun else ""
            parts.append(Line(f"{clip(name, 60)}{since}"))
        parts.append(steps(page, branch, names))
    parts.append(Line(f"predicted for {machine(page.target)}, not measured", "note"))
    now = sch.position
    if now:
        made = Diff(sch.steps[now - 1].mod, sch.steps[now].mod, context=2)
        parts.append(Fold(f"step {now}: {made.summary}", change_parts(made), "", True, True))
    for name in names[:1]:
        func = sch.mod[name]
        parts.append(Fold("loops now", [loop_tree(func)], "sch.show()", True, True))
        parts.append(folded("TVMScript (loops)", costed(name, func, page.target), "sch.show()"))
    parts += [
        Fold(f"legal at {clip(x.where, 120)}", offers(page, x), "", False, True) for x in asked
    ]
    text = cell_code(sch)
    if text:
        parts.append(Fold("as Python", [code(text, PYTHON)], "", True, True))
    return parts


def costed(name: str, func: PrimFunc, target: Target | None) -> Code:
    """The text of a function with what its lines cost, as comments in a column of their own."""
    text = document(func, header=False, name=name)
    told = margins(func, text, str(target or ""), missed(func, target).stores)
    edge = min(MARGIN, max((len(text.text_lines[n - 1]) for n in told), default=0)) + 2
    lines: list[Sequence[Text]] = []
    for number, line in enumerate(text.lines, 1):
        cost, _ = told.get(number, ("", ""))
        blank = " " * max(2, edge - len(text.text_lines[number - 1]))
        lines.append([*line, Text(blank), Text(f"# {cost}", "comment")] if cost else line)
    return Code(lines, see="sch.show()", language="python")


def offers(page: Any, found: Any) -> list[Part]:
    """A row for each primitive that is legal at a place: the call that is predicted to be best."""
    columns = heads("call: code | known")
    columns += [Column(x, "number") for x in ("L1 misses", "L2 misses", "vector", "tasks", "calls")]
    rows = []
    for name in dict.fromkeys(x.primitive for x in found):
        known = [(predicted(x.func, page.target), x) for x in found.of(name)]
        best, step = min(known, key=lambda pair: pair[0].cycles)
        figures = (count(best.misses[0]), count(best.misses[1]), str(best.lanes), _tasks([best]))
        rows.append((clip(step.text, 120), step.proof, *figures, str(len(known))))
    refused = [(name, clip(why, 160)) for name, why in found.refused.items()]
    table = Table(heads("refused | why: prose"), refused, ROWS)
    return [Table(columns, rows, ROWS), *([table] if refused else [])]


def _title(page: Any, names: Sequence[str]) -> str:
    told = f"Explorer: schedule of {listed((clip(x, 60) for x in own_names(page.sch, names)), 3)}"
    told += f", {plural(page.sch.position, 'step')}"
    others = len(page.branches) - 1
    return told + (f", {plural(others, 'other branch', 'other branches')}" if others else "")


def steps(page: Any, sch: Any, names: Sequence[str]) -> Table:
    """A row for each step: what was done, how it is known, what is predicted."""
    columns = heads(" | step: number | call: code | known")
    columns += [Column(x, "number") for x in ("L1 misses", "L2 misses", "vector", "tasks")]
    rows = []
    for step in sch.steps:
        known = known_words(page._checks.badge(sch, step))
        cells = step_cells(sch, step, kinds=False)
        rows.append((*cells, known, *figures(page, step.mod, names)))
    return Table(columns, rows, ROWS, "sch.steps")


def known_words(badge: Sequence[Any]) -> str:
    """`by rule; differs by 0 (same arrays, reference interpreter)`"""
    _, proof, error, way = badge
    told = [proof] if proof else []
    if error is not None:
        told.append(f"differs by {error:.2g} ({way})")
    elif way:
        told.append(way)
    return "; ".join(told)


def figures(page: Any, mod: Any, names: Sequence[str]) -> tuple[str, str, str, str]:
    """Misses of L1 and L2, lanes and tasks of all shown functions together."""
    found = [predicted(mod[x], page.target) for x in names if x in mod]
    l1, l2 = (sum(x.misses[level] for x in found) for level in (0, 1))
    return count(l1), count(l2), _most(found, "lanes"), _tasks(found)


def _most(found: Sequence[Prediction], name: str) -> str:
    return str(max((getattr(x, name) for x in found), default=1))


def _tasks(found: Sequence[Prediction]) -> str:
    bound = [x for x in found if x.blocks * x.threads > 1]
    if bound:
        return f"{bound[0].blocks:,} × {bound[0].threads:,}"
    return count(max((x.tasks for x in found), default=1))


def machine(target: Target | None) -> str:
    """The machine that predictions are for."""
    found = cpu(target)
    sizes = ", ".join(f"L{n} {memory(x)}" for n, x in enumerate(found.caches, 1))
    lanes = found.lanes("float32")
    return f"{sizes}; {lanes} lanes of float32; {plural(found.num_cores, 'core')}"


class Comparison(display.Shown):
    """Two branches side by side.

    Attributes:
        names: of the branches.
        schedules: their schedules.
    """

    def __init__(self, first: str, a: Any, second: str, b: Any, target: Target | None) -> None:
        self.names = (first, second)
        self.schedules = (a, b)
        self.target = target

    @property
    def common(self) -> int:
        """The number of the last step that both have."""
        pairs = zip(*(x.steps for x in self.schedules), strict=False)
        same = [a.number for a, b in pairs if a.mod is b.mod]
        return next((n - 1 for n, found in enumerate(same) if n != found), len(same) - 1)

    def __repr__(self) -> str:
        return display.load("mlcnb.view:text_of")(self)


@shows("mlcnb.widgets.explorer_parts:Comparison")
def comparison(x: Comparison) -> list[Part]:
    """What only one has, the predictions, and both programs."""
    a, b = x.schedules
    shared = x.common
    names = [
        v.name_hint for v, f in a.mod.items() if isinstance(f, PrimFunc) and v in b.mod.functions
    ]
    differ = [n for n in names if a.mod[n] is not b.mod[n]] or names[:1]
    told = f"same up to step {shared}" if shared >= 0 else "nothing in common"
    parts: list[Part] = [Title(f"{clip(x.names[0], 40)} and {clip(x.names[1], 40)}: {told}")]
    columns = heads("branch | steps after that: code")
    columns += [Column(c, "number") for c in ("L1 misses", "L2 misses", "vector", "tasks")]
    rows = []
    for name, sch in zip(x.names, x.schedules, strict=True):
        own = [
            clip(call_text(sch, s, kinds=False), 80)
            for s in sch.steps[max(shared, 0) + 1 : sch.position + 1]
        ]
        rows.append((clip(name, 40), "; ".join(own) or "none", *figures(x, sch.mod, differ)))
    parts += [
        Table(columns, rows),
        Line(f"predicted for {machine(x.target)}, not measured", "note"),
    ]
    for name in differ[:2]:
        parts.append(side_by_side(a.mod[name], b.mod[name], titles=x.names))
    return parts
