"""matmul: products of matrices and convolutions, in tiles that a block of threads shares.

for i, j, k: C[i, j] += A[i, k] * B[k, j]    each block 128 x 128 of C, each thread 8 x 8 of these:
for i, j: D[i, j] = max(C[i, j], 0)          for k_0 in range(…):
                                       ->        A_shared[8, 128], B_shared[8, 128] = …    together
                                                 for k_1: a[8], b[8] = A_shared[…], B_shared[…]
                                                     for i, j: c[i, j] += a[i] * b[j]
                                             D[…] = max(c[…], 0)

Axes are told apart by the operands that they stand in: both and the result (batch), one and the
result (rows, columns), both and not the result (k). Several of a kind are one loop, so that a
convolution is the product of its weights with the windows of the image (implicit GEMM): `reindex`
writes each operand over the axes, and what it writes lives in shared memory only, zeros where the
last tiles are not full.

Tiles are fetched asynchronously (`cp.async`), some steps ahead: four elements at once where the
sides lie side by side; else one by one, along k, and rows of the tile are moved apart so that the
stores of a warp go to different banks. A thread's 8 rows are 4 and 4, and so its columns: what
neighbours read at once lies side by side.

A smaller result is cut into smaller tiles, and long sums into parts, which a second kernel adds, so
that there are blocks for all multiprocessors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from mlcnb.dlight.gpu.axes import (
    LEAST_BYTES,
    by_sides,
    fused,
    in_groups,
    lies,
    operands,
    over_axes,
    padded,
    product_of,
)
from mlcnb.dlight.gpu.threads import (
    copies_asynchronously,
    most_threads,
    on_elements,
    product,
)
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import Survey
from mlcnb.target import Target
from mlcnb.tir.analysis.kernels import BLOCK_AXES
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import ForKind

#: threads along the rows and columns of a tile, elements that they take side by side
THREADS, EACH = 16, 4
#: a side of a result that is shorter leaves too much of a tile unused
SHORT = 16
#: elements that rows of a tile are moved apart where it is turned on the way
APART = 4


class Tile(NamedTuple):
    """What a block of threads computes at a time.

    Attributes:
        rows, columns: pieces of EACH rows, and of EACH columns, of a thread.
        step: k of a tile.
        ahead: steps that a fetch is ahead of its use.
        speed: where all multiprocessors are busy, relative to the fastest: what is loaded of shared
            memory for each product decides.
    """

    rows: int = 2
    columns: int = 2
    step: int = 8
    ahead: int = 3
    speed: float = 1.0

    def sizes(self) -> list[int]:
        """Rows, columns and k of what a block computes at a time."""
        return [self.rows * THREADS * EACH, self.columns * THREADS * EACH, self.step]


TILES = (
    Tile(),
    Tile(2, 1, speed=0.85),
    Tile(1, 2, speed=0.85),
    Tile(1, 1, 16, 2, speed=0.7),
)
#: 16 x 8 sums of a thread: of each product three quarters of the loads from shared memory, and half
#: of the warps
WIDE = Tile(4, 2, 8, 2)
#: threads that keep a large GPU busy: 132 multiprocessors with 512 each
BUSY = 132 * 512
#: in how many parts sums may be cut, and the least length of a part
PARTS, LONG = (1, 2, 3, 4, 6, 8, 12, 16), 128
#: in products that a large GPU does meanwhile: a partial sum on its way through memory, and one
#: more kernel
ADDED, MORE = 50.0, 6e7


def matmul(sch: Schedule, survey: Survey, target: Target, by: Tile | None = None) -> bool:
    """Apply to one product with what feeds it and what is done with it element by element."""
    anchor = survey.anchor
    axes = product_of(survey, THREADS * THREADS, most_threads(target))
    if anchor is None or isinstance(axes, str):
        return no(str(axes))
    sizes = [product([anchor.extents[n] for n in side]) or 0 for side in axes]
    if min(sizes[1:]) < SHORT:
        return no(f"{by_sides(sizes[1:])}: a side under {SHORT} leaves too much of a tile empty")
    if by is WIDE and any(size <= side for size, side in zip(sizes[1:], by.sizes(), strict=False)):
        return no(f"{by_sides(sizes[1:])}: a side is no longer than that of a tile, {by.sizes()}")
    by, parts = (by, 1) if by else tile_for(sizes)
    block, rank = anchor.handle, len(anchor.extents)
    batch = [axes.batch] if (product([anchor.extents[n] for n in axes.batch]) or 0) > 1 else []
    ones = [] if batch else axes.batch
    ways = []
    for number, side in sorted(operands(anchor, axes)):  # as `padded` gives their copies
        over_axes(sch, anchor, ("read", number), [*batch, axes.reduced, [*ones, *side]])
        ways.append(lies(anchor, number, axes))
    groups = [*batch, [*ones, *axes.rows], axes.columns, axes.reduced]
    out = over_axes(sch, anchor, ("write", 0), groups[:-1])
    sch.transform_block_layout(block, fused(anchor, range(rank), groups))
    for before in reversed(survey.before(anchor)):
        sch.compute_inline(before.handle)
    for after in survey.after(anchor):
        sch.reverse_compute_inline(after.handle)
    *sides, step = by.sizes()
    copies = padded(sch, block, out, [*(1 for _ in batch), *sides, step * parts])
    by_vectors = in_groups(anchor, axes, EACH)
    if parts > 1:
        block = _in_parts(sch, block, out, parts, target)
        out, by_vectors = sch.cache_write(block, 0, "local"), True
    _tiled(sch, block, out, copies, ways, by_vectors, by)
    widths = [sch.get(x).writes[0].buffer.dtype.nbytes for x in copies]
    ahead = min(by.ahead, _tiles_held(by, widths, target) - 1)
    if ahead > 0 and min(widths) >= LEAST_BYTES and copies_asynchronously(target):
        _ahead(sch, block, ahead)
    return True


def _tiles_held(by: Tile, widths: list[int], target: Target) -> int:
    """How many tiles of both operands, of so many bytes an element, shared memory holds."""
    *sides, step = by.sizes()
    tile = sum(step * (side + APART) * width for side, width in zip(sides, widths, strict=True))
    return GpuLimits.of(target).max_shared_memory_per_block // tile


def matmul_wide(sch: Schedule, survey: Survey, target: Target) -> bool:
    """The same in tiles of 256 x 128; no default takes it, since no GPU has timed it yet.

    On an H100 `gpu_report` finds the loads from shared memory to be the limit of 128 x 128.
    """
    return matmul(sch, survey, target, WIDE)


def tile_for(sizes: list[int]) -> tuple[Tile, int]:
    """The tile, and in how many parts sums are cut, that take the least time of a large GPU.

    What counts is a tile's speed, what it leaves empty, and idle multiprocessors.

    Args:
        sizes: of the batch, rows, columns and k.
    """
    batch, rows, columns, length = sizes

    def time(choice: tuple[Tile, int]) -> float:
        tile, parts = choice
        side, other, step = tile.sizes()
        blocks = batch * -(-rows // side) * -(-columns // other)
        busy = min(1.0, blocks * parts * THREADS**2 / BUSY)
        steps = parts * -(-length // (step * parts))
        added = MORE + ADDED * parts * batch * rows * columns if parts > 1 else 0.0
        return blocks * side * other * steps * step / (tile.speed * busy) + added

    counts = [n for n in PARTS if n == 1 or length >= n * LONG]
    return min(((tile, n) for tile in TILES for n in counts), key=time)


def _in_parts(sch: Schedule, block: Any, out: Any, parts: int, target: Target) -> Any:
    """Sums in parts of k, which a second kernel adds; the block of the parts, like a batch."""
    k_0, _ = sch.split(sch.get_loops(block)[-1], [parts, None])
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
    sch: Schedule,
    block: Any,
    out: Any,
    copies: list[Any],
    ways: list[tuple[bool | None, int]],
    by_vectors: bool,
    by: Tile,
) -> None:
    """Tiles of the result for blocks of threads, operands through shared memory in steps of k.

    ways: how each operand lies in memory, see `lies`; by_vectors: so many columns of the result
    that lie side by side are stored at once.
    """
    *batch, rows, columns, reduced = sch.get_loops(block)
    i_0, i_1, i_2, i_3 = sch.split(rows, [None, by.rows, THREADS, EACH])
    j_0, j_1, j_2, j_3 = sch.split(columns, [None, by.columns, THREADS, EACH])
    k_0, k_1 = sch.split(reduced, [None, by.step])
    sch.reorder(*batch, i_0, j_0, i_2, j_2, k_0, k_1, i_1, i_3, j_1, j_3)
    reads = [r.buffer for r in sch.get(block).reads]
    taken = [sch.cache_read(block, reads.index(sch.get(x).writes[0].buffer), "local")
             for x in copies]  # fmt: skip
    for made, scope in ((block, "local"), *((copy, "shared") for copy in copies)):
        sch.set_scope(made, 0, scope)
    sch.transform_layout(block, ("write", 0), _over(sch, block, _of_threads))
    sch.reverse_compute_at(out, j_0)
    rows, columns = sch.get_loops(out)[-2:]
    y_1, y, y_2 = sch.split(rows, [by.rows, THREADS, EACH])
    x_1, x, x_2 = sch.split(columns, [by.columns, THREADS, EACH])
    sch.reorder(y, x, y_1, y_2, x_1, x_2)
    for made in taken:
        of_thread = _over(sch, made, _of_thread)
        sch.transform_layout(made, ("write", 0), of_thread)
        sch.transform_block_layout(made, of_thread)
        sch.compute_at(made, k_1)
        sch.vectorize(sch.get_loops(made)[-1])
    sch.decompose_reduction(block, k_0)
    if by_vectors:
        sch.vectorize(x_2)
    sch.merge(j_2, x)  # so that registers are those of one thread throughout
    i_2, j_2 = sch.get_loops(out)[len(batch) + 2 :][:2]
    # each step that moves what is in a bound loop has to prove anew that its threads are free: only
    # those that share a fetch are bound before it
    sch.bind(i_2, "threadIdx.y")
    sch.bind(j_2, "threadIdx.x")
    for copy, (along_k, lanes) in zip(copies, ways, strict=True):
        sch.compute_at(copy, k_0)
        _fetched(sch, copy, along_k, lanes)
    for loop, place in zip((j_0, i_0, *batch), BLOCK_AXES, strict=False):
        sch.bind(loop, place)
    sch.unroll(k_1)


def _ahead(sch: Schedule, block: Any, steps: int) -> None:
    """Fetch tiles some steps before they are used."""
    k_0 = next(x for x in sch.get_loops(block) if sch.get(x).kind is ForKind.SERIAL)
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, steps])
    sch.annotate(k_0, "software_pipeline_order", [0, 1, 2])
    sch.annotate(k_0, "software_pipeline_async_stages", [0])


def _over(sch: Schedule, block: Any, indices: Callable[..., Any]) -> IndexMap:
    """An index map for what a block writes."""
    return _map_of(indices, len(sch.get(block).writes[0].region))


@cache
def _map_of(indices: Callable[..., Any], ndim: int) -> IndexMap:
    """The same map for each program, so that its inverse is found once."""
    return IndexMap.from_func(indices, ndim=ndim)


def _parts(x: Any) -> list[Any]:
    """A row as the thread that has it, and its place in there: pieces of EACH."""
    return [x // EACH % THREADS, x // EACH // THREADS, x % EACH]


def _of_thread(*at: Any) -> list[Any]:
    """A tile of an operand with what one thread takes side by side: its registers."""
    *before, side = at
    return [*before, *_parts(side)]


def _of_threads(*at: Any) -> list[Any]:
    """A tile of the result with what one thread has side by side."""
    *batch, i, j = at
    (row, *rows), (column, *columns) = _parts(i), _parts(j)
    return [*batch, row, column, *rows, *columns]


def _fetched(sch: Schedule, copy: Any, along_k: bool | None, lanes: int) -> None:
    """A tile that all threads of a block move together, in the order in which it lies in memory."""
    k, side = sch.get_loops(copy)[-2:]
    if along_k:
        sch.reorder(side, k)
        sch.storage_align(copy, 0, -2, 8 * APART, APART)
        k, side, lanes = side, k, 1
    whole = sch.fuse(k, side)
    _, y, x, vector = sch.split(whole, [None, THREADS, THREADS, min(lanes, EACH)])
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(vector)
