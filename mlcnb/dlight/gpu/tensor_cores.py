"""tensor_cores: products and convolutions of halves, bytes or (asked for) tf32, by warps.

for i, j, k: C[i, j] += A[i, k] * B[k, j]    blocks of 128 x 128 of C, four warps, each 64 x 64
                                             for k_0: A_shared[128, 32], B_shared[32, 128] = …
                                      ->         for k_1: a_warp, b_warp = ldmatrix of these
                                                     c_warp += a_warp @ b_warp    16 x 16 x 16
                                             C = c_warp

The axes are those of `matmul`, so convolutions take part. They are padded to whole tiles: what the
fetch into shared memory finds outside of an operand is zero, and what lies outside of the result is
not stored. An operand lies in shared memory as it does outside, so that its rows are fetched 16
bytes at a time, asynchronously (`cp.async`), some steps ahead; `ldmatrix` turns it where that is
needed. Where rows are no multiple of 4 bytes, it is fetched element by element, step by step.

Bytes (int8, summed in int32) are multiplied 16 x 16 x 32, so that steps are twice as long. Those
`ldmatrix` does not turn: an operand of which k does not lie side by side is turned by its fetch,
element by element.

float32 is multiplied 16 x 16 x 8, rounded to tf32 on its way: 11 of 24 bits are left of each
operand, so no rule does that unasked. `dl.gpu.Matmul(tf32=True)` does (torch: `allow_tf32`). What
`ldmatrix` would have to turn is loaded element by element, from rows that are 8 banks apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mlcnb.dlight.gpu.axes import (
    LEAST_BYTES,
    MANY,
    Axes,
    by_sides,
    factors,
    fused,
    in_groups,
    lies,
    operands,
    over_axes,
    padded,
    product_of,
    tiles_of,
)
from mlcnb.dlight.gpu.threads import copies_asynchronously, most_threads, product
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.analysis.kernels import BLOCK_AXES
from mlcnb.tir.analysis.mma import FORMS, SIDE, WARP, Form
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.tensor_intrin.ldmatrix import (
    is_loaded_by_rows,
    is_turned_on_the_way,
    layout_c,
    layout_of,
    name_of_load,
    name_of_product,
)

#: bytes that rows of a tile in shared memory are moved apart: those of the eight rows that
#: `ldmatrix` takes at once then begin in different banks
APART = 16
#: the same in elements of four bytes that threads load one by one: four rows by eight columns, and
#: in how many banks
ROWS_APART, BANKS = 8, 32
#: a side that is shorter leaves too much of a tile empty
LEAST = 16
#: the memory of tiles: more than 48 KB of it may be had
SHARED = "shared.dyn"


class Tile(NamedTuple):
    """What a block of threads computes at a time.

    Attributes:
        rows, columns: fragments of a warp along each.
        steps: fragments along k that are fetched together.
        ahead: steps that a fetch is ahead of its use.
        row_warps, column_warps: warps along each.
    """

    rows: int = 4
    columns: int = 4
    steps: int = 2
    ahead: int = 3
    row_warps: int = 2
    column_warps: int = 2

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.row_warps * self.column_warps * WARP

    def fitting(self, rows: int, columns: int) -> Tile:
        """A tile of which no warp is left without work in a result of one tile."""
        by = self
        while by.rows > 1 and by.sizes()[0] >= 2 * rows:
            by = by._replace(rows=by.rows // 2)
        while by.columns > 1 and by.sizes()[1] >= 2 * columns:
            by = by._replace(columns=by.columns // 2)
        return by._replace(
            row_warps=1 if rows <= by.rows * SIDE else by.row_warps,
            column_warps=1 if columns <= by.columns * SIDE else by.column_warps,
        )

    def sizes(self, depth: int = SIDE) -> list[int]:
        """Rows, columns and k of what a block computes at a time; depth: of a fragment along k."""
        return [
            self.row_warps * self.rows * SIDE,
            self.column_warps * self.columns * SIDE,
            self.steps * depth,
        ]


#: what the default rule takes; where the last tiles are not full, so that what is to be known of
#: them finds registers; and where few blocks would be left
TILE, PARTLY, SMALL = Tile(), Tile(columns=2, column_warps=4), Tile(rows=2, columns=2, ahead=2)


def tensor_cores_tf32(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to what `tensor_cores` takes, and to products of float32, which are rounded to tf32."""
    return tensor_cores(sch, survey, target, tf32=True)


