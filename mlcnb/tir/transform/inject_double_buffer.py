"""InjectDoubleBuffer: while one buffer is used, the next one is filled.

for i in range(16):                             B = T.alloc_buffer((2, 8))
    B = T.alloc_buffer((8,))                    fill B[0] for i = 0
    with T.block("fill"):                       for i in range(15):
        T.block_attr(                    ->         fill B[(i + 1) % 2] for i + 1
            {"double_buffer_scope": 0})             use B[i % 2]
        B[0:8] = A[i, 0:8]                      use B[1]
    use B

A pipeline of two stages: what fills the buffer, and all else. It runs where blocks and their
buffers still stand in the loop, earlier than in TVM, which works on flat memory. Plain memory that
is marked in TVM's way has the marked part run one iteration ahead, into its other half:

for i in range(16):                                 data = T.allocate([64], "float32")
    data = T.allocate([32], "float32")              fill cache[0:32] for i = 0
    with T.attr(data, "double_buffer_scope", 1):    for i_outer in range(15):
        fill cache                           ->         with T.attr(data, "double_buffer_write", 1):
    use cache                                               fill cache[(i_outer + 1) % 2 * 32 …]
                                                        use cache[i_outer % 2 * 32 …]
                                                    use cache[15 % 2 * 32 …]
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING, rewrite_statements, substitute, taken
from mlcnb.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    Stmt,
    seq,
)
from mlcnb.tir.transform.inject_software_pipeline import (
    DOUBLE,
    ORDER,
    STAGE,
    doubled,
    parts_of,
    pipelined,
)


def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """`func` with every buffer that is marked `double_buffer_scope` filled one iteration ahead.

    Raises:
        PassError: a marked buffer does not live in a loop, or cannot be filled ahead.
    """
    if not any(isinstance(n, Block) and DOUBLE in n.annotations for n in statements(func.body)):
        return func

    def rule(n: Node) -> Node | None:
        if not isinstance(n, For) or STAGE in n.annotations or ORDER in n.annotations:
            return None
        parts = parts_of(n)
        fills = [any(b in parts.buffers for b in doubled(x)) for x in parts.stmts]
        if not any(fills):
            return None
        stages = [0 if ahead else 1 for ahead in fills]
        first = sorted(range(len(fills)), key=lambda k: (stages[k], k))
        return pipelined(func, n, parts, stages, [first.index(k) for k in range(len(fills))])

    body = rewrite(func.body, rule)
    _check_all_done(func, body)
    return func.with_body(body)


def _check_all_done(func: PrimFunc, body: Any) -> None:
    pipelines = {
        x
        for n in statements(body)
        if isinstance(n, For) and STAGE in n.annotations
        for x in statements(n)
    }
    for n in statements(body):
        if isinstance(n, Block) and DOUBLE in n.annotations and n not in pipelines:
            buffer = n.writes[int(n.annotations[DOUBLE])].buffer
            raise PassError(
                f"InjectDoubleBuffer: {buffer.name}, which block {n.name_hint} writes, lives "
                "outside of the loops",
                where=n,
                root=func,
                hint="every iteration of a loop must write all that it reads of the buffer",
            )


class InjectDoubleBuffer(PrimFuncPass):
    """Fill buffers that are marked `double_buffer_scope` one iteration ahead."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `inject_double_buffer`; of plain memory, `double_scopes`."""
        return inject_double_buffer(double_scopes(func))


SCOPE = "double_buffer_scope"
WRITE = "double_buffer_write"


def double_scopes(func: PrimFunc) -> PrimFunc:
    """`func` with the marked parts of its loops run one iteration ahead.

    Raises:
        PassError: what is marked is not allocated in a serial loop of known extent, is not flat, or
            is filled from what the loop itself writes.
    """
    if not any(_is_scope(n) for n in statements(func.body)):
        return func
    body = rewrite_statements(func.body, lambda n: _doubled(func, n))
    left = next((n for n in statements(body) if _is_scope(n)), None)
    if left is not None:
        raise _refusal(func, left, "is not allocated in a serial loop of known extent")
    return func.with_body(body)


def _refusal(func: PrimFunc, where: Any, why: str) -> PassError:
    name = where.node.name if isinstance(where.node, e.Var) else "what is marked"
    return PassError(f"InjectDoubleBuffer: {name} {why}", where=where, root=func)


