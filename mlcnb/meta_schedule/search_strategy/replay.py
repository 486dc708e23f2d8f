"""Replays: candidates by lot, from the traces of the space or from the space made anew."""

from __future__ import annotations

from mlcnb.core.errors import ScheduleError
from mlcnb.meta_schedule.search_strategy.strategy import MeasureCandidate, SearchStrategy


class ReplayTrace(SearchStrategy):
    """The traces of the space, drawn anew each time: random candidates, each different.

    Args:
        max_fail_count: draws without a new candidate after which the space is exhausted.
    """

    kind = "replay-trace"
    max_fail_count: int = 100

    def proposed(self, wanted: int) -> list[MeasureCandidate]:
        """Candidates of the known shapes and dtypes, from any of the traces."""
        return self.drawn(wanted, self.max_fail_count, self.programs)


class ReplayFunc(SearchStrategy):
    """The space made anew for each candidate: the schedules of a function of one's own (or of
    rules), which draw something else each time.

    Args:
        max_fail_count: rounds without a new candidate after which the space is exhausted.
    """

    kind = "replay-func"
    max_fail_count: int = 100

    def proposed(self, wanted: int) -> list[MeasureCandidate]:
        """Candidates of the known shapes and dtypes."""
        found: list[MeasureCandidate] = []
        failed = 0
        while len(found) < wanted and failed < self.max_fail_count:
            try:
                spaces = self.context.generate_design_space()
            except ScheduleError as error:
                self._gives_up(error.message)
                spaces = []
            made = [x for sch in spaces if self.is_new(x := self.finished(sch)) and x is not None]
            failed += not made
            found += made
        return found[:wanted]
