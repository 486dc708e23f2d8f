"""TransposeTile: vectors that gather side by side are loaded as rows, and turned in registers.

for j in T.unroll(4):                           r0 = A[k:k + 4]             # 4 rows, as they lie
    B[j * 4:j * 4 + 4] = A[k + j:…:9]    ->     …
                                                s0 = T.Shuffle([r0, r1], [0, 4, 1, 5])
                                                …                           # 8 shuffles
                                                B[0:4] = c0
                                                …                           # 4 columns

Lane r of each vector comes from row r, and the vectors begin one element after the other: so a tile
of 16 x 16 costs 16 loads, 64 shuffles and 16 stores in place of 256 loads of single elements. The
shuffles are those that x86 and ARM have: pairs within four lanes, then fours among vectors.

Vectors that are stored between each other, as the channels of a pixel are, are put together first:

for c in T.unroll(3):                           v0 = A[0:16]; v1 = …; v2 = …
    B[c:…:3] = A[c * 784:c * 784 + 16]   ->     B[0:16] = T.Shuffle([T.Shuffle([v0, v1], …), v2], …)
                                                B[16:32] = …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mlcnb.arith import simplify
from mlcnb.arith.reading import of
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import nested, rewrite_statements, substitute
from mlcnb.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt, seq

#: vectors that are put together, at most: each result takes as many shuffles, less one
MOST_BETWEEN = 8
#: loads of one store that are turned: each has as many vectors as a tile has columns
MOST_TURNED = 3
BYTE = DType("uint8")


def transpose_tiles(func: PrimFunc) -> PrimFunc:
    """`func` with such loops written as loads of rows, shuffles, and stores of columns."""
    return func.with_body(rewrite_statements(func.body, _transposed))


class _NoLane(Exception):
    """Raised inside where an expression is not made of ramps."""


def _transposed(n: Node) -> Stmt | None:
    if not isinstance(n, For) or n.kind is not ForKind.UNROLLED or p.as_int(n.min) != 0:
        return None
    between = _between(n)
    if between is not None:
        return between
    store, count = _store_and_count(n)
    loads = [] if store is None else _gathered(store, n.loop_var)
    if store is None or not loads or not 2 <= count <= loads[0].dtype.lanes:
        return None
    lanes = range(loads[0].dtype.lanes)
    try:
        rows = [[_row(load, lane, n.loop_var, count) for lane in lanes] for load in loads]
    except _NoLane:
        return None
    return _tile(n.loop_var, store, list(zip(loads, rows, strict=True)), count)


def _store_and_count(n: For) -> tuple[BufferStore | None, int]:
    """The store that is the body, and for how many of the first iterations it is done."""
    count, body = p.as_int(n.extent) or 0, n.body
    if isinstance(body, IfThenElse) and body.else_case is None and count <= 64:
        values = [_value_at(body.condition, n.loop_var, j) for j in range(count)]
        count = values.index(0) if 0 in values else count
        decided = all(v == (j < count) for j, v in enumerate(values))
        body = body.then_case if decided else body
    return (body if isinstance(body, BufferStore) else None), count


def _value_at(condition: e.PrimExpr, var: e.Var, j: int) -> int | None:
    return p.as_int(simplify(substitute(condition, {var: p.const(j, var.dtype)})))


def _gathered(store: BufferStore, var: e.Var) -> list[BufferLoad]:
    """The loads whose lanes do not lie together, each once; they read another buffer than is
    written. None where there are too many, or one that cannot be turned.
    """
    loads = [x for x in walk(store.value) if isinstance(x, BufferLoad)]
    gathers = [x for x in loads if x.dtype.lanes > 1 and not _lies_together(x)]
    gathers = distinct(gathers)
    if len(gathers) > MOST_TURNED or any(x.buffer.data is store.buffer.data for x in loads):
        return []
    return gathers if all(_can_turn(x, store, var) for x in gathers) else []


def distinct(loads: Iterable[BufferLoad]) -> list[BufferLoad]:
    """Those that are not the same element of the same buffer as one before."""
    found: list[BufferLoad] = []
    for load in loads:
        if not any(_is_same(load, x) for x in found):
            found.append(load)
    return found


def _is_same(a: Any, b: BufferLoad) -> bool:
    return isinstance(a, BufferLoad) and a.buffer is b.buffer and structural_equal(a, b)


def _can_turn(load: BufferLoad, store: BufferStore, var: e.Var) -> bool:
    lanes, kind = load.dtype.lanes, load.buffer.dtype
    known = kind.lanes == 1 and lanes in (4, 8, 16) and turns(kind)
    return known and not _mentions(load, store, var)


def turns(kind: DType) -> bool:
    """True for elements that fill bytes, words or two words; bool values are turned as bytes."""
    return kind.is_bool or kind.bits in (8, 16, 32, 64)


def _lies_together(load: BufferLoad) -> bool:
    place = load.indices[-1]
    return isinstance(place, e.Ramp) and p.as_int(place.stride) == 1


def _mentions(load: BufferLoad, store: BufferStore, var: e.Var) -> bool:
    """True if a mask changes from one vector to the next."""
    masks = [x for x in (load.predicate, store.predicate) if x is not None]
    return any(n is var for mask in masks for n in walk(mask))


def _row(load: BufferLoad, lane: int, var: e.Var, count: int) -> e.PrimExpr:
    """What lane `lane` of the vectors is read from: `count` elements, or zeros where masked."""
    start = simplify(_lane(load.indices[0], lane))
    form = of(start)
    if form.terms.get(var) != 1 or form.without(var).uses({var}):
        raise _NoLane
    kind = load.buffer.dtype.with_lanes(count)
    first = simplify(substitute(start, {var: p.const(0, var.dtype)}))
    row: e.PrimExpr = BufferLoad(load.buffer, (e.Ramp(first, p.const(1, first.dtype), count),))
    if load.predicate is not None:
        zeros = e.Broadcast(p.const(0, load.buffer.dtype), count)
        held = simplify(_lane(load.predicate, lane))
        if not p.is_const(held, 1):
            chosen = e.Call(kind, "tir.if_then_else", (held, row, zeros))
            row = zeros if p.is_const(held, 0) else chosen
    return e.Cast(BYTE.with_lanes(count), row) if kind.is_bool else row


def _lane(x: Any, lane: int) -> Any:
    """One lane of an expression of ramps, as a scalar."""
    if x.dtype.lanes == 1:
        return x
    match x:
        case e.Ramp():
            return x.base + x.stride * lane
        case e.Broadcast():
            return x.value
        case e.Cast():
            return e.Cast(x.dtype.element, _lane(x.value, lane))
    if not hasattr(x, "a") or not hasattr(x, "b"):
        raise _NoLane
    return type(x)(_lane(x.a, lane), _lane(x.b, lane))


def _tile(
    var: e.Var,
    store: BufferStore,
    loads: Sequence[tuple[BufferLoad, list[e.PrimExpr]]],
    count: int,
) -> Stmt:
    """Rows, shuffles and columns of each load, and the stores, as one statement."""
    lets: list[tuple[e.Var, e.PrimExpr]] = []

    def named(value: e.PrimExpr, name: str) -> e.Var:
        lets.append((e.Var(f"{name}{len(lets)}", value.dtype), value))
        return lets[-1][0]

    def columns_of(load: BufferLoad, rows: Sequence[e.PrimExpr]) -> list[Any]:
        lanes = load.dtype.lanes
        whole = [named(row, "row") for row in rows]
        if count < lanes:
            every = [i % count for i in range(lanes)]
            whole = [named(_pick((row,), every), "row") for row in whole]
        columns = transposed(whole, lambda a, b, lanes: named(_pick((a, b), lanes), "part"))
        return [e.Cast(load.dtype, c) for c in columns] if load.dtype.is_bool else columns

    turned = [(load, columns_of(load, rows)) for load, rows in loads]
    stores = [_with_columns(store, turned, var, j) for j in range(count)]
    body = seq(*stores)
    return nested((LetStmt(name, value, body, store.span) for name, value in lets), body)


def _pick(vectors: tuple[e.PrimExpr, ...], lanes: Sequence[int]) -> e.Shuffle:
    return e.Shuffle(vectors, tuple(p.const(i, "int32") for i in lanes))


def _with_columns(
    store: BufferStore, turned: Sequence[tuple[BufferLoad, list[Any]]], var: e.Var, j: int
) -> BufferStore:
    """The store of one iteration, on columns in place of the loads."""
    value = rewrite(
        store.value, lambda n: next((c[j] for load, c in turned if _is_same(n, load)), None)
    )
    made = replace(store, value=value)
    return substitute(made, {var: p.const(j, var.dtype)})


def transposed(rows: Sequence[Any], pick: Callable[[Any, Any, list[int]], Any]) -> list[Any]:
    """The columns of 4, 8 or 16 rows of as many lanes; `pick(a, b, lanes)` shuffles two vectors.

    First the columns of each four rows, in groups of four lanes: group g of quad[q][m] is column
    4 * g + m of rows 4 * q to 4 * q + 3. Then groups go where they belong.
    """
    lanes = len(rows)
    groups = range(0, lanes, 4)
    low = [i for g in groups for i in (g, g + lanes, g + 1, g + lanes + 1)]
    high = [i + 2 for i in low]
    left = [i for g in groups for i in (g, g + 1, g + lanes, g + lanes + 1)]
    right = [i + 2 for i in left]
    quads = []
    for q in range(0, lanes, 4):
        a, b, c, d = rows[q : q + 4]
        ab, cd = pick(a, b, low), pick(c, d, low)
        above, below = pick(a, b, high), pick(c, d, high)
        pairs = [(ab, cd), (above, below)]
        quads.append([pick(x, y, half) for x, y in pairs for half in (left, right)])
    columns: list[Any] = [None] * lanes
    for m in range(4):
        for g, column in enumerate(_grouped([quad[m] for quad in quads], lanes, pick)):
            columns[4 * g + m] = column
    return columns


def _grouped(vectors: list[Any], lanes: int, pick: Any) -> list[Any]:
    """Group g of every vector, for each g: a transposition whose elements are groups of four."""
    if len(vectors) == 1:
        return vectors
    half = lanes // 4 // 2

    def every_other(a: Any, b: Any, odd: int) -> Any:
        chosen = [2 * g + odd for g in range(half)]
        one = [4 * g + i for g in chosen for i in range(4)]
        return pick(a, b, one + [lanes + i for i in one])

    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    even, odd = ([every_other(a, b, k) for a, b in pairs] for k in (0, 1))
    if len(pairs) == 1:
        return [even[0], odd[0]]
    return [every_other(a, b, k) for k in (0, 1) for a, b in (even, odd)]


def _between(n: For) -> Stmt | None:
    """The vectors of all iterations put together, where each is stored between the others."""
    store, count = n.body, p.as_int(n.extent) or 0
    if not isinstance(store, BufferStore) or not 2 <= count <= MOST_BETWEEN:
        return None
    place, lanes = store.indices[0], store.value.dtype.lanes
    if len(store.indices) > 1 or not isinstance(place, e.Ramp) or p.as_int(place.stride) != count:
        return None
    loads = [x for x in walk(store.value) if isinstance(x, BufferLoad)]
    form = of(simplify(place.base))
    begins = form.terms.get(n.loop_var) == 1 and not form.without(n.loop_var).uses({n.loop_var})
    reads_own = any(x.buffer.data is store.buffer.data for x in loads)
    if not begins or reads_own or not _is_edge(store.predicate, n.loop_var):
        return None
    together = all(_lies_together(x) for x in loads if x.dtype.lanes > 1)
    if lanes not in (4, 8, 16) or not together or has_effect(store.value):
        return None

    def at(j: int, part: Any) -> Any:
        return substitute(part, {n.loop_var: p.const(j, n.loop_var.dtype)})

    values = [at(j, store.value) for j in range(count)]
    lets = [(e.Var(f"v{j}", value.dtype), value) for j, value in enumerate(values)]

    def named(value: e.PrimExpr) -> e.Var:
        lets.append((e.Var(f"part{len(lets)}", value.dtype), value))
        return lets[-1][0]

    first = simplify(at(0, place.base))
    one = p.const(1, first.dtype)
    made = _put_together([name for name, _ in lets], named)
    body = seq(
        *(
            replace(
                store,
                value=value,
                indices=(e.Ramp(first + k * lanes, one, lanes),),
                predicate=_edge(store.predicate, count, k),
            )
            for k, value in enumerate(made)
        )
    )
    return nested((LetStmt(name, value, body, store.span) for name, value in lets), body)


def _is_edge(mask: Any, var: e.Var) -> bool:
    """True for no mask, and for one of the first lanes, the same in all iterations."""
    match mask:
        case e.LT(e.Ramp(stride=e.IntImm(1)), e.Broadcast()):
            return all(n is not var for n in walk(mask))
        case _:
            return mask is None


def _edge(mask: Any, count: int, k: int) -> Any:
    """That mask for vector k of `count` that are put together."""
    if mask is None:
        return None
    base, bound, lanes = mask.a.base, mask.b.value, mask.a.lanes
    start = simplify(base * count + k * lanes)
    return e.LT(e.Ramp(start, mask.a.stride, lanes), e.Broadcast(simplify(bound * count), lanes))


def _put_together(vectors: Sequence[Any], named: Callable[[Any], Any]) -> list[Any]:
    """The vectors in which lane i of vector j has number i * count + j, count of them.

    An even number in halves that are put together first, each vector of which serves two.
    """
    count, lanes = len(vectors), vectors[0].dtype.lanes
    if count % 2 == 0:
        halves = [_put_together(vectors[k::2], named) for k in (0, 1)]
        if count > 2:
            halves = [[named(x) for x in half] for half in halves]
        zipped = [[n // 2 + lanes * (n % 2) for n in range(k, k + lanes)] for k in (0, lanes)]
        return [_pick(pair, wanted) for pair in zip(*halves, strict=True) for wanted in zipped]
    return [_one_by_one(vectors, range(k * lanes, (k + 1) * lanes)) for k in range(count)]


def _one_by_one(vectors: Sequence[Any], wanted: Sequence[int]) -> Any:
    """Some of the lanes, where lane i of vector j has number i * count + j."""
    count, lanes = len(vectors), vectors[0].dtype.lanes
    made: Any = vectors[0]
    for j in range(1, count):
        before = [n // count if j == 1 and n % count == 0 else i for i, n in enumerate(wanted)]
        picks = [
            lanes + n // count if n % count == j else b for n, b in zip(wanted, before, strict=True)
        ]
        made = _pick((made, vectors[j]), picks)
    return made


class TransposeTile(PrimFuncPass):
    """Load vectors that gather side by side as rows, and turn them in registers."""

    work = staticmethod(transpose_tiles)
