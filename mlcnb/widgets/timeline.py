"""The page of a run of passes: a row for each, and what it did, as graphs and as text side by side.

    run = mlc.transform.trace(mlc.get_pipeline("default"), mod)
    mlc.explore(run)

Passes that changed nothing are folded. Of the others the page has the graph before and after, with
what is new, gone or changed marked, the lines of text that differ, and the rewrite rules that were
applied: how often, where (the nodes light up), and the source of each. With a kernel running, "run
without this rule" shows what the pass, and the rest of the pipeline, would have made without it.

Functions of two modules that differ stand side by side, as numbers of lines in a table of texts; -1
is no line, -1 - n stands for n lines left out.

    Texts(lines).beside(before, after)
    [{"name": "main", "kind": "changed", "left": [0, 1, -1], "right": [0, 2, 3], "signs": " ~+"}, …]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlcnb.core.doc import Page
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_trace import PassStep, PassTrace
from mlcnb.ir.rules import Rule, RuleCount
from mlcnb.script.printer import document
from mlcnb.view import passes as passes_view
from mlcnb.view import survey
from mlcnb.view.diff import Change
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Part
from mlcnb.view.words import clip, plural, seconds, size
from mlcnb.widgets.base import Interactive, Lines
from mlcnb.widgets.graphs import before_after
from mlcnb.widgets.registry import explores


@explores("mlcnb.ir.pass_trace:PassTrace")
class Timeline(Interactive):
    """The page of a PassTrace. See the module's text."""

    module = "timeline"
    traits = ("step",)

    def __init__(self, run: PassTrace) -> None:
        self.run = run
        self.lines = Lines()
        self.texts = Texts(self.lines)
        self._sizes = passes_view.Sizes()
        self._snapshot: dict[str, Any] | None = None

    def parts(self) -> Sequence[Part]:
        """The table of passes."""
        return passes_view.trace(self.run)

    def explain(self) -> str:
        """A line for each pass that changed something, and for each of its rules."""
        steps = [step for step in self.run.steps if step.changed]
        lines = [self.title]
        for number, step in enumerate(self.run.steps):
            if not step.changed:
                continue
            ops, made = self._sizes.between(step.before, step.after)
            told = f"{seconds(step.seconds)}; operators {ops}; temporaries {made}"
            lines.append(f"{number:3} {clip(step.name, 40)}: {clip(step.reason, 160)}; {told}")
            lines += [f"      {_told(used)}" for used in step.rules]
        same = len(self.run.steps) - len(steps)
        lines.append(f"{plural(same, 'pass', 'passes')} changed nothing")
        return "\n".join(lines)

    @property
    def title(self) -> str:
        """What ran, in one line."""
        steps = self.run.steps
        told = f"{plural(len(steps), 'pass', 'passes')}, {seconds(self.run.seconds)}"
        if not steps:
            return told
        return "; ".join([told, *self._sizes.told(steps[0].before, steps[-1].after)])

    def snapshot(self) -> dict[str, Any]:
        """All steps; of those that changed something also graphs, text and rules."""
        if self._snapshot is None:
            self._snapshot = self._made()
        return self._snapshot

    def _made(self) -> dict[str, Any]:
        steps = [self._step(step) for step in self.run.steps]
        rules = {use.rule.name: use.rule for step in self.run.steps for use in step.fired}
        return {
            "title": self.title,
            "steps": steps,
            "rules": {name: self._rule(rule) for name, rule in rules.items()},
            "lines": list(self.lines.table),
        }

    def _rule(self, rule: Rule) -> dict[str, Any]:
        listing = code(rule.code, PYTHON).lines if rule.code else []
        return {
            "summary": clip(rule.summary, 200),
            "source": clip(rule.source, 120),
            "code": self.lines.add(listing),
        }

    def _step(self, step: PassStep) -> dict[str, Any]:
        told: dict[str, Any] = {
            "name": clip(step.name, 60),
            "ms": round(step.seconds * 1e3, 3),
            "depth": step.depth,
            "what": clip(step.reason, 200),
            "why": clip(step.summary, 200),
            "changed": step.changed,
            **self._figures(step.before, step.after),
        }
        return {**told, **self._views(step)} if step.changed else told

    def _figures(self, before: IRModule, after: IRModule) -> dict[str, Any]:
        pair = [self._sizes.of(before), self._sizes.of(after)]
        return {
            "ops": [ops for ops, _ in pair],
            "bytes": [size(made) for _, made in pair],
            "shares": [made for _, made in pair],
        }

    def _views(self, step: PassStep) -> dict[str, Any]:
        """What the two panes show of a step."""
        return {
            **before_after(step.before, step.after, step.rules),
            "rules": [[used.rule.name, used.count] for used in step.rules],
            "text": self.texts.beside(step.before, step.after),
        }

    # questions of the page -----------------------------------------------------------------------

    def on_without(self, step: int, rule: str) -> dict[str, Any]:
        """The step without one of its rules, and what the rest of the pipeline makes of that."""
        first = self.run.steps[step]
        known = len(self.snapshot()["lines"])
        other = first.without(rule)
        told = {
            "rule": rule,
            "step": self._step(replace(other, before=first.before)),
            "instead": self._figures(first.after, other.after),
            "lines": self.lines.table[known:],
            "from": known,
        }
        return {**told, "end": self._end(rule)}

    def _end(self, rule: str) -> dict[str, Any]:
        """The whole pipeline without the rule, beside the one with it."""
        try:
            last = self.run.without(rule).result
        except MLCError as error:
            return {"error": error.message}
        calls = [_kernels(mod) for mod in (self.run.result, last)]
        return {**self._figures(self.run.result, last), "calls": calls}