def tensor_cores(
    sch: Schedule, survey: Survey, target: Target, by: Tile | None = None, tf32: bool = False
) -> bool:
    """Apply to a product of halves that is summed in float32, or of int8 in int32.

    by: the tile of a block of threads; tf32: float32 may be rounded, too.
    """
    anchor = survey.anchor
    most = most_threads(target)
    found = product_of(survey, (by or TILE).threads, most)
    if anchor is None or isinstance(found, str):
        return no(str(found))
    axes = found
    form = _form(anchor)
    if form is None:
        return no("operands and sum are no halves and float32, nor int8 and int32")
    if form.is_rounded and not tf32:
        return no("float32 is rounded to tf32 only by gpu.Matmul(tf32=True)")
    if not copies_asynchronously(target):
        return no("the GPU is older than sm_80: no asynchronous copies, no products of 16 x 8 x 16")
    lengths = [product([anchor.extents[n] for n in side]) or 0 for side in axes[1:]]
    if min(lengths) < LEAST:
        return no(f"{by_sides(lengths)}: a side under {LEAST} leaves too much of a tile empty")
    swapped = operands(anchor, axes)[0][1] is not axes.rows
    if swapped:  # the first factor is what the instruction takes as rows
        axes = axes._replace(rows=axes.columns, columns=axes.rows)
    sides = [product([anchor.extents[n] for n in x]) or 1 for x in (axes.rows, axes.columns)]
    by = (by or _tile_for(anchor, axes, form)).fitting(*sides)
    batch = [axes.batch] if (product([anchor.extents[n] for n in axes.batch]) or 0) > 1 else []
    ones = [] if batch else axes.batch
    ways = []
    for number, side in operands(anchor, axes):
        rows = side is axes.rows
        along_k, lanes = lies(anchor, number, axes)
        turned = along_k is not None and along_k != rows
        if form.nbytes == 1 and is_turned_on_the_way("a" if rows else "b", turned):
            turned, lanes = not turned, 0
        pair = ([*ones, *side], axes.reduced) if rows else (axes.reduced, [*ones, *side])
        over_axes(sch, anchor, ("read", number), [*batch, *(pair[::-1] if turned else pair)])
        ways.append((turned, lanes))
    groups = [*batch, [*ones, *axes.rows], axes.columns, axes.reduced]
    out = over_axes(sch, anchor, ("write", 0), groups[:-1])
    sch.transform_block_layout(anchor.handle, fused(anchor, range(len(anchor.extents)), groups))
    for before in reversed(survey.before(anchor)):
        sch.compute_inline(before.handle)
    for after in survey.after(anchor):
        sch.reverse_compute_inline(after.handle)
    a, b = padded(sch, anchor.handle, out, [*(1 for _ in batch), *by.sizes(form.depth)])
    _on_warps(sch, anchor.handle, (a, b, out), by, form, ways, in_groups(anchor, axes, 2))
    return True


def _tile_for(block: BlockInfo, axes: Axes, form: Form) -> Tile:
    """A large tile where enough blocks are left, else the small one."""
    if tiles_of(block, axes, *TILE.sizes()[:2]) < MANY:
        return SMALL
    lengths = [product([block.extents[n] for n in x]) or 1 for x in axes[1:]]
    is_whole = all(n % tile == 0 for n, tile in zip(lengths, TILE.sizes(form.depth), strict=True))
    return TILE if is_whole else PARTLY


def _form(block: BlockInfo) -> Form | None:
    """The product that tensor cores know of both operands' dtype, into that of the sum."""
    kinds = {str(load.buffer.dtype) for load in factors(block.node.body) or []}
    form = FORMS.get(kinds.pop()) if len(kinds) == 1 else None
    return form if form and block.node.writes[0].buffer.dtype == form.sums.dtype else None


