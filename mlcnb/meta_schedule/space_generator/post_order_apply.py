"""PostOrderApply: every rule to every block, from the last block to the first.

for rule in rules:
    for sch in schedules: for block in blocks: schedules of rule.apply(sch, block)

The blocks are those that were there at the beginning; what a rule adds is left to the
postprocessors, and a block that was inlined is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.dlight.looking import is_there, note, tree
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.space_generator.generator import FROM_TARGET, SpaceGenerator
from mlcnb.tir.schedule import Schedule


class PostOrderApply(SpaceGenerator):
    """The rules of a target, or one's own.

    Args:
        f_block_filter: block -> whether rules see it.
        sch_rules, postprocs, mutator_probs: see `SpaceGenerator`.
    """

    kind = "post-order-apply"

    def __init__(
        self,
        f_block_filter: Callable[[Any], bool] | None = None,
        sch_rules: Any = FROM_TARGET,
        postprocs: Any = FROM_TARGET,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules that all rules make, of a function of any shapes and dtypes."""
        first: Schedule = self.context.fresh()
        names = [b.name_hint for b in tree(first).blocks[1:]]
        blocks = [first.get_block("root"), *map(first.get_block, reversed(names))]
        if self.f_block_filter is not None:
            blocks = [b for b in blocks if self.f_block_filter(first.get(b))]
        made = [first]
        for rule in self.sch_rules:
            own = rule.kind == "apply-custom-rule"
            for block in blocks:
                made = [x for sch in made for x in _applied(rule, sch, block, own)]
        return made


def _applied(rule: Any, sch: Schedule, block: Any, own: bool) -> list[Schedule]:
    """What a rule makes of a block; a block with a rule of its own is left to that."""
    if not is_there(sch, block) or (note(sch, block, "schedule_rule") is not None) is not own:
        return [sch]
    return list(rule.apply(sch, block))
