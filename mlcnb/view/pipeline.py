"""The timeline of a pipeline: copies on their way, waits, barriers and products of one block.

Pipeline of matmul on A100 (sm_80): products limit, predicted
block (0, 0, 0): 34 steps, up to 2 groups of copies on their way, 17,459 cycles
"""

from __future__ import annotations

from collections.abc import Iterable

from mlcnb.observe.pipeline import PipelineTimeline, Step
from mlcnb.observe.played import Span
from mlcnb.view.parts import Facts, Fold, Line, Part, Picture, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, INK, Drawing
from mlcnb.view.words import clip, memory, percent, plural, seconds

#: colours of what happens, and of the ground under the phases
COLOURS = {"copy": "#cfe6f7", "wait": "#f6c4bd", "barrier": "#d9c8f0", "product": "#bfe5d0"}
GROUNDS = {"prologue": "#eef4fb", "steady": "#ffffff", "epilogue": "#f7f3ea"}
NAMES = {"copy": "copies", "wait": "waits", "barrier": "barriers", "product": "products"}
#: steps that are drawn at the beginning and at the end; the width of the time axis
FIRST, LAST, WIDE = 7, 3, 700.0
#: height of a row, where the axis begins, the width of the place where steps are left out
ROW, LEFT, GAP = 18.0, 82.0, 64.0
#: what is predicted of it
NOTE = (
    "Predicted, not measured: what happens, how often and in which order is the program's; how "
    "long it takes follows from figures of the GPU. A group of copies arrives one latency after "
    "its bytes came through the block's part of L2. Not modelled: L1, banks, issue of instructions."
)


@shows("mlcnb.observe.pipeline:PipelineTimeline")
def timeline(t: PipelineTimeline) -> list[Part]:
    """What limits, the picture, the steps."""
    name = f"Pipeline of {clip(t.name, 60)} on {t.gpu.name} ({t.gpu.arch})"
    alt = f"timeline of {clip(t.name, 60)}, in predicted cycles"
    return [
        Title(f"{name}: {t.limit} limit, predicted"),
        Line(f"{t.limit} limit: {t.why}"),
        Facts(_facts(t)),
        Picture(lambda: drawn(t).svg(alt), alt),
        Fold(plural(len(t.steps), "step"), [_table(t)], "timeline.steps", in_text=True),
        Line(NOTE, "note"),
    ]


def folded(t: PipelineTimeline) -> Part:
    """The timeline as a part of a report."""
    return Fold(
        f"pipeline: {t.limit} limit, {percent(t.waits)} of the steady state waits for copies",
        timeline(t)[1:], "found.pipelines", in_text=True,
    )  # fmt: skip


def _facts(t: PipelineTimeline) -> list[tuple[str, str]]:
    phases = [f"{sum(x.phase == p for x in t.steps)} {p}" for p in GROUNDS]
    groups = [x for x in t.spans if x.kind == "copy"]
    most = max((x.nbytes for x in groups), default=0)
    cut = ", the rest left out" if t.is_cut else ""
    whole = f"{t.cycles:,.0f} cycles, {seconds(t.cycles / t.gpu.clock)}: predicted"
    beside = f"{plural(t.rates.blocks, 'block')} on its multiprocessor"
    return [
        ("block", f"{t.block}, with {beside}" if t.rates.blocks > 1 else f"{t.block}, {beside}"),
        ("steps", f"{', '.join(phases)}{cut}; {whole}"),
        ("copies", f"{plural(len(groups), 'group')} of up to {memory(most)}, "
                   f"at most {t.depth} on their way at the end of a step"),
    ]  # fmt: skip


def _table(t: PipelineTimeline) -> Table:
    columns = heads(
        "step: number | phase | copies: number | on their way: number | waits: number | "
        "products: number | cycles: number"
    )
    rows = [
        (str(x.number), x.phase, memory(x.nbytes) if x.nbytes else "", str(x.in_flight),
         f"{x.waits:,.0f}", f"{x.products:,.0f}", f"{x.end - x.start:,.0f}")
        for x in t.steps
    ]  # fmt: skip
    return Table(columns, rows, 12, "timeline.steps")


