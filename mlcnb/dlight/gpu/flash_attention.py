"""flash_attention: softmax(Q K^T) V of halves on tensor cores; no score ever lies in memory.

scores of all queries and all keys            for tiles of keys:      cp.async, one tile ahead
softmax of all scores                ->           S = Q K^T           mma.sync
sum over all keys                                 running softmax     in registers
                                                  O += exp(S) V       mma.sync

A softmax as it is declared needs all scores before the first exponential. That a running one gives
the same is algebra, no step of a schedule: the kernel is a program of its own (`flash_program`),
put in the place of blocks that are compared with those of `nn.attention`. Exponentials are rounded
to the operands' dtype before the second product. Tiles of keys that a mask hides from all queries
of a block are skipped, so that an infinite value there does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.arith.reading import Context
from mlcnb.arith.sum import Sum
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.dlight.cpu.attention import is_attention
from mlcnb.dlight.gpu.threads import copies_asynchronously
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import Survey
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.target import Target
from mlcnb.tir.analysis.mma import SIDE, WARP
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.boxes import conjuncts, limit_of
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, SeqStmt, Stmt
from mlcnb.tir.tensor_intrin.ldmatrix import OWN

#: fewer queries leave too much of a fragment empty
LEAST = 16
#: longer keys or values do not find room in registers beside each other
LONGEST = 128
HALVES = ("float16", "bfloat16")


class Tile(NamedTuple):
    """What a block of threads computes at a time.

    Attributes:
        rows: fragments of 16 queries that a warp has.
        warps: of a block; a power of two.
        keys: of a tile, a multiple of 16.
    """

    rows: int
    warps: int
    keys: int

    @property
    def queries(self) -> int:
        """Queries of a block."""
        return self.rows * self.warps * SIDE

    def whole(self, columns: int) -> int:
        """Columns of a tile in shared memory: whole fragments, the same share for each thread."""
        step = max(SIDE, OWN * WARP * self.warps // self.keys)
        return -(-columns // step) * step


@dataclass(frozen=True)
class Attention:
    """What an attention is made of.

    Attributes:
        query, key, value: (batch, sequence, heads, elements) each, of one dtype.
        out: where the result is stored.
        result: (weighted sum, 1 / total, batch, head, query, column) -> what is stored.
        place: (batch, head, query, column) -> where.
        in_rows: neighbouring columns lie side by side there.
        score: (sum of products, batch, head, query, key) -> the score that counts.
        tiles: (first query of a block, tile) -> the first tile of keys that its queries see, and
            how many.
    """

    query: Buffer
    key: Buffer
    value: Buffer
    out: Buffer
    result: Callable[..., PrimExpr]
    place: Callable[..., Sequence[PrimExpr]]
    in_rows: bool
    score: Callable[..., PrimExpr]
    tiles: Callable[[Any, Tile], tuple[Any, Any]]

    @property
    def sizes(self) -> list[int]:
        """Batch, queries, keys, heads, elements of a key, elements of a value."""
        batch, queries, heads, dim = self.query.shape
        keys, found = self.key.shape[1], self.value.shape[3]
        return [p.as_int(x) or 0 for x in (batch, queries, keys, heads, dim, found)]


def flash_attention(
    sch: Schedule, survey: Survey, target: Target, by: Tile | None = None
) -> Schedule | bool:
    """Apply to the blocks of nn.attention of halves, all sizes known."""
    whole = next((b for b in survey.blocks if b.name == "attention"), None)
    after = [] if whole is None else survey.after(whole)
    info = {b.name.removeprefix("attention_"): b for b in survey.blocks if b not in after}
    if whole is None or not is_attention(info, 1):
        return no("no attention: it takes the blocks of nn.attention, all sizes known")
    if not copies_asynchronously(target):
        return no("the GPU is older than sm_80: no asynchronous copies, no products of 16 x 8 x 16")
    blocks = {name: block.node for name, block in info.items()}
    operands = [x for x in map(_half, (blocks[s] for s in ("query", "scores", "sum"))) if x]
    if len(operands) != 3 or len({str(x.dtype) for x in operands}) != 1:
        return no("query, key and value are no halves of one dtype")
    query, key, value = operands
    _, queries, _, dim = (p.as_int(x) or 0 for x in query.shape)
    longest = max(dim, p.as_int(value.shape[-1]) or 0)
    if queries < LEAST or longest > LONGEST:
        return no(f"{queries} queries of {longest}: at least {LEAST}, no longer than {LONGEST}")
    func = sch.mod[sch.func_working_on]
    if not _is_declared(func, blocks, operands):
        return no("blocks by the names of nn.attention do not do what it does")
    last = whole.handle
    for block in after:  # what is done with each result is done before it is stored
        sch.compute_inline(last)
        last = block.handle
    end = _end(sch.get(last), blocks, [*query.shape[:3], value.shape[3]])
    if end is None:
        return no("what follows the attention is not done element by element")
    from mlcnb.dlight.gpu.flash_program import FlashAttention  # reads programs

    parts = Attention(query, key, value, *end, *_masked(blocks))
    made = FlashAttention(parts, by or tile_for(queries, longest)).function()
    return Schedule(func.with_body(made.body))


def tile_for(queries: int, longest: int) -> Tile:
    """What finds room in registers, and no more warps than there is work for.

    A fragment of keys or values that is loaded serves all rows of a warp; two rows of 16 queries
    with longer results than 64 would not be kept in registers.
    """
    by = Tile(2, 4, 32) if longest <= 64 else Tile(1, 4 if longest <= 96 else 8, 32)
    while by.queries >= 2 * queries and by.rows * by.warps > 1:
        by = by._replace(rows=1) if by.rows > 1 else by._replace(warps=by.warps // 2)
    return by


def _half(block: Block) -> Buffer | None:
    """What a block reads of half precision, if it is one buffer."""
    found = {n.buffer for n in walk(block.body) if isinstance(n, BufferLoad)}
    halves = [b for b in found if b.dtype in HALVES]
    return halves[0] if len(halves) == 1 else None


def _is_declared(func: PrimFunc, blocks: dict[str, Block], operands: Sequence[Buffer]) -> bool:
    """True if the loops are those of `nn.attention`, with any mask between scores and softmax."""
    from mlcnb.op.nn import attention as declared  # all operators

    args = [te.placeholder(b.shape, str(b.dtype), b.name) for b in operands]
    op: Any = declared.Attention(scale=_factor(blocks["query"]))  # type: ignore[call-arg]
    keep = _copied if "masked" in blocks else _same
    index = str(blocks["query"].iter_vars[0].var.dtype)
    loops = te.create_prim_func([*args, op.attend(*args, keep)], index).body
    wanted = {n: _nest(loops, f"attention_{n}".removesuffix("_attention")) for n in blocks}
    found = {n: _nest(func.body, block.name_hint) for n, block in blocks.items()}
    mask = blocks.get("masked")
    if mask is not None:
        plain = _plain(mask, blocks["scores"])
        if plain is None:
            return False
        found["masked"] = rewrite(found["masked"], lambda n: plain if n is mask else None)
    one, other = (SeqStmt(tuple(x.values())) for x in (found, wanted))
    return structural_equal(one, other, map_free_vars=True)


def _factor(query: Block) -> float | None:
    """What queries are multiplied by."""
    found = (n.value for n in walk(query.body) if isinstance(n, e.FloatImm) and n.value)
    return next(found, None)


def _same(scores: Any) -> Any:
    return scores


def _copied(scores: Any) -> Any:
    return te.compute(scores.shape, lambda *at: scores(*at), name="attention_masked")


def _nest(body: Stmt, name: str) -> Stmt:
    """The statement of a function that has a block of this name in it."""
    root: Any = body.block.body if isinstance(body, BlockRealize) else body
    parts = root.seq if isinstance(root, SeqStmt) else (root,)
    return next(
        x for x in parts if any(isinstance(n, Block) and n.name_hint == name for n in walk(x))
    )


def _plain(mask: Block, scores: Block) -> Block | None:
    """The mask as a block that only copies the scores; None if it reads others than its own."""
    store, (made,) = mask.body, (r.buffer for r in scores.writes)
    axes = tuple(v.var for v in mask.iter_vars)
    own = BufferLoad(made, axes)
    loads = [n for n in walk(store) if isinstance(n, BufferLoad) and n.buffer is made]
    if not isinstance(store, BufferStore) or any(n.indices != axes for n in loads):
        return None
    reads = tuple(r for r in mask.reads if r.buffer is made)
    return replace(mask, body=replace(store, value=own), reads=reads)


def _end(
    last: Block, blocks: dict[str, Block], extents: Sequence[Any]
) -> tuple[Buffer, Callable[..., PrimExpr], Callable[..., Sequence[PrimExpr]], bool] | None:
    """Where a result is stored, what, and whether those of neighbouring columns lie side by side;
    None if it is not made of one sum.
    """
    store = last.body
    made, inverse = (blocks[n].writes[0].buffer for n in ("sum", "inverse"))
    loads = [n for n in walk(store) if isinstance(n, BufferLoad) and n.buffer in (made, inverse)]
    sums = [n.indices for n in loads if n.buffer is made]
    axes: Any = sums[0] if sums else ()
    known = {v.var: v.dom.extent for v in last.iter_vars}
    if not isinstance(store, BufferStore) or {*axes} != {*known} or len(axes) != len(extents):
        return None
    if any(n.indices != (axes if n.buffer is made else axes[:3]) for n in loads):
        return None
    b, n, i, d = axes
    wanted = dict(zip((b, i, n, d), extents, strict=True))
    if any(p.as_int(known[v]) != p.as_int(extent) for v, extent in wanted.items()):
        return None

    def result(total: PrimExpr, factor: PrimExpr, *at: PrimExpr) -> PrimExpr:
        def rule(x: Node) -> Node | None:
            if isinstance(x, BufferLoad) and x.buffer in (made, inverse):
                return total if x.buffer is made else factor
            return None

        return substitute(rewrite(store.value, rule), dict(zip(axes, at, strict=True)))

    def place(*at: PrimExpr) -> Sequence[PrimExpr]:
        return tuple(substitute(x, dict(zip(axes, at, strict=True))) for x in store.indices)

    return store.buffer, result, place, store.indices[-1] is d


def _masked(blocks: dict[str, Block]) -> tuple[Callable[..., PrimExpr], Callable[..., Any]]:
    """The score that counts, and which tiles of keys a block of queries sees."""
    scores, mask = blocks["scores"], blocks.get("masked")
    keys, scale = p.as_int(scores.iter_vars[2].dom.extent) or 0, _factor(blocks["query"])
    made = scores.writes[0].buffer
    b, n, j, i = axes = [v.var for v in (mask or scores).iter_vars[:4]]
    value: Any = BufferLoad(made, tuple(axes)) if mask is None else mask.body.value  # type: ignore[attr-defined]
    factor = p.const(1.0 if scale is None else scale)

    def score(total: PrimExpr, *at: PrimExpr) -> PrimExpr:
        def rule(x: Node) -> Node | None:
            return total * factor if isinstance(x, BufferLoad) and x.buffer is made else None

        return substitute(rewrite(value, rule), dict(zip((b, n, i, j), at, strict=True)))

    def tiles(first: PrimExpr, by: Tile) -> tuple[Any, Any]:
        begin, end = p.const(0), p.const(-(-keys // by.keys))
        for slope, limit, is_last in _limits(value, i, j):
            if is_last:
                key = (first + by.queries - 1) * slope + limit
                end = p.minimum(end, p.floordiv(key, by.keys) + 1)
            else:
                begin = p.maximum(begin, p.floordiv(first * slope + limit, by.keys))
        return begin, end - begin

    return score, tiles


def _limits(value: Any, i: Var, j: Var) -> Iterator[tuple[int, int, bool]]:
    """(a, c, True): query i sees no key behind a * i + c; False: none before. 0 <= a.

    Of conditions without which a score is -inf.
    """
    context = Context({i: (0, None), j: (0, None)})
    while isinstance(value, e.Select) and _is_hidden(value.false_value):
        for condition in conjuncts(value.condition):
            bounded, last = limit_of(condition, context) or (Sum(), Sum())
            slope, sign = (bounded.terms.get(v, 0) for v in (i, j))
            if not last.terms and {*bounded.terms} <= {i, j} and abs(sign) == 1:
                if slope * sign <= 0:
                    yield abs(slope), last.const * sign, sign == 1
        value = value.true_value


def _is_hidden(x: PrimExpr) -> bool:
    return isinstance(x, e.FloatImm) and x.value == float("-inf")
