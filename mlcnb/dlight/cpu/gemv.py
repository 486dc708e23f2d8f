"""gemv: a row (or a few) times a matrix, or a matrix times a column; it is read once, as it lies.

for j, k in …:                          for j_0 in T.parallel(…):            a row times a matrix
    C[j] += A[k] * B[k, j]                  acc = 0                          8,192 columns
                                 ->         for k_0, j_1:
                                                for k_1, lane: acc[j_1] += … 8 rows of B at a time
                                            C[…] = acc

for j, k in …:                          for k_p in T.parallel(16):           the same, where that is
    C[j] += A[k] * B[k, j]       ->         for k_0, j_1: sums[k_p, j_1] …   too few columns: parts
                                        C[…] = sum(sums[…])                  of the rows

for i, k in …:                          for i_0 in T.parallel(…):            a matrix times a column
    C[i] += A[i, k] * x[k]                  for k_0:
                                 ->             for i_1, lane: acc[i_1, lane] += …
                                            for i_1: C[…] = sum(acc[i_1])    4 rows at a time

Each element is used once, so nothing is faster than the memory: several rows are read side by side,
each from front to back and as long as may be, as the prefetchers of the CPU like it. Those of most
CPUs stop at the end of a page, so the rows after those are asked for meanwhile. Half precision is
converted as it is read. More rows of A than accumulators are cut into tiles, all of which use eight
rows of B before the next. Rows of A that want the same place in the first cache are copied, so that
the numbers of a step lie side by side.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.dlight.cpu.blocked_window import fuse_epilogue
from mlcnb.dlight.cpu.blocking import USUAL, AsItLies, ProductTile, stays_far
from mlcnb.dlight.cpu.general import elementwise
from mlcnb.dlight.cpu.product import FEW_ROWS, Product, from_memory, rows_together
from mlcnb.dlight.cpu.rows import halves
from mlcnb.dlight.decide import decide, either
from mlcnb.dlight.survey import BlockInfo, Survey, loop_kinds
from mlcnb.machine.cache import LINE, caches
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.inject_prefetch import PRAGMA as PREFETCH

#: rows of the matrix that are read side by side, to be added and to be summed
STREAMS, SUMMED = 8, 4
#: and of those, from a cache, how many may want the same place in the first one
SAME_PLACE = 4
#: bytes after which addresses want the same place in the first cache
ALIASED = 4096
#: where the rows after those are brought meanwhile: the second cache
SECOND = 2
#: columns whose sums are kept in the first cache
COLUMNS = 8192
#: parts of the depth for each core, whose sums are added up in the end
PARTS = 8
#: multiply-adds below which other threads are not worth waking
WORTH = 1 << 18


def gemv(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a product with few rows or one column, with the elementwise blocks around it."""
    anchor = survey.anchor
    product = None if anchor is None else Product.of(anchor, half=True)
    if anchor is None or product is None:
        return False
    before, after = survey.before(anchor), survey.after(anchor)
    if not all(b.is_spatial for b in before) or not survey.keeps_shape(anchor):
        return False
    along = is_summed(product, target)
    if not along and not is_added(product, target):
        return False
    for block in before:
        elementwise(sch, block, target)
    schedule = rows_summed if along else rows_added
    parts = schedule(sch, anchor, after, product, target)
    if anchor.work >= WORTH:
        sch.parallel(sch.fuse(*parts))
    return True


def is_summed(product: Product, target: Target) -> bool:
    """A matrix whose rows run along the depth, times a vector."""
    if (product.depth or 0) <= target.lanes("float32"):
        return False
    if product.columns == 1 and product.has_rows:
        return not product.a.is_transposed
    return product.rows == 1 and product.b.is_transposed


def is_added(product: Product, target: Target) -> bool:
    """A row times a matrix whose rows run along the columns; several rows, where it comes from
    memory, or from a shared cache as slowly: that takes longer than to multiply it. Or whose lines
    come in time only one behind the other, unasked, and too few rows use them to pay for a copy.
    """
    rows = product.rows or 0
    if product.b.is_transposed or product.columns == 1 or not rows:
        return False
    if rows == 1 or from_memory(product, target):
        return rows <= FEW_ROWS
    is_far = 4 * (product.depth or 0) * (product.columns or 0) > target.caches[1]
    if not is_far or row_tile(rows) is None:
        return False
    lies = AsItLies.of(product, False, target)
    if lies is None or lies.is_asked:
        return False
    if stays_far(ProductTile(rows, 1), target.lanes("float32"), target):
        return target.fetches_ahead and lies.late > 0 and not lies.copy_pays(rows)
    return True


