"""Errors that teach: the program with a caret, the reason, a counter-example, what to try."""

from __future__ import annotations

from textwrap import dedent

import pytest

from mlcnb import te
from mlcnb.core import display
from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.tir.schedule import CounterExample, Schedule
from mlcnb.tir.schedule.legality.proof import check_numeric
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import copy_2d, elementwise, matmul, matmul_relu, softmax


def refused(step, *args) -> ScheduleError:
    """The error of a step that is refused."""
    with pytest.raises(ScheduleError) as caught:
        step(*args)
    return caught.value


def test_the_whole_message():
    sch = Schedule(CARRIED["scan"])
    error = refused(sch.parallel, sch.get_loops("B")[0])
    expected = """
        parallel: loop i is not parallel: its iterations may touch the same elements of B, which block B writes
          2 | def scan(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
          3 |     # with T.block("root"):
        > 4 |     for i in range(8):
            |     ^^^^^^^^^^^^^^^^^^
          5 |         with T.block("B"):
          6 |             v = T.axis.spatial(8, i)
        counter-example:
          1. block B at i = 0 writes B[0]
          2. block B at i = 1 reads B[0]
          B[1] is 14.0, and would be 8.0 (run on (8,), (8,))
          it shows on shapes as small as (2,), (2,)
        hint: mlc.tir.legal_steps(sch, loop) lists what can be done at this loop
        """  # noqa: E501
    assert str(error) == dedent(expected).strip()
    assert repr(error.counterexample).splitlines()[:2] == [
        "1. block B at i = 0 writes B[0]",
        "2. block B at i = 1 reads B[0]",
    ]


def test_its_fields():
    sch = Schedule(CARRIED["last_one_wins_later"])
    found = refused(sch.parallel, sch.get_loops("C")[0]).counterexample
    assert isinstance(found, CounterExample)
    assert (found.loop, found.buffer) == ("loop i", "B")
    assert found.first.iteration == {"i": 0} and found.second.iteration == {"i": 4}
    assert found.first.is_write and found.second.is_write
    assert (found.first.buffer, found.first.indices) == ("C", (0,))
    assert found.is_certain and found.expected != found.got
    assert found.shapes == ((8,), (4,))
    assert found.element == f"B[{found.indices[0]}]"
    assert found.summary == f"{found.element} was {found.expected} and would be {found.got}"


def test_loops_around_are_named_too():
    sch = Schedule(matmul(3, 3, 3))
    found = refused(sch.vectorize, sch.get_loops("C")[2]).counterexample
    assert str(found.first) == "block C at i = 0, j = 0, k = 0 writes C[0, 0]"
    assert str(found.second) == "block C at i = 0, j = 0, k = 1 reads C[0, 0]"


def test_an_order_of_loops():
    sch = Schedule(CARRIED["scan_rows"])
    i, j = sch.get_loops("B")
    found = refused(sch.reorder, j, i).counterexample
    assert str(found.first) == "block B at v = 0, w = 3 writes B[0, 3]"
    assert str(found.second) == "block B at v = 1, w = 0 reads B[0, 3]"
    assert found.change == (
        "after the step, block B would see what was there before the call there"
    )


def test_a_block_that_would_come_too_early():
    sch = Schedule(matmul_relu(2, 2, 3))
    fused = sch.fuse(*sch.get_loops("C")[1:])
    found = refused(sch.reverse_compute_at, "D", fused).counterexample
    assert found is None or found.lines


def test_large_programs_are_explained_on_small_shapes():
    sch = Schedule(matmul(1024, 1024, 1024))
    found = refused(sch.parallel, sch.get_loops("C")[2]).counterexample
    assert str(found.second) == "block C at i = 0, j = 0, k = 1 reads C[0, 0]"
    assert found.is_certain
    assert found.shapes == found.smallest == ((2, 2), (2, 2), (2, 2))
    assert found.summary == "C[0, 0] was 30.0 and would be 24.0"


