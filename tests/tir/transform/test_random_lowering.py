"""Random schedules of programs that carry dependences, and random programs: right after each pass.

The full runs: python -m tests.tir.transform schedules 0 400
               python -m tests.tir.transform programs 0 2000
"""

from __future__ import annotations

import pytest

from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import check_lowering, random_schedule
from tests.tir.transform.random_programs import check_program


@pytest.mark.parametrize("name", sorted(CARRIED))
def test_programs_that_carry_dependences_as_they_are(name):
    check_lowering(CARRIED[name], CARRIED[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"on_threads"}))
@pytest.mark.parametrize("seed", range(2))
def test_random_schedules(name, seed):
    check_lowering(PROGRAMS[name](), random_schedule(name, seed))


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    check_program(seed)
