"""SpaceGeneratorUnion: the schedules of several spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.space_generator.generator import FROM_TARGET, SpaceGenerator
from mlcnb.tir.schedule import Schedule


class SpaceGeneratorUnion(SpaceGenerator):
    """Several spaces as one.

    Args:
        space_generators: the spaces.
        sch_rules, postprocs, mutator_probs: see `SpaceGenerator`; they hold for all.
    """

    kind = "union"

    def __init__(
        self,
        space_generators: Sequence[Any],
        sch_rules: Any = FROM_TARGET,
        postprocs: Any = FROM_TARGET,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = [SpaceGenerator.create(x) for x in space_generators]

    def _initialize_with_tune_context(self, context: Any) -> None:
        for space in self.space_generators:
            space.initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules of all, of a function of any shapes and dtypes, in order."""
        return [x for space in self.space_generators for x in space.generate_design_space(mod)]

    def clone(self) -> Self:
        """The same with clones of the spaces."""
        made = super().clone()
        made.space_generators = [x.clone() for x in self.space_generators]
        return made
