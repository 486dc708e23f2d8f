"""attention: softmax(Q K^T) V for some queries at a time; their scores never leave the cache.

                                                for b, n, i_0 in T.parallel(…):    32 queries
scores of all queries and all keys                  query[h, 32] = Q * scale       queries last
softmax of all scores                     ->        for j_0, h: tile of scores     8 x 2 vectors
sum over all keys                                   max, exp, sum over the keys    no shuffles
                                                    for i_1, t: tile of results    8 x 2 vectors
                                                    out[…] = tile * (1 / sum)

Keys need not be cut for the cache as well (the online softmax of long sequences): 32 queries and
4,096 keys make 512 KB of scores, which are read once.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.cpu.tiles import choose_tile
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.inject_prefetch import PRAGMA as PREFETCH

#: the blocks of `nn.attention` before the last, without "attention_"; `masked` where it is needed
STAGES = ("query", "scores", "masked", "max", "exp", "norm", "inverse", "sum")


def attention(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to the blocks of nn.attention, all sizes known."""
    lanes = target.lanes("float32")
    whole = next((b for b in survey.blocks if b.name == "attention"), None)
    after = [] if whole is None else survey.after(whole)
    info = {b.name.removeprefix("attention_"): b for b in survey.blocks if b not in after}
    if whole is None or not is_attention(info, lanes) or not survey.keeps_shape(whole):
        return False
    blocks = {name: block.handle for name, block in info.items()}
    for block in after:  # what is done with each result is done before it is stored
        sch.compute_inline(blocks["attention"])
        blocks["attention"] = block.handle
    keys, queries, dim = (e or 1 for e in (*info["sum"].reduced(), *info["sum"].spatial()[2:]))
    vectors = 2 if queries % (2 * lanes) == 0 else 1
    b, n, i, _, _ = sch.get_loops(blocks["sum"])
    i_0, _ = sch.split(i, [None, vectors * lanes])
    sch.reverse_compute_at(blocks["attention"], i_0)
    for name in reversed([s for s in STAGES if s in blocks]):
        if name != "sum":
            place = 0 if name == "inverse" else -1
            sch.compute_at(blocks[name], i_0, preserve_unit_loops=True, index=place)
        sch.set_scope(blocks[name], 0, "local")
    turn(sch, blocks["query"], lanes)
    scores(sch, blocks, keys, vectors, lanes, target)
    softmax(sch, blocks, lanes)
    results(sch, blocks, dim, lanes, target)
    spread(sch, [b, n, i_0], info["scores"].work)
    return True


def is_attention(info: dict[str, BlockInfo], lanes: int) -> bool:
    """All stages are there, of known sizes; whole vectors of queries and of results."""
    if {*info, "masked"} != {*STAGES, "attention"}:
        return False
    sizes = [e for block in info.values() for e in block.extents]
    if None in sizes or 0 in sizes:
        return False
    queries, dim = (e or 1 for e in info["sum"].spatial()[2:])
    float32 = info["sum"].node.writes[0].buffer.dtype == "float32"
    return float32 and queries % lanes == 0 and dim % lanes == 0


def turn(sch: Schedule, block: Any, lanes: int) -> None:
    """Queries are read along their rows, in tiles that are turned in registers."""
    c, i = sch.get_loops(block)[-2:]
    c_0, c_1 = sch.split(c, [None, lanes])
    i_0, i_1 = sch.split(i, [None, lanes])
    sch.reorder(i_0, c_0, c_1, i_1)
    sch.unroll(c_1)
    sch.vectorize(i_1)


def scores(
    sch: Schedule, blocks: dict[str, Any], keys: int, vectors: int, lanes: int, target: Target
) -> None:
    """Tiles of keys x queries in registers; the mask is put on them there."""
    block = blocks["scores"]
    last = blocks.get("masked")
    if last is None:
        last = sch.cache_write(block, 0, "local")
    j, i, h = sch.get_loops(block)[-3:]
    rows = choose_tile(keys, None, target.vector_registers, vectors).rows
    j_0, _ = sch.split(j, [None, rows])
    sch.reorder(j_0, h, sch.get_loops(block)[-3], i)
    sch.reverse_compute_at(last, j_0, preserve_unit_loops=True)
    ask_for_bias(sch, last, j_0)
    start = sch.decompose_reduction(block, h)
    for made in (start, block, last):
        written_out(sch, made, lanes)


def ask_for_bias(sch: Schedule, masked: Any, tile: Any) -> None:
    """What is added to a tile of scores comes from memory while these are computed: a line of each
    key's, if queries lie last.
    """
    node = sch.get(masked)
    for region in node.reads[1:]:
        if region.region[-1].min is node.iter_vars[-1].var:
            sch.annotate(tile, PREFETCH, [region.buffer.data.name, 0])


def softmax(sch: Schedule, blocks: dict[str, Any], lanes: int) -> None:
    """Maxima, exponentials and their sums, for a vector of queries at once."""
    i, j = sch.get_loops(blocks["max"])[-2:]
    sch.reorder(j, i)
    key = sch.get_loops(blocks["exp"])[-2]
    sch.reverse_compute_at(blocks["norm"], key, preserve_unit_loops=True)
    sch.reorder(*reversed(sch.get_loops(blocks["norm"])[-2:]))  # one key, then the queries
    starts = [sch.decompose_reduction(blocks["max"], j)]
    starts.append(sch.decompose_reduction(blocks["norm"], key))
    for block in (*starts, *(blocks[n] for n in ("max", "exp", "norm", "inverse"))):
        written_out(sch, block, lanes, 1)


def results(sch: Schedule, blocks: dict[str, Any], dim: int, lanes: int, target: Target) -> None:
    """Tiles of queries x results in registers; what is stored has been divided."""
    block = blocks["sum"]
    i, d, t = sch.get_loops(block)[-3:]
    length = sch.get(i).extent.value
    pairs = 2 if dim % (2 * lanes) == 0 else 1
    most = choose_tile(length, None, target.vector_registers, pairs).rows
    rows = max(n for n in range(1, most + 1) if length % n == 0)
    i_0, i_1 = sch.split(i, [None, rows])
    d_0, d_1 = sch.split(d, [None, pairs * lanes])
    sch.reorder(i_0, d_0, t, i_1, d_1)
    sch.reverse_compute_at(blocks["attention"], d_0)
    start = sch.decompose_reduction(block, t)
    for made in (start, block, blocks["attention"]):
        written_out(sch, made, lanes)


def written_out(sch: Schedule, block: Any, lanes: int, loops: int = 2) -> None:
    """The innermost loops without a loop: the last one as vectors, the others unrolled."""
    *rows, last = sch.get_loops(block)[-loops:]
    vectors, lane = sch.split(last, [None, lanes])
    for loop in (*rows, vectors):
        sch.unroll(loop)
    sch.vectorize(lane)
