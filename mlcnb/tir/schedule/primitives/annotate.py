"""annotate, unannotate: a mark on a loop or a block, for passes and readers.

for i in range(8):     ->     for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):
with T.block("C"):     ->     with T.block("C"):
                                  T.block_attr({"schedule_rule": "tile"})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.node import FrozenDict, Node
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, For


def _keys(site: Site) -> list[str]:
    return list(site.target.node.annotations)


@does(still=True, tries={"ann_key": _keys})
def annotate(state: State, block_or_loop: Block | For, ann_key: str, ann_val: Any) -> Change:
    """Set an annotation; a drawn number is kept as its value, lists as tuples.

    It stands in the text and goes along with the loop or block; extents and accesses stay.

    Raises:
        ScheduleError: the value, or a part of it, is nothing that a program can hold.
    """
    strange = _strange(ann_val)
    if strange is not None or not isinstance(ann_key, str):
        raise state.refusal(
            f"annotate: {name_of(block_or_loop)} cannot hold "
            f"{'the key' if strange is None else 'a value'} of type "
            f"{type(ann_key if strange is None else strange[0]).__name__}",
            block_or_loop,
            hint="keys are text; values text, numbers, expressions, and lists and dicts of these",
        )
    marks = {**block_or_loop.annotations, ann_key: _frozen(ann_val)}
    return state.updated(block_or_loop, annotations=FrozenDict(marks))


@does(still=True, tries={"ann_key": _keys})
def unannotate(state: State, block_or_loop: Block | For, ann_key: str) -> Change:
    """Take an annotation off; loops, extents and dtypes stay.

    Raises:
        ScheduleError: there is none of that key.
    """
    if ann_key not in block_or_loop.annotations:
        there = ", ".join(block_or_loop.annotations) or "none"
        raise state.refusal(
            f"unannotate: {name_of(block_or_loop)} has no annotation {ann_key!r}",
            block_or_loop,
            hint=f"it has {there}",
        )
    kept = {k: v for k, v in block_or_loop.annotations.items() if k != ann_key}
    return state.updated(block_or_loop, annotations=FrozenDict(kept))


def _strange(value: Any) -> tuple[Any] | None:
    """The part of a value that is neither text, nor a number, nor a node; in a tuple."""
    if isinstance(value, list | tuple):
        return next((x for v in value if (x := _strange(v)) is not None), None)
    if isinstance(value, Mapping):
        return _strange([x for item in value.items() for x in item])
    return None if value is None or isinstance(value, str | int | float | Node) else (value,)


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return FrozenDict({k: _frozen(v) for k, v in value.items()})
    return value
