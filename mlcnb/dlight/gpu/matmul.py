"""matmul: products of matrices and convolutions, in tiles that a block of threads shares.

for i, j, k: C[i, j] += A[i, k] * B[k, j]    each block 128 x 128 of C, each thread 8 x 8 of these:
for i, j: D[i, j] = max(C[i, j], 0)          for k_0 in range(…):
                                       ->        A_shared[16, 128], B_shared[16, 128] = …  together
                                                 for k_1: a[8], b[8] = A_shared[…], B_shared[…]
                                                          for i, j: c[i, j] += a[i] * b[j]
                                             D[…] = max(c[…], 0)

Axes are told apart by the operands that they stand in: both and the result (batch), one and the
result (rows, columns), both and not the result (k). Several of a kind are one loop, so that a
convolution is the product of its weights with the windows of the image (implicit GEMM): `reindex`
writes each operand over the axes, and what it writes lives in shared memory only. The axes are
padded to whole tiles: what the fetch finds outside of an operand is zero, and what lies outside of
the result is not stored. In shared memory k comes first, so that a thread finds its elements side
by side; neighbouring threads fetch what lies side by side in global memory. A smaller result is cut
into smaller tiles, and long sums into parts, so that there are blocks for all multiprocessors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlcnb.dlight.gpu.axes import Axes, axes_of, factors, fused, operands, over_axes
from mlcnb.dlight.gpu.padded import padded
from mlcnb.dlight.gpu.threads import most_threads, on_elements, product
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.analysis.kernels import BLOCK_AXES
from mlcnb.tir.schedule import Schedule


class Tile(NamedTuple):
    """What a block of threads computes at a time.

    Attributes:
        threads: along the rows, and along the columns.
        rows, columns: elements of a thread along each, multiples of 4.
        step: of k, fetched together.
        speed: of its inner loop where all multiprocessors are busy, relative to the fastest: what
            it loads of shared memory for each product decides.
    """

    threads: int = 16
    rows: int = 8
    columns: int = 8
    step: int = 16
    speed: float = 1.0

    def blocks(self, rows: int, columns: int) -> int:
        """How many blocks a result takes."""
        return -(-rows // (self.threads * self.rows)) * -(-columns // (self.threads * self.columns))

    def sizes(self) -> list[int]:
        """Rows, columns and k of what a block computes at a time."""
        return [self.threads * self.rows, self.threads * self.columns, self.step]


TILES = (
    Tile(),
    Tile(16, 8, 4, speed=0.8),
    Tile(16, 4, 8, speed=0.8),
    Tile(16, 4, 4, speed=0.6),
    Tile(8, 4, 4, speed=0.5),
)
#: threads that keep a large GPU busy: 132 multiprocessors with 512 each
THREADS = 132 * 512
#: in how many parts sums may be cut, and the least length of a part
PARTS, LONG = (1, 2, 3, 4, 6, 8, 12, 16), 128
#: in products that a large GPU does meanwhile: a partial sum on its way through memory, and one
#: more kernel
ADDED, MORE = 50.0, 6e7
#: elements that are moved together where that is possible
LANES = 4
#: a side of a result that is shorter leaves too much of a tile unused
SHORT = 16


def matmul(sch: Schedule, survey: Survey, target: Target, by: Tile | None = None) -> bool:
    """Apply to one product with what feeds it and what is done with it element by element."""
    anchor = survey.anchor
    if anchor is None or None in anchor.extents:
        return False
    if not all(b.is_spatial for b in survey.blocks if b is not anchor):
        return False
    axes = axes_of(anchor)
    if axes is None:
        return False
    sizes = [product([anchor.extents[n] for n in side]) or 0 for side in axes]
    by, parts = (by, 1) if by else tile_for(sizes)
    if most_threads(target) < by.threads**2 or min(*sizes[1:3], sizes[3]) < SHORT:
        return False
    batch = [axes.batch] if sizes[0] > 1 else []
    ones = [] if batch else axes.batch
    along = _along_k(anchor, axes)
    for number, side in operands(anchor, axes):
        over_axes(sch, anchor, ("read", number), [*batch, [*ones, *axes.reduced], side])
    groups = [*batch, [*ones, *axes.rows], axes.columns, axes.reduced]
    out = over_axes(sch, anchor, ("write", 0), groups[:-1])
    sch.transform_block_layout(anchor.handle, fused(anchor, range(len(anchor.extents)), groups))
    for before in reversed(survey.before(anchor)):
        sch.compute_inline(before.handle)
    for after in survey.after(anchor):
        sch.reverse_compute_inline(after.handle)
    side, other, step = by.sizes()
    copies = padded(sch, anchor.handle, out, [*(1 for _ in batch), side, other, step * parts])
    if parts == 1:
        _tiled(sch, anchor.handle, out, copies, along, by)
    else:
        part = _in_parts(sch, anchor.handle, out, parts, target)
        _tiled(sch, part, sch.cache_write(part, 0, "local"), copies, along, by)
    return True


def tile_for(sizes: list[int]) -> tuple[Tile, int]:
    """The tile, and in how many parts sums are cut, that take the least time of a large GPU.

    What counts is a tile's speed, what it leaves empty, and idle multiprocessors; parts of sums go
    through memory, and are added by another kernel.

    Args:
        sizes: of the batch, rows, columns and k.
    """
    batch, rows, columns, length = sizes

    def time(choice: tuple[Tile, int]) -> float:
        tile, parts = choice
        side, other, step = tile.sizes()
        blocks = batch * tile.blocks(rows, columns)
        busy = min(1.0, blocks * parts * tile.threads**2 / THREADS)
        steps = parts * -(-length // (step * parts))
        added = MORE + ADDED * parts * batch * rows * columns if parts > 1 else 0.0
        return blocks * side * other * steps * step / (tile.speed * busy) + added

    counts = [n for n in PARTS if n == 1 or length >= n * LONG]
    return min(((tile, n) for tile in TILES for n in counts), key=time)


def _along_k(anchor: BlockInfo, axes: Axes) -> list[bool]:
    """Of each factor, whether elements along k lie side by side in memory."""
    reduced = {anchor.node.iter_vars[n].var for n in axes.reduced}
    return [load.indices[-1] in reduced for load in factors(anchor.node.body) or []]


def _in_parts(sch: Schedule, block: Any, out: Any, parts: int, target: Target) -> Any:
    """Sums in parts of k, which a second kernel adds; the block of the parts, like a batch."""
    *batch, rows, columns, reduced = sch.get_loops(block)
    k_0, _ = sch.split(reduced, [parts, None])
    made = sch.rfactor(k_0, 0)
    *batch, rows, columns, k_0, k_1 = sch.get_loops(made)
    sch.reorder(*batch, k_0, rows, columns, k_1)
    if batch:
        sch.fuse(*batch, k_0)
    loops = sch.get_loops(out)
    sch.compute_at(block, loops[-1])
    sch.set_scope(block, 0, "local")
    on_elements(sch, loops, target)
    return made


def _tiled(
    sch: Schedule, block: Any, out: Any, copies: list[Any], along_k: list[bool], by: Tile
) -> None:
    """Tiles of the result for blocks of threads, operands through shared memory in steps of k."""
    *batch, rows, columns, reduced = sch.get_loops(block)
    i_0, i_1, i_2 = sch.split(rows, [None, by.threads, by.rows])
    j_0, j_1, j_2 = sch.split(columns, [None, by.threads, by.columns])
    k_0, k_1 = sch.split(reduced, [None, by.step])
    sch.reorder(*batch, i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2)
    own = [sch.cache_read(block, n, "local") for n in range(2)]
    for registers in own:
        sch.compute_at(registers, k_1)
    sch.reverse_compute_at(out, j_1)
    sch.decompose_reduction(block, k_0)
    for made, scope in ((block, "local"), *((copy, "shared") for copy in copies)):
        sch.set_scope(made, 0, scope)
    # each step that moves what is in a bound loop has to prove anew that its threads are free: only
    # those that share a fetch are bound before it
    sch.bind(i_1, "threadIdx.y")
    sch.bind(j_1, "threadIdx.x")
    for copy, lengthwise in zip(copies, along_k, strict=True):
        sch.compute_at(copy, k_0)
        k, side = sch.get_loops(copy)[-2:]
        if lengthwise:
            sch.storage_align(copy, 0, -2, 2 * LANES, LANES)
            sch.reorder(side, k)
        whole = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x = sch.split(whole, [None, by.threads, by.threads])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    for registers in own:
        _, lanes = sch.split(sch.get_loops(registers)[-1], [None, LANES])
        sch.vectorize(lanes)
    for loop in (k_1, i_2, j_2):
        sch.unroll(loop)
    for loop, place in zip((j_0, i_0, *batch), BLOCK_AXES, strict=False):
        sch.bind(loop, place)
