"""Passes: what a pipeline is made of, what each pass of a run did, and one step with its diff.

20 passes, 273 ms; 4 changed the module; operators 91 -> 40; temporaries 36.2 MB -> 12.1 MB
       pass         time  operators          temporaries  what it did
  13   LegalizeOps  119 ms       91              36.2 MB  91 operators became calls of 47 loop …
  16   FuseOps     13.1 ms  91 -> 40  36.2 MB -> 12.1 MB  78 calls fused into 26 groups, …
15 rules were applied: FuseOps.epilogue ×52, …
16 passes changed nothing: Normalize, …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.view.diff import Diff, change_parts
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Column, Fold, Line, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.survey import has_unknown_sizes, operator_count, temporaries
from mlcnb.view.words import clip, listed, plural, seconds, size

_COLUMNS = heads(
    ": number | pass: code | time: number | operators: number | temporaries: number | "
    "what it did: prose"
)
_RULES = heads("rule: code | applied: number | written in: code | what it does: prose")


@shows("mlcnb.ir.pass_trace:PassTrace")
def trace(t: Any) -> list[Part]:
    """A row for each pass that changed something; its rules, and the other passes, folded."""
    sizes = Sizes()
    rows = [_row(number, step, sizes) for number, step in enumerate(t.steps)]
    changed = [row for row, step in zip(rows, t.steps, strict=True) if step.changed]
    same = [(row, step) for row, step in zip(rows, t.steps, strict=True) if not step.changed]
    told = [f"{plural(len(t.steps), 'pass', 'passes')}, {seconds(t.seconds)}"]
    told.append(f"{len(changed)} changed the module")
    if t.steps:
        told += sizes.told(t.steps[0].before, t.steps[-1].after)
    parts: list[Part] = [Title("; ".join(told))]
    columns = _columns(t)
    if changed:
        parts.append(Table(columns, changed, 60, "trace.steps"))
        parts.append(Line('one step with its diff: trace["NAME"] or trace[NUMBER]', "note"))
    parts += _rules_fold([rule for step in t.steps for rule in step.rules])
    if same:
        names = dict.fromkeys(step.name for _, step in same)
        title = f"{plural(len(same), 'pass', 'passes')} changed nothing: {listed(names, 6)}"
        parts.append(Fold(title, [Table(columns, [row for row, _ in same], 60)]))
    return parts


def _columns(t: Any) -> Sequence[Column]:
    """The head of the table, which says so where sizes are not known."""
    if not t.steps or not has_unknown_sizes(t.steps[0].before):
        return _COLUMNS
    named = {"temporaries": Column("temporaries (sizes = 1)", "number")}
    return [named.get(column.title, column) for column in _COLUMNS]


def _row(number: int, step: Any, sizes: Sizes) -> tuple[str, ...]:
    name = f"{'  ' * step.depth}{clip(step.name, 40)}"
    ops, made = sizes.between(step.before, step.after)
    return str(number), name, seconds(step.seconds), ops, made, clip(step.reason, 160)


class Sizes:
    """Operators and bytes of temporaries of modules, each counted once.

    The steps that they come from keep the modules alive.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, mod: Any) -> tuple[int, int]:
        """Operators, and bytes of temporaries."""
        if id(mod) not in self._known:
            self._known[id(mod)] = operator_count(mod), temporaries(mod)
        return self._known[id(mod)]

    def between(self, before: Any, after: Any) -> tuple[str, str]:
        """Both in words: `91 -> 40`, or `91` where it stayed so."""
        (ops, made), (ops_after, made_after) = self.of(before), self.of(after)
        return _arrow(str(ops), str(ops_after)), _arrow(size(made), size(made_after))

    def told(self, first: Any, last: Any) -> list[str]:
        """Both over a whole run."""
        (ops, made), (ops_after, made_after) = self.of(first), self.of(last)
        return [
            f"operators {ops} -> {ops_after}",
            f"temporaries {size(made)} -> {size(made_after)}",
        ]


def _arrow(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def _rules_fold(rules: list[Any]) -> list[Part]:
    """The rules that were applied, folded; nothing where there were none."""
    if not rules:
        return []
    names = listed([f"{r.rule.name} ×{r.count}" for r in rules], 4)
    table = Table(_RULES, [_rule_row(r) for r in rules], 60, "trace[NUMBER].rules")
    hint = f"the run without one: trace.without({rules[0].rule.name!r})"
    title = f"{plural(len(rules), 'rule was', 'rules were')} applied: {names}"
    return [Fold(clip(title, 200), [table, Line(hint, "note")])]


def _rule_row(r: Any) -> tuple[str, ...]:
    name, where = clip(r.rule.name, 60), clip(r.rule.source, 80)
    return name, str(r.count), where, clip(r.rule.summary, 160)


@shows("mlcnb.ir.rules:RuleCount")
def rule_count(r: Any) -> list[Part]:
    """A rule, and how often it was applied."""
    return [Title(f"{clip(r.rule.name)}: applied {plural(r.count, 'time')}"), *_about(r.rule)]


@shows("mlcnb.ir.rules:Rule")
def rule(r: Any) -> list[Part]:
    """A rule: what it does, where it is written, and how to leave it out."""
    return [Title(f"rule {clip(r.name)}"), *_about(r)]


def _about(r: Any) -> list[Part]:
    leave = f"PassContext(disabled_rules=[{clip(r.name)!r}])"
    parts: list[Part] = [Line(clip(r.summary, 160))] if r.summary else []
    parts.append(Line(f"written in {clip(r.source, 120)}; left out by {leave}", "note"))
    if r.code:
        lines = r.code.count("\n") + 1
        parts.append(Fold(f"source, {plural(lines, 'line')}", [code(r.code, PYTHON)], "rule.code"))
    return parts


@shows("mlcnb.tir.transform.lower:Lowering")
def lowering(t: Any) -> list[Part]:
    """A row for each pass that changed something, with what it changed; the others folded."""
    columns = tuple(c for c in _COLUMNS if c.title not in ("operators", "temporaries"))
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
    if getattr(s, "rules", ()):
        parts.append(Table(_RULES, [_rule_row(r) for r in s.rules], 12, "step.rules"))
        hint = f"what it does without one: step.without({s.rules[0].rule.name!r})"
        parts.append(Line(hint, "note"))
    if not s.changed:
        return parts
    made = Diff(s.before, s.after)
    return [*parts, Line(made.summary), *change_parts(made)]


@shows("mlcnb.ir.transform:Sequential")
def sequential(s: Any) -> list[Part]:
    """The passes of a pipeline, each with its first sentence."""
    columns = heads(": number | pass: code | what it does: prose")
    rows = [(str(i), clip(repr(p), 60), _sentence(p)) for i, p in enumerate(s.passes)]
    return [Title(f"{s.name}: {plural(len(s), 'pass', 'passes')}"), Table(columns, rows, 60)]


@shows("mlcnb.ir.transform:Pass")
def one(p: Any) -> list[Part]:
    """A pass with its options and its first sentence."""
    return [Title(repr(p)), Line(_sentence(p), "note")]


def _sentence(p: Any) -> str:
    return clip(p.summary, 160)
