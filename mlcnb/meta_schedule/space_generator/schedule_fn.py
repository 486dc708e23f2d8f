"""ScheduleFn: the space of what a function draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.space_generator.generator import FROM_TARGET, SpaceGenerator
from mlcnb.tir.schedule import Schedule


class ScheduleFn(SpaceGenerator):
    """A function of a schedule, which draws by `sample_…`.

    Args:
        sch_fn: Schedule -> Schedule, several, or None: the one that was given.
        sch_rules, postprocs, mutator_probs: see `SpaceGenerator`.
    """

    kind = "schedule-fn"

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: Any = None,
        postprocs: Any = None,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """What the function makes, with draws of its own each time.

        Raises:
            MLCError: it gives something else than schedules.
        """
        sch = self.context.fresh()
        made = self.sch_fn(sch)
        found = list(made) if isinstance(made, list | tuple) else [sch if made is None else made]
        for one in found:
            if not isinstance(one, Schedule):
                raise MLCError(
                    f"ScheduleFn: {getattr(self.sch_fn, '__name__', 'the function')} gave "
                    f"{kind_of(one)}",
                    hint="give a Schedule, a list of them, or None for the one that was given",
                )
        return found
