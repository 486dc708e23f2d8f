"""What a search found: the result, what was decided otherwise, how it got there, what was rejected.

tune matmul: 0.93 x the default's time [0.92, 0.95]
default 136 us   best 126 us   tried 212   rejected 14   seconds 30.1
  decision         default  best   worth
  tiles of a part  16x4     8x8    -6.2 %
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from mlcnb.meta_schedule.space import RECKONED
from mlcnb.view import search
from mlcnb.view.diff import change_parts, diff
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Facts, Fold, Line, Part, Picture, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, INK, LINE, Drawing
from mlcnb.view.words import clip, plural, seconds

#: size of the pictures, and where below their titles the axes begin
WIDTH, HEIGHT, TOP = 400, 190, 36
#: from one name to the next
LINE_HEIGHT = 12
#: what the model's term is called that comes from the rule itself
RECKONING = "the rule's own reckoning"
#: colours: what was timed, what was the best so far, the default and its like
DOT, BEST, DEFAULT = "#7aa2d6", "#1f5fa8", "#9a4a00"


@shows("mlcnb.meta_schedule.found:Tuning")
def tuning(t: Any) -> list[Part]:
    """The result, the winner's decisions, two pictures, the trials and what was rejected."""
    rejected = [x for x in t.trials if x.reason]
    facts = [
        ("default", seconds(t.default.seconds)),
        ("best", seconds(search.fastest(t, t.ratio))),
        ("tried", str(len(t.trials))),
        ("rejected", str(len(rejected) + len(t.refused))),
        ("seconds", f"{t.seconds:.1f}" + (", stopped" if t.stopped else "")),
    ]
    parts: list[Part] = [Title(_title(t)), Facts(facts)]
    if t.best is t.default:
        parts.append(Line("nothing was surely faster: the default stays", "note"))
    else:
        parts.append(_decisions(t))
        parts.append(Fold("what it does otherwise", lambda: _apart(t), "found.best.candidate.sch"))
    parts.append(pictured(t))
    parts.append(
        Picture(lambda: foretold(t).svg("predicted and measured"), "predicted against measured")
    )
    parts.append(Picture(lambda: races(t).svg("races"), "the race, heat by heat"))
    parts.append(Fold("decisions", lambda: [_tree(t)], "tuning.trials", in_text=True))
    parts.append(Fold("trials, fastest first", lambda: [_trials(t)], "tuning.trials", in_text=True))
    if rejected or t.refused:
        parts.append(Fold("rejected", lambda: [_rejected(t)], "tuning.refused"))
    steps = lambda: [code(search.written(t.best), PYTHON)]  # noqa: E731
    parts.append(Fold("the winner as Python", steps, "mlc.explore(tuning.schedule)"))
    return parts


def pictured(t: Any) -> Picture:
    """The ratio of each trial by its second, beside what it is compared with."""
    return Picture(lambda: progress(t).svg("best so far"), "the ratio of each trial")


def _apart(t: Any) -> list[Part]:
    """The default's steps and the winner's, as a diff."""
    return change_parts(diff(search.written(t.default), search.written(t.best)))


@shows("mlcnb.meta_schedule.tune:ModelTuning")
def model_tuning(m: Any) -> list[Part]:
    """A row for each kernel, the dearest first."""
    columns = heads(
        "kernel: code | calls: number | default: number | best: number | ratio: number | "
        "tried: number | decided otherwise: prose"
    )
    rows = []
    for one, calls in m.tasks:
        told = ", ".join(f"{k}: {v}" for k, v in one.best.candidate.choices.items())
        best = seconds(search.fastest(one, one.ratio))
        times = (seconds(one.default.seconds), best, f"{one.ratio:.2f}")
        rows.append((clip(one.name, 50), str(calls), *times, str(len(one.trials)), told))
    found = f"{plural(len(m.tasks), 'kernel')} tuned: {m.ratio:.2f} x the time of all kernels"
    parts: list[Part] = [Title(found), Table(columns, rows, 40, "tuning.tasks")]
    if m.left:
        parts.append(Line(f"{plural(len(m.left), 'kernel')} left alone", "note"))
    if m.opened:
        of_them = plural(len(m.opened), "kernel")
        parts.append(Line(f"{of_them} of open sizes not tuned: give the model its sizes", "note"))
    return parts


