"""Schedules: the steps that were done, what the last one changed, the loops as they are now.

Schedule of main: 3 steps
     step  call                                time
  >    3  vectorize(loop j_1)                0.9 ms
last step: …
loops: …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.handles import Handle
from mlcnb.view.cost import change_of_cost, cost_parts
from mlcnb.view.diff import Diff, change_parts
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.loops import loop_tree
from mlcnb.view.parts import Fold, Part, Table, Title, heads
from mlcnb.view.program import function_fold
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, listed, plural, seconds

#: steps that are shown unfolded
ROWS = 20


@shows("mlcnb.tir.schedule.schedule:Schedule")
def schedule(sch: Any) -> list[Part]:
    """Steps, the diff of the last one, loop tree, text."""
    steps, now = sch.steps, sch.position
    told = plural(now, "step")
    if now < len(steps) - 1:
        told += f", {len(steps) - 1 - now} undone"
    functions = [v.name_hint for v, f in sch.mod.of_kind(PrimFunc).items()]
    parts: list[Part] = [Title(f"Schedule of {listed(own_names(sch, functions), 3)}: {told}")]
    if len(steps) > 1:
        parts.append(step_table(sch))
    if now:
        made = Diff(steps[now - 1].mod, steps[now].mod, context=2)
        title = f"step {now}: {made.summary}"
        parts.append(Fold(title, change_parts(made), "print(sch.diff())", True, True))
    name = _working_on(sch, functions)
    if name:
        func = sch.mod[name]
        parts.append(Fold("loops now", [loop_tree(func)], "sch.show()", True, True))
        parts += cost_folds(sch, name)
        parts.append(function_fold(name, func, "sch.show()"))
    return parts


def own_names(sch: Any, functions: Sequence[str]) -> list[str]:
    """What the functions call themselves; a module made of one function calls it `main`."""
    return [str(sch.mod[name].attrs.get("global_symbol") or name) for name in functions]


def cost_folds(sch: Any, name: str) -> list[Part]:
    """What a function costs now, and cost before the last step."""
    now, func = sch.position, sch.mod[name]
    earlier = sch.steps[max(now - 1, 0)].mod
    before = next((f for v, f in earlier.items() if v.name_hint == name), func)
    if before is func or not isinstance(before, PrimFunc):
        parts, title = cost_parts(func), "cost"
    else:
        parts, title = change_of_cost(before, func), f"cost before and after step {now}"
    return [Fold(title, parts, "", True, True)] if parts else []


def _working_on(sch: Any, functions: list[str]) -> str:
    found = sch.func_working_on
    return found.name_hint if found is not None else (functions[0] if len(functions) == 1 else "")


def step_table(sch: Any) -> Table:
    """A row for each step; the one that the program stands at is marked."""
    columns = heads(" | step: number | call: code | time: number | legal")
    rows = [
        (
            *step_cells(sch, s),
            seconds(s.seconds) if s.instruction is not None else "",
            clip(s.proof, 80),
        )
        for s in sch.steps
    ]
    return Table(columns, rows, ROWS, "sch.steps")


def step_cells(sch: Any, step: Any, kinds: bool = True) -> tuple[str, str, str]:
    """Of a step: whether the program stands at it, its number, and its call (see `call_text`)."""
    sign = ">" if step.number == sch.position else "(undone)" if step.number > sch.position else ""
    call = "as given" if step.instruction is None else clip(call_text(sch, step, kinds), 120)
    return sign, str(step.number), call


def call_text(sch: Any, step: Any, kinds: bool = True) -> str:
    """`split(loop i, factors=[None, 32])`: the call without what is at its default.

    Loops and blocks have the names that they had when it was done, after the word for what they
    are if `kinds`.
    """
    instruction = step.instruction
    signature = getattr(type(sch), instruction.name).primitive.signature.parameters
    say = _Words(sch, step.number - 1, kinds)
    given = []
    for name, value in instruction.arguments.items():
        if name == instruction.varargs:
            given += [say.value(v) for v in value]
        elif name not in signature or value is not signature[name].default:
            shown = say.value(value)
            given.append(shown if isinstance(value, Handle) else f"{name}={shown}")
    if instruction.decision is not None:
        given.append(f"decision={say.value(instruction.decision)}")
    return f"{instruction.name}({', '.join(given)})"


@dataclass(frozen=True)
class _Words:
    """Arguments in words, as the program was at one step."""

    sch: Any
    at: int
    kinds: bool

    def value(self, value: Any) -> str:
        """An argument."""
        if isinstance(value, Handle):
            return self.handle(value)
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, e.IntImm | e.FloatImm | e.StringImm):
            return repr(value.value)
        if isinstance(value, e.PrimExpr):
            return display.text(value)
        return repr(value)

    def handle(self, handle: Handle) -> str:
        """`loop i` or `block C`, also of one that a later step has taken away."""
        try:
            words: str = self.sch.describe(handle, self.at).split(" in ")[0].split(",")[0]
            return words if self.kinds else words.partition(" ")[2] or words
        except MLCError:  # made by a step that is undone
            return "…"


@shows("mlcnb.tir.schedule.record.history:StepDiff")
def step_diff(d: Any) -> list[Part]:
    """What changed between two steps."""
    made = Diff(d.before.mod, d.after.mod, context=2)
    return [Title(f"{d.before!r} -> {d.after!r}: {made.summary}"), *change_parts(made)]


@shows("mlcnb.tir.schedule.record.trace:Trace")
def trace(t: Any) -> list[Part]:
    """The steps as a Python function."""
    return [Title(f"Trace: {plural(len(t), 'instruction')}"), code(str(t), PYTHON)]
