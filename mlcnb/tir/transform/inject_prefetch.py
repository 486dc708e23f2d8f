"""InjectPrefetch: what a loop will read later is asked for now.

for k in T.serial(256, annotations=             for k in range(256):
        {"pragma_prefetch": ["w", 8192]}):          T.prefetch(&w[k * 16 + 8192])
    for i in T.unroll(14):               ->         for i in T.unroll(14):
        for c in T.vectorized(16):                      for c in T.vectorized(16):
            acc[i * 16 + c] += x[i]                         acc[i * 16 + c] += x[i]
                * w[k * 16 + c]                                 * w[k * 16 + c]

The loads of `w` below the loop say where it reads; a prefetch is so many elements further on, one
for each of them that differs and each place that loops which are written out give. Hardware
follows a stream to the end of a page; weights that are read once in a run come from memory, a new
page every few microseconds.

A third number says how near it is brought, from 3 (the first cache, as without it) to 1 (the last).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import op
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.stmt import Evaluate, For, ForKind, Stmt, seq

#: the annotation: (name of a buffer, elements ahead[, how near])
PRAGMA = "pragma_prefetch"


def inject_prefetch(func: PrimFunc) -> PrimFunc:
    """`func`, with flat buffers, with prefetches in the loops that are annotated."""
    return func.with_body(rewrite_statements(func.body, _loop))


def _loop(n: Node) -> Node | None:
    if not isinstance(n, For) or PRAGMA not in n.annotations:
        return None
    name, ahead, *near = n.annotations[PRAGMA]
    rest = {key: value for key, value in n.annotations.items() if key != PRAGMA}
    loads = distinct(x for x in walk(n.body) if _reads(x, str(name)))
    asked = (_prefetch(n, load, int(ahead), near) for load in loads)
    return replace(n, annotations=rest, body=seq(*asked, n.body))


def distinct(loads: Iterable[Any]) -> list[Any]:
    """Those whose places differ."""
    found: list[Any] = []
    for load in loads:
        if not any(structural_equal(load.indices[0], x.indices[0]) for x in found):
            found.append(load)
    return found


def _reads(x: Any, name: str) -> bool:
    return isinstance(x, BufferLoad) and x.buffer.data.name == name and len(x.indices) == 1


def _prefetch(n: For, load: Any, ahead: int, near: Sequence[Any]) -> Stmt:
    """One prefetch of what `load` reads in its first lane, in copies of the loops written out."""
    place, used = load.indices[0], set(walk(load.indices[0]))
    inner = [x for x in walk(n.body) if isinstance(x, For) and x.loop_var in used]
    kept = [x for x in inner if x.kind is ForKind.UNROLLED]
    starts = {x.loop_var: x.min for x in inner if x.kind is not ForKind.UNROLLED}
    place = substitute(place, starts) + p.const(ahead, place.dtype)
    pointer = op.tvm_access_ptr(load.buffer.dtype, load.buffer.data, place, 1, 1)
    how = (p.const(0), p.const(int(near[0])), p.const(1)) if near else ()  # to read; where; data
    made: Stmt = Evaluate(e.Call(p.const(0).dtype, "tir.prefetch", (pointer, *how)), n.span)
    for loop in reversed(kept):
        fresh = e.Var(loop.loop_var.name, loop.loop_var.dtype)
        body = substitute(made, {loop.loop_var: fresh})
        made = replace(loop, loop_var=fresh, body=body)
    return made


class InjectPrefetch(PrimFuncPass):
    """Ask for what annotated loops will read later."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `inject_prefetch`."""
        return inject_prefetch(func)
