"""The pictures of a search: a title each, and the best so far up to the end."""

from __future__ import annotations

import re

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
