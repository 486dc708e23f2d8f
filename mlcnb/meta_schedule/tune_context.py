"""TuneContext: one program to tune, for one target, by the parts that do it.

ctx = ms.TuneContext(matmul, target="llvm", space_generator="post-order-apply",
                     search_strategy="evolutionary", rand_state=1)
ctx.generate_design_space()      schedules of which only the draws are open
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.database import Database, Workload
from mlcnb.meta_schedule.search_strategy.strategy import MeasureCandidate, SearchStrategy
from mlcnb.meta_schedule.space_generator.generator import SpaceGenerator
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule


class TuneContext:
    """A program and what tunes it.

    Args:
        mod: a PrimFunc, or a module with one, of known shapes.
        target: "llvm", "cuda", …, with options.
        space_generator: how schedules are made: an object, TVM's name of one, or a function
            Schedule -> Schedule.
        search_strategy: which of them are tried: an object, or TVM's name of one.
        task_name: what is printed.
        rand_state: of everything that is drawn; -1: 0.
        num_threads, logger: taken for TVM's callers.

    Raises:
        MLCError: the module has another number of loop functions; there is no part of that name.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc | None = None,
        *,
        target: Any = None,
        space_generator: Any = None,
        search_strategy: Any = None,
        task_name: str = "main",
        rand_state: int = -1,
        num_threads: int | str = "physical",
        logger: Any = None,
    ) -> None:
        self.workload = None if mod is None else Workload.of(mod)
        self.mod = None if self.workload is None else self.workload.mod
        self.target = Target(target or Target.current() or "llvm")
        self.task_name, self.num_threads, self.logger = task_name, num_threads, logger
        self.rand_state = max(rand_state, 0)
        self.rng = np.random.default_rng(self.rand_state)
        self.space_generator = space_generator and SpaceGenerator.create(space_generator)
        self.search_strategy = search_strategy and SearchStrategy.create(search_strategy)
        self.initialize()

    def initialize(self) -> None:
        """Make the parts work for this context."""
        if self.mod is None:
            return
        for part in (self.space_generator, self.search_strategy):
            if part:
                part.initialize_with_tune_context(self)

    def fresh(self) -> Schedule:
        """A schedule of the program with nothing done to it; its draws are seeded from here."""
        if self.workload is None:
            raise MLCError("TuneContext: no program", hint="TuneContext(mod, …)")
        sch = Schedule(self.workload.mod, seed=int(self.rng.integers(1, 2**31 - 1)))
        sch.work_on(self.workload.entry)
        return sch

    def generate_design_space(self) -> list[Schedule]:
        """The schedules that the space generator makes, their draws open."""
        return self._space().generate_design_space(self.mod)  # type: ignore[no-any-return]

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int = 64,
        design_spaces: Sequence[Schedule] | None = None,
        database: Database | None = None,
        cost_model: Any = None,
    ) -> None:
        """Begin a search.

        Args:
            max_trials: candidates in all.
            num_trials_per_iter: in one batch.
            design_spaces: what `generate_design_space` gave; it is asked where there are none.
            database: what was measured before.
            cost_model: what ranks candidates.
        """
        spaces = design_spaces or self.generate_design_space()
        self._strategy().pre_tuning(max_trials, num_trials_per_iter, spaces, database, cost_model)

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next candidates; None where the search is over."""
        return self._strategy().generate_measure_candidates()  # type: ignore[no-any-return]

    def notify_runner_results(
        self, measure_candidates: list[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """Tell the strategy what the runs of its candidates gave."""
        self._strategy().notify_runner_results(measure_candidates, results)

    def post_tuning(self) -> None:
        """End the search."""
        self._strategy().post_tuning()

    def clone(self) -> TuneContext:
        """The same program with parts of its own, its random numbers from the start."""
        return TuneContext(
            self.mod,
            target=self.target,
            space_generator=self.space_generator and self.space_generator.clone(),
            search_strategy=self.search_strategy and self.search_strategy.clone(),
            task_name=self.task_name,
            rand_state=self.rand_state,
            num_threads=self.num_threads,
            logger=self.logger,
        )

    def _space(self) -> Any:
        if not self.space_generator or self.mod is None:
            raise MLCError(
                "TuneContext: no space generator, or no program",
                hint='TuneContext(mod, space_generator="post-order-apply", …)',
            )
        return self.space_generator

    def _strategy(self) -> Any:
        if not self.search_strategy:
            raise MLCError(
                "TuneContext: no search strategy",
                hint='TuneContext(mod, search_strategy="evolutionary", …)',
            )
        return self.search_strategy
