"""matmul: a product of matrices as they lie, batched or not.

for b, i, j, k in …:                            for b, j_0 in T.parallel(…):
    C[b, i, j] += A[b, i, k] * B[b, k, j]           B_1 = columns of B, packed    (if it pays)
                                         ->         for i_0, j_1:
                                                        acc = 8 x 2 vectors, in registers
                                                        for k in range(K):
                                                            for i_1, j_2, lane: acc += …
                                                        C[…] = acc + bias

Where rows of A of a tile are so deep that they do not stay in L1, the depth is cut (`in_steps`): a
step of it for all tiles of a part, then the next.

The tile of results lives in registers for the whole reduction and is stored once, with whatever
elementwise blocks follow. Elements of A are broadcast, rows of B are read as vectors.

B is copied, a panel of a tile's columns after the other, where reading it as it lies would be slow:
where it is transposed, where its rows end inside a vector (the copy is filled up with zeros), where
it comes from memory, and where the multiply-adds of a tile take less time than its lines come from
the cache in which they stay, whose sets they may not fill evenly (`blocking.copy_pays`). Each
thread copies the columns it works on: so many that the copy stays in the shared cache, or in the
core's own where lines of the shared one come slowly (`blocking.stays_far`); from there they are
asked for some steps ahead.

A B that is not copied and stays in a core's own cache is asked for some rows ahead, where its lines
come late without (`blocking.AsItLies`). A larger one is streamed: tiles below each other come one
after the other, and with what they read of B they ask for what lies one tile further to the right.

Rows and columns of open length are whole tiles alone, the last of which overlap (OverlapTiles).

Rows and columns that no tile divides become tiles of their own (LoopPartition), not tests.
(Constant matrices are packed beforehand and go to `packed_matmul`; a row alone goes to `gemv`.)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.cpu.blocked_window import fuse_epilogue
from mlcnb.dlight.cpu.blocking import (
    MOST_PAGES,
    MOST_VECTORS,
    ROWS_AHEAD,
    AsItLies,
    Blocking,
    ProductTile,
    blocking,
    depth_of_part,
    pages_of,
    stays_far,
)
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.product import (
    FEW_ROWS,
    Product,
    from_memory,
    lanes_of,
    rows_together,
)
from mlcnb.dlight.cpu.tiles import overlap, second_width
from mlcnb.dlight.decide import decide, either
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.inject_prefetch import PRAGMA as PREFETCH

#: rows of C from which on a copy of B pays where its rows end inside a vector: fewer rows read it
#: under a mask, unless the tile that has the last vector is the only one; and tiles beside each
#: other from which on that one counts little, where B is asked for ahead
ROWS_IF_RAGGED, FEWEST_TILES = 24, 8
#: rows of C for which a part of B should stay in a core's own cache; columns of a tile, about
MANY_ROWS, PANEL = 256, 48
#: rows of a tile, about
ROW_TILE = 8
#: rows of B that are copied together: as many lines in a row, of so many pages at a time
COPIED_ROWS = (8, 4, 16)
#: steps of the depth ahead of which a copy that stays in a core's own cache is asked for; 0: not
STEPS_AHEAD = (16, 0, 8, 32)


def matmul(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a sum of products over one axis, with the elementwise blocks around it."""
    anchor = survey.anchor
    product = None if anchor is None else Product.of(anchor)
    if anchor is None or product is None or not product.has_rows:
        return False
    before, after = survey.before(anchor), survey.after(anchor)
    if not all(b.is_spatial for b in before) or not survey.keeps_shape(anchor):
        return False
    for block in before:
        elementwise(sch, block, target)
    lanes = lanes_of(product.columns, target)
    if product.is_open:
        return open_matmul(sch, survey, product, target)
    copies = either("copy of B", is_copied(product, target))
    streams = not copies and either("B asked for ahead", is_streamed(product, target))
    cut = blocking(product, copies, target, streams)
    width = cut.tile.vectors * lanes
    panels, last = copied(sch, anchor, after, product, width, lanes) if copies else (None, None)
    deep = depth_of_part(product, cut.tile, target) if copies else None
    if deep is None or after:
        last = last or fuse_epilogue(sch, anchor, after)
    rows = (
        rows_together(sch, anchor.handle, product, cut.tile.rows)
        if product.a.is_transposed
        else None
    )
    parts, row_tile, column_tile, k = tiled(sch, anchor, cut, lanes, streams)
    rows_asked = 0 if copies or streams else rows_ahead(product, target)
    if ahead := width if streams else rows_asked * (product.columns or 0):
        matrix = anchor.node.reads[product.b.index].buffer
        sch.annotate(k, PREFETCH, [matrix.data.name, ahead])
    whole = parts[-1]
    if deep is None:
        begun_and_stored(sch, anchor, last, row_tile if streams else column_tile, lanes)
    else:
        whole = in_steps(sch, anchor, last, whole, [row_tile, column_tile, k], deep, lanes)
    if panels is not None:
        sch.compute_at(panels, whole)
        copy_panels(sch, panels, product.b.is_transposed, cut.tile.vectors, lanes)
        steps = 0 if stays_far(cut.tile, lanes, target) else decide("steps of B ahead", STEPS_AHEAD)
        if steps:
            name = sch.get(panels).writes[0].buffer.data.name
            sch.annotate(sch.get_loops(anchor.handle)[-4], PREFETCH, [name, steps * width])
    if rows is not None:
        sch.compute_at(rows, row_tile)
        sch.vectorize(sch.get_loops(rows)[-1])
    if cut.parts > 1:
        sch.parallel(sch.fuse(*parts))
    return True


