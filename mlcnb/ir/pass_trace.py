"""A run of passes with every step kept, and the same run without one of its rewrite rules.

run = trace(pipeline, mod)
run.steps[2].name, .before, .after, .seconds, .changed, .reason     run.result
run.steps[2].rules                  which rewrite rules were applied, how often and to what
run.steps[2].without("SimplifyOps.reshape")      what this pass does without a rule
run.without("SimplifyOps.reshape")               the whole run without it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import Fired, RuleCount, counted, find_rule
from mlcnb.ir.steps import Steps
from mlcnb.ir.transform import Pass, PassContext, PassInfo, Sequential


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PassStep(display.Shown):
    """One pass of a run that was traced.

    name: the pass's; before, after: the modules; seconds: what it took, passes inside counted;
    depth: 0 for the outermost; skipped: it was left out; notes: what it said of its work; fired:
    the uses of its rewrite rules; context: the target and the settings that it ran under.
    """

    name: str
    pass_: Any
    before: IRModule
    after: IRModule
    seconds: float
    depth: int = 0
    skipped: bool = False
    notes: tuple[str, ...] = ()
    fired: tuple[Fired, ...] = ()
    context: Context | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.before.held_by(self, "before", "after")
        if self.after is not self.before:
            self.after.held_by(self, "after")

    @property
    def changed(self) -> bool:
        """Whether the pass changed the module."""
        return self.before is not self.after

    @property
    def summary(self) -> str:
        """What the pass is for: the first sentence of its docstring."""
        return self.pass_.summary if isinstance(self.pass_, Pass) else ""

    @property
    def reason(self) -> str:
        """What the pass said it did; else why there is nothing to see."""
        if self.skipped:
            return "left out"
        if self.notes:
            return "; ".join(self.notes)
        return "changed" if self.changed else "nothing to do"

    @property
    def rules(self) -> tuple[RuleCount, ...]:
        """The rewrite rules that were applied, each with the nodes of its uses."""
        return counted(self.fired)

    def without(self, *rules: str) -> PassStep:
        """The step as it would have been without some rewrite rules: the pass is run again.

        Raises:
            PassError: a rule that is not known.
        """
        return _rerun([self], self.before, rules, self.context)[0]

    @property
    def functions_changed(self) -> tuple[str, ...]:
        """Names of the functions that are new or differ."""
        old = self.before.functions
        return tuple(k.name_hint for k, f in self.after.items() if old.get(k) is not f)

    def __repr__(self) -> str:
        return f"{self.name}: {self.reason} ({self.seconds * 1e3:.1f} ms)"


class PassTrace(Steps[PassStep]):
    """Keeps every pass that runs: `steps`, in the order in which they ended.

    A Sequential is no step of its own; its passes are, one level deeper. It is an instrument (see
    `mlcnb.ir.instrument`).
    """

    called = "PassTrace"

    def __init__(self) -> None:
        self.steps: list[PassStep] = []
        self._open: list[tuple[PassInfo, IRModule, float]] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Remember what the pass was given."""
        self._open.append((info, mod, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Keep the step."""
        info, before, started = self._open.pop()
        if isinstance(info.pass_, Sequential):
            return
        seconds = time.perf_counter() - started
        current = PassContext.current()
        step = PassStep(info.name, info.pass_, before, mod, seconds)
        self._keep(replace(step, notes=current.notes, fired=current.fired))

    def skip_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Keep that it was left out."""
        self._keep(PassStep(info.name, info.pass_, mod, mod, 0.0, skipped=True))

    def exit_pass_ctx(self) -> None:
        """Forget passes that were cut short by an error."""
        self._open.clear()

    def _keep(self, step: PassStep) -> None:
        depth = sum(not isinstance(outer.pass_, Sequential) for outer, _, _ in self._open)
        self.steps.append(replace(step, depth=depth, context=copy_context()))

    @property
    def result(self) -> IRModule:
        """The module after the last step.

        Raises:
            PassError: no pass ran.
        """
        if not self.steps:
            raise PassError("PassTrace: no pass ran", hint="mlcnb.transform.trace(pipeline, mod)")
        return self.steps[-1].after

    @property
    def seconds(self) -> float:
        """Seconds of all outermost steps together."""
        return sum(step.seconds for step in self.steps if step.depth == 0)

    def without(self, *rules: str) -> PassTrace:
        """The run as it would have been without some rewrite rules.

        The outermost passes from the first one on that applied one of the rules are run again.

        Raises:
            PassError: a rule that is not known, or that was not applied.
        """
        wanted = {find_rule(name).name for name in rules}
        runs = list(self._outermost())
        used = [any(use.rule.name in wanted for step in run for use in step.fired) for run in runs]
        if not any(used):
            applied = sorted({use.rule.name for step in self.steps for use in step.fired})
            raise PassError(
                f"PassTrace: {', '.join(rules)} was not applied in this run",
                hint=f"applied: {', '.join(applied) or 'none'}",
            )
        first = used.index(True)
        again = [run[-1] for run in runs[first:]]
        made = PassTrace()
        made.steps = [step for run in runs[:first] for step in run]
        made.steps += _rerun(again, again[0].before, rules, again[0].context)
        return made

    def _outermost(self) -> Iterator[list[PassStep]]:
        """The outermost steps, each last in a list of those that ran inside it."""
        inside: list[PassStep] = []
        for step in self.steps:
            inside.append(step)
            if step.depth == 0:
                yield inside
                inside = []

    def __repr__(self) -> str:
        lines = [f"{len(self.steps)} passes, {self.seconds * 1e3:.1f} ms"]
        for number, step in enumerate(self.steps):
            mark = "*" if step.changed else " "
            name = "  " * step.depth + step.name
            lines.append(
                f"{number:3} {mark} {name:<30} {step.seconds * 1e3:8.2f} ms  {step.reason}"
            )
        return "\n".join(lines)


def _rerun(
    steps: list[PassStep], mod: IRModule, disabled: Iterable[str], context: Context | None
) -> list[PassStep]:
    """The passes of some steps one after the other on `mod`, without some rules."""
    kept = PassTrace()

    def run() -> None:
        settings = PassContext.current().settings
        settings["disabled_rules"] = (*settings["disabled_rules"], *disabled)
        with PassContext(instruments=[kept], **settings) as ctx:
            now = mod
            for step in steps:
                if step.skipped:
                    ctx.skipped(step.pass_.info, now)
                else:
                    now = step.pass_(now)

    (context or copy_context()).copy().run(run)
    return kept.steps


def trace(
    passes: Callable[[IRModule], IRModule] | list[Pass], mod: IRModule, **context: Any
) -> PassTrace:
    """Run a pass, a Sequential or a list of passes on `mod` and keep every step.

    Args:
        passes: what to run.
        mod: what to run it on.
        context: arguments of the PassContext (the current one's settings if none are given).
    """
    kept = PassTrace()
    current = PassContext.current()
    settings = {**current.settings, **context}
    others = tuple(settings.pop("instruments", current.instruments))
    with PassContext(instruments=(*others, kept), **settings):
        (Sequential(passes) if isinstance(passes, list | tuple) else passes)(mod)
    return kept
