"""The page of a run of passes: a row for each, and what it did, as graphs and as text side by side.

    run = mlc.transform.trace(mlc.get_pipeline("default"), mod)
    mlc.explore(run)

Passes that changed nothing are folded. Of the others the page has the graph before and after, with
what is new, gone or changed marked, the lines of text that differ, and the rewrite rules that were
applied: how often, where (the nodes light up), and the source of each. With a kernel running, "run
without this rule" shows what the pass, and the rest of the pipeline, would have made without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_trace import PassStep, PassTrace
from mlcnb.ir.rules import Rule, RuleCount
from mlcnb.view import passes as passes_view
from mlcnb.view import survey
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Part
from mlcnb.view.words import clip, plural, seconds, size
from mlcnb.widgets.base import Interactive, Lines
from mlcnb.widgets.beside import Texts
from mlcnb.widgets.graphs import before_after
from mlcnb.widgets.registry import explores


@explores("mlcnb.ir.pass_trace:PassTrace")
class Timeline(Interactive):
    """The page of a PassTrace. See the module's text."""

    module = "timeline"

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