def _is_scope(n: Node) -> bool:
    return isinstance(n, AttrStmt) and n.attr_key == SCOPE


def _doubled(func: PrimFunc, n: Node) -> Node | None:
    if not isinstance(n, For) or n.kind is not ForKind.SERIAL or not isinstance(n.body, Allocate):
        return None
    count, alloc = p.as_int(n.extent), n.body
    scopes = [x for x in statements(alloc.body) if _is_scope(x)]
    if count is None or count < 1 or not p.is_const(n.min, 0) or len(scopes) != 1:
        return None
    scope: Any = scopes[0]
    if scope.node is not alloc.buffer_var:
        return None
    _check(func, scope, alloc)
    return _ahead(n, alloc, scope, count)


def _check(func: PrimFunc, scope: Any, alloc: Allocate) -> None:
    """What is filled ahead must not read what the rest of the loop writes."""
    if len(alloc.extents) != 1:
        raise _refusal(func, scope, "has several dimensions: run FlattenBuffer first")
    inside = set(walk(scope.body))
    written = {
        x.buffer.data for x in walk(alloc.body) if isinstance(x, BufferStore) and x not in inside
    }
    read = {x.buffer.data for x in inside if isinstance(x, BufferLoad | BufferStore)}
    if read & written:
        names = ", ".join(sorted(v.name for v in read & written))
        raise _refusal(func, scope, f"is filled from {names}, which the loop writes")


def _ahead(loop: For, alloc: Allocate, scope: Any, count: int) -> Stmt:
    """The first filling, the loop with the next one in each iteration, and the last use."""
    size, kind = alloc.extents[0], loop.loop_var.dtype
    buffers = {x.buffer: _twice(x.buffer, size) for x in statements(alloc.body)
               if isinstance(x, DeclBuffer) and x.buffer.data is alloc.buffer_var}  # fmt: skip
    fill, use = scope.body, rewrite_statements(alloc.body, lambda x: _without(x, scope, buffers))
    for x in walk(alloc.body):
        if isinstance(x, BufferLoad | BufferStore) and x.buffer.data is alloc.buffer_var:
            buffers.setdefault(x.buffer, _twice(x.buffer, size))

    def at(stmt: Stmt, step: e.PrimExpr) -> Stmt:
        half = p.multiply(p.floormod(step, p.const(2, kind)), p.cast(kind, size))
        moved = rewrite(stmt, lambda x: _moved(x, buffers, half))
        return substitute(moved, {loop.loop_var: step})

    var = e.Var(f"{loop.loop_var.name}_outer", kind)
    body = seq(at(fill, p.const(0, kind)))
    if count > 1:
        next_one = AttrStmt(alloc.buffer_var, WRITE, 1, at(fill, var + 1))
        steady = next_one if use is NOTHING else seq(next_one, at(use, var))
        body = seq(body, replace(loop, loop_var=var, extent=p.const(count - 1, kind), body=steady))
    if use is not NOTHING:
        body = seq(body, at(use, p.const(count - 1, kind)))
    for old, new in reversed(buffers.items()):
        if any(isinstance(x, DeclBuffer) and x.buffer is old for x in statements(alloc.body)):
            body = DeclBuffer(new, body)
    return replace(alloc, extents=(p.multiply(size, 2),), body=body)


def _twice(buffer: Buffer, size: e.PrimExpr) -> Buffer:
    return replace(buffer, shape=(p.multiply(size, 2),))


def _without(n: Node, scope: Any, buffers: dict[Buffer, Buffer]) -> Node | None:
    """The loop's body without what is filled ahead, and without declarations of the memory."""
    if n is scope:
        return NOTHING
    if isinstance(n, DeclBuffer) and n.buffer in buffers:
        return n.body
    return taken(n)


def _moved(n: Node, buffers: dict[Buffer, Buffer], half: e.PrimExpr) -> Node | None:
    if isinstance(n, BufferLoad | BufferStore) and n.buffer in buffers:
        index = p.add(p.cast(n.indices[0].dtype, half), n.indices[0])
        return replace(n, buffer=buffers[n.buffer], indices=(index,))
    return None
