"""SpaceGenerator: what every space is; rules, postprocessors and mutators of a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.defaults import default_mutators, default_postprocs, default_rules
from mlcnb.meta_schedule.mutator import Mutator
from mlcnb.meta_schedule.part import Part
from mlcnb.meta_schedule.postproc import Postproc
from mlcnb.meta_schedule.schedule_rule import ScheduleRule
from mlcnb.tir.schedule import Schedule

FROM_TARGET = "from-target"


class SpaceGenerator(Part):
    """A space; `PySpaceGenerator` is its name for those of one's own.

    Args:
        sch_rules: schedule rules, a name of a set of them ("llvm", "cuda", …), "from-target", None.
        postprocs: postprocessors, the same.
        mutator_probs: mutator -> how likely it is, the same.
    """

    folder = "mlcnb.meta_schedule.space_generator"

    def __init__(
        self,
        sch_rules: Any = FROM_TARGET,
        postprocs: Any = FROM_TARGET,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        self._asked = sch_rules, postprocs, mutator_probs
        self.sch_rules: Sequence[ScheduleRule] = ()
        self.postprocs: Sequence[Postproc] = ()
        self.mutator_probs: dict[Mutator, float] = {}

    def initialize_with_tune_context(self, context: Any) -> None:
        """Choose the parts that the target wants, each with the context."""
        asked = getattr(self, "_asked", (None, None, None))
        wanted = [context.target if x == FROM_TARGET else x for x in asked]
        self.sch_rules = _made(default_rules, wanted[0])
        self.postprocs = _made(default_postprocs, wanted[1])
        found = wanted[2] if isinstance(wanted[2], dict) else _made(default_mutators, wanted[2])
        self.mutator_probs = dict(found)
        for part in (*self.sch_rules, *self.postprocs, *self.mutator_probs):
            part.initialize_with_tune_context(context)
        super().initialize_with_tune_context(context)

    @classmethod
    def create(cls, kind: Any = "post-order-apply", *args: Any, **options: Any) -> Any:
        """A space by TVM's name of it; a function Schedule -> Schedule is the space of its draws.

        Raises:
            MLCError: there is none of that name.
        """
        if callable(kind) and not isinstance(kind, SpaceGenerator):
            return super().create("schedule-fn", kind, *args, **options)
        if isinstance(kind, list | tuple):
            return super().create("union", [SpaceGenerator.create(x) for x in kind])
        return super().create(kind, *args, **options)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules of a module with one loop function, of known shapes."""
        raise NotImplementedError(f"{type(self).__name__}.generate_design_space")


PySpaceGenerator = SpaceGenerator


def _made(ready: Any, asked: Any) -> Any:
    if asked is None or asked == "none":
        return ()
    return asked if isinstance(asked, list | tuple) else ready(asked)
