"""Postproc: what every postprocessor is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.dlight.looking import tree
from mlcnb.meta_schedule.part import Part
from mlcnb.tir.schedule import Schedule


class Postproc(Part):
    """A postprocessor; `PyPostproc` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.postproc"

    def apply(self, sch: Schedule) -> bool:
        """Change the schedule; False: this candidate is given up."""
        raise NotImplementedError(f"{type(self).__name__}.apply")


PyPostproc = Postproc


def leaves(sch: Schedule) -> Iterator[Any]:
    """A handle for each block that is not the root, in program order.

    Several blocks may have one name; each is reached through those that hold it.
    """

    def below(handle: Any) -> Iterator[Any]:
        for child in sch.get_child_blocks(handle):
            yield child
            yield from below(child)

    yield from below(sch.get_block(tree(sch).root.name_hint))


def noted(sch: Schedule, key: str) -> list[tuple[Any, Any]]:
    """(block, value) of each block with an annotation of that name, which is taken off."""
    found = [(b, sch.get(b).annotations[key]) for b in leaves(sch) if key in sch.get(b).annotations]
    for block, _ in found:
        sch.unannotate(block, key)
    return found
