"""The card of a refused step, alone."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.core.errors import ScheduleError
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets.card import Card
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import elementwise, matmul


def refused(step, *args) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        step(*args)
    return caught.value


def test_explore_an_error():
    sch = Schedule(CARRIED["scan"])
    page = mlc.explore(refused(sch.parallel, sch.get_loops("B")[0]))
    assert isinstance(page, Card)
    card = page.snapshot()["card"]
    assert (card["step"], card["loop"]) == ("parallel", "loop i")
    assert (card["element"], card["values"]) == ("B[1]", ["14.0", "8.0"])
    assert card["shapes"] == "(8,), (8,)" and card["smallest"] == "(2,), (2,)"
    assert [x["text"] for x in card["instead"]] == [
        'sch.unroll(sch.get_loops("B")[0])',
        'sch.split(sch.get_loops("B")[0], factors=[None, 2])',
    ]
    assert "legal instead" in page.explain() and "smallest failing shapes" in page.to_html()


def test_a_refusal_without_an_example_has_its_words():
    sch = Schedule(elementwise())
    card = Card(refused(sch.bind, sch.get_loops("B")[0], "threadIdx.q")).snapshot()["card"]
    assert "grids" not in card and "values" not in card and card["message"].startswith("bind: ")
    alone = Card(ScheduleError("a reason")).snapshot()["card"]
    assert alone == {
        "step": "a reason",
        "message": "a reason",
        "hint": "",
        "excerpt": None,
        "instead": [],
    }


def test_it_exports(tmp_path):
    sch = Schedule(matmul(256, 256, 256))
    page = mlc.explore(refused(sch.vectorize, sch.get_loops("C")[2]))
    text = mlc.export(page, tmp_path / "card.html").read_text()
    assert "iterations:" in text and len(text) < 120_000
