"""What is offered in place of a refused step is legal, and near it."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.offers.repairs import MOST, repairs
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import elementwise, matmul, matmul_relu


def refused(step, *args) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        step(*args)
    return caught.value


def test_in_place_of_a_vector_over_a_sum():
    sch = Schedule(matmul(64, 64, 64))
    error = refused(sch.vectorize, sch.get_loops("C")[2])
    assert [x.text for x in repairs(error)] == [
        'sch.vectorize(sch.get_loops("C")[1])',
        'sch.vectorize(sch.get_loops("C")[0])',
        'sch.rfactor(sch.get_loops("C")[2], factor_axis=0)',
        'sch.decompose_reduction("C", sch.get_loops("C")[2])',
    ]


def test_another_loop_for_a_block():
    sch = Schedule(matmul_relu(8, 8, 8))
    error = refused(sch.reverse_compute_at, "D", sch.fuse(*sch.get_loops("C")[1:]))
    assert repairs(error)[0].text == 'sch.reverse_compute_at("D", sch.get_loops("C")[0])'


@pytest.mark.parametrize("name", ["scan", "scan_rows", "in_place_shift"])
def test_each_of_them_runs(name):
    sch = Schedule(CARRIED[name])
    block = sch.state.tree(sch.func_working_on.name_hint).blocks[1].name_hint
    error = refused(sch.parallel, sch.get_loops(block)[0])
    found = repairs(error)
    assert 0 < len(found) <= MOST
    for step in found:
        other = Schedule(CARRIED[name])
        exec(step.text, {"sch": other})  # noqa: S102
        assert other.steps[-1].name == step.primitive


def test_none_where_it_is_not_known_what_was_tried():
    sch = Schedule(elementwise())
    assert repairs(ScheduleError("something else")) == []
    assert repairs(refused(sch.get_block, "X")) == []
    assert repairs(ScheduleError("split: no root")) == []


def test_a_factor_that_was_given_is_in_what_is_legal_instead():
    sch = Schedule(matmul(128, 128, 128))
    with pytest.raises(ScheduleError) as caught:
        sch.split(sch.get_loops("C")[0], 32)
    assert caught.value.advice == "factors=[None, 32]"
    assert repairs(caught.value)[0].text == 'sch.split(sch.get_loops("C")[0], factors=[None, 32])'
