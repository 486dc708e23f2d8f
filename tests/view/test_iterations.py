"""The grid of a counter-example: text, picture, and axes that fit."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.tir.schedule import CounterExample, Schedule
from mlcnb.tir.schedule.legality.polyhedral.carried import Event
from mlcnb.view import to_html, to_text
from mlcnb.view.iterations import MOST, draw, grids
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import matmul


def refused(step, *args) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        step(*args)
    return caught.value


def test_two_iterations_in_two_axes():
    sch = Schedule(CARRIED["scan_rows"])
    error = refused(sch.parallel, sch.get_loops("B")[0])
    (grid,) = grids(error.counterexample, error.root)
    assert grid.title == "block B"
    assert grid.lines == [
        "     0  1  2  3  j",
        "i 0  1  ·  ·  ·",
        "  1  ·  ·  ·  2",
        "  2  ·  ·  ·  ·",
        "  3  ·  ·  ·  ·",
        "  4  ·  ·  ·  ·",
        "  5  ·  ·  ·  ·",
    ]
    assert grid.json() == {
        "title": "block B",
        "rows": ["i", [0, 1, 2, 3, 4, 5]],
        "columns": ["j", [0, 1, 2, 3]],
        "marks": [[0, 0, 1, "writes B[0, 0]"], [1, 3, 2, "reads B[0, 0]"]],
    }


def test_the_other_loops_are_said_and_long_axes_cut():
    sch = Schedule(matmul(1024, 1024, 1024))
    error = refused(sch.vectorize, sch.get_loops("C")[2])
    (grid,) = grids(error.counterexample, error.root)
    assert grid.title == "block C, i = 0"
    assert grid.columns.values == (0, 1, 2, 3, 4, 5, 6, None)
    assert grid.marks[1][:3] == (0, 1, 2)


def event(block, at, is_write=False):
    return Event(f"block {block}", at, is_write, "A", (0,))


@pytest.mark.parametrize("far", [1, 5, 7, 12, 1000])
def test_both_iterations_are_on_the_grid(far):
    found = CounterExample(first=event("B", {"i": 3}, True), second=event("B", {"i": 3 + far}))
    (grid,) = grids(found)
    row, column, number, deed = grid.marks[1]
    assert grid.columns.values[column] == 3 + far and (row, number) == (0, 2)
    assert deed == "reads A[0]"
    assert len(grid.columns.values) <= MOST + 1


def test_two_blocks_have_two_grids_and_one_arrow():
    found = CounterExample(first=event("B", {"i": 1}, True), second=event("C", {"x": 0, "y": 2}))
    left, right = grids(found)
    assert (left.block, right.block) == ("block B", "block C")
    svg = draw([left, right]).svg("two")
    assert svg.count('stroke-width="2"') == 1


def test_an_event_without_loops_has_no_grid():
    assert grids(CounterExample(first=event("B", {}), second=event("B", {}))) == []
    assert grids(CounterExample()) == []


def test_the_error_shows_the_grid_the_shapes_and_what_is_legal():
    sch = Schedule(matmul(64, 64, 64))
    error = refused(sch.vectorize, sch.get_loops("C")[2])
    html, text = to_html(error), to_text(error)
    assert '<img alt="iterations: 1 writes C[0, 0]; 2 reads C[0, 0]"' in html
    for words in ("smallest failing shapes", "(2, 2), (2, 2), (2, 2)", "legal instead"):
        assert words in html and words in text
    assert 'sch.vectorize(sch.get_loops("C")[1])' in text
    assert "  j 0  1  2  ·" in text


@pytest.mark.parametrize("name", ["<script>window.pwned = 1</script>", "\u202e", "x" * 10_000])
def test_hostile_names_are_text(name):
    at = {name: 0, "j": 1}
    found = CounterExample(first=event(name, at, True), second=event(name, {**at, "j": 2}))
    svg = draw(grids(found)).svg(name[:50])
    assert "<script" not in svg and "\u202e" not in svg and len(svg) < 30_000
