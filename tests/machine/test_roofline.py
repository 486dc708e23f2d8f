"""The roofline: by hand, and for any work."""

from __future__ import annotations

from itertools import combinations

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcnb.machine import Level, Roofline

MACHINE = Roofline(
    100.0, (Level("L1", 1000, 400.0), Level("L2", 10_000, 100.0), Level("memory", None, 20.0)), 1
)


@pytest.mark.parametrize(
    ("flops", "nbytes", "level", "limit", "seconds", "attainable"),
    [
        (100, 1000, "L1", "L1", 2.5e-9, 40.0),  # 0.1 FLOP/B, ridge at 0.25
        (1000, 1000, "L1", "compute", 10e-9, 100.0),
        (1000, 1001, "L2", "L2", 10.01e-9, 1000 / 10.01),  # ridge at 1
        (50_000, 10_000, "L2", "compute", 500e-9, 100.0),
        (50_000, 10_001, "memory", "memory", 500.05e-9, 50_000 / 500.05),  # ridge at 5
        (0, 2000, "L2", "L2", 20e-9, 0.0),
    ],
)
def test_by_hand(flops, nbytes, level, limit, seconds, attainable):
    assert MACHINE.level(nbytes).name == level
    assert MACHINE.limit(flops, nbytes) == limit
    assert MACHINE.least_seconds(flops, nbytes) == pytest.approx(seconds)
    assert MACHINE.attainable(flops, nbytes) == pytest.approx(attainable)
    assert MACHINE.share(flops, nbytes, 2 * seconds) == pytest.approx(0.5)


@given(st.integers(1, 10**12), st.integers(1, 10**9))
def test_neither_roof_is_passed(flops, nbytes):
    reached = MACHINE.attainable(flops, nbytes)
    assert reached <= MACHINE.peak * (1 + 1e-9)
    assert reached <= flops / nbytes * MACHINE.level(nbytes).bandwidth * (1 + 1e-9)
    assert MACHINE.attainable(flops, nbytes + 1) <= reached * (1 + 1e-9)


def test_nothing_takes_no_time():
    assert MACHINE.least_seconds(0, 0) == 0
    assert MACHINE.attainable(0, 0) == 0
    assert MACHINE.share(10, 10, 0.0) == 0


def test_plot_has_a_dot_for_each_program():
    matplotlib.use("Agg")
    ax = MACHINE.plot([("a", 10.0, 50.0), ("<b>", 0.1, 2.0)])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1  a", "2  <b>"]
    assert sum(line.get_gid() == "dot" for line in ax.lines) == 2
    assert {t.get_text() for t in ax.texts} >= {"L1", "L2", "memory", "100 GFLOP/s", "1", "2"}
    low, high = ax.get_ylim()
    assert low < 2 and high > 100
    matplotlib.pyplot.close(ax.figure)


def test_dots_that_would_cover_each_other_are_one():
    matplotlib.use("Agg")
    dots = [("a", 10.0, 50.0), ("b", 10.1, 51.0), ("c", 1.0, 2.0), ("d", 10.0, 50.5)]
    ax = MACHINE.plot(dots)
    assert {t.get_text() for t in ax.texts} >= {"1-2, 4", "3"}
    assert len(ax.get_legend().get_texts()) == 4
    matplotlib.pyplot.close(ax.figure)


@pytest.mark.parametrize("beside", [1, 2])
@pytest.mark.parametrize("close", [1.0, 1.01, 1.12, 1.5, 3.0])
def test_names_of_levels_stand_apart_and_numbers_off_the_roof(close, beside):
    matplotlib.use("Agg")
    speeds = (529.0, 119.0 * close, 119.0, 117.0 / close)
    names = ("L1", "L2", "L3", "memory")
    levels = [Level(name, None, speed) for name, speed in zip(names, speeds, strict=True)]
    size = (8 if beside == 1 else 9.5, 4.5)
    figure, axes = matplotlib.pyplot.subplots(1, beside, figsize=size, layout="constrained")
    dots = [("near", 160.0, 250.0), ("at", 40.0, 270.0), ("far", 160.0, 2.0)]
    ax = Roofline(268.0, tuple(levels), 1).plot(dots, axes if beside == 1 else axes[1])
    figure.canvas.draw()
    boxes = {t.get_text(): t.get_window_extent() for t in ax.texts}
    assert not [(a, b) for a, b in combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]
    roof = ax.transData.transform((1.0, 268.0))[1]
    assert not [text for text, box in boxes.items() if box.y0 < roof < box.y1]
    matplotlib.pyplot.close(figure)
