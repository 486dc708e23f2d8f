"""Refusals that were not needed: how they are found, counted, and said."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule import fuzz
from tests.tir.schedule.programs import elementwise, only, refuses, row_sum
from tests.tir.schedule.refusals import Refusals, forced, is_harmless, reason_of
from tests.tir.schedule.test_rolling_buffer import tiled, upsampled


@T.prim_func
def same_twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(4, i // 2)
            B[v] = A[v] * T.float32(2)


@T.prim_func
def last_wins(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v // 2] = A[v] * T.float32(2)


def parallel(sch):
    sch.parallel(sch.get_loops("B")[0])


def refused(sch, step):
    with pytest.raises(ScheduleError) as error:
        step(sch)
    return error.value


@pytest.mark.parametrize(("func", "harmless"), [(same_twice, True), (last_wins, False)])
def test_a_refused_step_is_done_by_force(func, harmless):
    sch = Schedule(func)
    error = refused(sch, parallel)
    other = forced(sch, parallel)
    assert other is not None and (sch.position, other.position) == (0, 1)
    assert other.steps[1].proof == "trusted"
    assert is_harmless(other, exact=True) is harmless
    found = Refusals()
    found.add("parallel", error, sch, harmless)
    assert str(found).splitlines()[-1] == (
        f"    {int(harmless)} of     1  refusals would have done no harm"
    )
    assert reason_of(error, func) == (
        "loop X is not parallel: its iterations may touch the same elements of X, which block X "
        "writes"
    )


def test_what_cannot_be_done_at_all():
    sch = Schedule(row_sum())
    assert forced(sch, lambda x: x.decompose_reduction("B", x.get_loops("B")[1])).position == 1
    assert forced(sch, lambda x: x.compute_at("B", x.get_loops("B")[0])) is None


def test_threads_that_race_do_harm():
    sch = Schedule(row_sum())
    other = forced(sch, lambda x: x.bind(x.get_loops("B")[1], "blockIdx.x"))
    assert not is_harmless(other, exact=False)


def test_the_schedule_is_tried_in_other_sizes():
    sch = Schedule(elementwise(12))
    sch.split(sch.get_loops("B")[0], [None, 4])
    assert is_harmless(sch, True, (elementwise(7), elementwise(16)))


def test_the_fuzz_counts_them(monkeypatch):
    monkeypatch.setattr(fuzz, "PROGRAMS", {"same_twice": lambda: same_twice})
    counts = fuzz.run(200, seed=3)
    reasons = {name for name, _ in counts.refusals.false}
    assert "parallel" in reasons or "vectorize" in reasons
    assert counts.refusals.all.total() == counts.refused.total()


# what the counts have led to ----------------------------------------------------------------------


def test_copies_of_tiles_that_overlap():
    """A copy with loops of its own is another instance in each of their steps: it may run again."""
    sch = Schedule(upsampled(6))
    (outer,) = tiled(sch, 2)
    sch.read_at(outer, "B", 0, "local")
    sch.compute_at("B", sch.get_loops("C")[-1])
    assert sch.steps[-1].proof == "proved (islpy)"
    assert is_harmless(sch, True)


def test_partial_sums_stay_inside():
    """Of the threads of a reduction none is the last."""
    sch = Schedule(row_sum())
    k = sch.get_loops("B")[1]
    sch.bind(k, "threadIdx.x")
    with refuses(
        sch,
        "write_at: block B updates B in each iteration of loop k, which is not under loop k",
        "choose a loop outside of loop k",
    ):
        sch.write_at(k, "B", 0, "local")
    assert only(sch.mod) is only(sch.steps[1].mod)
