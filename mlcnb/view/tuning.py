"""What a search found: the result, what was decided otherwise, how it got there, what was rejected.

tune matmul: 0.93 x the default's time [0.92, 0.95]
default 136 us   best 126 us   tried 212   rejected 14   seconds 30.1
  decision         default  best   worth
  tiles of a part  16x4     8x8    -6.2 %
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Column, Facts, Fold, Line, Part, Picture, Table, Title
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, INK, LINE, Drawing
from mlcnb.view.words import clip, plural, seconds

#: size of the pictures
WIDTH, HEIGHT = 420, 190
#: colours: what was timed, what was the best so far, the default
DOT, BEST, DEFAULT = "#7aa2d6", "#1f5fa8", "#a40e26"


@shows("mlcnb.meta_schedule.search:Tuning")
def tuning(t: Any) -> list[Part]:
    """The result, the winner's decisions, two pictures, the trials and what was rejected."""
    rejected = [x for x in t.trials if x.reason]
    facts = [
        ("default", seconds(t.default.seconds)),
        ("best", seconds(t.best.seconds)),
        ("tried", str(len(t.trials))),
        ("rejected", str(len(rejected) + len(t.illegal))),
        ("seconds", f"{t.seconds:.1f}" + (", stopped" if t.stopped else "")),
    ]
    parts: list[Part] = [Title(_title(t)), Facts(facts)]
    if t.best is t.default:
        parts.append(Line("nothing was surely faster: the default stays", "note"))
    else:
        parts.append(_decisions(t))
    parts.append(Picture(lambda: progress(t).svg("best so far"), "the ratio of each trial"))
    parts.append(
        Picture(lambda: foretold(t).svg("predicted and measured"), "predicted against measured")
    )
    parts.append(Fold("trials, fastest first", lambda: [_trials(t)], "tuning.trials", in_text=True))
    if rejected or t.illegal:
        parts.append(Fold("rejected", lambda: [_rejected(t)], "tuning.illegal"))
    steps = lambda: [code(str(t.record.trace), PYTHON)]  # noqa: E731
    parts.append(Fold("the winner's steps", steps, "print(tuning.record.trace)"))
    return parts


@shows("mlcnb.meta_schedule.tune:ModelTuning")
def model_tuning(m: Any) -> list[Part]:
    """A row for each kernel, the dearest first."""
    columns = [
        Column("kernel", "code"),
        Column("calls", "number"),
        Column("default", "number"),
        Column("best", "number"),
        Column("ratio", "number"),
        Column("tried", "number"),
        Column("decided otherwise", "prose"),
    ]
    rows = []
    for one, calls in m.tasks:
        told = ", ".join(f"{k}: {v}" for k, v in one.best.candidate.choices.items())
        times = (seconds(one.default.seconds), seconds(one.best.seconds), f"{one.ratio:.2f}")
        rows.append((clip(one.name, 50), str(calls), *times, str(len(one.trials)), told))
    found = f"{plural(len(m.tasks), 'kernel')} tuned: {m.ratio:.2f} x the time of all kernels"
    parts: list[Part] = [Title(found), Table(columns, rows, 40, "tuning.tasks")]
    if m.left:
        parts.append(Line(f"{plural(len(m.left), 'kernel')} left alone", "note"))
    return parts


def _title(t: Any) -> str:
    if t.best is t.default:
        return f"tune {clip(t.name, 50)}: the default"
    low, high = t.interval
    return f"tune {clip(t.name, 50)}: {t.ratio:.2f} x the default's time [{low:.2f}, {high:.2f}]"


def _decisions(t: Any) -> Table:
    """What the winner decided otherwise, and what the model thinks that it is worth."""
    columns = [Column("decision"), Column("default"), Column("best"), Column("worth", "number")]
    terms = t.model.terms(t.best.candidate)
    own = {p.name: p.options[p.default] for p in t.best.candidate.points}
    rows = [
        (name, own.get(name, ""), label, f"{math.expm1(terms.get(f'{name} {label}', 0.0)):+.1%}")
        for name, label in t.best.candidate.choices.items()
    ]
    return Table(columns, rows)


