"""Every primitive of Schedule has an example that runs, keeps the results, and draws."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, MLCError
from mlcnb.script import tir as T
from mlcnb.testing import gallery
from mlcnb.testing.gallery import Example, programs
from mlcnb.tir.schedule import Schedule
from mlcnb.view import nest, order, to_html, to_text
from mlcnb.view.beside import side_by_side
from mlcnb.view.gallery import picture
from tests.view.allowed import check_html

LOOKS = frozenset(
    "get_block get_sblock get_loops get_child_blocks get_producers get_consumers "
    "get_output_blocks".split()
)
PRIMITIVES = {n for n in dir(Schedule) if hasattr(getattr(Schedule, n), "primitive")} - LOOKS


def test_every_primitive_is_there():
    assert set(gallery()) == PRIMITIVES


def test_those_that_only_look_change_nothing():
    assert all(getattr(Schedule, name).primitive.pure for name in LOOKS)


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_example(name):
    """The call that is shown is the primitive's; it changes the program, and not its results."""
    example = gallery(name)
    _prepare, call, refused = example.source
    assert f"{name}(" in call and f"{name}(" in refused
    assert to_text(example.before) != to_text(example.after)
    assert example.difference <= (1e-3 if name == "unsafe_set_dtype" else 1e-5)
    assert isinstance(example.refusal, MLCError)


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_view(name):
    shown = to_html(gallery(name))
    check_html(shown)
    written = len(gallery(name).after.script())
    assert len(shown) < max(60_000, 30 * written), "no more than the program asks for"
    assert "data:image/svg+xml;base64," in shown
    assert f"{name}: {gallery(name).says}" in to_text(gallery(name))


def test_refused_call_leaves_the_schedule():
    example = gallery("split")
    assert to_text(example.schedule.mod["main"]) == to_text(example.after)


def test_an_example_must_be_refused_at_its_end():
    def steps():
        sch = Schedule(programs.double(8))
        yield sch
        sch.unroll(*sch.get_loops("B"))
        yield sch

    with pytest.raises(AssertionError, match="unroll: the last lines of its example are not"):
        Example("unroll", "", steps).refusal


def test_an_example_that_changes_the_results_is_seen():
    def steps():
        yield Schedule(programs.matmul_biased(3))
        yield Schedule(programs.matmul_scaled(3))
        Schedule(programs.double(8)).get_block("none")

    assert Example("none", "", steps).difference > 0.1


def test_no_such_primitive():
    with pytest.raises(MLCError) as caught:
        gallery("spilt")
    assert caught.value.message == "gallery: no primitive 'spilt'"
    assert caught.value.hint == "did you mean 'split'?"


def test_text_of_an_example():
    assert to_text(gallery("vectorize")).splitlines()[:14] == [
        "vectorize: Does all iterations of a loop in one instruction: equal numbers are one step.",
        "from the program to the call: example.source[0]",
        "sch.vectorize(j)",
        "before:",
        "  - for i, j in T.grid(4, 8):",
        '        with T.block("B"):',
        '            v_i, v_j = T.axis.remap("SS", [i, j])',
        "            T.reads(A[v_i, v_j])",
        "            T.writes(B[v_i, v_j])",
        "            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)",
        "after:",
        "  + for i in range(4):",
        "  +     for j in T.vectorized(8):",
        '            with T.block("B"):',
    ]


def written(name: str, which: str = "after") -> str:
    return order.text(order.grids(getattr(gallery(name), which)))


def test_lanes_are_one_step():
    rows = ["0 0 0 0 0 0 0 0", "1 1 1 1 1 1 1 1", "2 2 2 2 2 2 2 2", "3 3 3 3 3 3 3 3"]
    assert written("vectorize").splitlines() == ["B: 4 x 8", *rows]


def test_threads_count_their_own_steps():
    assert written("parallel", "before").splitlines()[1].split() == ["0–3", "4–7", "8–11", "12–15"]
    assert written("parallel").splitlines() == ["B: 4", "0–3 0–3 0–3 0–3"]
    threads = [g.thread for g in order.grids(gallery("parallel").after)]
    assert threads == [{0: 0, 1: 1, 2: 2, 3: 3}]


