"""InjectPTXAsyncCopy: copies to shared memory that a thread starts and goes on (`cp.async`).

with T.attr(0, "async_scope", 1):              T.ptx_cp_async("float16", S.data, i * 8,
    S[i * 8:i * 8 + 8] = A[k:k + 8]     ->                    A.data, k, 16)

Done for 4, 8 or 16 bytes that lie side by side in both and begin at a multiple of their size; other
stores stay as they are, and are done at once. A copy of zeros where a condition does not hold
(`T.if_then_else(c, A[…], 0)`) gets it as its predicate. Semantics: PTX ISA, "cp.async".
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.node import Node, map_children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import SHARED_SCOPES
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING
from mlcnb.tir.op.calls import ptx_cp_async
from mlcnb.tir.transform.async_pipeline import ASYNC_SCOPE

ASYNC_COPY = "tir.ptx_cp_async"
#: what orders a thread's asynchronous copies
ASYNC_QUEUE = ("tir.ptx_commit_group", "tir.ptx_wait_group")
#: bytes that one of them moves
SIZES = (4, 8, 16)


def inject_ptx_async_copy(func: PrimFunc) -> PrimFunc:
    """`func`, lowered, with `cp.async` in the place of copies in its asynchronous scopes."""
    if not any(_is_scope(n) for n in walk(func.body)):
        return func
    analyzer = Analyzer()
    for n in walk(func.body):
        if isinstance(n, s.For):
            analyzer.bind(n.loop_var, Range(n.min, n.extent))
        elif isinstance(n, s.AttrStmt) and isinstance(n.node, s.IterVar):
            analyzer.bind(n.node.var, n.node.dom or (p.const(0), n.value - 1))

    def visit(n: Any, inside: bool = False) -> Any:
        if isinstance(n, s.BufferStore):
            return (_copied(n, analyzer) or n) if inside else n
        if not isinstance(n, s.Stmt):
            return n
        if isinstance(n, s.AttrStmt) and _is_scope(n):
            return visit(n.body, True)
        return map_children(n, lambda child: visit(child, inside))

    return func.with_body(visit(func.body))


def _is_scope(n: Node) -> bool:
    return isinstance(n, s.AttrStmt) and n.attr_key == ASYNC_SCOPE


def _copied(store: s.BufferStore, analyzer: Analyzer) -> s.Stmt | None:
    """A store as an asynchronous copy; None where it is none that `cp.async` could do."""
    value: Any = store.value
    holds = None
    if isinstance(value, e.Call) and value.op == "tir.if_then_else":
        condition, value, other = value.args
        holds = _of_all_lanes(condition, analyzer)
        if holds is None or not _is_zero(other):
            return None
    if not isinstance(value, BufferLoad) or value.predicate or store.predicate:
        return None
    target, source = store.buffer, value.buffer
    if target.scope not in SHARED_SCOPES or source.scope != "global":
        return None
    lanes = store.indices[-1].dtype.fixed_lanes
    size = target.dtype.nbytes * lanes
    if target.dtype != source.dtype or target.dtype.lanes != 1 or size not in SIZES:
        return None
    to, start = (_first(x, lanes, analyzer) for x in (store, value))
    if to is None or start is None:
        return None
    return s.Evaluate(
        ptx_cp_async(str(target.dtype), target.data, to, source.data, start, size, holds)
    )


def _first(x: Any, lanes: int, analyzer: Analyzer) -> PrimExpr | None:
    """The place of the first of several elements that lie side by side, a multiple of them."""
    (index,) = x.indices if len(x.indices) == 1 else (None,)
    if index is None or (lanes == 1 and not isinstance(index, e.Ramp)):
        return index
    if not isinstance(index, e.Ramp) or index.dtype.lanes != lanes:
        return None
    step, start = analyzer.modular_set(index.base)
    aligned = step % lanes == 0 and start % lanes == 0
    return index.base if aligned and p.is_const(index.stride, 1) else None


def _of_all_lanes(condition: PrimExpr, analyzer: Analyzer) -> PrimExpr | None:
    """A condition as that of one lane, where all lanes agree; else None."""
    if condition.dtype.lanes == 1:
        return condition
    if isinstance(condition, e.Broadcast):
        return condition.value
    if isinstance(condition, e.And):
        parts = [_of_all_lanes(x, analyzer) for x in (condition.a, condition.b)]
        return None if None in parts else p.logical_and(*parts)
    if not isinstance(condition, e.LT | e.LE):
        return None
    ends = [_ends(x) for x in (condition.a, condition.b)]
    if None in ends:
        return None
    kind = type(condition)
    (a_0, a_1), (b_0, b_1) = ends  # type: ignore[misc]
    first, last = (analyzer.simplify(kind(a, b)) for a, b in ((a_0, b_0), (a_1, b_1)))
    same = analyzer.can_prove(p.logical_or(p.logical_not(first), last)) and analyzer.can_prove(
        p.logical_or(p.logical_not(last), first)
    )
    return first if same else None


def _ends(x: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """The first and the last lane of a vector."""
    if isinstance(x, e.Broadcast):
        return x.value, x.value
    if isinstance(x, e.Ramp) and isinstance(x.lanes, int):
        return x.base, p.add(x.base, p.multiply(x.stride, x.lanes - 1))
    return None


def _is_zero(x: PrimExpr) -> bool:
    x = x.value if isinstance(x, e.Broadcast) else x
    return p.is_const(x, 0)


def done_at_once(n: Any) -> s.Stmt | None:
    """What a statement of an asynchronous copy does without being one; None for any other."""
    call = n.value if isinstance(n, s.Evaluate) else None
    if not isinstance(call, e.Call):
        return None
    if call.op in ASYNC_QUEUE:
        return NOTHING
    return _as_store(call) if call.op == ASYNC_COPY else None


def _as_store(call: e.Call) -> s.BufferStore:
    """What an asynchronous copy does, done at once: zeros where its predicate does not hold."""
    to, at, source, start, size, *holds = call.args
    lanes = (p.as_int(size) or 0) // call.dtype.nbytes

    def place(data: Any, base: PrimExpr) -> tuple[Buffer, PrimExpr]:
        buffer = decl_buffer((p.const(2**31 - 1),), str(call.dtype), data.name, data=data)
        return buffer, base if lanes == 1 else e.Ramp(base, p.const(1, base.dtype), lanes)

    target, at = place(to, at)
    memory, start = place(source, start)
    value: PrimExpr = BufferLoad(memory, (start,))
    if holds:
        zero = p.const(0, call.dtype)
        value = p.if_then_else(holds[0], value, zero if lanes == 1 else e.Broadcast(zero, lanes))
    return s.BufferStore(target, value, (at,))


class InjectPTXAsyncCopy(PrimFuncPass):
    """Turn copies to shared memory in asynchronous scopes into `cp.async`."""

    work = staticmethod(inject_ptx_async_copy)