def test_a_refusal_that_is_about_something_else_has_none():
    sch = Schedule(elementwise())
    error = refused(sch.bind, sch.get_loops("B")[0], "threadIdx.q")
    assert error.counterexample is None


def test_it_is_looked_for_when_it_is_shown(monkeypatch):
    asked = []
    monkeypatch.setattr("mlcnb.tir.schedule.legality.judge.find", lambda *a: asked.append(a))
    sch = Schedule(CARRIED["scan"])
    error = refused(sch.parallel, sch.get_loops("B")[0])
    assert asked == []
    assert "counter-example" not in str(error)
    assert len(asked) == 1
    str(error)
    assert len(asked) == 1


def test_fast_errors_have_none():
    sch = Schedule(CARRIED["scan"], error_render_level="fast")
    error = refused(sch.parallel, sch.get_loops("B")[0])
    assert error.counterexample is None and "|" not in str(error)


def test_how_it_shows():
    sch = Schedule(CARRIED["in_place_shift"])
    error = refused(sch.vectorize, sch.get_loops("A")[0])
    for shown in (display.mimebundle(error), display.mimebundle(error.counterexample)):
        assert "reads A[1]" in shown["text/plain"]
        assert "value expected" in shown["text/html"] and "reads A[1]" in shown["text/html"]


# -- numbers ------------------------------------------------------------------------------


def test_a_step_that_changes_numbers_is_found():
    with pytest.raises(ScheduleError, match=r"step 1 changes what is computed: C\[0\] was"):
        check_numeric(elementwise(), doubled(), "step 1")


def doubled():
    """As `elementwise`, with another number."""
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((16,), lambda i: B[i] + 2.0, name="C")
    return te.create_prim_func([A, C])


# -- what TVM lets pass -------------------------------------------------------------------


def symbolic_chain():
    """C = A + B, D = C + C, E = D + A over n elements."""
    n = te.var("n")
    A, B = (te.placeholder((n,), name=x) for x in "AB")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    D = te.compute((n,), lambda i: C[i] + C[i], name="D")
    E = te.compute((n,), lambda i: D[i] + A[i], name="E")
    return te.create_prim_func([A, B, E])


@pytest.mark.parametrize("factor", [2, 4, 8, 16])
@pytest.mark.parametrize("depth", [0, 1])
def test_reverse_compute_at_over_a_symbolic_extent(factor, depth):
    """apache/tvm 15911: elements past the last whole tile were never computed."""
    func = symbolic_chain()
    sch = Schedule(func, check="both")
    loops = sch.split(sch.get_loops("D")[0], [None, factor])
    try:
        sch.reverse_compute_at("E", loops[depth])
    except MLCError as error:
        assert error.message.startswith("reverse_compute_at: ")
        return
    assert all("numeric 0" in s.proof for s in sch.steps[1:])


@pytest.mark.parametrize("depth", [0, 1])
def test_compute_at_a_vectorized_loop(depth):
    """apache/tvm 15877: a compiler error about a negative number, long after the step."""
    sch = Schedule(elementwise(64), check="both")
    loops = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.vectorize(loops[1])
    sch.compute_at("B", loops[depth])
    assert sch.steps[-1].proof.startswith("proved (islpy)")


def test_every_wrong_thread_axis():
    for axis in ("threadIdx.q", "threadIdx", "blockIdx.w", "x", "", "threadidx.x"):
        sch = Schedule(copy_2d())
        assert f"bind: {axis!r} is no thread axis" in str(
            refused(sch.bind, sch.get_loops("B")[0], axis)
        )


def test_a_vectorized_reduction():
    """apache/tvm 1795: silently wrong."""
    sch = Schedule(softmax())
    error = refused(sch.vectorize, sch.get_loops("S")[1])
    assert error.hint == "rfactor the loop first, or choose a spatial loop"
    assert error.counterexample.is_certain
