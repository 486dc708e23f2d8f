"""Random steps on random programs, and replay of what was done."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mlcnb.ir.structural import assert_structural_equal
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.random_steps import PROGRAMS, STEPS, attempt, scheduled


class RandomSchedule(RuleBasedStateMachine):
    """A program, and steps that are checked one by one against the reference interpreter."""

    @initialize(name=st.sampled_from(sorted(PROGRAMS)))
    def start(self, name: str) -> None:
        """Take one of the programs."""
        self.program = PROGRAMS[name]()
        self.sch = Schedule(self.program)
        self.given = scheduled(self.sch)

    @rule(name=st.sampled_from(sorted(STEPS)), data=st.data())
    def step(self, name: str, data: st.DataObject) -> None:
        """Do one random step."""
        attempt(self.sch, name, lambda items: data.draw(st.sampled_from(list(items))))

    @rule()
    def undo(self) -> None:
        """Go back one step, where there is one."""
        if self.sch.position:
            self.sch.undo()

    @invariant()
    def program_is_as_given(self) -> None:
        """The program that was handed in is never touched."""
        if hasattr(self, "sch"):
            assert scheduled(self.sch, 0) is self.given

    def teardown(self) -> None:
        """The trace does it all again."""
        if hasattr(self, "sch"):
            again = Schedule(self.program)
            self.sch.trace.simplified().apply_to_schedule(again)
            assert_structural_equal(again.mod, self.sch.mod)


RandomSchedule.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestRandomSchedule = RandomSchedule.TestCase
