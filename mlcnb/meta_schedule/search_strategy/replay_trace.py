"""ReplayTrace: the traces of the space, drawn anew each time."""

from __future__ import annotations

from mlcnb.meta_schedule.search_strategy.strategy import MeasureCandidate, SearchStrategy


class ReplayTrace(SearchStrategy):
    """Random candidates, each different.

    Args:
        max_fail_count: draws without a new candidate after which the space is exhausted.
    """

    kind = "replay-trace"
    max_fail_count: int = 100

    def proposed(self, wanted: int) -> list[MeasureCandidate]:
        """Candidates of the known shapes and dtypes, from any of the traces."""
        return self.drawn(wanted, self.max_fail_count, self.programs)
