"""undo, redo, goto, copy, diff, and what handles stand for on the way."""

from __future__ import annotations

from importlib import import_module

import pytest

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError, ScheduleError
from mlcnb.core.node import walk
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_equal
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    copy_2d,
    elementwise,
    matmul,
    refuses,
    row_sum,
    softmax,
    text,
)


def test_undo_and_redo():
    sch = Schedule(matmul())
    i, j, _k = sch.get_loops("C")
    programs = [text(sch)]
    sch.split(i, [2, 2])
    programs.append(text(sch))
    sch.vectorize(j)
    programs.append(text(sch))
    assert sch.position == 2
    for n in (1, 0):
        assert text(sch.undo()) == programs[n]
    assert text(sch.redo(2)) == programs[2]
    assert text(sch.goto(1)) == programs[1]
    assert [s.name for s in sch.steps] == ["start", "split", "vectorize"]


def test_a_new_step_forgets_what_was_undone():
    sch = Schedule(matmul())
    i, j, _k = sch.get_loops("C")
    sch.split(i, [2, 2])
    sch.undo()
    sch.parallel(j)
    assert [s.name for s in sch.steps] == ["start", "parallel"]
    assert "split" not in str(sch.trace)
    with refuses(sch, "redo: no step was taken back, not 1"):
        sch.redo()


def test_handles_follow():
    sch = Schedule(matmul())
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    i0, i1 = sch.split(i, [2, 2])
    sch.reorder(k, i1)
    assert repr(j) == "loop j in 0..4 of block C"
    assert repr(i) == "loop i, taken by step 1 (split)"
    with refuses(
        sch,
        "loop i is no more: step 1 (split) took it",
        hint="use the handles that this step returned, or get_loops again",
    ):
        sch.parallel(i)
    sch.goto(0)
    assert repr(i) == "loop i in 0..4 of block C"
    assert repr(i0) == "loop i_0, not made yet"
    sch.parallel(i)


def test_handles_found_later_are_good_earlier():
    sch = Schedule(matmul())
    sch.unroll(sch.get_loops("C")[2])
    i, _j, k = sch.get_loops("C")
    sch.undo()
    assert repr(k) == "loop k in 0..4 of block C"
    sch.parallel(i)
    assert sch.position == 1


def test_copies_go_their_own_ways():
    sch = Schedule(matmul())
    i, j, _k = sch.get_loops("C")
    other = sch.copy()
    sch.parallel(i)
    other.vectorize(j)
    assert "T.parallel" in text(sch) and "T.vectorized" not in text(sch)
    assert "T.vectorized" in text(other) and "T.parallel" not in text(other)
    assert structural_equal(sch.steps[0].mod, other.steps[0].mod)
    assert "T.vectorized" not in text(other.undo())


def test_snapshots_share_what_did_not_change():
    sch = Schedule(elementwise())
    sch.parallel(sch.get_loops("B")[0])
    before, after = (s.mod["main"].body.block.body.seq for s in sch.steps)
    assert before[0] is not after[0]
    assert before[1] is after[1]


def test_diff():
    sch = Schedule(copy_2d())
    i, _j = sch.get_loops("B")
    sch.parallel(i)
    sch.unroll(sch.get_loops("B")[1])
    lines = sch.diff().splitlines()
    assert lines[:2] == ["--- step 1: parallel", "+++ step 2: unroll"]
    assert [x for x in lines if x.startswith("-        ")] == ["-            for j in range(8):"]
    assert [x for x in lines if x.startswith("+        ")] == ["+            for j in T.unroll(8):"]
    assert sch.diff(0, 2).splitlines()[0] == "--- step 0: start"


def test_several_functions():
    mod = IRModule.make({"f": elementwise(), "g": matmul()})
    sch = Schedule(mod)
    with pytest.raises(ScheduleError) as caught:
        sch.get_block("B")
    assert caught.value.message == ("the schedule does not know which function to be working on")
    assert caught.value.hint == "work_on one of f, g, or pass func_name"
    B = sch.get_block("B", func_name="f")
    sch.work_on("g")
    C = sch.get_block("C")
    sch.parallel(sch.get_loops(B)[0])
    sch.parallel(sch.get_loops(C)[0])
    assert sch.func_working_on.name_hint == "g"
    assert sch.steps[1].mod["g"] is mod["g"]
    assert repr(B) == "block B"
    (i, *_rest) = sch.get_loops(C)
    with refuses(sch, "the handles belong to different functions: f, g"):
        sch.compute_at(B, i)


def test_blocks_by_name():
    sch = Schedule(elementwise())
    with refuses(sch, "get_block: there is no block 'X'", hint="there are: root, B, C"):
        sch.get_block("X")
    assert [repr(b) for b in sch.get_child_blocks(sch.get_block("root"))] == ["block B", "block C"]
    assert [repr(b) for b in sch.get_consumers("B")] == ["block C"]
    assert [repr(b) for b in sch.get_producers("C")] == ["block B"]
    assert [repr(b) for b in sch.get_output_blocks("root")] == ["block C"]
    assert sch.get(sch.get_block("B")).name_hint == "B"


