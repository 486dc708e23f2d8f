"""Card: why a step was refused, with the two iterations that it would put in the wrong order.

    try:
        sch.vectorize(k)
    except mlc.tir.ScheduleError as error:
        page = mlc.explore(error)      the grid of iterations, the values, what is legal instead

The explorer shows the same card in place when a step that was chosen in the page is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.target import Target
from mlcnb.tir.schedule.offers.legal import LegalStep
from mlcnb.tir.schedule.offers.repairs import repairs
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.view import error as error_view
from mlcnb.view import iterations
from mlcnb.view.parts import Part, narrow
from mlcnb.view.words import clip
from mlcnb.widgets.base import Interactive, spans
from mlcnb.widgets.registry import explores
from mlcnb.widgets.storyboard import cost, predicted


@explores("mlcnb.core.errors:ScheduleError")
class Card(Interactive):
    """The card of a refused step, alone.

    Args:
        error: the refusal.
        target: the machine that predictions are for; by default this one.
    """

    module = "explorer"

    def __init__(self, error: ScheduleError, target: Target | str | None = None) -> None:
        self.error = error
        self.target = Target(target) if target is not None else None

    def snapshot(self) -> Mapping[str, Any]:
        """The card."""
        return {"card": card(self.error, repairs(self.error), self.target)}

    def parts(self) -> Sequence[Part]:
        """The static view of the error."""
        return error_view.error(self.error)


def card(
    error: ScheduleError, instead: Sequence[LegalStep], target: Target | None
) -> dict[str, Any]:
    """What a page shows of a refusal.

    Args:
        error: the refusal.
        instead: legal steps near it, which become buttons.
        target: the machine that predictions are for.
    """
    found = error.counterexample
    made: dict[str, Any] = {
        "step": error.message.partition(":")[0],
        "message": error.message,
        "hint": error.hint or "",
        "excerpt": _excerpt(error),
        "instead": [offer(n, x, target) for n, x in enumerate(instead)],
    }
    if found is not None:
        made["loop"] = found.loop
        made["change"] = found.change
        made["events"] = [] if found.first is None else [str(found.first), str(found.second)]
        made["grids"] = [grid.json() for grid in iterations.grids(found, error.root)]
        if found.is_certain:
            made["element"] = found.element
            made["values"] = [str(found.expected), str(found.got)]
            made["shapes"] = _shapes(found.shapes)
            made["cut"] = found.cut
            made["smallest"] = _shapes(found.smallest)
    return made


def offer(
    n: int, step: LegalStep, target: Target | None, is_weighed: bool = True
) -> dict[str, Any]:
    """A legal step for a page: its number, its call in short and as Python, what it would do.

    `is_weighed`: with what it is predicted to cost.
    """
    made = {
        "n": n,
        "primitive": step.primitive,
        "label": label(step),
        "text": step.text,
        "proof": step.proof,
    }
    if is_weighed and step.func is not None:
        made["cost"] = cost(predicted(step.func, target), target)
    return made


def label(step: LegalStep) -> str:
    """`split(i, factors=[None, 8])`: the call with the names of loops and blocks."""
    return short(step.call) if step.call is not None else step.text


def short(call: Any) -> str:
    """A call with the names of its loops and blocks."""
    given = []
    for name, value in call.given.items():
        if name == call.primitive.varargs:
            given += [_word(x) for x in value]
        elif hasattr(value, "node"):
            given.append(_word(value))
        else:
            given.append(f"{name}={_word(value)}")
    return clip(f"{call.primitive.name}({', '.join(given)})", 160)


def _word(value: Any) -> str:
    if hasattr(value, "node"):
        return clip(name_of(value.node).partition(" ")[2], 40)
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes))


def _excerpt(error: ScheduleError) -> dict[str, Any] | None:
    """Lines of the program around the place, and the place: line and columns from 0."""
    shown = error_view.excerpt(error)
    if shown is None or not shown.marks:
        return None
    where = shown.marks[0][0]
    lines = [line for n, line in enumerate(shown.lines, 1) if n != where.line + 1]
    texts = [spans(narrow(line[1:])) for line in lines]
    shift = len(shown.lines[0][0].text)
    return {
        "lines": texts,
        "line": where.line - 1,
        "from": where.column - 1 - shift,
        "to": where.end_column - 1 - shift,
    }
