"""Tuning: a search while it goes on, and what it found.

    found = mlc.tune(matmul)         in a notebook this page shows the search, with a Stop button
    mlc.explore(found)               the same page of a search that is over

Best so far against seconds, with the default, peers and the roofline as lines; predicted against
measured; the tree of decisions with what was rejected and why; the races; at the end why it won.
When the search is over, its cell keeps the last picture as static HTML: the result has the rest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mlcnb.core import above, display
from mlcnb.core.errors import MLCError
from mlcnb.meta_schedule.found import shown
from mlcnb.meta_schedule.space import RECKONED
from mlcnb.runtime.strip import work_of
from mlcnb.view import search as told
from mlcnb.view import tuning as view
from mlcnb.view.diff import diff
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Line, Part, Title, narrow
from mlcnb.view.registry import find
from mlcnb.view.words import clip, seconds
from mlcnb.widgets.base import Interactive, spans, wants_widgets
from mlcnb.widgets.registry import explores

#: seconds between two pictures while a search goes on
EVERY = 0.4
#: characters of a line of the diff
WIDEST = 240
#: trials that a page has: the latest, and all that were best so far
MOST = 1500


@dataclass
class Task:
    """One search on a page: it, or what it found, and how often the kernel is called."""

    search: Any
    name: str
    calls: int

    @property
    def found(self) -> Any:
        """What was found; None while it goes on."""
        return self.search.found if hasattr(self.search, "listeners") else self.search

    @property
    def state(self) -> Any:
        """Where its trials are read."""
        return self.found or self.search


@explores("mlcnb.meta_schedule.found:Tuning", "mlcnb.meta_schedule.tune:ModelTuning")
class TuningPage(Interactive):
    """The page of a search, or of those of a model.

    Args:
        found: what `tune` found; None: searches are told by `begin`.
    """

    module = "tuning"

    def __init__(self, found: Any = None) -> None:
        self.whole = found
        pairs = getattr(found, "tasks", [] if found is None else [(found, 1)])
        self.tasks = [Task(one, one.name, calls) for one, calls in pairs]
        self._shown_at = 0.0
        self._handle: Any = None

    def begin(self, search: Any, name: str, calls: int) -> None:
        """Show a search that begins."""
        self.tasks.append(Task(search, name, calls))
        roof = _roof(search)
        if roof is not None:
            search.levels.setdefault("roofline", roof)
        search.listeners.append(self._moved)
        self._moved()

    def __enter__(self) -> TuningPage:
        self._handle = _display(self._repr_mimebundle_())
        _hear_aside(self.panel)
        return self

    def __exit__(self, *error: Any) -> None:
        """What stays in the cell needs no kernel: the last picture."""
        static = {"text/plain": self.explain(), "text/html": self.to_html()}
        self._handle.update(static, raw=True)
        self.panel.close()

    def refresh(self) -> None:
        """Show what is true now; the cell still runs, and the button is heard nevertheless."""
        super().refresh()
        _hear_aside(self.panel)

    def _moved(self) -> None:
        now = time.perf_counter()
        if now - self._shown_at > EVERY or self.tasks[-1].found:
            self._shown_at = now
            self.refresh()

    def on_stop(self) -> dict[str, Any]:
        """The button: the search that goes on ends as by Ctrl-C, with all that was measured."""
        going = [t for t in self.tasks if t.found is None]
        for task in going:
            task.search.stop.set()
        return {"stopping": len(going)}

    def snapshot(self) -> dict[str, Any]:
        """Every search: its lines, trials, decisions and races; why the winner won."""
        return {"tasks": [_told(task) for task in self.tasks]}

    def parts(self) -> Sequence[Part]:
        """What was found, whole; of a search that has just gone on, its last picture."""
        if self.whole is not None:
            view_of = find(self.whole)
            return list(view_of(self.whole)) if view_of else []
        last = [t for t in self.tasks if t.search.trials]
        parts: list[Part] = [Title(_line(t)) for t in last] or [Title("tune: nothing tried yet")]
        if last:
            parts += [view.pictured(last[-1].state)]
            parts += [Line("mlc.explore(found) shows all of it: decisions, races, why", "note")]
        return parts


def page_of_search() -> TuningPage | None:
    """A page for searches that begin now; None where no page with script is shown."""
    return TuningPage() if display.in_notebook() and wants_widgets() else None


def _display(bundle: dict[str, Any]) -> Any:
    from IPython.display import display as show

    return show(bundle, raw=True, display_id=True)


def _hear_aside(panel: Any) -> None:
    """Let questions of a page come on the thread that the front end chose for them.

    A front end may send them to a subshell, which answers while a cell runs. ipykernel from 7.4 on
    sends them to the thread that wrote last to the page, which is the busy one.
    """
    with suppress(TypeError):
        vars(panel.comm).pop("_reply_subshell_id", None)


def _roof(search: Any) -> float | None:
    """The least seconds of one call by the measured ceilings; None: its work is not counted."""
    with suppress(MLCError):
        done, nbytes = work_of(search.func)
        if done and nbytes:
            threads = search.threads
            return float(above.ask("roofline")(threads).least_seconds(done, nbytes))
    return None


def _line(task: Task) -> str:
    """Where a search stands, in one line."""
    t = task.state
    best = told.likeliest(t)
    ratio = task.found.ratio if task.found else best.ratio or 1.0
    rejected = sum(bool(x.reason) for x in t.trials) + len(t.refused)
    time = f"best {seconds(told.fastest(t, ratio))} = {ratio:.2f} x the default's time"
    bounds = "" if not task.found or task.found.best is task.found.default else _bounds(task.found)
    return (
        f"tune {clip(task.name, 50)}: {t.trials[-1].at:.1f} s, {len(t.trials)} tried, "
        f"{rejected} rejected, {time}{bounds}"
    )


def _bounds(found: Any) -> str:
    low, high = found.interval
    return f" [{low:.2f}, {high:.2f}]"


def _told(task: Task) -> dict[str, Any]:
    """One search for the page."""
    t, found = task.state, task.found
    if not t.trials:
        return {"name": clip(task.name, 80), "calls": task.calls, "running": True, "trials": []}
    best = told.likeliest(t)
    kept = {number for _, _, number in told.best_so_far(t)} | {best.number}
    trials = [x for x in t.trials if x.number in kept or x.number > len(t.trials) - MOST]
    return {
        "name": clip(task.name, 80),
        "calls": task.calls,
        "running": found is None,
        "stopped": t.stopped,
        "budget": getattr(task.search, "budget", None) or t.seconds,
        "line": _line(task),
        "best": best.number,
        "kept": found is not None and found.best is found.default,
        "default": seconds(t.trials[0].seconds),
        "levels": [[clip(name, 24), ratio] for name, ratio in told.levels(t)],
        "steps": [list(step) for step in told.best_so_far(t)],
        "trials": [_trial(x) for x in trials],
        "tree": [_branch(x) for x in told.tree(t)],
        "ladder": [[r.is_last, [[n, x, b] for n, x, b in r.runs]] for r in told.ladder(t)],
        "why": _why(found) if found else None,
    }


def _trial(x: Any) -> list[Any]:
    """Number, second, ratio, predicted, time, what was decided otherwise, why it was rejected."""
    choices = clip(shown(x.candidate.choices) or "the default", 200)
    time = "" if x.seconds is None else seconds(x.seconds)
    return [x.number, round(x.at, 2), x.ratio, x.predicted, time, choices, clip(x.reason, 200)]


def _branch(branch: told.Branch) -> dict[str, Any]:
    decisions = [[clip(name, 60), [_option(x) for x in of]] for name, of in told.options(branch)]
    return {"rule": _option(branch), "decisions": decisions}


def _option(x: told.Option) -> list[Any]:
    """Label, tries, best ratio, [why it was rejected, how often]."""
    why = [[clip(reason, 160), n] for reason, n in x.rejected.most_common(4)]
    return [clip(x.label, 60), x.tried, x.best, why]


def _why(found: Any) -> dict[str, Any]:
    """The model's terms of the winner, its steps beside the default's, its code."""
    terms = sorted(view.terms(found).items(), key=lambda pair: pair[1])
    before, after = told.written(found.default), told.written(found.best)
    return {
        "terms": [[_named(name), worth] for name, worth in terms if worth],
        "predicted": found.model.predict(found.best.candidate),
        "measured": found.ratio,
        "diff": [_cut(line) for line in diff(before, after, 2).text.splitlines()[1:]],
        "python": after,
        "lines": [spans(narrow(line)) for line in code(after, PYTHON).lines],
    }


def _cut(line: str) -> str:
    """A line of the diff, cut where it is too long for a page."""
    return line if len(line) <= WIDEST else f"{line[:WIDEST]}…"


def _named(term: str) -> str:
    return view.RECKONING if term == RECKONED else clip(term, 80)
