"""The pictures of a search: a title each, and the best so far up to the end."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from mlcnb.view import tuning
from tests.view.samples import everything


@pytest.fixture(scope="module")
def found():
    return everything("x")["tuning"]


@pytest.mark.parametrize(
    ("draw", "title"),
    [
        (tuning.progress, "best so far"),
        (tuning.foretold, "predicted against measured"),
        (tuning.races, "races: who ran, and 95 % of a ratio once it is known"),
    ],
)
def test_each_picture_has_a_title_above_its_axes(found, draw, title):
    svg = draw(found).svg("x")
    said = re.search(r'<text x="0" y="11"[^>]*font-weight="bold"[^>]*>([^<]*)</text>', svg)
    assert said[1] == title
    tops = [float(y) for y in re.findall(r'<rect x="[^"]*" y="([^"]*)"', svg)]
    assert min(tops) >= 15


def test_the_best_so_far_goes_on_to_the_last_second(found):
    svg = tuning.progress(found).svg("x")
    best = rf'<rect x="([^"]*)" y="[^"]*" width="([^"]*)" height="[^"]*" fill="{tuning.BEST}"'
    assert max(float(x) + float(wide) for x, wide in re.findall(best, svg)) >= tuning.WIDTH - 1


def test_names_of_levels_stand_apart_and_outside_the_axes():
    frame = tuning._Frame("t", "seconds", "ratio", [0.0, 2.0], [0.5, 2.0])
    frame.levels([("default", 1.0), ("NumPy", 1.01), ("roofline", 0.99)])
    svg = frame.drawing.svg("x")
    names = rf'<text x="{tuning.WIDTH + 4}" y="([^"]*)" [^>]*>([^<]*)</text>'
    places = [(name, float(y)) for y, name in re.findall(names, svg)]
    assert [name for name, _ in places] == ["NumPy", "default", "roofline"]
    assert all(b - a >= 11 for (_, a), (_, b) in pairwise(places))


def test_names_of_levels_at_the_bottom_leave_the_ticks_alone():
    frame = tuning._Frame("t", "seconds", "ratio", [0.0, 2.0], [0.75, 3.0])
    frame.levels([("default", 1.0), ("NumPy", 0.93), ("roofline", 0.75)])
    names = rf'<text x="{tuning.WIDTH + 4}" y="([^"]*)" '
    places = [float(y) for y in re.findall(names, frame.drawing.svg("x"))]
    assert len(places) == 3 and all(b - a >= 11 for a, b in pairwise(places))
    assert places[-1] <= tuning.TOP + tuning.HEIGHT + 4


def test_times_and_ratio_say_the_same(found):
    """The best was timed when the clock of the core was another one."""
    other = replace(found, best=replace(found.best, seconds=1.2e-3))
    title, facts = tuning.tuning(other)[:2]
    assert title.text == "tune x: 0.80 x the default's time [0.70, 0.90]"
    assert facts.pairs[:2] == [("default", "1.00 ms"), ("best", "800 µs")]
