"""How fast steps are done: 1,000 primitive applications on a 3 x 3 convolution of ResNet-50.

    many schedules     forty schedules of 25 steps each: tiles, caches, marks, moves
    one long schedule  1,000 steps, one on top of the other: split and fuse again and again
    legal_steps        what can be done at one block

Without proofs (`check="rules"`), with the second opinion on refusals (`check="default"`), and with
each step proved (`check="dependence"`, a tenth of the steps).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mlcnb.tir import PrimFunc
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import conv2d

#: the layer conv2_x of ResNet-50: 64 channels, 56 x 56, in blocks of 16 channels
HEIGHT, CHANNELS, LANES = 56, (4, 4), 16
STEPS = 1000


@dataclass(frozen=True)
class Timing:
    """How long some steps took, in seconds."""

    name: str
    steps: int
    seconds: float

    def __str__(self) -> str:
        each = self.seconds / max(self.steps, 1) * 1e3
        return f"{self.name:42} {self.steps:5} steps {self.seconds:8.2f} s {each:8.2f} ms a step"


def convolution() -> PrimFunc:
    """Padding, convolution, bias, relu."""
    return conv2d(HEIGHT, CHANNELS, LANES)


def tiled(sch: Schedule) -> None:
    """25 steps as a person would do them."""
    pad, conv, add, relu = (sch.get_block(n) for n in ("pad", "conv", "add", "relu"))
    sch.reverse_compute_inline(relu)
    c, y, x, v, rc, ry, rx, rv = sch.get_loops(conv)
    x0, x1 = sch.split(x, [None, 14])
    y0, y1 = sch.split(y, [None, 4])
    r0, r1 = sch.split(rv, [None, 4])
    sch.reorder(c, y0, x0, y1, rc, ry, rx, r0, r1, x1, v)
    copy = sch.cache_write(conv, 0, "local")
    sch.reverse_compute_at(copy, y1)
    sch.reverse_compute_at(add, y1)
    outer = sch.fuse(c, y0)
    sch.parallel(outer)
    sch.vectorize(v)
    sch.unroll(x1)
    sch.unroll(r1)
    sch.annotate(rc, "note", 1)
    sch.compute_at(pad, x0)
    fetch = sch.cache_read(conv, 1, "local")
    sch.compute_at(fetch, rc)
    init = sch.decompose_reduction(conv, rc)
    sch.vectorize(sch.get_loops(init)[-1])
    sch.vectorize(sch.get_loops(add)[-1])
    inner = sch.get_loops(fetch)
    a, _b = sch.split(inner[-1], [None, 8])
    sch.unroll(a)
    sch.unannotate(rc, "note")
    sch.add_unit_loop(x1)
    sch.annotate(outer, "note", 2)


def long(sch: Schedule, steps: int) -> None:
    """Steps one on top of the other: tiles made, put in order, and taken back."""
    loops = sch.get_loops("conv")
    v = loops[3]
    for n in range(steps // 5):
        a, b = sch.split(v, [None, 4])
        sch.unroll(b)
        sch.annotate(a, f"note{n}", n)
        sch.unannotate(a, f"note{n}")
        v = sch.fuse(a, b)


def run(steps: int = STEPS) -> list[Timing]:
    """All timings."""
    func = convolution()
    found = [_many("rules", func, steps), _many("default", func, steps)]
    found.append(_long(func, steps))
    found.append(_many("dependence", func, max(steps // 40, 25)))
    return found


def _many(check: str, func: PrimFunc, steps: int) -> Timing:
    def work() -> int:
        done = 0
        while done < steps:
            sch = Schedule(func, check=check)
            tiled(sch)
            done += sch.position
        return done

    return _timed(f'many schedules, check="{check}"', work)


def _long(func: PrimFunc, steps: int) -> Timing:
    def work() -> int:
        sch = Schedule(func)
        long(sch, steps)
        return sch.position

    return _timed('one long schedule, check="default"', work)


def _timed(name: str, work: Callable[[], int]) -> Timing:
    started = time.perf_counter()
    steps = work()
    return Timing(name, steps, time.perf_counter() - started)
