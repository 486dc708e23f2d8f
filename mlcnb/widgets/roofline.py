"""Roofline trail: a program moving under the roof of this machine as its schedule goes on.

mlc.explore(mlc.replay(sch))           its stages, each compiled, run and compared
mlc.explore(mlc.replay(sch, at=…))     the same of chosen stages

measured    GFLOP/s of a stage; the ceilings of the machine
counted     FLOPs, and bytes of the arguments, each once
predicted   bytes between the caches (`mlcnb.machine.prediction`), and the GFLOP/s that the
            ceilings leave for them with the vectors that the program asks for
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.machine.prediction import LINE, predict
from mlcnb.observe.replay import Replay, Stage
from mlcnb.target import Target
from mlcnb.view.parts import Column, Facts, Fold, Part, Table, Title, heads
from mlcnb.view.registry import find
from mlcnb.view.replay import label
from mlcnb.view.words import clip, flops, percent, plural, seconds, size
from mlcnb.widgets.base import Interactive
from mlcnb.widgets.registry import explores

#: lines of Python of one stage that are shown
CALLS = 12
#: what the horizontal axis can be: key, its name, how its bytes are known
AXES = (
    ("arguments", "bytes of the arguments", "counted"),
    ("L2", "bytes from L2 into L1", "predicted"),
    ("L3", "bytes from L3 into L2", "predicted"),
    ("memory", "bytes from memory", "predicted"),
)


@dataclass(frozen=True)
class Dot:
    """One stage under the roof; `traffic` and `predicted` are a model's, None where it has none."""

    stage: Stage
    traffic: tuple[int, ...] | None = None
    predicted: tuple[float, str] | None = None

    def nbytes(self, axis: str) -> int | None:
        """The bytes of an axis."""
        if axis == "arguments":
            return self.stage.strip.nbytes
        at = [key for key, _, _ in AXES[1:]].index(axis)
        return self.traffic[at] if self.traffic and at < len(self.traffic) else None

    def intensity(self, axis: str) -> float | None:
        """FLOPs for each of these bytes."""
        nbytes, done = self.nbytes(axis), self.stage.strip.flops
        return done / nbytes if done and nbytes else None


@explores("mlcnb.observe.replay:Replay")
class RooflineTrail(Interactive):
    """The page of a replayed schedule."""

    module = "roofline"
    traits = ("step",)

    def __init__(self, replayed: Replay) -> None:
        self.replay = replayed
        self.dots = [_dot(stage, replayed.threads) for stage in replayed]
        if self.roof is None:
            raise MLCError("roofline: no stage was measured", hint="mlc.replay(sch) measures them")

    @property
    def roof(self) -> Any:
        """The measured ceilings."""
        return next((s.strip.roofline for s in self.replay if s.strip.roofline is not None), None)

    def snapshot(self) -> dict[str, Any]:
        """The roof, and a dot for each stage."""
        roof = self.roof
        levels = [[clip(v.name), v.bandwidth] for v in roof.levels]
        return {
            "name": clip(self.replay.name, 80),
            "threads": roof.threads,
            "dtype": roof.dtype,
            "peak": roof.peak,
            "levels": levels,
            "axes": [list(axis) for axis in AXES],
            "dots": [_told(dot) for dot in self.dots],
        }

    def parts(self) -> Sequence[Part]:
        """The stages in a table, what was predicted beside what was measured, the ceilings."""
        measured = [d.stage.strip.gflops or 0.0 for d in self.dots]
        name = clip(self.replay.name)
        title = f"Roofline of {name}: {plural(len(self.dots), 'stage')}"
        first, last = measured[0], measured[-1]
        if first and last:
            title += f", {first:.3g} GFLOP/s at first, {last:.3g} at last, measured"
        work = self.dots[0].stage.strip
        facts = [
            ("counted", f"{flops(work.flops)} and {size(work.nbytes or 0)} of arguments a call"),
            (
                "measured",
                f"the median of calls on {plural(self.roof.threads, 'thread')}, and the ceilings",
            ),
            ("predicted", "bytes between caches, and the GFLOP/s that they and the vectors allow"),
        ]
        columns = heads("step: number | then: code")
        names = ("time", "measured GFLOP/s", "of roof", "predicted GFLOP/s", "predicted limit")
        columns += [Column(n, "number") for n in names[:-1]] + [Column(names[-1])]
        table = Table(columns, [_row(d) for d in self.dots], 40, "found.dots")
        moved = Fold("FLOP per byte, by level", [self._intensities()], "", in_text=True)
        roof = find(self.roof)
        ceilings = Fold("ceilings", roof(self.roof) if roof else [], "mlc.roofline()", in_text=True)
        return [Title(title), Facts(facts), table, moved, ceilings]

    def _intensities(self) -> Table:
        """A row for each stage: its work by the bytes that go between two levels."""
        columns = heads("step: number | then: code")
        columns += [Column(f"{words} ({how})", "number") for _, words, how in AXES]
        rows = [(*_stage(told), *told["x"]) for told in map(_told, self.dots)]
        shown = [[f"{x:.3g}" if isinstance(x, float) else x or "" for x in row] for row in rows]
        return Table(columns, shown, 40, "found.dots")


def _dot(stage: Stage, threads: int) -> Dot:
    """What was measured, beside what the model says of the same program."""
    strip, kernel = stage.strip, stage.kernel
    if kernel is None or strip.roofline is None or not strip.flops:
        return Dot(stage)
    target = Target("llvm")
    found = predict(kernel.func, target)
    traffic = tuple(LINE * misses for misses in found.misses)
    native = target.lanes("float32")
    lanes = 1 if found.strided else min(found.lanes, native)
    share = lanes / native * min(found.tasks, threads) / threads
    return Dot(stage, traffic, strip.roofline.predicted(strip.flops, traffic, share))


def _told(dot: Dot) -> dict[str, Any]:
    """One dot for the page."""
    strip, stage = dot.stage.strip, dot.stage
    predicted = dot.predicted
    limit = strip.roofline.limit(strip.flops or 0, strip.nbytes or 0) if strip.roofline else ""
    hot = strip.hot
    return {
        "step": stage.step,
        "label": clip(label(stage), 60),
        "calls": [clip(call, 160) for call in stage.calls[:CALLS]],
        "more": max(0, len(stage.calls) - CALLS),
        "gflops": strip.gflops,
        "time": seconds(strip.seconds) if strip.seconds else "",
        "share": percent(strip.share) if strip.share is not None else "",
        "limit": clip(limit),
        "predicted": predicted[0] if predicted else None,
        "why": clip(predicted[1]) if predicted else "",
        "x": [dot.intensity(key) for key, _, _ in AXES],
        "bytes": [size(n) if (n := dot.nbytes(key)) is not None else "" for key, _, _ in AXES],
        "flops": flops(strip.flops),
        "hot": f"{plural(hot.instructions, 'instruction')}, {percent(hot.vector_share)} vector, "
        f"{hot.fma} FMA, {plural(strip.spills, 'spill')}",
        "apart": f"{stage.difference:.1e}",
    }


def _row(dot: Dot) -> tuple[str, ...]:
    told = _told(dot)
    return (
        *_stage(told),
        told["time"],
        f"{told['gflops']:.3g}" if told["gflops"] else "",
        told["share"],
        f"{told['predicted']:.3g}" if told["predicted"] else "",
        told["why"],
    )


def _stage(told: dict[str, Any]) -> tuple[str, str]:
    return str(told["step"]), clip(told["label"], 40)
