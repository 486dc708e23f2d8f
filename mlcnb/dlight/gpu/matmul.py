"""matmul: products of matrices and convolutions, in tiles that a block of threads shares.

for i, j, k: C[i, j] += A[i, k] * B[k, j]    each block 64 x 64 of C, each thread 4 x 4 of these:
for i, j: D[i, j] = max(C[i, j], 0)          for k_0 in range(…):
                                       ->        A_shared[64, 16], B_shared[16, 64] = …   together
                                                 for k_1, i, j: c[i, j] += A_shared[…] * B_…[…]
                                             D[…] = max(c[…], 0)

Axes are told apart by the operands that they stand in: both and the result (batch), one and the
result (rows, columns), both and not the result (k). Several of a kind are one loop, so that a
convolution is the product of its weights with the windows of the image (implicit GEMM): `reindex`
writes each operand over the axes, and what it writes lives in shared memory only.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.gpu.axes import Axes, axes_of, fused, operands, over_axes
from mlcnb.dlight.gpu.threads import most_threads, product
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: threads along the rows and columns of a tile, elements of a thread along each, steps of k
THREADS, EACH, STEP = 16, 4, 16
#: a side of a result that is shorter leaves too much of a tile unused
SHORT = 16


def matmul(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to one product with what feeds it and what is done with it element by element."""
    anchor = survey.anchor
    if anchor is None or None in anchor.extents or most_threads(target) < THREADS * THREADS:
        return False
    if not all(b.is_spatial for b in survey.blocks if b is not anchor):
        return False
    axes = axes_of(anchor)
    if axes is None or not _is_worth_it(anchor, axes):
        return False
    block, rank = anchor.handle, len(anchor.extents)
    copies = [
        over_axes(sch, anchor, ("read", n), [axes.batch, side, axes.reduced])
        for n, side in operands(anchor, axes)
    ]
    out = over_axes(sch, anchor, ("write", 0), [axes.batch, axes.rows, axes.columns])
    sch.transform_block_layout(block, fused(anchor, range(rank), axes))
    for before in reversed(survey.before(anchor)):
        sch.compute_inline(before.handle)
    for after in survey.after(anchor):
        sch.reverse_compute_inline(after.handle)
    _tiled(sch, block, out, copies)
    return True


def _is_worth_it(block: BlockInfo, axes: Axes) -> bool:
    sides = [product([block.extents[n] for n in side]) or 0 for side in axes]
    return sides[1] >= SHORT and sides[2] >= SHORT and sides[3] >= STEP


def _tiled(sch: Schedule, block: Any, out: Any, copies: list[Any]) -> None:
    """Tiles of the result for blocks of threads, operands through shared memory in steps of k."""
    batch, rows, columns, reduced = sch.get_loops(block)
    i_0, i_1, i_2 = sch.split(rows, [None, THREADS, EACH])
    j_0, j_1, j_2 = sch.split(columns, [None, THREADS, EACH])
    k_0, k_1 = sch.split(reduced, [None, STEP])
    sch.reorder(batch, i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2)
    sch.reverse_compute_at(out, j_1)
    sch.decompose_reduction(block, k_0)
    for made, scope in ((block, "local"), *((copy, "shared") for copy in copies)):
        sch.set_scope(made, 0, scope)
    # each step that moves what is in a bound loop has to prove anew that its threads are free: only
    # those that share a fetch are bound before it
    sch.bind(i_1, "threadIdx.y")
    sch.bind(j_1, "threadIdx.x")
    for copy in copies:
        sch.compute_at(copy, k_0)
        whole = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x = sch.split(whole, [None, THREADS, THREADS])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    for loop, place in zip(
        (batch, i_0, j_0), ("blockIdx.z", "blockIdx.y", "blockIdx.x"), strict=True
    ):
        sch.bind(loop, place)
