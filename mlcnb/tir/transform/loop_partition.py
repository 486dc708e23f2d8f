"""LoopPartition: a test that holds for most of a loop is moved out of it.

for i in range(8):                              for i in range(7):
    for j in T.unroll(4):                           for j in T.unroll(4):
        if i * 4 + j < 30:               ->             A[i * 4 + j] = 0
            A[i * 4 + j] = 0                    for j in T.unroll(4):
                                                    if 28 + j < 30:
                                                        A[28 + j] = 0

Only serial and parallel loops of constant extent are cut. The long part is free of the test; what
fails at the beginning (the left edge of an image, `1 <= i * 4 + j`) is cut off likewise, where the
test depends on nothing but the loop and on loops that are written out. `Simplify` then removes what
is decided.

for i in T.serial(56, annotations={"pragma_loop_partition_hint": True}):
    A[i] = T.if_then_else(1 <= i * 2 and i * 2 < 100, B[i * 2 - 1], 0)

A loop with that hint (TVM's name) is cut for the tests inside of values too, and at both ends: what
pads is left to the short parts, and the long one in the middle has no test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.core.node import Node, children, replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.linear import Linear, interval
from mlcnb.tir.stmt import Block, BlockRealize, For, ForKind, IfThenElse, Stmt, flattened, seq

Bounds = dict[e.Var, "tuple[int, int] | None"]

#: loops that leave copies of their body behind
WRITTEN_OUT = (ForKind.UNROLLED, ForKind.VECTORIZED)

#: the annotation of a loop that is to be cut at both ends
HINT = "pragma_loop_partition_hint"


def partition_loops(func: PrimFunc) -> PrimFunc:
    """`func` with loops cut where a condition on their variable changes from certain to not."""
    return func.with_body(rewrite_statements(func.body, _partition))


def _partition(n: Node) -> Node | None:
    if not isinstance(n, For) or n.kind not in (ForKind.SERIAL, ForKind.PARALLEL):
        return flattened(n)
    start, extent = p.as_int(n.min), p.as_int(n.extent)
    if start is None or extent is None or extent < 2 or is_left_early(n.body):
        return None
    stop = start + extent
    if HINT in n.annotations:
        return _hinted(n, start, stop)
    first, last = _certain_range(n, start, stop)
    if first == start and last == stop:
        return None
    parts = [_part(n, n.body, start, first)] if first > start else []
    parts.append(_part(n, _certain(n, first, last), first, last))
    parts += [_part(n, n.body, last, stop)] if last < stop else []
    return seq(*parts)


def _hinted(n: For, start: int, stop: int) -> Stmt:
    """Up to three loops: that in the middle has all tests on the variable alone decided."""
    n = replace(n, annotations={k: v for k, v in n.annotations.items() if k != HINT})
    low, high = start, stop
    for first, last in _tests(n.body, n.loop_var, {}):
        low, high = max(low, first), min(high, last + 1)
    if low >= high or (low, high) == (start, stop):
        return n
    cuts = sorted({start, low, high, stop})
    return seq(*(_part(n, n.body, a, b) for a, b in zip(cuts, cuts[1:], strict=False)))


def _tests(n: Any, var: e.Var, inner: Bounds) -> Iterator[tuple[int, int]]:
    """First and last value of `var` for which a test below holds, where that is more than none."""
    if isinstance(n, For):
        inner = {**inner, n.loop_var: _range_of(n)}
    condition = getattr(n, "condition", None)
    if isinstance(n, e.Call) and n.op == "tir.if_then_else":
        condition = n.args[0]
    for part in _conjuncts(condition) if condition is not None else ():
        found = _holds_between(part, var, inner)
        if found is not None:
            yield found
    for child in children(n):
        yield from _tests(child, var, inner)


def _holds_between(condition: e.PrimExpr, var: e.Var, inner: Bounds) -> tuple[int, int] | None:
    """The values of `var` for which `a < b` or `a <= b` holds whatever the inner loops."""
    if not isinstance(condition, e.LT | e.LE):
        return None
    bounds = interval(condition.a - condition.b, inner)
    high = None if bounds is None else bounds[1].plus(Linear(isinstance(condition, e.LT)))
    if high is None or set(high.terms) != {var}:
        return None
    factor, unbounded = high.terms[var], 1 << 62
    if factor > 0:
        return -unbounded, -high.constant // factor
    return -(-high.constant // -factor), unbounded


def _certain_range(n: For, start: int, stop: int) -> tuple[int, int]:
    """Where tests that fail at the loop's ends hold: all of it, if there are none."""
    ends = [c for c in _certain_until(n.body, n.loop_var, {}) if start < c < stop]
    last = min(ends, default=stop)
    starts = [c for c in _certain_from(n.body, n.loop_var, {}) if start < c < last]
    return max(starts, default=start), last


