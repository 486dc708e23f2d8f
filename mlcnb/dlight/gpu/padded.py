"""A product padded to whole tiles: zeros are fetched beyond an operand, and not stored."""

from __future__ import annotations

from typing import Any

from mlcnb.tir.schedule import Schedule


def padded(sch: Schedule, block: Any, out: Any, tile: list[int]) -> list[Any]:
    """Round all axes up to whole tiles; the blocks that fetch the operands, left one first.

    Args:
        block: the product, over one axis for each entry of `tile`, operands and result `reindex`ed.
        out: the block that writes the result.
    """
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