def open_matmul(sch: Schedule, survey: Survey, product: Product, target: Target) -> bool:
    """Apply to a product of open rows or columns: tiles of both as they lie, the last ones overlap
    those before (OverlapTiles); products of a batch in parallel."""
    anchor = survey.anchor
    if anchor is None or product.a.is_transposed or product.b.is_transposed:
        return False
    lanes = lanes_of(product.columns, target)
    tile = blocking(product, False, target).tile
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    *batch, row, column, k = sch.get_loops(anchor.handle)
    i_0, i_1 = sch.split(row, [None, tile.rows])
    j_0, j_1, lane = sch.split(column, [None, tile.vectors, lanes])
    sch.reorder(*batch, i_0, j_0, k, i_1, j_1, lane)
    for loop in (i_1, j_1):
        sch.unroll(loop)
    sch.vectorize(lane)
    overlap(sch, i_0, narrower=second_width(tile.rows, tile.vectors))
    overlap(sch, j_0)
    begun_and_stored(sch, anchor, last, j_0, lanes)
    spread(sch, batch or [i_0], anchor.work)
    return True


def is_copied(product: Product, target: Target) -> bool:
    """Whether reading a copy of B, in panels, is faster than B."""
    columns, rows = product.columns or 0, product.rows or 0
    lanes, widest = lanes_of(product.columns, target), MOST_VECTORS * target.lanes("float32")
    if product.b.is_transposed or (columns % lanes and columns <= widest):
        return True
    if from_memory(product, target) and rows > FEW_ROWS:
        return True
    lies = AsItLies.of(product, is_streamed(product, target), target)
    edge_counts = lies is None or not lies.is_asked or columns <= FEWEST_TILES * widest
    if columns % lanes and rows >= ROWS_IF_RAGGED and edge_counts:
        return True
    return lies is not None and lies.copy_pays(rows)


def rows_ahead(product: Product, target: Target) -> int:
    """Rows of a B that is read as it lies, ahead of which it is asked for; 0: it is not."""
    lies = AsItLies.of(product, False, target)
    if lies is None or not lies.is_asked:
        return 0
    return decide("rows of B ahead", (ROWS_AHEAD, 0, 4, 16))


def is_streamed(product: Product, target: Target) -> bool:
    """Whether a B that is read as it lies is asked for one column tile ahead.

    Pays where B does not fit in a core's own cache. With many rows two column tiles must: else
    what is asked for drives out what is read again and again. A deep B, whose column tile lies in
    more pages than a processor knows the places of, is read as it lies: asking ahead sometimes made
    it slower by a third. Where lines from the shared cache come slowly, rows of B are asked for.
    Hardware that reads several streams at all speed by itself is only hindered.
    """
    depth, own = product.depth or 0, target.caches[1]
    far = stays_far(ProductTile(ROW_TILE, 1), lanes_of(product.columns, target), target)
    if not far or target.fetches_ahead:
        return False
    rows, nbytes = product.rows or 0, 4 * depth * (product.columns or 0)
    fits = rows < MANY_ROWS or 2 * 4 * depth * PANEL <= own
    lies_well = not product.a.is_transposed and not product.b.has_batch
    fits = fits and pages_of(product) <= MOST_PAGES
    return rows > FEW_ROWS and fits and lies_well and nbytes > own