def _title(t: Any) -> str:
    if t.best is t.default:
        return f"tune {clip(t.name, 50)}: the default"
    low, high = t.interval
    return f"tune {clip(t.name, 50)}: {t.ratio:.2f} x the default's time [{low:.2f}, {high:.2f}]"


def _decisions(t: Any) -> Table:
    """What the winner decided otherwise, and what the model thinks that it is worth."""
    columns = heads("decision | default | best | worth: number")
    own = {p.name: p.options[p.default] for p in t.best.candidate.points}
    worth = terms(t)
    rows = [
        (name, own.get(name, ""), label, f"{worth[f'{name} {label}']:+.1%}")
        for name, label in t.best.candidate.choices.items()
        if f"{name} {label}" in worth
    ]
    rows += [(RECKONING, "", "", f"{worth[RECKONED]:+.1%}")]
    whole = t.model.predict(t.best.candidate)
    rows += [("all together", "", f"measured {t.ratio - 1:+.1%}", f"{whole - 1:+.1%}")]
    return Table(columns, rows)


def terms(t: Any) -> dict[str, float]:
    """Decision of the winner -> what the model thinks that it is worth: -0.1 for a tenth less."""
    return {name: math.expm1(x) for name, x in t.model.terms(t.best.candidate).items()}


def _tree(t: Any) -> Table:
    """Rules, their decisions, and the ways that these went."""
    columns = heads(
        "rule, decision, option: name | tried: number | best: number | rejected: number | "
        "why: prose"
    )  # fmt: skip
    rows = []
    for branch in search.tree(t):
        rows.append(_branch_row("", branch))
        for name, found in search.options(branch):
            rows.append((f"  {clip(name, 50)}", "", "", "", ""))
            rows += [_branch_row("    ", option) for option in found]
    return Table(columns, rows, 24, "mlc.explore(tuning)")


def _branch_row(indent: str, option: search.Option) -> tuple[str, ...]:
    best = "" if option.best is None else f"{option.best:.3f}"
    why = "; ".join(clip(reason, 80) for reason in option.rejected)
    count = option.rejected.total()
    return (f"{indent}{clip(option.label)}", str(option.tried), best, str(count or ""), why)


def _trials(t: Any) -> Table:
    columns = heads(
        ": number | time: number | ratio: number | predicted: number | decided otherwise: prose"
    )
    timed = sorted((x for x in t.trials if x.ratio is not None), key=lambda x: x.ratio)
    rows = [
        (
            str(x.number),
            seconds(x.seconds),
            f"{x.ratio:.3f}",
            f"{x.predicted:.2f}",
            ", ".join(f"{k}: {v}" for k, v in x.candidate.choices.items()) or "default",
        )
        for x in timed
    ]
    return Table(columns, rows, 20, "tuning.trials")


def _rejected(t: Any) -> Table:
    reasons = Counter(clip(x.reason, 120) for x in t.trials if x.reason)
    reasons.update(clip(why, 120) for _, why in t.refused)
    columns = heads("times: number | reason: prose")
    return Table(columns, [(str(n), why) for why, n in reasons.most_common()], 20, "tuning.refused")


def progress(t: Any) -> Drawing:
    """Each timed trial by its second and ratio; a line along the best so far; lines beside it."""
    timed = search.timed(t)
    lines = search.levels(t)
    ratios = [*(r for _, r in lines), *(x.ratio for x in timed)]
    d = _Frame("best so far", "seconds", "ratio", [x.at for x in timed], ratios)
    d.levels(lines)
    for x in timed:
        d.dot(x.at, x.ratio)
    steps = [(at, ratio) for at, ratio, _ in search.best_so_far(t)]
    steps.append((d.x[1], steps[-1][1]))
    for before, after in pairwise(steps):
        d.step(before, after)
    return d.drawing


def foretold(t: Any) -> Drawing:
    """Each timed trial by what was predicted before it was timed, and what was measured."""
    timed = search.timed(t)
    both = [x.predicted for x in timed] + [x.ratio for x in timed] + [1.0]
    d = _Frame("predicted against measured", "predicted", "measured", both, both)
    d.diagonal()
    for x in timed:
        d.dot(x.predicted, x.ratio)
    return d.drawing


