"""Random schedules of programs that carry dependences, and of others: right after every pass.

The full run: python -m tests.tir.transform 0 400
"""

from __future__ import annotations

import pytest

from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import check_lowering, random_schedule


@pytest.mark.parametrize("name", sorted(CARRIED))
def test_programs_that_carry_dependences_as_they_are(name):
    check_lowering(CARRIED[name], CARRIED[name])


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("seed", range(2))
def test_random_schedules(name, seed):
    check_lowering(PROGRAMS[name](), random_schedule(name, seed))
