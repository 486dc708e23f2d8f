"""pairs: a matrix brought to blocks of columns, with two rows together.

for j, k, l, p in …:                            for k_0 in T.parallel(…):
    out[j, k, l, p] =                    ->         for j, k_1:
        x[2 * k + p, 32 * j + l]                        out[…] = two rows, lane by lane in turns

What an instruction takes that sums products of two values of 16 bits. A vector of each of two rows
is read, and two vectors are written, one behind the other; some rows at a time stay in the cache.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: pairs of rows that are read side by side: their lines stay in the first cache
ROWS = 16


def pairs(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a layout_transform of values of 16 bits whose last block is two rows."""
    last = survey.blocks[-1] if survey.blocks else None
    if last is None or not is_pairs(last) or not all(b.is_spatial for b in survey.blocks):
        return False
    lanes = target.lanes("uint16")
    if (last.extents[2] or 0) % lanes:
        return False
    for block in survey.before(last):
        elementwise(sch, block, target)
    j, k, column, pair = sch.get_loops(last.handle)
    k_0, k_1 = sch.split(k, [None, ROWS])
    columns: list[Any] = sch.split(column, [None, lanes])
    sch.reorder(k_0, j, k_1, *columns, pair)
    sch.tensorize(columns[1], f"pairs_{lanes}x2")
    spread(sch, [k_0], last.work)
    return True


def is_pairs(block: BlockInfo) -> bool:
    """(blocks, pairs, columns, 2) of values of 16 bits, copied, nothing filled up."""
    if block.kinds != "SSSS" or block.extents[3] != 2 or None in block.extents:
        return False
    body = block.node.body
    copied = isinstance(body, BufferStore) and isinstance(body.value, BufferLoad)
    return copied and body.buffer.dtype == "bfloat16"  # type: ignore[attr-defined]
