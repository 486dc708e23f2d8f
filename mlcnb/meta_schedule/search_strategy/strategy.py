"""SearchStrategy: what every strategy is, and the candidates that it proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.ir.json import save_json
from mlcnb.meta_schedule.database import Database
from mlcnb.meta_schedule.database.record import arguments
from mlcnb.meta_schedule.part import Part
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.record.trace import Trace


@dataclass
class MeasureCandidate:
    """A schedule to be built and run, with [dtype, shape] of each argument."""

    sch: Schedule
    args_info: list[Any]

    @cached_property
    def text(self) -> str:
        """The program as JSON: equal texts are one program."""
        return save_json(self.sch.mod)


class SearchStrategy(Part):
    """A strategy; `PySearchStrategy` is its name for those of one's own.

    After `pre_tuning`, `generate_measure_candidates` and `notify_runner_results` take turns until
    the first gives None.
    """

    folder = "mlcnb.meta_schedule.search_strategy"

    #: candidates in all, and in a batch
    most, batch = 0, 0
    #: candidates that were proposed
    count = 0
    #: the schedules whose draws are open
    spaces: Sequence[Schedule] = ()
    database: Database | None = None
    cost_model: Any = None

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Database | None = None,
        cost_model: Any = None,
    ) -> None:
        """Begin: see `TuneContext.pre_tuning`."""
        self.most, self.batch, self.count = max_trials, num_trials_per_iter, 0
        self.spaces, self.database, self.cost_model = list(design_spaces), database, cost_model
        self.programs = set[str]()
        #: why traces were given up: how often
        self.failed: dict[str, int] = {}

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next batch; None where the search is over."""
        wanted = min(self.batch, self.most - self.count)
        if wanted <= 0:
            return None
        found = self.proposed(wanted)
        self.count += len(found)
        return found or None

    def proposed(self, wanted: int) -> list[MeasureCandidate]:
        """So many candidates, or fewer where the space has no more."""
        raise NotImplementedError(f"{type(self).__name__}.proposed")

    def notify_runner_results(
        self, measure_candidates: list[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """Hear what came of a batch."""

    def post_tuning(self) -> None:
        """End."""

    # -- for those that play traces --------------------------------------------------------------

    def played(self, trace: Trace, redraw: bool = False) -> MeasureCandidate | None:
        """The candidate of a trace, finished by the postprocessors; None where that fails.

        Args:
            trace: of a schedule of the context's program.
            redraw: draw everything anew.
        """
        sch = self.context.fresh()
        try:
            if redraw:
                trace = Trace(_undecided(i) for i in trace.simplified(remove_postproc=True))
            trace.apply_to_schedule(sch, remove_postproc=True)
        except ScheduleError as error:
            self._gives_up(error.message)
            return None
        return self.finished(sch)

    def finished(self, sch: Schedule) -> MeasureCandidate | None:
        """A schedule that the postprocessors have been over; None where one gives it up."""
        sch.enter_postproc()
        space = self.context.space_generator
        for postproc in space.postprocs if space else ():
            if not postproc.apply(sch):
                self._gives_up(type(postproc).__name__)
                return None
        return MeasureCandidate(sch, args_of(sch))

    def drawn(self, wanted: int, fails: int, known: set[str]) -> list[MeasureCandidate]:
        """Random draws of the traces of the space, each different; fewer after so many that fail.

        known: texts of programs that do not count; those that are drawn are noted there.
        """
        found: list[MeasureCandidate] = []
        failed = 0
        while len(found) < wanted and failed < fails and self.spaces:
            space = self.spaces[int(self.context.rng.integers(len(self.spaces)))]
            made = self.played(space.trace, redraw=True)
            if made is None or made.text in known:
                failed += 1
                continue
            known.add(made.text)
            found.append(made)
        return found

    def is_new(self, candidate: MeasureCandidate | None) -> bool:
        """True for a program that has not been proposed yet; it is noted."""
        if candidate is None or candidate.text in self.programs:
            return False
        self.programs.add(candidate.text)
        return True

    def _gives_up(self, why: str) -> None:
        self.failed[why] = self.failed.get(why, 0) + 1


PySearchStrategy = SearchStrategy


def args_of(sch: Schedule) -> list[Any]:
    """["TENSOR", dtype, shape] of each parameter of the function that is scheduled."""
    func = sch.mod[sch.func_working_on]
    if func is None:
        raise MLCError("no function is scheduled")
    return arguments(func)  # type: ignore[arg-type]


def _undecided(inst: Any) -> Any:
    return inst if inst.decision is None else inst.deciding(None)
