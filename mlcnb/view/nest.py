"""Loops and blocks as a picture: a bar for each loop, inside each other, coloured by kind.

| for i in 4   parallel
| | for k in 4
| | | B   A -> B
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from mlcnb.ir.expr import IntImm
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies
from mlcnb.view.svg import FAINT, INK, Drawing
from mlcnb.view.words import clip, dim, listed

#: kind of loop -> fill, ink: told apart by their word too
KINDS = {
    "serial": ("#eef1f4", "#8c959f"),
    "parallel": ("#cdeccd", "#22703a"),
    "vectorized": ("#cfe3fb", "#1f5fa8"),
    "unroll": ("#fde7c2", "#9a4a00"),
    "thread": ("#e6dafb", "#6f42c1"),
}
BLOCK = ("#ffffff", "#57606a")
#: what is said of a store that stands in no block
STORED = "is written"
ROW, STEP, BAR = 22.0, 16.0, 18.0


class Row(NamedTuple):
    """One loop or block: how deep, its words, its kind, and a remark."""

    depth: int
    text: str
    kind: str
    more: str


def rows(func: PrimFunc) -> list[Row]:
    """The loops and blocks of a function, in order."""
    return list(_rows(func.body, 0))


def _rows(n: Any, depth: int) -> Iterator[Row]:
    match n:
        case s.For():
            yield _loop(n, depth)
            yield from _rows(n.body, depth + 1)
        case s.BlockRealize(block=block) if block.name_hint == "root":
            yield from _rows(block.body, depth)
        case s.BlockRealize(block=block):
            yield Row(depth, block.name_hint, "block", _flow(block, n.predicate))
            inner = _rows(block.body, depth + 1)
            yield from (row for row in inner if row.more != STORED)
        case s.BufferStore():
            yield Row(depth, f"{clip(n.buffer.name, 16)}[…]", "block", STORED)
        case _:
            for part in bodies(n):
                yield from _rows(part, depth)


def _loop(n: s.For, depth: int) -> Row:
    kind = "thread" if n.thread_binding else n.kind.value
    words = n.thread_binding or ("" if kind == "serial" else kind)
    notes = [f"{k}={clip(str(getattr(v, 'value', v)), 12)}" for k, v in n.annotations.items()]
    told = " ".join(filter(None, [words, *notes]))
    return Row(depth, f"{clip(n.loop_var.name, 20)} in {dim(n.extent)}", kind, told)


def _flow(block: s.Block, predicate: Any) -> str:
    """`A, B -> C`, and whether some iterations are left out."""
    uses = [
        listed(dict.fromkeys(clip(r.buffer.name, 16) for r in regions), 3)
        for regions in (block.reads, block.writes)
    ]
    told = f"{uses[0]} -> {uses[1]}".strip()
    notes = [f"{clip(k, 24)}" for k in block.annotations]
    if not isinstance(predicate, IntImm):
        notes.insert(0, "where …")
    return " ".join([told, *notes])


def draw(found: list[Row], others: list[Row]) -> Drawing:
    """The rows as bars; those that `others` does not have, in this order, with bold words."""
    matcher = SequenceMatcher(None, _plain(others), _plain(found), autojunk=False)
    same = {j + n for _, j, size in matcher.get_matching_blocks() for n in range(size)}
    d = Drawing()
    for number, row in enumerate(found):
        fill, ink = BLOCK if row.kind == "block" else KINDS.get(row.kind, KINDS["serial"])
        x, y = row.depth * STEP, number * ROW
        words = row.text if row.kind == "block" else f"for {row.text}"
        width = max(110.0, 6.9 * len(words) + 14)
        inside = _below(found, number)
        if inside and row.kind != "block":
            d.rect(x, y + BAR, 4, inside * ROW - 2, fill, fill)
        d.rect(x, y, width, BAR, fill, ink, r=9 if row.kind == "block" else 2)
        d.text(x + 7, y + 13, words, INK, bold=number not in same)
        if row.more:
            d.text(x + width + 6, y + 13, row.more, FAINT, 10)
    return d


def _plain(rows: list[Row]) -> list[Row]:
    """Rows without their depth: what is only put deeper has not changed."""
    return [row._replace(depth=0) for row in rows]


def _below(found: list[Row], number: int) -> int:
    """How many rows stand inside this one."""
    count = 0
    for row in found[number + 1 :]:
        if row.depth <= found[number].depth:
            break
        count += 1
    return count
