"""tensor_cores: products of halves and convolutions on tensor cores, `mma.sync` by warps.

for i, j, k: C[i, j] += A[i, k] * B[k, j]        blocks of 64 x 64 of C, four warps, each 32 x 32
                                                 for k_0: A_shared[64, 32], B_shared[32, 64] = …
                                          ->         for k_1: a_warp, b_warp = fragments of these
                                                         c_warp += a_warp @ b_warp     16 x 8 x 16
                                                 C_shared = c_warp; C = C_shared

The axes are those of `matmul`, so convolutions take part. They are padded to whole tiles: what the
fetch into shared memory finds outside of an operand is zero, and what lies outside of the result is
not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mlcnb.dlight.gpu.axes import axes_of, factors, fused, operands, over_axes
from mlcnb.dlight.gpu.padded import padded
from mlcnb.dlight.gpu.threads import most_threads, product
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.analysis.kernels import BLOCK_AXES
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.tensor_intrin.mma_sync import SHORT, WARP, layout_a, layout_b, layout_c

#: rows, columns and k of a fragment
M, N, K = 16, 8, 16
#: elements that rows of a tile in shared memory are moved apart, so that the lanes that read a
#: fragment find theirs in different banks
APART = 8
#: a side that is shorter leaves too much of a tile empty
LEAST = 16


class Tile(NamedTuple):
    """What a block of threads computes at a time.

    Attributes:
        warps: along rows, and along columns.
        rows, columns: fragments of a warp along each.
        steps: fragments along k that are fetched together.
    """

    warps: int = 2
    rows: int = 2
    columns: int = 4
    steps: int = 2

    def sizes(self) -> list[int]:
        """Rows, columns and k of what a block computes at a time."""
        return [self.warps * self.rows * M, self.warps * self.columns * N, self.steps * K]


#: what the default rule takes
TILE = Tile()


def tensor_cores(sch: Schedule, survey: Survey, target: Target, by: Tile = TILE) -> bool:
    """Apply to a product of halves that is summed in float32."""
    anchor = survey.anchor
    if anchor is None or None in anchor.extents or most_threads(target) < by.warps**2 * WARP:
        return False
    if not all(b.is_spatial for b in survey.blocks if b is not anchor):
        return False
    axes = axes_of(anchor)
    kind = _halves(anchor)
    if axes is None or kind is None:
        return False
    if any((product([anchor.extents[n] for n in side]) or 0) < LEAST for side in axes[1:]):
        return False
    turned = operands(anchor, axes)[0][1] is not axes.rows
    if turned:  # the first factor is what the instruction takes as rows
        axes = axes._replace(rows=axes.columns, columns=axes.rows)
    batch = [axes.batch] if (product([anchor.extents[n] for n in axes.batch]) or 0) > 1 else []
    ones = [] if batch else axes.batch
    for number, side in operands(anchor, axes):
        pair = (side, axes.reduced) if side is axes.rows else (axes.reduced, side)
        over_axes(sch, anchor, ("read", number), [*batch, [*ones, *pair[0]], pair[1]])
    groups = [*batch, [*ones, *axes.rows], axes.columns, axes.reduced]
    out = over_axes(sch, anchor, ("write", 0), groups[:-1])
    sch.transform_block_layout(anchor.handle, fused(anchor, range(len(anchor.extents)), groups))
    for before in reversed(survey.before(anchor)):
        sch.compute_inline(before.handle)
    for after in survey.after(anchor):
        sch.reverse_compute_inline(after.handle)
    a, b = padded(sch, anchor.handle, out, [*(1 for _ in batch), *by.sizes()])
    _on_warps(sch, anchor.handle, (a, b, out), by, SHORT[kind], turned)
    return True


def _halves(block: BlockInfo) -> str | None:
    """The dtype of both operands, if tensor cores multiply it and the sum is float32."""
    loads = factors(block.node.body) or []
    kinds = {str(load.buffer.dtype) for load in loads}
    if len(kinds) != 1 or block.node.writes[0].buffer.dtype != "float32":
        return None
    (kind,) = kinds
    return kind if kind in ("float16", "bfloat16") else None


def _on_warps(
    sch: Schedule, block: Any, moves: tuple[Any, Any, Any], by: Tile, short: str, turned: bool
) -> None:
    """The product in tiles of blocks, of warps, of fragments.

    turned: what lies side by side in the result are its rows.
    """
    a, b, out = moves
    *batch, rows, columns, reduced = sch.get_loops(block)
    i_0, i_1, i_2, i_3 = sch.split(rows, [None, by.warps, by.rows, M])
    j_0, j_1, j_2, j_3 = sch.split(columns, [None, by.warps, by.columns, N])
    k_0, k_1, k_2 = sch.split(reduced, [None, by.steps, K])
    sch.reorder(*batch, i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2, i_3, j_3, k_2)
    c_warp = sch.cache_write(block, 0, "warp")
    reads = [r.buffer for r in sch.get(block).reads]
    written = [sch.get(x).writes[0].buffer for x in (a, b)]
    a_warp, b_warp = (sch.cache_read(block, reads.index(w), "warp") for w in written)
    for made, sizes, layout in (
        (a_warp, (M, K), layout_a), (b_warp, (K, N), layout_b), (block, (M, N), layout_c)
    ):  # fmt: skip
        sch.transform_layout(made, ("write", 0), _fragments(len(batch), sizes, layout))
    for made in (a, b, c_warp):
        sch.set_scope(made, 0, "shared")
    sch.reverse_compute_at(c_warp, j_1)
    sch.reverse_compute_at(out, j_0)
    sch.compute_at(a_warp, k_1)
    sch.compute_at(b_warp, k_1)
    start = sch.decompose_reduction(block, k_0)
    for loop, place in ((i_1, "threadIdx.y"), (j_1, "threadIdx.z")):
        sch.bind(loop, place)
    for fetch in (a, b):
        sch.compute_at(fetch, k_0)
        sch.storage_align(fetch, 0, -2, 2 * APART, APART)
    if turned:
        sch.storage_align(c_warp, 0, -2, 2, 1)
        sch.reorder(*reversed(sch.get_loops(out)[-2:]))
    for moved in moves:
        _by_all(sch, moved, by.warps)
    for loop, place in zip((j_0, i_0, *batch), BLOCK_AXES, strict=False):
        sch.bind(loop, place)
    _tensorized(sch, a_warp, f"mma_load_16x16_{short}_a_shared", M, K)
    _tensorized(sch, b_warp, f"mma_load_16x8_{short}_b_shared", K, N)
    _tensorized(sch, c_warp, "mma_store_16x8_f32_shared", M, N)
    sch.tensorize(sch.get_loops(start)[-2], "mma_fill_16x8_f32")
    sch.tensorize(i_3, f"mma_sync_16x8x16_{short}{short}f32")


def _fragments(batch: int, sizes: tuple[int, int], layout: Callable[..., Any]) -> IndexMap:
    """Rows and columns of a matrix as (tile, tile, lane, register)."""

    def indices(*at: Any) -> list[Any]:
        i, j = at[batch:]
        within = layout(i % sizes[0], j % sizes[1])
        return [*at[:batch], i // sizes[0], j // sizes[1], *within]

    return IndexMap.from_func(indices, ndim=batch + 2)


def _by_all(sch: Schedule, block: Any, warps: int) -> None:
    """A tile that all threads of a block move together."""
    whole = sch.fuse(*sch.get_loops(block)[-2:])
    _, z, y, x = sch.split(whole, [None, warps, warps, WARP])
    for loop, place in ((z, "threadIdx.z"), (y, "threadIdx.y"), (x, "threadIdx.x")):
        sch.bind(loop, place)


def _tensorized(sch: Schedule, block: Any, name: str, rows: int, columns: int) -> None:
    """The last two loops of a block in tiles, each an instruction."""
    i, j = sch.get_loops(block)[-2:]
    i_0, i_1 = sch.split(i, [None, rows])
    j_0, j_1 = sch.split(j, [None, columns])
    sch.reorder(i_0, j_0, i_1, j_1)
    sch.tensorize(i_1, name)