def races(t: Any) -> Drawing:
    """A row for each race, the first at the top: who ran, and 95 % of a ratio once it is known."""
    rungs = search.ladder(t)
    found = [ratio for rung in rungs for _, ratio, _ in rung.runs]
    title = "races: who ran, and 95 % of a ratio once it is known"
    count = float(max(1, len(rungs)))
    d = _Frame(title, "ratio", "race", [1.0, *found], [0.0, count], upside_down=True)
    d.upright(1.0)
    for row, rung in enumerate(rungs):
        for _, ratio, bounds in rung.runs:
            if bounds is not None:
                d.bar(bounds, row + 0.5)
            d.dot(ratio, row + 0.5)
    return d.drawing


def _span(ratios: list[float]) -> tuple[float, float]:
    """From the least ratio to the largest, without the few that are far above most."""
    most = max(1.2, 1.3 * statistics.median(ratios))
    return min(ratios), min(3.0, most, max([*ratios, 1.1]))


class _Frame:
    """Axes with ticks; `ratios` far above most (3 at the most) are drawn at the end of the axis."""

    def __init__(
        self,
        title: str,
        across: str,
        up: str,
        xs: list[float],
        ys: list[float],
        upside_down: bool = False,
    ) -> None:
        self.x = (0.0, max([*xs, 0.1])) if across == "seconds" else _span(xs)
        self.y = (ys[1], ys[0]) if upside_down else _span(ys)
        d = self.drawing = Drawing()
        d.text(0, 11, title, INK, 11, bold=True)
        d.rect(40, TOP, WIDTH - 40, HEIGHT, "none", LINE)
        for share in (0.0, 0.5, 1.0):
            x = self.x[0] + share * (self.x[1] - self.x[0])
            y = self.y[0] + share * (self.y[1] - self.y[0])
            d.text(40 + share * (WIDTH - 40), TOP + HEIGHT + 14, f"{x:.3g}", FAINT, 10, "middle")
            told = f"{y:.0f}" if upside_down else f"{y:.2f}"
            d.text(36, TOP + HEIGHT - share * HEIGHT + 4, told, FAINT, 10, "end")
        d.text(40 + (WIDTH - 40) / 2, TOP + HEIGHT + 30, across, INK, 11, "middle")
        d.text(40, TOP - 6, up, FAINT, 10)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x, self.y
        across = (min(max(x, x0), x1) - x0) / max(1e-9, x1 - x0)
        low, high = sorted((y0, y1))
        up = (min(max(y, low), high) - y0) / ((y1 - y0) or 1e-9)
        return 40 + across * (WIDTH - 40), TOP + HEIGHT * (1 - up)

    def dot(self, x: float, y: float) -> None:
        at = self._at(x, y)
        self.drawing.rect(at[0] - 2.5, at[1] - 2.5, 5, 5, DOT, DOT, 2.5)

    def levels(self, lines: Iterable[tuple[str, float]]) -> None:
        """Lines from side to side; their names stand behind them, none on another or on a tick."""
        told = sorted((self._at(0, y)[1], name) for name, y in lines)
        free = float(TOP - LINE_HEIGHT)
        for number, (at, name) in enumerate(told, 1):
            lowest = TOP + HEIGHT - LINE_HEIGHT * (len(told) - number)
            free = max(free + LINE_HEIGHT, min(at, lowest))
            self.drawing.rect(40, at - 0.5, WIDTH - 40, 1, DEFAULT, DEFAULT)
            self.drawing.text(WIDTH + 4, free + 4, name, DEFAULT, 10)

    def step(self, a: tuple[float, float], b: tuple[float, float]) -> None:
        (x0, y0), (x1, y1) = self._at(*a), self._at(*b)
        self.drawing.rect(x0, y0 - 1, max(1, x1 - x0), 2, BEST, BEST)
        self.drawing.rect(x1 - 1, min(y0, y1), 2, abs(y1 - y0) + 1, BEST, BEST)

    def upright(self, x: float) -> None:
        """A line at the default's place."""
        self.drawing.rect(self._at(x, 0)[0] - 0.5, TOP, 1, HEIGHT, DEFAULT, DEFAULT)

    def bar(self, ends: tuple[float, float], y: float) -> None:
        """A stretch from end to end."""
        (x0, at), (x1, _) = self._at(ends[0], y), self._at(ends[1], y)
        self.drawing.rect(x0, at - 1, max(1, x1 - x0), 2, BEST, BEST)

    def diagonal(self) -> None:
        low, high = max(self.x[0], self.y[0]), min(self.x[1], self.y[1])
        self.drawing.line(*self._at(low, low), *self._at(high, high), LINE)
