"""RoundRobin: each task in its turn."""

from __future__ import annotations

from mlcnb.meta_schedule.task_scheduler.scheduler import TaskScheduler


class RoundRobin(TaskScheduler):
    """One after the other."""

    kind = "round-robin"
    _last: int = -1

    def next_task_id(self) -> int:
        """The next task that is not done; -1 where all are."""
        for step in range(1, len(self.tasks_) + 1):
            at = (self._last + step) % len(self.tasks_)
            if not self.tasks_[at].is_terminated:
                self._last = at
                return at
        return -1
