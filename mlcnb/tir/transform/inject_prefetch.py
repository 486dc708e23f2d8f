"""InjectPrefetch: what a loop will read later is asked for now.

for k in T.serial(256, annotations=             for k in range(256):
        {"pragma_prefetch": ["w", 8192]}):          T.prefetch(&w[k * 16 + 8192])
    for i in T.unroll(14):               ->         for i in T.unroll(14):
        for c in T.vectorized(16):                      for c in T.vectorized(16):
            acc[i * 16 + c] += x[i]                         acc[i * 16 + c] += x[i]
                * w[k * 16 + c]                                 * w[k * 16 + c]

    for i in T.serial(16, annotations=          for i in range(16):
        {"pragma_prefetch_next":                    for k in range(32):
            ["w", 4096, 16]}):           ->             T.prefetch(&w[i * 256 + k * 8 + 4096])
        for k in range(32):                             for … : reads w[0 … 4095]
            for … : reads w[0 … 4095]

The loads of `w` below the loop say where it reads; a prefetch is so many elements further on, one
for each of them that differs and each place that loops which are written out give. Hardware
follows a stream to the end of a page; weights that are read once in a run come from memory, a new
page every few microseconds.

A third number says how near it is brought, from 3 (the first cache, as without it) to 1 (the last).

Where several tiles read the same elements, from a cache all but the first time, each asks for its
share of what lies behind them, a little in every step: memory is read all the time, not in bursts.
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
from mlcnb.tir.functor import rewrite_statements, substitute, unmarked
from mlcnb.tir.stmt import Evaluate, For, ForKind, Stmt, seq

#: the annotation: (name of a buffer, elements ahead[, how near])
PRAGMA = "pragma_prefetch"
#: that of a loop over tiles: (name of a buffer, elements that each of them reads, tiles there are)
SHARED = "pragma_prefetch_next"
#: elements of a line of the cache, of 4 bytes
LINE = 16


def inject_prefetch(func: PrimFunc) -> PrimFunc:
    """`func`, with flat buffers, with prefetches in the loops that are annotated."""
    return func.with_body(rewrite_statements(func.body, _loop))


def _loop(n: Node) -> Node | None:
    if isinstance(n, For) and SHARED in n.annotations:
        return _tiles(n)
    if not isinstance(n, For) or PRAGMA not in n.annotations:
        return None
    name, ahead, *near = n.annotations[PRAGMA]
    loads = distinct(x for x in walk(n.body) if _reads(x, str(name)))
    asked = (_prefetch(n, load, int(ahead), near) for load in loads)
    return replace(unmarked(n, PRAGMA), body=seq(*asked, n.body))


def distinct(loads: Iterable[Any]) -> list[Any]:
    """Those whose places differ."""
    found: list[Any] = []
    for load in loads:
        if not any(structural_equal(load.indices[0], x.indices[0]) for x in found):
            found.append(load)
    return found


def _tiles(n: For) -> For:
    """The loop over tiles, each of which asks for its share of what lies behind the elements."""
    name, size, tiles = n.annotations[SHARED]
    along = [x for x in walk(n.body) if _goes_along(x, str(name))]
    body = n.body
    if along:
        steps: Any = along[-1]  # the outermost: children come first
        stepped = replace(steps, body=seq(*_share(n, steps, str(name), size, tiles), steps.body))
        body = rewrite_statements(body, lambda x: stepped if x is steps else None)
    return replace(unmarked(n, SHARED), body=body)


def _goes_along(x: Any, name: str) -> bool:
    """True for a serial loop of known extent with a load of that buffer at its variable."""
    if not isinstance(x, For) or x.kind is not ForKind.SERIAL or p.as_int(x.extent) is None:
        return False
    load: Any = next((y for y in walk(x.body) if _reads(y, name)), None)
    return load is not None and x.loop_var in set(walk(load.indices[0]))


def _share(n: For, steps: For, name: str, size: int, tiles: int) -> list[Stmt]:
    """The prefetches of one step of one tile: so many lines that all steps cover all elements."""
    load: Any = next(x for x in walk(steps.body) if _reads(x, name))
    place, count = load.indices[0], p.as_int(steps.extent) or 1
    starts = {x.loop_var: x.min for x in (steps, *walk(steps.body)) if isinstance(x, For)}
    lines = -(-int(size) // (LINE * count * int(tiles)))
    done = (p.cast(place.dtype, n.loop_var) * count + p.cast(place.dtype, steps.loop_var)) * (
        lines * LINE
    )
    first = substitute(place, starts) + done + p.const(int(size), place.dtype)
    return [_ask(n, load, first + p.const(line * LINE, place.dtype)) for line in range(lines)]


def _ask(n: For, load: Any, place: Any, *how: Any) -> Stmt:
    """The prefetch of an element of the buffer that `load` reads."""
    pointer = op.tvm_access_ptr(load.buffer.dtype, load.buffer.data, place, 1, 1)
    return Evaluate(e.Call(p.const(0).dtype, "tir.prefetch", (pointer, *how)), n.span)


def _reads(x: Any, name: str) -> bool:
    return isinstance(x, BufferLoad) and x.buffer.data.name == name and len(x.indices) == 1


def _prefetch(n: For, load: Any, ahead: int, near: Sequence[Any]) -> Stmt:
    """One prefetch of what `load` reads in its first lane, in copies of the loops written out."""
    place, used = load.indices[0], set(walk(load.indices[0]))
    inner = [x for x in walk(n.body) if isinstance(x, For) and x.loop_var in used]
    kept = [x for x in inner if x.kind is ForKind.UNROLLED]
    starts = {x.loop_var: x.min for x in inner if x.kind is not ForKind.UNROLLED}
    place = substitute(place, starts) + p.const(ahead, place.dtype)
    how = (p.const(0), p.const(int(near[0])), p.const(1)) if near else ()  # to read; where; data
    made = _ask(n, load, place, *how)
    for loop in reversed(kept):
        fresh = e.Var(loop.loop_var.name, loop.loop_var.dtype)
        body = substitute(made, {loop.loop_var: fresh})
        made = replace(loop, loop_var=fresh, body=body)
    return made


class InjectPrefetch(PrimFuncPass):
    """Ask for what annotated loops will read later."""

    work = staticmethod(inject_prefetch)
