"""gemv: a few rows times a matrix, which is read once: what a language model does for each token.

for n, k: y[n] += x[k] * W[n, k]          blocks of 4 rows of W, each read by a warp
                                   ->         for k_0: part[0] += x[…] * W[…]
                                              y[n] = the sum of the warp's parts

    W[n, k]     threadIdx.x along k, which lies side by side; threadIdx.y along n
    W[k, n]     threadIdx.x along n; threadIdx.y along k: their parts are summed in the end

Several rows of x (`low_batch_gemv`): a thread sums a column of W[k, n] for all of them, which reads
it once; rows of W[n, k] lie in the cache when the next row of x meets them.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.gpu.axes import Axes, factors, fused, product_of
from mlcnb.dlight.gpu.threads import product
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

WARP = 32
#: rows of W that a block takes, threads that share a column of W, rows of x
ROWS, PARTS, FEW = 4, 8, 15
#: columns of W that keep a large GPU busy in blocks of two warps side by side; where there are
#: fewer, a block takes one warp of them, and more threads share a column
MANY = 2 * 132 * 2 * WARP
#: sums that are shorter are done by one thread each
SHORT = 64


def gemv(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a vector times a matrix, with what feeds it and what is done with each result."""
    return _narrow(sch, survey, range(1, 2))


def low_batch_gemv(sch: Schedule, survey: Survey, target: Target) -> bool:
    """The same for up to fifteen rows."""
    return _narrow(sch, survey, range(2, FEW + 1))


def _narrow(sch: Schedule, survey: Survey, rows: range) -> bool:
    anchor = survey.anchor
    axes = product_of(survey)
    if anchor is None or isinstance(axes, str):
        return no(str(axes))
    few, many = sorted((axes.rows, axes.columns), key=lambda side: _length(anchor, side))
    length = _length(anchor, axes.reduced)
    if _length(anchor, few) not in rows:
        taken = f"{rows.start} to {rows.stop - 1}" if len(rows) > 1 else f"{rows.start}"
        return no(f"{_length(anchor, few):,} rows: it takes {taken}")
    if length < SHORT:
        return no(f"sums of {length}: under {SHORT} one thread does each")
    along = _runs_along(anchor, axes, few, many)
    if along is None:
        return no("neither k nor the columns of the matrix lie side by side in memory")
    width = _length(anchor, many)
    if along == "reduced":
        lanes = 4 if length % (4 * WARP) == 0 else 1
        split = _largest(length // lanes, WARP), lanes
        tile = _largest(width, ROWS)
        places = "threadIdx.y", "threadIdx.x"
    else:
        fewer = width < MANY
        most = PARTS * (4 if fewer else 1)
        split = (_largest(length, most), 1) if rows.stop == 2 else (1, 1)
        tile = _largest(width, WARP if fewer else 2 * WARP)
        places = "threadIdx.x", "threadIdx.y"
    if split[0] * tile < WARP:
        return no(f"its sizes share {split[0] * tile} threads, less than a warp: {WARP}")
    last = _feed(sch, survey, anchor)
    sch.transform_block_layout(
        anchor.handle,
        fused(anchor, range(len(anchor.extents)), [axes.batch, many, few, axes.reduced]),
    )
    if split == (1, 1):
        _columns(sch, anchor.handle, last, tile)
    else:
        _in_parts(sch, anchor.handle, last, tile, split, places)
    return True


def _length(block: BlockInfo, axes: list[int]) -> int:
    return product([block.extents[n] for n in axes]) or 0


def _largest(length: int, most: int) -> int:
    """The largest divisor up to `most`: no thread then waits where others do not."""
    return max(n for n in range(1, most + 1) if length % n == 0)


def _runs_along(block: BlockInfo, axes: Axes, few: list[int], many: list[int]) -> str | None:
    """Which axes lie side by side in the matrix: "reduced" or "many"."""
    variables = [axis.var for axis in block.node.iter_vars]
    for load in factors(block.node.body) or []:
        names = {n for i in load.indices for n in walk(i)}
        if not any(variables[n] in names for n in many):
            continue
        last = load.indices[-1]
        if last is variables[axes.reduced[-1]]:
            return "reduced"
        return "many" if many and last is variables[many[-1]] else None
    return None


def _feed(sch: Schedule, survey: Survey, anchor: BlockInfo) -> Any:
    """Inline what stands before the product and what follows it but for the last block, which is
    returned; None where nothing follows.
    """
    for before in reversed(survey.before(anchor)):
        sch.compute_inline(before.handle)
    after = survey.after(anchor)
    for block in after[:-1]:
        sch.compute_inline(block.handle)
    return after[-1].handle if after else None


def _columns(sch: Schedule, block: Any, last: Any, tile: int) -> None:
    """A column of the matrix for each thread, which sums it for all rows in registers."""
    batch, many, few, reduced = sch.get_loops(block)
    many_0, many_1 = sch.split(many, [None, tile])
    sch.reorder(batch, many_0, many_1, reduced, few)
    out = sch.cache_write(block, 0, "local")
    if last is not None:
        sch.reverse_compute_inline(last)
    sch.reverse_compute_at(out, many_1)
    sch.decompose_reduction(block, reduced)
    _bind(sch, batch, many_0, (many_1, "threadIdx.x"))


def _in_parts(
    sch: Schedule,
    block: Any,
    last: Any,
    tile: int,
    split: tuple[int, int],
    places: tuple[str, str],
) -> None:
    """Each sum in parts by several threads."""
    batch, many, few, reduced = sch.get_loops(block)
    many_0, many_1 = sch.split(many, [None, tile])
    step, part, lane = sch.split(reduced, [None, *split])
    sch.reorder(batch, many_0, many_1, few, step, part, lane)
    if last is not None:
        sch.set_scope(block, 0, "shared")
        sch.reverse_compute_at(last, many_1, preserve_unit_loops=True)
        rest = sch.get_loops(last)[3:]
        _, thread = sch.split(sch.fuse(*rest) if len(rest) > 1 else rest[0], [None, split[0]])
        sch.bind(thread, places[1])
    _bind(sch, batch, many_0, (many_1, places[0]), (part, places[1]))


def _bind(sch: Schedule, batch: Any, many: Any, *threads: tuple[Any, str]) -> None:
    for loop, place in (*threads, (many, "blockIdx.x"), (batch, "blockIdx.y")):
        sch.bind(loop, place)