class _Axis:
    """Cycles to pixels, with the middle steps left out."""

    def __init__(self, t: PipelineTimeline) -> None:
        steps = t.steps
        self.cut = len(steps) > FIRST + LAST + 1
        self.shown = [*steps[:FIRST], *steps[-LAST:]] if self.cut else [*steps]
        self.windows = [(0.0, t.cycles)]
        if self.cut:
            self.windows = [(0.0, steps[FIRST - 1].end), (steps[-LAST].start, t.cycles)]
        self.left_out = len(steps) - len(self.shown)
        total = sum(end - start for start, end in self.windows) or 1.0
        self.scale = (WIDE - (GAP if self.cut else 0)) / total

    def place(self, window: int, cycle: float) -> float:
        """Where a cycle of a window lies."""
        before = sum(end - start for start, end in self.windows[:window])
        start = self.windows[window][0]
        return LEFT + (before + cycle - start) * self.scale + window * GAP

    def pieces(self, start: float, end: float) -> Iterable[tuple[float, float]]:
        """Left end and width of what is seen of a span."""
        for number, (first, last) in enumerate(self.windows):
            a, b = max(start, first), min(end, last)
            if b > a or (a == b == start and first <= a < last):
                yield self.place(number, a), max((b - a) * self.scale, 1.5)


def drawn(t: PipelineTimeline) -> Drawing:
    """Rows for copies by turns, waits, barriers and products, over cycles."""
    d, axis = Drawing(), _Axis(t)
    turns = max(1, _most_at_once(t))
    rows = [f"copies {n + 1}" if turns > 1 else "copies" for n in range(turns)]
    kinds = [k for k in ("wait", "barrier", "product") if any(x.kind == k for x in t.spans)]
    rows += [NAMES[k] for k in kinds]
    height = len(rows) * (ROW + 4)
    top = 34.0
    for x in axis.shown:
        _ground(d, axis, x, top, height)
    boxes = []
    for span in t.spans:
        row = span.group % turns if span.kind == "copy" else turns + kinds.index(span.kind)
        y = top + 3 + row * (ROW + 4)
        for left, wide in axis.pieces(span.start, span.end):
            boxes.append((left, y, wide, ROW, COLOURS[span.kind], _label(t, span, wide)))
    d.cells(boxes, 9)
    for n, name in enumerate(rows):
        d.text(0, top + 3 + n * (ROW + 4) + 13, name, INK, size=10)
    if axis.cut:
        middle = axis.place(0, axis.windows[0][1]) + GAP / 2
        d.text(middle, top + height / 2, f"{axis.left_out} more", FAINT, size=9, anchor="middle")
        d.text(middle, top + height / 2 + 11, "steps", FAINT, size=9, anchor="middle")
    _ticks(d, axis, top + height + 4)
    return d


def _most_at_once(t: PipelineTimeline) -> int:
    """The most groups that are on their way at one time: so many rows show them all."""
    copies = [x for x in t.spans if x.kind == "copy"]
    return max((sum(x.start <= y.start < x.end for x in copies) for y in copies), default=0)


def _ground(d: Drawing, axis: _Axis, x: Step, top: float, height: float) -> None:
    """The ground of a step, its number, and the name of its phase where that begins."""
    for left, wide in axis.pieces(x.start, x.end):
        d.rect(left, top, wide, height, GROUNDS[x.phase], "#d0d7de")
        if wide > 14:
            d.text(left + wide / 2, top - 4, str(x.number), FAINT, size=9, anchor="middle")
        first = next(y for y in axis.shown if y.phase == x.phase)
        if x is first and x.phase != "prologue":
            d.text(left, 12, x.phase, INK, bold=True, size=10)
        elif x is first:
            d.text(0, 12, x.phase, INK, bold=True, size=10)


def _label(t: PipelineTimeline, span: Span, wide: float) -> str:
    """What stands in a box, if there is room for it."""
    full, short = "", ""
    if span.kind == "copy":
        full, short = f"{span.group}: {memory(span.nbytes)}", str(span.group)
    elif span.kind in ("wait", "product"):
        full = short = f"{span.cycles:,.0f}"
    for text in (full, short):
        if len(text) * 5.8 < wide - 4:
            return text
    return ""


def _ticks(d: Drawing, axis: _Axis, y: float) -> None:
    """Cycles at the ends of what is seen."""
    for number, (start, end) in enumerate(axis.windows):
        a, b = axis.place(number, start), axis.place(number, end)
        d.line(a, y, b, y, FAINT)
        d.text(a, y + 12, f"{start:,.0f}", FAINT, size=9)
        if b - a > 90:
            d.text(b, y + 12, f"{end:,.0f}", FAINT, size=9, anchor="end")
    d.text(0, y + 12, "cycles", FAINT, size=9)
    d.text(0, y + 24, "predicted", FAINT, size=9)