def row_tile(rows: int) -> int | None:
    """Rows of the result that are added to together, of which `rows` are a multiple: all of few.
    None where there is no such number."""
    if rows <= FEW_ROWS:
        return rows
    return next((n for n in range(FEW_ROWS, FEW_ROWS // 3, -1) if rows % n == 0), None)


def rows_added(
    sch: Schedule, anchor: BlockInfo, after: list[BlockInfo], product: Product, target: Target
) -> list[Any]:
    """A row times a matrix: the rows of B, each times a number, are added to the sums."""
    lanes = whole_lines(product, target)
    blocks, parts = cuts(anchor, product, target)
    sums = anchor.handle
    height = row_tile(product.rows or 1)
    several = product.has_rows and height is not None and height > 1
    if several and either("rows of A together", crowds(product, height or 1, target)):
        rows_together(sch, anchor.handle, product, height or 1)
    if parts > 1:
        sums = parts_added(sch, anchor, after, parts, lanes)
        last = sch.cache_write(sums, 0, "local")
    else:
        last = fuse_epilogue(sch, anchor, after)
    *outer, column, k = sch.get_loops(sums)
    rows = [outer.pop()] if product.has_rows else []
    width = -(-(product.columns or USUAL) // (lanes * blocks))
    j_0, j_1, lane = sch.split(column, [None, width, lanes])
    together = decide("rows added", (streams(product, target), 4, 8, 16, 2))
    k_0, k_1 = sch.split(k, [None, together])
    below = []
    if rows and height != product.rows:
        i_0, i_1 = sch.split(rows[0], [None, height])
        below, rows = [i_0], [i_1]
    sch.reorder(*outer, j_0, k_0, *below, j_1, k_1, *rows, lane)
    sch.reverse_compute_at(last, j_0)
    start = sch.decompose_reduction(sums, k_0)
    _, stored = sch.split(sch.get_loops(last)[-1], [None, lanes])
    for loop in (lane, stored, sch.get_loops(start)[-1]):
        sch.vectorize(loop)
    for loop in (k_1, *rows):
        sch.unroll(loop)
    if (
        product.columns
        and from_memory(product, target)
        and either("rows asked for ahead", not target.fetches_ahead)
    ):
        name = anchor.node.reads[product.b.index].buffer.data.name
        sch.annotate(j_1, PREFETCH, [name, STREAMS * product.columns, SECOND])
    return [*outer, j_0]


def crowds(product: Product, rows: int, target: Target) -> bool:
    """Whether a step's numbers of so many rows of A want more of a place in L1 than it has."""
    apart = 4 * (product.depth or 1)
    return not product.a.is_transposed and not caches(target)[0].holds(rows, apart, LINE)


def whole_lines(product: Product, target: Target) -> int:
    """Columns of a vector: half of one as long as a line of the cache, where each would lie in two
    of them."""
    lanes = target.lanes("float32")
    half, columns = lanes // 2, product.columns or 0
    return half if 4 * lanes == LINE and columns % lanes == half else lanes


def streams(product: Product, target: Target) -> int:
    """Rows of the matrix that are read side by side, to be added.

    Rows a multiple of 4096 bytes apart want the same place in the first cache, which has room for
    some; what comes from memory is slower than that.
    """
    if from_memory(product, target):
        return STREAMS
    return min(STREAMS, SAME_PLACE * ALIASED // math.gcd(4 * (product.columns or 1), ALIASED))


def cuts(anchor: BlockInfo, product: Product, target: Target) -> tuple[int, int]:
    """(blocks of columns, parts of the depth): long rows, and something for each thread to do."""
    columns, depth = product.columns or USUAL, product.depth or 0
    blocks, cores = -(-columns * (product.rows or 1) // COLUMNS), target.num_cores
    alike = blocks * math.prod(USUAL if n is None else n for n in product.batch)
    if cores == 1 or anchor.work < WORTH:
        return blocks, 1
    wanted, together = -(-PARTS * cores // alike), streams(product, target)
    parts = max((n for n in range(1, wanted + 1) if depth % (n * together) == 0), default=1)
    return (blocks, parts) if alike * parts >= cores else (cores, 1)


def parts_added(
    sch: Schedule, anchor: BlockInfo, after: list[BlockInfo], parts: int, lanes: int
) -> Any:
    """The block that has the sums of each part of the depth; its loops are [..., part, j, k].

    The anchor adds them up, and what follows it is done on its results.
    """
    *outer, column, k = sch.get_loops(anchor.handle)
    part, _ = sch.split(k, [parts, None])
    sums = sch.rfactor(part, len(outer))
    last = fuse_epilogue(sch, anchor, after)
    *outer, column, part = sch.get_loops(anchor.handle)
    vector, lane = sch.split(column, [None, lanes])
    sch.reorder(vector, part, lane)
    sch.reverse_compute_at(last, vector)
    start = sch.decompose_reduction(anchor.handle, part)
    for loop in (lane, sch.get_loops(start)[-1], sch.get_loops(last)[-1]):
        sch.vectorize(loop)
    sch.unroll(part)
    *outer, column, part, k = sch.get_loops(sums)
    sch.reorder(part, *outer[-1:], column, k)
    return sums


def rows_summed(
    sch: Schedule, anchor: BlockInfo, after: list[BlockInfo], product: Product, target: Target
) -> list[Any]:
    """A matrix times a column: as many sums of a row as a vector has lanes, added up in halves."""
    block, lanes = anchor.handle, target.lanes("float32")
    for follower in after[:-1]:
        sch.compute_inline(follower.handle)
    *spatial, k = sch.get_loops(block)
    at = -2 if product.columns == 1 and product.has_rows else -1
    steps = halves(sch, anchor, k, lanes, lanes)[:-1]
    summed = decide("rows summed", (SUMMED, 2, 8, 1))
    row_0, _ = sch.split(sch.get_loops(block)[:-1][at], [None, summed])
    outer = sch.get_loops(block)[: len(spatial) + at + 1]
    if after:
        sch.reverse_compute_at(after[-1].handle, row_0)
        sch.set_scope(block, 0, "local")
    for step in reversed(steps):
        sch.set_scope(step, 0, "local")
        sch.compute_at(step, row_0)
    for step in steps:
        lane, *others = sch.get_loops(step)[len(outer) :]
        summed = others[loop_kinds(sch, step, others).index("R")]
        rows = [loop for loop in others if loop is not summed]
        sch.reorder(summed, *rows, lane)
        start = sch.decompose_reduction(step, summed)
        *begun, first = sch.get_loops(start)[len(outer) :]
        for loop in (*rows, *begun, *([] if step is steps[0] else [summed])):
            sch.unroll(loop)
        sch.vectorize(lane)
        sch.vectorize(first)
    for loop in sch.get_loops(block)[len(outer) :]:
        sch.unroll(loop)
    return list(outer)