def _part(n: For, body: Stmt, first: int, last: int) -> Stmt:
    """The loop from `first` to before `last`, with a variable of its own."""
    if first == p.as_int(n.min):
        return replace(n, extent=p.const(last - first, n.extent.dtype), body=body)
    if last - first == 1:
        return substitute(body, {n.loop_var: p.const(first, n.loop_var.dtype)})
    fresh = e.Var(n.loop_var.name, n.loop_var.dtype)
    return replace(
        n,
        loop_var=fresh,
        min=p.const(first, n.min.dtype),
        extent=p.const(last - first, n.extent.dtype),
        body=substitute(body, {n.loop_var: fresh}),
    )


def _certain_from(n: Node, var: e.Var, inner: Bounds) -> Iterator[int]:
    """For each test below that fails for small values of `var`: the first at which it holds.

    Below an inner loop that stays a loop, a test is that loop's to lose.
    """
    if isinstance(n, IfThenElse):
        for part in _conjuncts(n.condition):
            since = _holds_from(part, var, inner)
            if since is not None:
                yield since
    if isinstance(n, For):
        inner = {**inner, n.loop_var: _range_of(n) if n.kind in WRITTEN_OUT else None}
    for child in children(n):
        if isinstance(child, Stmt | Block | BlockRealize):
            yield from _certain_from(child, var, inner)


def _holds_from(condition: e.PrimExpr, var: e.Var, inner: Bounds) -> int | None:
    """`limit <= var * c + rest` holds for all inner loops from this value of var on; else None."""
    if not isinstance(condition, e.LT | e.LE) or not isinstance(condition.a, e.IntImm):
        return None
    bounds = interval(condition.b, inner)
    if bounds is None:
        return None
    low = bounds[0]
    factor = low.terms.get(var, 0)
    if factor <= 0 or len(low.terms) != 1:
        return None
    limit = condition.a.value + (1 if isinstance(condition, e.LT) else 0)
    return -((low.constant - limit) // factor)


def _certain_until(n: Node, var: e.Var, inner: Bounds) -> Iterator[int]:
    """For each condition below: the first value of `var` at which it may fail."""
    if isinstance(n, IfThenElse):
        for part in _conjuncts(n.condition):
            until = _holds_until(part, var, inner)
            if until is not None:
                yield until
    if isinstance(n, For):
        inner = {**inner, n.loop_var: _range_of(n)}
    for child in children(n):
        if isinstance(child, Stmt | Block | BlockRealize):
            yield from _certain_until(child, var, inner)


def _range_of(loop: For) -> tuple[int, int] | None:
    start, extent = p.as_int(loop.min), p.as_int(loop.extent)
    return None if start is None or extent is None else (start, start + extent - 1)


def _conjuncts(condition: e.PrimExpr) -> Iterator[e.PrimExpr]:
    if isinstance(condition, e.And):
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    else:
        yield condition


def _holds_until(condition: e.PrimExpr, var: e.Var, inner: Bounds) -> int | None:
    """`var * c + rest < limit` holds for all inner loops while var is below this; else None."""
    if not isinstance(condition, e.LT | e.LE) or not isinstance(condition.b, e.IntImm):
        return None
    bounds = interval(condition.a, inner)
    if bounds is None:
        return None
    high = bounds[1]
    factor = high.terms.get(var, 0)
    if factor <= 0 or len(high.terms) != 1:
        return None
    limit = condition.b.value - (1 if isinstance(condition, e.LT) else 0)
    return (limit - high.constant) // factor + 1


def _certain(n: For, first: int, last: int) -> Stmt:
    """The body for first <= loop_var < last, without the conditions that hold there."""

    def holds(condition: e.PrimExpr, inner: Bounds) -> bool:
        until = _holds_until(condition, n.loop_var, inner)
        since = _holds_from(condition, n.loop_var, inner)
        return (until is not None and until >= last) or (since is not None and since <= first)

    return _without(n.body, holds, {})


def _without(n: Any, holds: Any, inner: Bounds) -> Any:
    if isinstance(n, For):
        return replace(n, body=_without(n.body, holds, {**inner, n.loop_var: _range_of(n)}))
    if isinstance(n, IfThenElse):
        kept = [c for c in _conjuncts(n.condition) if not holds(c, inner)]
        then = _without(n.then_case, holds, inner)
        if not kept:
            return then
        other = None if n.else_case is None else _without(n.else_case, holds, inner)
        return IfThenElse(p.all_of(*kept), then, other, n.span)
    changes = {}
    for name in n.child_fields:
        value = getattr(n, name)
        if isinstance(value, Stmt):
            changes[name] = _without(value, holds, inner)
        elif isinstance(value, tuple) and value and isinstance(value[0], Stmt):
            changes[name] = tuple(_without(v, holds, inner) for v in value)
    return replace(n, **changes) if changes else n


class LoopPartition(PrimFuncPass):
    """Cut loops where a condition on their variable changes, so that the long part has no test."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `partition_loops`."""
        return partition_loops(func)