def test_first_and_last_step_of_a_sum():
    assert written("reorder", "before").splitlines()[1].split() == ["0–2", "3–5", "6–8", "9–11"]
    assert written("reorder").splitlines()[1].split() == ["0–8", "1–9", "2–10", "3–11"]


def test_order_of_a_schedule_and_of_its_module():
    sch = gallery("vectorize").schedule
    shown = [to_text(mlc.order(x)) for x in (sch, sch.mod, sch.mod["main"])]
    assert shown[0].splitlines()[:3] == [
        "the step in which each element is written",
        "B: 4 x 8",
        "0 0 0 0 0 0 0 0",
    ]
    assert len(set(shown)) == 1


def test_order_of_what_is_too_large():
    with pytest.raises(MLCError, match="order: the program is too large to be drawn"):
        mlc.order(programs.matmul(64, 64, 64))
    with pytest.raises(MLCError, match="order: the program is too large to be drawn"):
        mlc.order(programs.double(4096))  # small enough to run, but not to be drawn
    with pytest.raises(MLCError, match="order: an int is no single loop program"):
        mlc.order(3)


def test_order_says_what_is_wrong_with_a_program_that_does_not_run():
    @T.prim_func
    def too_far(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i in range(4):
            for j in range(10):
                B[i, j] = A[i, j]

    with pytest.raises(ExecutionError, match=r"out of bounds: A\[0, 8\] is read"):
        mlc.order(too_far)


def test_the_nest_shows_what_stands_under_a_test():
    @T.prim_func(private=True)
    def func(A: T.Buffer((8,), "int32")):
        for i in range(8):
            if i < 3:
                A[i] = 1
            else:
                for j in range(2):
                    A[i] = j

    words = [(row.depth, row.text) for row in nest.rows(func)]
    assert words == [(0, "i in 8"), (1, "A[…]"), (1, "j in 2"), (2, "A[…]")]


def test_nest():
    rows = nest.rows(gallery("split").after)
    assert rows == [
        nest.Row(0, "i_0 in 4", "serial", ""),
        nest.Row(1, "i_1 in 4", "serial", ""),
        nest.Row(2, "B", "block", "A -> B where …"),
    ]


def test_wide_programs_have_no_empty_lines():
    """They stand one below the other in narrow windows, where these would be holes."""
    example = gallery("cache_read")
    (_, [left]), (_, [right]) = side_by_side(example.before, example.after).columns
    assert len(left.lines) < len(right.lines)
    assert all("".join(t.text for t in line).strip() for line in (*left.lines, *right.lines))


def test_equal_lines_stand_beside_each_other():
    example = gallery("merge")
    (_, [left]), (_, [right]) = side_by_side(example.before, example.after).columns
    assert len(left.lines) == len(right.lines)
    for a, b in zip(left.lines, right.lines, strict=True):
        texts = ["".join(t.text for t in line).strip(" +-") for line in (a, b)]
        signs = [line[0].text[:1] for line in (a, b)]
        assert texts[0] == texts[1] or signs != [" ", " "]


def test_every_primitive_is_in_the_notebook():
    notebook = Path(__file__).parents[1] / "notebooks" / "02_primitives.ipynb"
    cells = nbformat.read(notebook, as_version=4).cells
    shown = {name for cell in cells for name in re.findall(r'^gallery\("(\w+)"\)$', cell.source)}
    assert shown == PRIMITIVES


def test_a_large_program_has_no_grid():
    assert order.grids(programs.matmul(64, 64, 64)) is None


def test_wide_pictures_stand_one_below_the_other():
    narrow, wide = (programs.matmul(4, n, 4) for n in (4, 32))
    beside, below = (picture(x, x, "x").draw() for x in (narrow, wide))
    assert "→" in beside and "↓" not in beside
    assert "↓" in below and "→" not in below