@T.prim_func
def tiles(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(2):
        with T.block("first"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 4 : vi * 4 + 4])
            T.writes(B[vi * 4 : vi * 4 + 4])
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    B[vi * 4 + vj] = A[vi * 4 + vj]
    for i in range(2):
        with T.block("second"):
            vi = T.axis.spatial(2, i)
            T.reads(B[vi * 4 : vi * 4 + 4])
            T.writes(D[vi * 4 : vi * 4 + 4])
            t = T.alloc_buffer((8,))
            for j in range(4):
                with T.block("between"):
                    vj = T.axis.spatial(4, j)
                    t[vj] = B[vi * 4 + vj]
            for j in range(4):
                with T.block("last"):
                    vj = T.axis.spatial(4, j)
                    D[vi * 4 + vj] = t[vj]


def test_nested_blocks_write_outputs_too():
    sch = Schedule(tiles)
    outputs = lambda name: [repr(b) for b in sch.get_output_blocks(name)]
    assert outputs("root") == ["block second", "block last"]
    assert outputs("second") == ["block last"] and outputs("first") == ["block inner"]


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            {"check": "maybe"},
            "no check 'maybe'",
            "one of default, rules, none, numeric, dependence, both",
        ),
        ({"error_render_level": "x"}, "no error_render_level 'x'", "one of detail, fast, none"),
        ({"debug_mask": "some"}, "no debug_mask 'some'", "one of none, all"),
        (
            {"mod": 3},
            "an int is no program",
            "pass a PrimFunc, or an IRModule that holds PrimFuncs",
        ),
    ],
)
def test_what_a_schedule_cannot_be_asked_for(given, message, hint):
    with pytest.raises(ArgumentError) as caught:
        Schedule(**{"mod": elementwise(), **given})
    assert (caught.value.message, caught.value.hint) == (f"Schedule: {message}", hint)


def test_steps_can_be_proved_by_running():
    sch = Schedule(matmul(), check="numeric")
    i, _j, k = sch.get_loops("C")
    sch.split(i, [None, 3])
    sch.rfactor(k, 0)
    assert sch.position == 2


def test_a_wrong_step_is_caught_by_running(monkeypatch):
    module = import_module("mlcnb.tir.schedule.primitives.parallel")
    monkeypatch.setattr(module, "why_carried", lambda *_: None)
    sch = Schedule(row_sum(1, 3), check="numeric")
    k = sch.get_loops("B")[1]
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(k)
    assert caught.value.message.startswith("step 1 (parallel) changes what is computed: B[0] was")
    assert sch.position == 0


def test_large_programs_are_not_run():
    sch = Schedule(copy_2d(512, 512), check="numeric")
    i, _j = sch.get_loops("B")
    with refuses(
        sch,
        "A of shape (512, 512) is too large to be run by the interpreter",
        hint='use check="default", or a smaller program',
    ):
        sch.parallel(i)


def test_nothing_is_checked_on_request():
    sch = Schedule(matmul(), check="none")
    sch.parallel(sch.get_loops("C")[2])
    assert "for k in T.parallel(4):" in text(sch)


def nodes_of(sch: Schedule) -> set[int]:
    """Every node of every snapshot, each once."""
    return {id(n) for s in sch.steps for n in walk(s.mod["main"].body)}


def test_a_hundred_steps_cost_next_to_nothing():
    sch = Schedule(softmax(4, 6))
    (i, _k) = sch.get_loops("M")
    alone = len(nodes_of(sch))
    for n in range(100):
        sch.annotate(i, f"note{n}", n)
    assert sch.position == 100
    # a step makes the loop anew, the sequence it stands in, and the two nodes of the root block
    path = 4
    assert len(nodes_of(sch)) <= alone + 100 * (path + 1)


def test_diff_of_steps_that_are_not_there():
    sch = Schedule(elementwise())
    with refuses(sch, "diff: there is no step 3", hint="there are 0 to 0"):
        sch.diff(0, 3)


def test_a_diff_is_text_and_a_view():
    sch = Schedule(elementwise())
    sch.parallel(sch.get_loops("B")[0])
    made = sch.diff(0, 1)
    assert isinstance(made, str) and repr(made) == str(made)
    shown = display.mimebundle(made)
    assert "+     for i in T.parallel(16):" in shown["text/plain"]
    assert "background:rgba(46,180,80," in shown["text/html"]  # green under what was added


def test_there_is_nothing_to_take_back_at_the_start():
    sch = Schedule(matmul())
    with refuses(sch, "undo: no step is left: this is the program as it was given"):
        sch.undo()
    with refuses(sch, "redo: no step was taken back, not 1"):
        sch.redo()


def test_a_word_that_is_none_of_a_schedules_is_corrected():
    sch = Schedule(matmul())
    wanted = "Schedule has no attribute 'vectorise': did you mean 'vectorize'\\?"
    with pytest.raises(AttributeError, match=wanted):
        sch.vectorise()
    assert not hasattr(sch, "_repr_html_")
