"""Recognising reductions: `C[v] = C[v] + x` adds x, from 0.

matched_update(store)     the operator and x of an update, None if the store is none
matched_step(body)        the same of one step over one buffer or several, lets and all: argmax
stored([C[i] = x, …])     one store; or all values as lets, then the stores
identity(op, dtype)       where a reduction starts: 0, 1, the largest or smallest number
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import COMPARISONS
from mlcnb.ir.structural import structural_equal
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import nested


@dataclass(frozen=True)
class Reducer:
    """An associative and commutative operator, with the value that changes nothing."""

    name: str
    combine: Callable[[Any, Any], e.PrimExpr]
    identity: Callable[[str], e.PrimExpr]


REDUCERS: dict[type, Reducer] = {
    e.Add: Reducer("sum", p.add, lambda dtype: p.const(0, dtype)),
    e.Mul: Reducer("prod", p.multiply, lambda dtype: p.const(1, dtype)),
    e.Min: Reducer("min", p.minimum, p.max_value),
    e.Max: Reducer("max", p.maximum, p.min_value),
}


def matched_update(store: s.BufferStore) -> tuple[Reducer, e.PrimExpr] | None:
    """The reducer and the new value of `B[i] = B[i] op value`; None for any other store."""
    reducer = REDUCERS.get(type(store.value))
    if reducer is None:
        return None
    left, right = store.value.a, store.value.b  # type: ignore[attr-defined]
    for old, new in ((left, right), (right, left)):
        if is_element(old, store):
            return reducer, new
    return None


@dataclass(frozen=True)
class Step:
    """One step of a reduction that keeps one element of each of some buffers.

        x0 = T.Select(V[i] >= v, K[i], k)          stores    K[i] = x0, V[i] = x1
        x1 = T.Select(V[i] >= v, V[i], v)          values    k, v
        K[i], V[i] = x0, x1                        combine   what x0, x1 are of old and new values

    Attributes:
        name: sum, prod, min, max; for several buffers one name for each, or argmin, argmax.
        stores: the stores, in the order of the lets.
        values: what is combined with the old elements.
        in_order: of equal values the first one counts: steps may be grouped, but not swapped.
    """

    name: str
    stores: tuple[s.BufferStore, ...]
    values: tuple[e.PrimExpr, ...]
    combine: Callable[[Sequence[e.PrimExpr], Sequence[e.PrimExpr]], tuple[e.PrimExpr, ...]]
    in_order: bool = False


def matched_step(body: s.Stmt) -> Step | None:
    """The step of a reduction that a block's body is; None for any other body.

    With several buffers each new value is a let, and each let is stored in a buffer of its own.
    """
    lets: list[s.LetStmt] = []
    while isinstance(body, s.LetStmt):
        lets.append(body)
        body = body.body
    stores = _stores_of_lets(body, lets)
    found = [matched_update(x) for x in stores]
    step: Step | None = None
    if found and all(found):
        step = _apart(stores, [x for x in found if x])
    elif len(stores) == 2:
        step = _extremum(*stores)
    targets = {x.buffer for x in stores}
    if step is None or len(targets) != len(stores):
        return None
    alone = not any(_loads_any(v, targets) for v in step.values)
    return step if alone and _stand_together(stores) else None


def _stores_of_lets(body: s.Stmt, lets: Sequence[s.LetStmt]) -> list[s.BufferStore]:
    """The stores with the values of the lets in them, in the order of the lets; [] for anything
    else."""
    if not lets:
        return [body] if isinstance(body, s.BufferStore) else []
    seq = body.seq if isinstance(body, s.SeqStmt) else (body,)
    order = {let.var: n for n, let in enumerate(lets)}
    found: dict[int, s.BufferStore] = {}
    for store in seq:
        if not isinstance(store, s.BufferStore) or store.value not in order:
            return []
        place = order[store.value]  # type: ignore[index]
        found[place] = replace(store, value=lets[place].value)
    return [found[n] for n in sorted(found)] if len(found) == len(seq) == len(lets) else []


def _stand_together(stores: Sequence[Any]) -> bool:
    first = stores[0]
    return all(
        structural_equal(x.indices, first.indices)
        and structural_equal(x.buffer.shape, first.buffer.shape)
        for x in stores
    ) and not any(x.predicate is not None for x in stores)


def _loads_any(x: Node, buffers: set[Any]) -> bool:
    return any(isinstance(n, BufferLoad) and n.buffer in buffers for n in walk(x))


def _apart(stores: Sequence[s.BufferStore], found: Sequence[tuple[Reducer, e.PrimExpr]]) -> Step:
    """Each buffer is reduced for itself."""
    reducers = [reducer for reducer, _ in found]

    def combine(old: Sequence[e.PrimExpr], new: Sequence[e.PrimExpr]) -> tuple[e.PrimExpr, ...]:
        return tuple(r.combine(a, b) for r, a, b in zip(reducers, old, new, strict=True))

    name = " ".join(r.name for r in reducers)
    return Step(name, tuple(stores), tuple(value for _, value in found), combine)


#: comparisons of an old value with a new one: where they hold, the old one stays
_KEEPS: dict[type, str] = {e.GE: "max", e.GT: "max", e.LE: "min", e.LT: "min"}


def _extremum(first: s.BufferStore, second: s.BufferStore) -> Step | None:
    """The place and the value of a smallest or largest element."""
    for place, value in ((first, second), (second, first)):
        step = _at_extremum(place, value, place is first)
        if step is not None:
            return step
    return None


def _at_extremum(place: s.BufferStore, value: s.BufferStore, place_first: bool) -> Step | None:
    keep, chosen = value.value, place.value
    if not isinstance(keep, e.Select) or not isinstance(chosen, e.Select):
        return None
    kind = type(keep.condition)
    if kind not in _KEEPS or not (
        is_element(keep.true_value, value) and is_element(chosen.true_value, place)
    ):
        return None
    old, new = keep.true_value, keep.false_value
    if not structural_equal((keep.condition.a, keep.condition.b), (old, new)):  # type: ignore[attr-defined]
        return None
    strict = p.greater if _KEEPS[kind] == "max" else p.less
    told = structural_equal(chosen.condition, keep.condition)
    kept, given = chosen.true_value, chosen.false_value

    def lexical(a: Any, b: Any, at: Any, to: Any) -> e.PrimExpr:
        return p.logical_or(strict(a, b), p.logical_and(p.equal(a, b), p.less(at, to)))

    if told and kind not in (e.GE, e.LE):
        return None  # the last of equal ones: a part in which none is larger must not end it
    if not told and not structural_equal(chosen.condition, lexical(old, new, kept, given)):
        return None

    def combine(
        before: Sequence[e.PrimExpr], after: Sequence[e.PrimExpr]
    ) -> tuple[e.PrimExpr, ...]:
        at, a = before if place_first else before[::-1]
        to, b = after if place_first else after[::-1]
        by_value = COMPARISONS[kind](a, b)
        by_place = by_value if told else lexical(a, b, at, to)
        both = e.Select(by_place, at, to), e.Select(by_value, a, b)
        return both if place_first else both[::-1]

    stores, values = (
        ((place, value), (given, new)) if place_first else ((value, place), (new, given))
    )
    return Step(f"arg{_KEEPS[kind]}", stores, values, combine, in_order=told)


def stored(stores: Sequence[s.BufferStore]) -> s.Stmt:
    """One store; or all values first, as lets, and then the stores."""
    if len(stores) == 1:
        return stores[0]
    names = [e.Var(f"v_{x.buffer.name}", x.value.dtype) for x in stores]
    body: s.Stmt = s.seq(*(replace(x, value=v) for x, v in zip(stores, names, strict=True)))
    return nested((s.LetStmt(v, x.value, body) for v, x in zip(names, stores, strict=True)), body)


def is_element(x: e.PrimExpr, store: s.BufferStore) -> bool:
    """True if it is the element that the store writes, as it was."""
    return (
        isinstance(x, BufferLoad)
        and x.buffer is store.buffer
        and structural_equal(x.indices, store.indices)
    )


def is_neutral(reducer: Reducer, value: e.PrimExpr) -> bool:
    """True if combining with `value` changes nothing: for max and min, infinity too."""
    if structural_equal(value, reducer.identity(value.dtype)):
        return True
    infinite = isinstance(value, e.FloatImm) and math.isinf(value.value)
    return infinite and reducer.name == ("min" if value.value > 0 else "max")  # type: ignore[attr-defined]


def init_of(block: s.Block) -> s.Block:
    """The init of a reduction block as a block of its own, its reads left open."""
    return replace(
        block,
        reads=(),
        name_hint=f"{block.name_hint}_init",
        body=block.init,
        init=None,
        alloc_buffers=(),
        match_buffers=(),
    )


def update_of(block: s.Block) -> s.Block:
    """A reduction block without its init: it reads what it updates, and not what the init reads."""
    update = replace(block, init=None)
    used = {r.buffer for r in detect_buffer_access(update)[0]}
    named = [r for r in block.reads if r.buffer in used]
    old_values = [r for r in block.writes if r.buffer not in {x.buffer for x in named}]
    return replace(update, reads=(*old_values, *named))