def _on_warps(
    sch: Schedule,
    block: Any,
    moves: tuple[Any, Any, Any],
    by: Tile,
    form: Form,
    ways: list[tuple[bool, int]],
    by_vectors: bool,
) -> None:
    """The product in tiles of blocks, of warps, of fragments.

    ways: of A and of B is it turned, and how many of its elements are moved at once; 0: one, where
    neighbours in memory are none in shared memory. There A is turned where its rows lie side by
    side, B where k does. by_vectors: a thread stores two columns at once.
    """
    a, b, out = moves
    *batch, rows, columns, reduced = sch.get_loops(block)
    i_0, i_1, i_2, i_3 = sch.split(rows, [None, by.row_warps, by.rows, SIDE])
    j_0, j_1, j_2, j_3 = sch.split(columns, [None, by.column_warps, by.columns, SIDE])
    k_0, k_1, k_2 = sch.split(reduced, [None, by.steps, form.depth])
    sch.reorder(*batch, i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2, i_3, j_3, k_2)
    reads = [r.buffer for r in sch.get(block).reads]
    written = [sch.get(x).writes[0].buffer for x in (a, b)]
    a_warp, b_warp = (sch.cache_read(block, reads.index(w), "warp") for w in written)
    of_a, of_b = (_Fragment.of(m, turned, form) for m, (turned, _) in zip("ab", ways, strict=True))
    for made, fragment in ((a_warp, of_a), (b_warp, of_b), (block, _Fragment(layout_c))):
        sch.transform_layout(made, ("write", 0), fragment.index_map(len(batch)))
    for made, scope in ((a, SHARED), (b, SHARED), (block, "warp")):
        sch.set_scope(made, 0, scope)
    sch.reverse_compute_at(out, j_0)
    threads = _stored(sch, out, by, j_1, by_vectors)
    i_1, j_1 = sch.get_loops(out)[len(batch) + 2 :][:2]
    sch.compute_at(a_warp, k_1)
    sch.compute_at(b_warp, k_1)
    start = sch.decompose_reduction(block, k_0)
    for loop, place in ((i_1, "threadIdx.y"), (j_1, "threadIdx.z")):
        sch.bind(loop, place)
    for matrix, fetch, (turned, lanes) in zip("ab", (a, b), ways, strict=True):
        sch.compute_at(fetch, k_0)
        by_rows = is_loaded_by_rows(form.given.dtype, matrix, turned)
        own = (2 * APART // form.nbytes, APART // form.nbytes) if by_rows else (BANKS, ROWS_APART)
        sch.storage_align(fetch, 0, -2, *own)
        _by_all(sch, fetch, by, lanes)
    sch.bind(threads, "threadIdx.x")
    for loop, place in zip((j_0, i_0, *batch), BLOCK_AXES, strict=False):
        sch.bind(loop, place)
    dtype = form.given.dtype
    _tensorized(sch, a_warp, name_of_load(dtype, "a", ways[0][0], SHARED), of_a)
    _tensorized(sch, b_warp, name_of_load(dtype, "b", ways[1][0], SHARED), of_b)
    sch.tensorize(sch.get_loops(start)[-2], f"mma_fill_16x16_{form.sums.short}")
    sch.tensorize(i_3, name_of_product(dtype))
    if all(lanes * sch.get(b).reads[0].buffer.dtype.nbytes >= LEAST_BYTES for _, lanes in ways):
        sch.annotate(k_0, "software_pipeline_stage", [0, 0, by.ahead])
        sch.annotate(k_0, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k_0, "software_pipeline_async_stages", [0])


class _Fragment(NamedTuple):
    """Where elements of a tile lie in registers; the sides of the tile, as it lies in memory."""

    layout: Callable[..., Any]
    lines: int = SIDE
    places: int = SIDE

    @staticmethod
    def of(matrix: str, turned: bool, form: Form) -> _Fragment:
        """The fragment of an operand."""
        sides = (SIDE, form.depth) if turned == (matrix == "b") else (form.depth, SIDE)
        return _Fragment(layout_of(matrix, turned, form.given.dtype), *sides)

    def index_map(self, batch: int) -> IndexMap:
        """Rows and columns of a matrix as (tile, tile, lane, register)."""

        def indices(*at: Any) -> list[Any]:
            i, j = at[batch:]
            within = self.layout(i % self.lines, j % self.places)
            return [*at[:batch], i // self.lines, j // self.places, *within]

        return IndexMap.from_func(indices, ndim=batch + 2)


def _by_all(sch: Schedule, block: Any, by: Tile, lanes: int) -> None:
    """A tile that all threads of a block move together, neighbours what lies side by side."""
    loops = sch.get_loops(block)[-2:]
    if not lanes:
        sch.reorder(*reversed(loops))
        loops.reverse()
    whole = sch.fuse(*loops)
    sizes = [None, by.column_warps, by.row_warps, WARP, max(lanes, 1)]
    _, z, y, x, vector = sch.split(whole, sizes)
    for loop, place in ((z, "threadIdx.z"), (y, "threadIdx.y"), (x, "threadIdx.x")):
        sch.bind(loop, place)
    if lanes > 1:
        sch.vectorize(vector)


def _stored(sch: Schedule, block: Any, by: Tile, along: Any, by_vectors: bool) -> Any:
    """Each thread stores what it has of a warp's result, as `layout_c` says, in the loops of its
    warp (`along`); the loop over the threads of a warp.
    """
    i, j = sch.get_loops(block)[-2:]
    i_w, i_0, i_1, i_2 = sch.split(i, [by.row_warps, by.rows, 2, 8])
    j_w, j_0, j_1, j_2, j_3 = sch.split(j, [by.column_warps, by.columns, 2, 4, 2])
    sch.reorder(i_w, j_w, i_0, j_0, i_2, j_2, i_1, j_1, j_3)
    threads = sch.fuse(i_2, j_2)
    if by_vectors:
        sch.vectorize(j_3)
    sch.merge(along, j_w)
    return threads


def _tensorized(sch: Schedule, block: Any, name: str, fragment: _Fragment) -> None:
    """The last two loops of a block in tiles, each an instruction."""
    i, j = sch.get_loops(block)[-2:]
    i_0, i_1 = sch.split(i, [None, fragment.lines])
    j_0, j_1 = sch.split(j, [None, fragment.places])
    sch.reorder(i_0, j_0, i_1, j_1)
    sch.tensorize(i_1, name)
