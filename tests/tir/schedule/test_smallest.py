"""The smallest shapes on which a step goes wrong, and cuts where there are none."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.smallest import smallest
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import elementwise, matmul, matmul_relu


def refused(step, *args):
    with pytest.raises(ScheduleError) as caught:
        step(*args)
    return caught.value.counterexample


def test_a_sum_goes_wrong_from_two_terms_on():
    sch = Schedule(matmul(4, 8, 16))
    found = refused(sch.vectorize, sch.get_loops("C")[2])
    assert found.shapes == ((4, 16), (16, 8), (4, 8))
    assert found.smallest == ((1, 2), (2, 1), (1, 1))
    assert found.lines[-1] == "it shows on shapes as small as (1, 2), (2, 1), (1, 1)"


def test_sizes_that_are_needed_stay():
    """Its index `3 - w` fits only rows of four."""
    sch = Schedule(CARRIED["scan_rows"])
    i, j = sch.get_loops("B")
    assert refused(sch.reorder, j, i).smallest == ((2, 4), (2, 4))


def test_where_loops_were_split_they_are_cut():
    sch = Schedule(matmul(512, 512, 512))
    i, j, k = sch.get_loops("C")
    sch.split(i, [None, 32])
    found = refused(sch.parallel, k)
    assert found.is_certain and found.cut == 2 and found.smallest == ()
    assert found.lines[-1].endswith("(each loop cut to its first 2 iterations)")


def test_a_step_that_changes_nothing_has_no_example():
    sch = Schedule(matmul_relu(8, 8, 8))
    before = sch.mod["main"]
    sch.reverse_compute_at("D", sch.get_loops("C")[0])
    assert smallest(before, sch.mod["main"]) == {}
    assert smallest(elementwise(), elementwise()) == {}