@explores("mlcnb.ir.pass_trace:PassStep")
def of_step(step: PassStep) -> Timeline:
    """The page of one step."""
    run = PassTrace()
    run.steps.append(step)
    return Timeline(run)


def _told(used: RuleCount) -> str:
    return f"{used.rule.name} ×{used.count}, {clip(used.rule.source, 120)}"


def _kernels(mod: IRModule) -> int:
    return sum(
        survey.kernel_calls(f, mod.functions).total() for _, f in survey.graph_functions(mod)
    )


#: rows of one function
MOST_LINES = 400
#: unchanged lines around a change
CONTEXT = 3
#: functions whose text is shown: that changed, and that are new or gone
MOST_CHANGED, MOST_OTHERS = 8, 4

#: line before, line after, sign
Row = tuple[int, int, str]


class Texts:
    """Programs as numbers of lines in a table; each function is printed once."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        #: the functions are kept: an id alone may come again
        self._pages: dict[tuple[int, str], tuple[Any, Page]] = {}

    def page(self, function: Any, name: str) -> Page:
        """The text of a function under this name."""
        key = (id(function), name)
        if key not in self._pages:
            self._pages[key] = function, document(function, header=False, name=name)
        return self._pages[key][1]

    def beside(self, before: IRModule, after: IRModule) -> list[dict[str, Any]]:
        """The functions that differ, those that are on both sides first."""
        olds = {v.name_hint: f for v, f in before.items()}
        news = {v.name_hint: f for v, f in after.items()}
        both = [n for n in news if n in olds and olds[n] is not news[n]]
        both.sort(key=lambda name: name != "main")
        others = [n for n in news if n not in olds] + [n for n in olds if n not in news]
        shown = [*both[:MOST_CHANGED], *others[:MOST_OTHERS]]
        made = [self._function(name, olds.get(name), news.get(name)) for name in shown]
        left = [clip(n, 40) for n in (*both[MOST_CHANGED:], *others[MOST_OTHERS:])]
        found = [told for told in made if told["signs"].strip(" …")]
        return [*found, *([{"more": left}] if left else [])]

    def _function(self, name: str, old: Any, new: Any) -> dict[str, Any]:
        pages = [None if f is None else self.page(f, name) for f in (old, new)]
        change = Change(name, *([] if p is None else p.text_lines for p in pages))
        rows = aligned(change, CONTEXT)[:MOST_LINES]
        numbers = [[] if p is None else self.lines.add(p.lines) for p in pages]
        return {
            "name": clip(name, 60),
            "kind": change.kind,
            "left": [_number(numbers[0], old_line) for old_line, _, _ in rows],
            "right": [_number(numbers[1], new_line) for _, new_line, _ in rows],
            "signs": "".join(sign for _, _, sign in rows),
        }


def _number(numbers: list[int], line: int) -> int:
    return numbers[line] if line >= 0 else line


def aligned(change: Change, context: int) -> list[Row]:
    """Both texts line by line, changed stretches beside each other, long equal ones left out."""
    rows: list[Row] = []
    blocks = list(change.blocks)
    for number, (tag, i1, i2, j1, j2) in enumerate(blocks):
        if tag == "equal":
            ends = (number > 0, number + 1 < len(blocks))
            rows += _equal(i1, j1, i2 - i1, context, ends)
            continue
        for n in range(max(i2 - i1, j2 - j1)):
            old = i1 + n if i1 + n < i2 else -1
            new = j1 + n if j1 + n < j2 else -1
            rows.append((old, new, "~" if old >= 0 and new >= 0 else "-" if old >= 0 else "+"))
    return rows


def _equal(i: int, j: int, count: int, context: int, ends: tuple[bool, bool]) -> list[Row]:
    """Equal lines: those near a change at an end; between them how many are left out."""
    first, last = (context if end else 0 for end in ends)
    if count <= first + last + 2:
        return [(i + n, j + n, " ") for n in range(count)]
    left_out = count - first - last
    return [
        *((i + n, j + n, " ") for n in range(first)),
        (-1 - left_out, -1 - left_out, "…"),
        *((i + n, j + n, " ") for n in range(count - last, count)),
    ]
