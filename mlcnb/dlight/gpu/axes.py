"""Axes of a block by the operands that they stand in, and operands written over them.

for i, j, k: C[i, j] += A[i, k] * B[k, j]        batch none, rows i, columns j, reduced k

Several axes of a kind are one: `over_axes` writes an operand over them, `fused` is the index map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mlcnb.core.node import walk
from mlcnb.dlight.gpu.threads import VECTOR_BYTES
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: bytes of an asynchronous copy at least
LEAST_BYTES = 4
#: tiles of a result that keep a GPU busy
MANY = 96


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


def product_of(survey: Survey, threads: int = 1, most: int = 1) -> Axes | str:
    """The axes of a function that is one product with what is done element by element around it;
    else why it is not one. threads: of the blocks that are to be made; most: that there may be.
    """
    anchor = survey.anchor
    if anchor is None:
        return "nothing is summed"
    if None in anchor.extents:
        return f"sizes of {anchor.name} are not known"
    if most < threads:
        return f"blocks of {threads} threads, and a GPU of this target has {most} at most"
    other = next((b for b in survey.blocks if b is not anchor and not b.is_spatial), None)
    if other is not None:
        return f"beside {anchor.name} stands {other.name}, which is not done element by element"
    axes = axes_of(anchor)
    return f"{anchor.name} is no sum of products of two operands" if axes is None else axes


def by_sides(lengths: Sequence[int]) -> str:
    """Rows, columns and k of a product in words."""
    rows, columns, length = lengths
    return f"{rows:,} x {columns:,} by {length:,}"


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


def lies(block: BlockInfo, number: int, axes: Axes) -> tuple[bool | None, int]:
    """What of an operand lies side by side in memory, and how much of it can be moved at once.

    Returns:
        True where k does, False where its rows or columns do, None for neither; and elements of
        which groups begin at multiples of their size, each in one row.
    """
    buffer = block.node.reads[number].buffer
    (load,) = (x for x in factors(block.node.body) or [] if x.buffer is buffer)
    axis = next((n for n, x in enumerate(block.node.iter_vars) if x.var is load.indices[-1]), None)
    group = next((g for g in (axes.reduced, axes.rows, axes.columns) if axis in g), None)
    if axis is None or group is None:
        return None, 1
    along_k = group is axes.reduced
    lengths = (block.extents[axis] or 1, as_int(buffer.shape[-1]) or 1)
    lanes = VECTOR_BYTES // buffer.dtype.nbytes
    while lanes > 1 and any(n % lanes for n in lengths):
        lanes //= 2
    return along_k, lanes if axis == group[-1] else 1


def in_groups(block: BlockInfo, axes: Axes, count: int) -> bool:
    """True if columns of the result lie side by side, a multiple of `count` in each row."""
    store: Any = block.node.body
    last = axes.columns[-1]
    is_last = store.indices[-1] is block.node.iter_vars[last].var
    return is_last and (block.extents[last] or 1) % count == 0


def padded(sch: Schedule, block: Any, out: Any, tile: list[int]) -> list[Any]:
    """Round all axes up to whole tiles; the blocks that fetch the operands, left one first."""
    before = {sch.get(p).name_hint: p for p in sch.get_producers(block)}
    sch.pad_einsum(block, tile)
    fetches = sch.get_producers(block)
    for fetch in fetches:
        for source in sch.get_producers(fetch):
            if sch.get(source).name_hint in before:
                sch.compute_inline(source)
    for between in sch.get_consumers(block):
        if sch.get(between).name_hint != sch.get(out).name_hint:
            sch.compute_inline(between)
    left = sch.get(block).reads[-2:]
    buffers = [region.buffer for region in left]
    return sorted(fetches, key=lambda f: buffers.index(sch.get(f).writes[0].buffer))


def tiles_of(block: BlockInfo, axes: Axes, rows: int, columns: int) -> int:
    """Into how many tiles a result falls apart."""
    sides = [math.prod(block.extents[n] or 1 for n in side) for side in axes[:3]]
    return sides[0] * -(-sides[1] // rows) * -(-sides[2] // columns)


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
