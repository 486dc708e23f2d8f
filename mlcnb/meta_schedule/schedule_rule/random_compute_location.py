"""RandomComputeLocation: a block is computed somewhere in the loops of its consumer."""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.looking import is_root, note, tree
from mlcnb.meta_schedule.schedule_rule.multi_level_tiling import STRUCTURE
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.tir.schedule import Schedule

#: what marks a block whose producer is moved as well
PRODUCER = "meta_schedule.random_compute_producer"


class RandomComputeLocation(ScheduleRule):
    """Blocks of the root that have loops of their own, no tiles, and a consumer."""

    kind = "random-compute-location"

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule with the block somewhere else, or as it is."""
        moves = self._moves(sch, block)
        marked = not is_root(sch, block) and note(sch, block, PRODUCER) is not None
        if not moves and not marked:
            return [sch]

        def step(s: Schedule) -> None:
            if marked:
                s.unannotate(block, PRODUCER)
            if moves:
                s.compute_at(block, s.sample_compute_location(block), True)

        return [tried(sch, step) or sch]

    def _moves(self, sch: Schedule, block: Any) -> bool:
        if is_root(sch, block) or note(sch, block, STRUCTURE) is not None:
            return False
        loops, whole = sch.get_loops(block), tree(sch)
        if not loops or whole.scope(sch.get(block)) is not whole.root:
            return False
        alone = len(sch.get_child_blocks(loops[0])) == 1
        return alone and bool(sch.get_consumers(block))
