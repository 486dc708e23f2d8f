"""Reductions: which updates combine a new value with the old one, and with what.

C[v] = C[v] + A[v, k]                    sum, from 0
C[v] = T.max(C[v], A[v, k])              max, from the smallest number
i[v], m[v] = combine((i[v], m[v]), …)    several values at once (argmax)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.core.node import children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import FOLDING, Binary
from mlcnb.ir.structural import structural_equal
from mlcnb.tir import stmt as s
from mlcnb.tir.access.scope import Access
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.reducers import REDUCERS, is_element, is_neutral

_NAMES: dict[type, str] = {
    **{kind: reducer.name for kind, reducer in REDUCERS.items()},
    e.And: "all",
    e.Or: "any",
}


@dataclass(frozen=True, slots=True)
class ReductionPattern:
    """What a block reduces.

    reducer: "sum", "prod", "min", "max", "all", "any", or "custom" for several values at once;
    buffers: what it updates; values: the new values; identity: what `init` stores, None for a
    block without init; axes: its reduce axes; is_sound: the init stores what changes nothing.
    """

    reducer: str
    buffers: tuple[Buffer, ...]
    values: tuple[PrimExpr, ...]
    identity: tuple[PrimExpr, ...] | None
    axes: tuple[s.IterVar, ...]
    is_sound: bool


_BUILD: dict[type, Binary] = {
    kind: FOLDING[kind] for kind in (e.Add, e.Mul, e.Min, e.Max, e.And, e.Or)
}


def reduction_pattern(block: s.Block) -> ReductionPattern | None:
    """The reduction that a block makes; None where it makes none that is understood."""
    axes = tuple(v for v in block.iter_vars if v.iter_type is s.IterType.REDUCE)
    stores = _stores(block.body)
    if not stores:
        return None
    inits = _stores(block.init) if block.init is not None else None
    identity = None if inits is None else tuple(store.value for store in inits)
    buffers = tuple(store.buffer for store in stores)
    if len(stores) == 1:
        found = matched_update(stores[0])
        if found is None:
            return None
        name, value = found
        sound = identity is None or (
            len(identity) == 1 and _is_identity(type(stores[0].value), identity[0])
        )
        return ReductionPattern(name, buffers, (value,), identity, axes, sound)
    if not (axes and inits) or not _reads_all(block.body, stores):
        return None
    values = tuple(store.value for store in stores)
    return ReductionPattern("custom", buffers, values, identity, axes, True)


def _stores(n: Any) -> list[s.BufferStore]:
    """The stores of a body of stores, under lets; [] for any other body."""
    if isinstance(n, s.BufferStore):
        return [n]
    if isinstance(n, s.LetStmt):
        return _stores(n.body)
    if isinstance(n, s.SeqStmt):
        parts = [_stores(part) for part in n.seq]
        return [x for part in parts for x in part] if all(parts) else []
    return []


def _reads_all(body: s.Stmt, stores: list[s.BufferStore]) -> bool:
    """True if each of the stored elements is read as well."""
    loads = [n for n in walk(body) if isinstance(n, BufferLoad)]
    return all(any(is_element(load, store) for load in loads) for store in stores)


def matched_update(store: s.BufferStore) -> tuple[str, PrimExpr] | None:
    """(reducer, new value) of `B[i] = B[i] op value`; None for any other store.

    In a chain `(x + B[i]) + y` the rest `x + y` is the new value. The new value does not read the
    element.
    """
    kind = type(store.value)
    if kind not in _NAMES:
        return None
    operands = _chain(store.value, kind)
    old = [x for x in operands if is_element(x, store)]
    rest = [x for x in operands if not is_element(x, store)]
    if len(old) != 1 or not rest or any(_reads(x, store.buffer) for x in rest):
        return None
    value = rest[0]
    for x in rest[1:]:
        value = _BUILD[kind](value, x)
    return _NAMES[kind], value


def _chain(x: PrimExpr, kind: type) -> list[PrimExpr]:
    """The operands of a chain of one operator, in order."""
    if type(x) is not kind:
        return [x]
    return [*_chain(x.a, kind), *_chain(x.b, kind)]  # type: ignore[attr-defined]


def _reads(x: Any, buffer: Buffer) -> bool:
    if isinstance(x, BufferLoad) and x.buffer.data is buffer.data:
        return True
    return any(_reads(n, buffer) for n in children(x) if not isinstance(n, Buffer))


def _is_identity(kind: type, value: PrimExpr) -> bool:
    """True if a value changes nothing."""
    if kind in (e.And, e.Or):
        return p.is_const(value, int(kind is e.And))
    return is_neutral(REDUCERS[kind], value)


def updated_by(source: Access, target: Access) -> bool:
    """True if two accesses are the old value and the new one of one update `B = B op x`."""
    stores = [x.node for x in (source, target) if isinstance(x.node, s.BufferStore)]
    if not stores or source.block is not target.block or len(set(stores)) != 1:
        return False
    store = stores[0]
    if matched_update(store) is None:
        return False
    return all(x.node is store or is_element(x.node, store) for x in (source, target))


def first_step(block: s.Block) -> PrimExpr:
    """The condition under which all reduce axes of a block are at their start."""
    reduced = (v for v in block.iter_vars if v.iter_type is s.IterType.REDUCE)
    return p.all_of(*(p.equal(v.var, v.dom.min) for v in reduced))


def started_buffers(block: s.Block) -> set[Buffer]:
    """Buffers of which a block reads only what it wrote itself, from its first step on.

    They are what its init writes: as `init`, or as the branch that `LowerInitBlock` makes of it,
    where that writes all that the block says it writes.
    """
    if block.init is not None:
        return {region.buffer for region in block.writes}
    start = block.body.seq[0] if isinstance(block.body, s.SeqStmt) else None
    if not (
        isinstance(start, s.IfThenElse)
        and start.else_case is None
        and structural_equal(start.condition, first_step(block))
    ):
        return set()
    _, stored = detect_buffer_access(replace(block, body=start.then_case))
    return {r.buffer for r in stored if any(structural_equal(r, x) for x in block.writes)}
