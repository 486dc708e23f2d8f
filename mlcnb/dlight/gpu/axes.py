"""Axes of a block by the operands that they stand in, and operands written over them.

for i, j, k: C[i, j] += A[i, k] * B[k, j]        batch none, rows i, columns j, reduced k

Several axes of a kind are one: `over_axes` writes an operand over them, `fused` is the index map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mlcnb.core.node import walk
from mlcnb.dlight.survey import BlockInfo
from mlcnb.ir import expr as e
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore


class Axes(NamedTuple):
    """The axes of a product's block, by their numbers."""

    batch: list[int]
    rows: list[int]
    columns: list[int]
    reduced: list[int]


def axes_of(block: BlockInfo) -> Axes | None:
    """The axes of a block that adds products of two operands; None for any other block.

    The result's last index is among the columns, so that neighbouring threads write side by side.
    A product with a vector has no rows, or no columns.
    """
    store: Any = block.node.body
    loads = factors(store)
    if loads is None:
        return None
    used = [{n for i in load.indices for n in walk(i)} for load in loads]
    found = Axes([], [], [], [])
    for number, (axis, kind) in enumerate(zip(block.node.iter_vars, block.kinds, strict=True)):
        in_both = [axis.var in names for names in used]
        if kind == "R":
            if not all(in_both):
                return None
            found.reduced.append(number)
        elif all(in_both):
            found.batch.append(number)
        elif any(in_both):
            found[1 if in_both[0] else 2].append(number)
        else:
            return None
    last = set(walk(store.indices[-1])) if store.indices else set()
    if any(block.node.iter_vars[n].var in last for n in found.rows):
        found = found._replace(rows=found.columns, columns=found.rows)
    return found if found.reduced else None


def factors(store: Any) -> list[BufferLoad] | None:
    """The two loads of `C[…] = C[…] + a * b`, as they are or cast."""
    if not isinstance(store, BufferStore) or not isinstance(store.value, e.Add):
        return None
    own, term = store.value.a, store.value.b
    if not isinstance(own, BufferLoad) or own.buffer is not store.buffer:
        return None
    if not isinstance(term, e.Mul):
        return None
    loads = [_uncast(term.a), _uncast(term.b)]
    same = all(isinstance(x, BufferLoad) for x in loads)
    return loads if same and loads[0].buffer is not loads[1].buffer else None


def _uncast(x: Any) -> Any:
    return _uncast(x.value) if isinstance(x, e.Cast) else x


def operands(block: BlockInfo, axes: Axes) -> list[tuple[int, list[int]]]:
    """For each operand the number of its region among the reads, and its side of the result."""
    regions = [r.buffer for r in block.node.reads]
    made = []
    for load in factors(block.node.body) or []:
        names = {n for i in load.indices for n in walk(i)}
        own = any(block.node.iter_vars[n].var in names for n in axes.rows)
        made.append((regions.index(load.buffer), axes.rows if own else axes.columns))
    return made


def over_axes(
    sch: Schedule, block: BlockInfo, which: tuple[str, int], groups: Sequence[list[int]]
) -> Any:
    """Write an operand, or the result, over the block's axes, those of a group as one.

    Returns:
        The block that writes it.
    """
    made = sch.reindex(block.handle, which)
    order = sorted(n for group in groups for n in group)
    index_map = fused(block, order, groups)
    sch.transform_layout(block.handle, which, index_map)
    sch.transform_block_layout(made, index_map)
    return made


def fused(block: BlockInfo, order: Sequence[int], groups: Sequence[Sequence[int]]) -> IndexMap:
    """The index map from axes, in their order, to one index for each group of them."""

    def indices(*given: Any) -> list[Any]:
        at = dict(zip(order, given, strict=True))
        return [_as_one(group, at.__getitem__, block.extents) for group in groups]

    return IndexMap.from_func(indices, ndim=len(order))


def _as_one(group: Sequence[int], of: Callable[[int], Any], extents: Sequence[Any]) -> Any:
    total: Any = 0
    for n in group:
        total = total * extents[n] + of(n)
    return total
