"""Passes: what a pipeline is made of, what each pass of a run did, and one step with its diff.

20 passes, 273 ms; 4 changed the module; operators 91 -> 40
       pass         time  operators  what it did
  13   LegalizeOps  119 ms  91 -> 91  91 operators became calls of 47 loop functions
  16   FuseOps     13.1 ms  91 -> 40  78 calls fused into 26 groups, 18 of them distinct
16 passes changed nothing: Normalize, …
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.diff import Diff, change_parts
from mlcnb.view.parts import Column, Fold, Line, Part, Table, Title
from mlcnb.view.registry import shows
from mlcnb.view.survey import operator_count
from mlcnb.view.words import clip, listed, plural, seconds

_COLUMNS = (
    Column("", "number"),
    Column("pass", "code"),
    Column("time", "number"),
    Column("operators", "number"),
    Column("what it did", "prose"),
)


@shows("mlcnb.ir.pass_trace:PassTrace")
def trace(t: Any) -> list[Part]:
    """A row for each pass that changed something; the others folded."""
    counted: dict[int, int] = {}
    rows = [_row(number, step, counted) for number, step in enumerate(t.steps)]
    changed = [row for row, step in zip(rows, t.steps, strict=True) if step.changed]
    same = [(row, step) for row, step in zip(rows, t.steps, strict=True) if not step.changed]
    told = [f"{plural(len(t.steps), 'pass', 'passes')}, {seconds(t.seconds)}"]
    told.append(f"{len(changed)} changed the module")
    if t.steps:
        first, last = (_operators(m, counted) for m in (t.steps[0].before, t.steps[-1].after))
        told.append(f"operators {first} -> {last}")
    parts: list[Part] = [Title("; ".join(told))]
    if changed:
        parts.append(Table(_COLUMNS, changed, 60, "trace.steps"))
        parts.append(Line('one step with its diff: trace["NAME"] or trace[NUMBER]', "note"))
    if same:
        names = dict.fromkeys(step.name for _, step in same)
        title = f"{plural(len(same), 'pass', 'passes')} changed nothing: {listed(names, 6)}"
        parts.append(Fold(title, [Table(_COLUMNS, [row for row, _ in same], 60)]))
    return parts


def _row(number: int, step: Any, counted: dict[int, int]) -> tuple[str, ...]:
    before, after = (_operators(m, counted) for m in (step.before, step.after))
    ops = str(after) if before == after else f"{before} -> {after}"
    name = f"{'  ' * step.depth}{clip(step.name, 40)}"
    return str(number), name, seconds(step.seconds), ops, clip(step.reason, 160)


def _operators(mod: Any, counted: dict[int, int]) -> int:
    """Operators of a module; each module is counted once (the steps keep it alive)."""
    if id(mod) not in counted:
        counted[id(mod)] = operator_count(mod)
    return counted[id(mod)]


@shows("mlcnb.tir.transform.lower:Lowering")
def lowering(t: Any) -> list[Part]:
    """A row for each pass that changed something, with what it changed; the others folded."""
    columns = tuple(c for c in _COLUMNS if c.title != "operators")
    rows = [(str(n), s.name, seconds(s.seconds), _sentence(s)) for n, s in enumerate(t.steps)]
    both = list(zip(rows, t.steps, strict=True))
    changed, same = ([x for x in both if x[1].changed is which] for which in (True, False))
    told = f"lowering: {plural(len(rows), 'pass', 'passes')}, {seconds(t.seconds)}"
    parts: list[Part] = [Title(f"{told}; {len(changed)} changed the function")]
    if changed:
        parts.append(Table(columns, [row for row, _ in changed], 60, "lowering.steps"))
    for _, step in changed:
        made = Diff(step.before, step.after)
        parts.append(Fold(f"{step.name}: {made.summary}", change_parts(made)))
    if same:
        title = f"{plural(len(same), 'pass', 'passes')} changed nothing"
        names = listed([s.name for _, s in same], 6)
        parts.append(Fold(f"{title}: {names}", [Table(columns, [row for row, _ in same], 60)]))
    return parts


@shows("mlcnb.ir.pass_trace:PassStep", "mlcnb.tir.transform.lower:LoweringStep")
def step(s: Any) -> list[Part]:
    """What one pass did, and the difference that it made."""
    parts: list[Part] = [Title(f"{s.name}: {s.reason} ({seconds(s.seconds)})")]
    if s.summary:
        parts.append(Line(s.summary, "note"))
    if not s.changed:
        return parts
    made = Diff(s.before, s.after)
    return [*parts, Line(made.summary), *change_parts(made)]


@shows("mlcnb.ir.transform:Sequential")
def sequential(s: Any) -> list[Part]:
    """The passes of a pipeline, each with its first sentence."""
    columns = (Column("", "number"), Column("pass", "code"), Column("what it does", "prose"))
    rows = [(str(i), clip(repr(p), 60), _sentence(p)) for i, p in enumerate(s.passes)]
    return [Title(f"{s.name}: {plural(len(s), 'pass', 'passes')}"), Table(columns, rows, 60)]


@shows("mlcnb.ir.transform:Pass")
def one(p: Any) -> list[Part]:
    """A pass with its options and its first sentence."""
    return [Title(repr(p)), Line(_sentence(p), "note")]


def _sentence(p: Any) -> str:
    return clip(p.summary, 160)