def copied(
    sch: Schedule,
    anchor: BlockInfo,
    after: list[BlockInfo],
    product: Product,
    width: int,
    lanes: int,
) -> tuple[Any, Any]:
    """The block that copies B into panels as wide as a tile, and the one that stores the result.

    Columns are filled up to whole vectors; the last block is None where none had to be.
    """
    block = anchor.handle
    last = whole_vectors(sch, anchor, after, lanes)
    read = sch.get(block).reads[product.b.index].buffer
    made = sch.get_producers(block) if last is not None else []
    filled = [x for x in made if sch.get(x).writes[0].buffer is read]  # none: B has room already
    panels = filled[-1] if filled else sch.cache_read(block, product.b.index, "global")

    def layout(*index: Any) -> tuple[Any, ...]:
        *batch, k, j = index
        if product.b.is_transposed:
            k, j = j, k
        return (*batch, j // width, k, j % width)

    sch.transform_layout(block, ("read", product.b.index), layout)
    return panels, last


def whole_vectors(sch: Schedule, anchor: BlockInfo, after: list[BlockInfo], lanes: int) -> Any:
    """The block that stores the result, where the sums are filled up to whole vectors of columns;
    None where they are whole, or stay as they are."""
    if (anchor.extents[-2] or 0) % lanes == 0 or not is_padded(sch, anchor, lanes):
        return None
    last = sch.get_consumers(anchor.handle)[0]
    for follower in after:
        sch.compute_inline(last)
        last = follower.handle
    sch.set_scope(anchor.handle, 0, "local")
    return last


def is_padded(sch: Schedule, anchor: BlockInfo, lanes: int) -> bool:
    """Fill the columns up to whole vectors; False for a sum that zeros would change."""
    try:
        sch.pad_einsum(anchor.handle, [1] * (len(anchor.kinds) - 2) + [lanes, 1])
    except ScheduleError:
        return False
    return True


def tiled(
    sch: Schedule, anchor: BlockInfo, cut: Blocking, lanes: int, is_streamed: bool
) -> tuple[list[Any], Any, Any, Any]:
    """The loops over parts, over tiles below each other in a part, over tiles in their row, and
    over the depth; the tiles below each other come last where B is streamed."""
    *batch, row, column, k = sch.get_loops(anchor.handle)
    i_p, i_0, i_1 = sch.split(row, [None, cut.row_tiles, cut.tile.rows])
    j_p, j_0, j_1, lane = sch.split(column, [None, cut.column_tiles, cut.tile.vectors, lanes])
    tiles = (j_0, i_0) if is_streamed else (i_0, j_0)
    sch.reorder(*batch, i_p, j_p, *tiles, k, i_1, j_1, lane)
    sch.unroll(i_1)
    sch.unroll(j_1)
    sch.vectorize(lane)
    return [*batch, i_p, j_p], i_0, j_0, k


def begun_and_stored(sch: Schedule, anchor: BlockInfo, last: Any, tile: Any, lanes: int) -> None:
    """Zeros before a tile's steps, its results stored behind them, all vector by vector; a block
    that reads the first one only, as there is no other, has no loops there."""
    sch.reverse_compute_at(last, tile)
    depth = len(sch.get_loops(anchor.handle)) - 4
    if loops := sch.get_loops(last)[depth:]:
        *rows, column = loops
        vectors, lane = sch.split(column, [None, lanes])
        for loop in (*rows, vectors):
            sch.unroll(loop)
        sch.vectorize(lane)
    start = sch.decompose_reduction(anchor.handle, sch.get_loops(anchor.handle)[depth])
    *unrolled, lane = sch.get_loops(start)[depth:]
    for loop in unrolled:
        sch.unroll(loop)
    sch.vectorize(lane)


def in_steps(
    sch: Schedule, anchor: BlockInfo, last: Any, part: Any, tiles: list[Any], deep: int, lanes: int
) -> Any:
    """Do so much of the depth for all `tiles` (two loops, and that over the depth) of a part, then
    the next: sums wait in memory meanwhile. Returns the loop over these steps."""
    k_0, k_1 = sch.split(tiles[-1], [None, deep])
    sch.reorder(k_0, *tiles[:-1], k_1)
    if last is not None:
        sch.set_scope(anchor.handle, 0, "global")
        sch.reverse_compute_at(last, part)
        sch.vectorize(sch.split(sch.get_loops(last)[-1], [None, lanes])[1])
    start = sch.decompose_reduction(anchor.handle, k_0)
    sch.vectorize(sch.get_loops(start)[-1])
    return k_0


def copy_panels(sch: Schedule, panels: Any, is_transposed: bool, width: int, lanes: int) -> None:
    """Some rows of one panel after the other; a transposed B by all lanes, along its rows."""
    *_, outer, inner = sch.get_loops(panels)
    if is_transposed:
        vectors, lane = sch.split(outer, [None, lanes])
        sch.reorder(vectors, inner, lane)
    else:
        k_0, k_1 = sch.split(outer, [None, decide("rows copied", COPIED_ROWS)])
        panel, vector, lane = sch.split(inner, [None, width, lanes])
        sch.reorder(k_0, panel, k_1, vector, lane)
        sch.unroll(vector)
    sch.vectorize(lane)