def _trials(t: Any) -> Table:
    columns = [
        Column("", "number"),
        Column("time", "number"),
        Column("ratio", "number"),
        Column("predicted", "number"),
        Column("decided otherwise", "prose"),
    ]
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
    reasons.update(clip(why, 120) for why in t.illegal.values())
    columns = [Column("times", "number"), Column("reason", "prose")]
    return Table(columns, [(str(n), why) for why, n in reasons.most_common()], 20, "tuning.illegal")


def progress(t: Any) -> Drawing:
    """Each timed trial by its second and ratio; a line along the best so far; the default at 1."""
    timed = [x for x in t.trials if x.ratio is not None and x.number]
    d = _Frame("seconds", "ratio", [x.at for x in timed], [1.0, *(x.ratio for x in timed)])
    d.level(1.0, "default")
    best, last = 1.0, (0.0, 1.0)
    for x in sorted(timed, key=lambda x: x.at):
        d.dot(x.at, x.ratio)
        if x.ratio < best:
            d.step(last, (x.at, x.ratio))
            best, last = x.ratio, (x.at, x.ratio)
    return d.drawing


def foretold(t: Any) -> Drawing:
    """Each timed trial by what was predicted before it was timed, and what was measured."""
    timed = [x for x in t.trials if x.ratio is not None and x.number]
    both = [x.predicted for x in timed] + [x.ratio for x in timed] + [1.0]
    d = _Frame("predicted", "measured", both, both)
    d.diagonal()
    for x in timed:
        d.dot(x.predicted, x.ratio)
    return d.drawing


class _Frame:
    """Axes with ticks; values beyond 3 are drawn at 3."""

    def __init__(self, across: str, up: str, xs: list[float], ys: list[float]) -> None:
        self.x = (0.0 if across == "seconds" else min(xs), max([*xs, 0.1]))
        self.y = (min(ys), min(3.0, max([*ys, 1.1])))
        if across != "seconds":
            self.x = (self.x[0], min(3.0, self.x[1]))
        d = self.drawing = Drawing()
        d.rect(40, 0, WIDTH - 40, HEIGHT, "none", LINE)
        for share in (0.0, 0.5, 1.0):
            x = self.x[0] + share * (self.x[1] - self.x[0])
            y = self.y[0] + share * (self.y[1] - self.y[0])
            d.text(40 + share * (WIDTH - 40), HEIGHT + 14, f"{x:.3g}", FAINT, 10, "middle")
            d.text(36, HEIGHT - share * HEIGHT + 4, f"{y:.2f}", FAINT, 10, "end")
        d.text(40 + (WIDTH - 40) / 2, HEIGHT + 30, across, INK, 11, "middle")
        d.text(44, 12, up, INK, 11)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x, self.y
        across = (min(max(x, x0), x1) - x0) / max(1e-9, x1 - x0)
        up = (min(max(y, y0), y1) - y0) / max(1e-9, y1 - y0)
        return 40 + across * (WIDTH - 40), HEIGHT * (1 - up)

    def dot(self, x: float, y: float) -> None:
        at = self._at(x, y)
        self.drawing.rect(at[0] - 2.5, at[1] - 2.5, 5, 5, DOT, DOT, 2.5)

    def level(self, y: float, name: str) -> None:
        at = self._at(0, y)[1]
        self.drawing.rect(40, at - 0.5, WIDTH - 40, 1, DEFAULT, DEFAULT)
        self.drawing.text(WIDTH - 4, at - 4, name, DEFAULT, 10, "end")

    def step(self, a: tuple[float, float], b: tuple[float, float]) -> None:
        (x0, y0), (x1, y1) = self._at(*a), self._at(*b)
        self.drawing.rect(x0, y0 - 1, max(1, x1 - x0), 2, BEST, BEST)
        self.drawing.rect(x1 - 1, min(y0, y1), 2, abs(y1 - y0) + 1, BEST, BEST)

    def diagonal(self) -> None:
        low, high = max(self.x[0], self.y[0]), min(self.x[1], self.y[1])
        self.drawing.arrow(*self._at(low, low), *self._at(high, high), LINE)
