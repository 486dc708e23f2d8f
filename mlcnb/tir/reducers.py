"""Recognising reductions: `C[v] = C[v] + x` adds x, from 0.

matched_update(store)     the operator and x of an update, None if the store is none
identity(op, dtype)       where a reduction starts: 0, 1, the largest or smallest number
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.buffer import BufferLoad


@dataclass(frozen=True)
class Reducer:
    """An associative and commutative operator, with the value that changes nothing."""

    name: str
    combine: Callable[[Any, Any], e.PrimExpr]
    identity: Callable[[str], e.PrimExpr]


def _zero(dtype: str) -> e.PrimExpr:
    return p.const(0, dtype)


def _one(dtype: str) -> e.PrimExpr:
    return p.const(1, dtype)


REDUCERS: dict[type, Reducer] = {
    e.Add: Reducer("sum", p.add, _zero),
    e.Mul: Reducer("prod", p.multiply, _one),
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
        if isinstance(old, BufferLoad) and old.buffer is store.buffer:
            if structural_equal(old.indices, store.indices):
                return reducer, new
    return None


def is_neutral(reducer: Reducer, value: e.PrimExpr) -> bool:
    """True if combining with `value` changes nothing: for max and min, infinity too."""
    if structural_equal(value, reducer.identity(value.dtype)):
        return True
    infinite = isinstance(value, e.FloatImm) and math.isinf(value.value)
    return infinite and reducer.name == ("min" if value.value > 0 else "max")  # type: ignore[attr-defined]


def update_of(block: s.Block) -> s.Block:
    """A reduction block without its init: it reads what it updates, and not what the init reads."""
    update = replace(block, init=None)
    used = {r.buffer for r in detect_buffer_access(update)[0]}
    named = [r for r in block.reads if r.buffer in used]
    old_values = [r for r in block.writes if r.buffer not in {x.buffer for x in named}]
    return replace(update, reads=(*old_values, *named))
