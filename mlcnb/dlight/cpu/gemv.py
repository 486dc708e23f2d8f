"""gemv: a row times a matrix, or a matrix times a column; the matrix is read once, as it lies.

for j, k in …:                          for j_0 in T.parallel(…):            a row times a matrix
    C[j] += A[k] * B[k, j]                  acc = 0                          4,096 columns
                                 ->         for k_0, j_1:
                                                for k_1, lane: acc[j_1] += … 8 rows of B at a time
                                            C[…] = acc

for i, k in …:                          for i_0 in T.parallel(…):            a matrix times a column
    C[i] += A[i, k] * x[k]                  for k_0:
                                 ->             for i_1, lane: acc[i_1, lane] += …
                                            for i_1: C[…] = sum(acc[i_1])    8 rows at a time

Each element is used once, so nothing is faster than the memory: several rows are read side by side,
each from front to back, as the prefetchers of the CPU like it.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.cpu.blocked_window import fuse_epilogue
from mlcnb.dlight.cpu.blocking import ALONE, USUAL
from mlcnb.dlight.cpu.general import elementwise
from mlcnb.dlight.cpu.product import Product
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: rows of the matrix that are read side by side
STREAMS = 8
#: columns whose sums are kept in the first cache
COLUMNS = 4096


def gemv(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a product with one row or one column, with the elementwise blocks around it."""
    anchor = survey.anchor
    product = None if anchor is None else Product.of(anchor)
    if anchor is None or product is None:
        return False
    before, after = survey.before(anchor), survey.after(anchor)
    if not all(b.is_spatial for b in before):
        return False
    if not all(b.is_spatial and b.spatial() == anchor.spatial() for b in after):
        return False
    along = product.b.is_transposed
    if product.rows != 1 or (product.columns == 1 and not along):
        return False
    if along and (product.depth or 1) % target.lanes("float32"):
        return False
    for block in before:
        elementwise(sch, block, target)
    schedule = rows_summed if along else rows_added
    parts = schedule(sch, anchor, after, product, target)
    if anchor.work >= ALONE:
        sch.parallel(sch.fuse(*parts))
    return True


def rows_added(
    sch: Schedule, anchor: BlockInfo, after: list[BlockInfo], product: Product, target: Target
) -> list[Any]:
    """A row times a matrix: the rows of B, each times a number, are added to the sums."""
    lanes = target.lanes("float32")
    share = -(-(product.columns or USUAL) // (lanes * target.num_cores))
    last = fuse_epilogue(sch, anchor, after)
    *outer, column, k = sch.get_loops(anchor.handle)
    j_0, j_1, lane = sch.split(column, [None, min(share, COLUMNS // lanes), lanes])
    k_0, k_1 = sch.split(k, [None, STREAMS])
    sch.reorder(*outer, j_0, k_0, j_1, k_1, lane)
    sch.reverse_compute_at(last, j_0)
    start = sch.decompose_reduction(anchor.handle, k_0)
    _, stored = sch.split(sch.get_loops(last)[-1], [None, lanes])
    for loop in (lane, stored, sch.get_loops(start)[-1]):
        sch.vectorize(loop)
    sch.unroll(k_1)
    return [*outer, j_0]


def rows_summed(
    sch: Schedule, anchor: BlockInfo, after: list[BlockInfo], product: Product, target: Target
) -> list[Any]:
    """A matrix times a column: as many sums of a row as a vector has lanes, added up in the end."""
    block, lanes = anchor.handle, target.lanes("float32")
    for follower in after[:-1]:
        sch.compute_inline(follower.handle)
    *spatial, k = sch.get_loops(block)
    at = -1 if product.rows == 1 else -2
    _, lane = sch.split(k, [None, lanes])
    sums = sch.rfactor(lane, len(spatial))
    row_0, _ = sch.split(sch.get_loops(block)[:-1][at], [None, STREAMS])
    outer = sch.get_loops(block)[: len(spatial) + at + 1]
    if after:
        sch.reverse_compute_at(after[-1].handle, row_0)
        sch.set_scope(block, 0, "local")
    sch.set_scope(sums, 0, "local")
    sch.compute_at(sums, row_0)
    *rows, lane, k_0 = sch.get_loops(sums)[len(outer) :]
    sch.reorder(k_0, *rows, lane)
    start = sch.decompose_reduction(sums, k_0)
    *begun, first = sch.get_loops(start)[len(outer) :]
    for loop in (*rows, *begun):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.vectorize(first)
    return list(outer)
