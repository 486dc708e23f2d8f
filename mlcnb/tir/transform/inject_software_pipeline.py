"""InjectSoftwarePipeline: the next iteration is begun before this one is done.

for i in T.serial(16, annotations={             B = T.alloc_buffer((2, 8))
    "software_pipeline_stage": [0, 1],          load A[0] into B[0]
    "software_pipeline_order": [0, 1]}):        for i in range(15):
    B = T.alloc_buffer((8,))             ->         load A[i + 1] into B[(i + 1) % 2]
    load A[i] into B                                use B[i % 2]
    use B                                       use B[1]

A statement of stage s runs s iterations late; those that run together stand as `order` says. What
lives in the body gets as many versions as there are iterations that need it at once: one suffices
where it is read before it is written again. Refused is what would read a value too early or late.

On the threads of a GPU stages may be asynchronous: their copies run on while others compute.

for i in T.serial(16, annotations={             for i in range(2): commit(load A[i] into B[i])
    "software_pipeline_stage": [0, 2],          for i in range(16):
    "software_pipeline_order": [0, 1],   ->         wait until all but 1 group has arrived
    "software_pipeline_async_stages": [0]}):        if i + 2 < 16: load A[i + 2] into B[(i + 2) % 3]
    load A[i] into B                                commit
    use B                                           use B[i % 3]

What is issued together is a group (`ptx_commit_group`), one for each step, so that `ptx_wait_group`
counts the same in all of them; InjectPTXAsyncCopy makes `cp.async` of the loads. A CPU has no such
copies, and its loads are as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlcnb.core.node import Node, replace, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.effects import POINTERS
from mlcnb.tir.analysis.kernels import uses_threads
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute, unmarked
from mlcnb.tir.transform.async_pipeline import ASYNC, ORDER, STAGE, Asynchronous, at_step, waits_for
from mlcnb.tir.transform.flatten_buffer import offset_of
from mlcnb.tir.transform.pipeline_dependences import (
    Parts,
    check_dependences,
    refusal,
    touched_by,
    versions_needed,
)

#: annotation of a block: the output of this number has two versions at least
DOUBLE = "double_buffer_scope"


def inject_software_pipeline(func: PrimFunc) -> PrimFunc:
    """`func` with every loop that is annotated as a pipeline turned into one, innermost first.

    Raises:
        PassError: the annotation does not fit the loop, or the stages break a dependence.
    """
    if not any(isinstance(n, s.For) and _is_pipeline(n) for n in statements(func.body)):
        return func
    on_threads = uses_threads(func)

    def rule(n: Node) -> Node | None:
        if isinstance(n, s.For) and _is_pipeline(n):
            parts = parts_of(n)
            stages, order = _plan(func, n, len(parts.stmts))
            late = _asynchronous(func, n, stages) if on_threads else []
            return pipelined(func, n, parts, stages, order, late)
        return None

    return func.with_body(rewrite(func.body, rule))


def _is_pipeline(loop: s.For) -> bool:
    return STAGE in loop.annotations or ORDER in loop.annotations


def parts_of(loop: s.For) -> Parts:
    """What a loop's body is made of; blocks that only hold buffers are looked through."""
    body: s.Stmt = loop.body
    buffers: tuple[Buffer, ...] = ()
    while isinstance(body, s.BlockRealize) and p.is_const(body.predicate, 1):
        inside = body.block
        if inside.iter_vars or inside.match_buffers or inside.init is not None:
            break
        if not isinstance(inside.body, s.SeqStmt | s.BlockRealize):
            break
        body, buffers = inside.body, (*buffers, *inside.alloc_buffers)
    return Parts(body.seq if isinstance(body, s.SeqStmt) else (body,), buffers)


def _plan(func: PrimFunc, loop: s.For, count: int) -> tuple[list[int], list[int]]:
    """The stage and the place of each statement, as the annotations say."""
    given = []
    for key in (STAGE, ORDER):
        if key not in loop.annotations:
            raise refusal(func, loop, f"has no {key}", f"annotate it with {key} too")
        values = [int(x) for x in loop.annotations[key]]
        if len(values) != count:
            raise refusal(
                func,
                loop,
                f"has {len(values)} entries in {key} for {count} statements",
                "one entry for each statement of the loop's body",
            )
        given.append(values)
    stages, order = given
    if min(stages) < 0:
        raise refusal(func, loop, f"has the stage {min(stages)}", "stages count from 0")
    if sorted(order) != list(range(count)):
        raise refusal(
            func, loop, f"has the order {order}", f"each of 0 to {count - 1} must be there once"
        )
    return stages, order


def _asynchronous(func: PrimFunc, loop: s.For, stages: Sequence[int]) -> list[int]:
    """The statements whose copies are asynchronous, as the annotation says."""
    given = [int(x) for x in loop.annotations.get(ASYNC, ())]
    for stage in given:
        if stage not in stages:
            raise refusal(
                func,
                loop,
                f"has the stage {stage} in {ASYNC}, where no statement is",
                f"its stages are {sorted(set(stages))}",
            )
    return [k for k, stage in enumerate(stages) if stage in given]


def pipelined(
    func: PrimFunc,
    loop: s.For,
    parts: Parts,
    stages: Sequence[int],
    order: Sequence[int],
    late: Sequence[int] = (),
) -> s.Stmt:
    """The loop as a pipeline.

    Args:
        func: the function, for messages.
        loop: the loop.
        parts: its body.
        stages: for each statement how many iterations late it runs.
        order: for each statement its place among those that run together.
        late: the statements whose copies are asynchronous.

    Raises:
        PassError: a value would be read before it is written, or after it is written over.
    """
    if loop.kind is not s.ForKind.SERIAL:
        raise refusal(func, loop, f"is {loop.kind.value}, not serial", "pipeline a serial loop")
    touched = [touched_by(x) for x in parts.stmts]
    check_dependences(func, loop, parts, stages, order, touched)
    buffers = {}
    for buffer in parts.buffers:
        count = versions_needed(buffer, stages, order, touched)
        count = max(count, 2) if any(buffer in doubled(x) for x in parts.stmts) else count
        if count > 1 and any(buffer.data in t.pointers for t in touched):
            raise refusal(
                func,
                loop,
                f"needs {count} versions of {buffer.name}, which is used by its pointer",
                "choose stages or an order with which one version is enough",
            )
        buffers[buffer] = _versioned(buffer, count)
    stmts = [_with_versions(x, loop, buffers) for x in parts.stmts]
    if late:
        waits = waits_for(func, loop, stages, late, touched)
        steps = Asynchronous(loop, stmts, stages, order, late, waits).steps()
    else:
        steps = _schedule(loop, stmts, stages, order)
    body = s.seq(*steps)
    if not buffers:
        return body
    block = s.Block((), (), (), "", body, alloc_buffers=tuple(buffers.values()))
    return s.BlockRealize((), p.const(True), block)


def doubled(stmt: s.Stmt) -> list[Buffer]:
    """The buffers that blocks of a statement ask two versions of."""
    asking = (x for x in statements(stmt) if isinstance(x, s.Block) and DOUBLE in x.annotations)
    return [x.writes[int(x.annotations[DOUBLE])].buffer for x in asking]


# what comes out


def _versioned(buffer: Buffer, count: int) -> Buffer:
    """The buffer with a first dimension for its versions, and memory of its own."""
    if count == 1:
        return buffer
    kind = buffer.shape[0].dtype if buffer.shape else "int32"
    strides: tuple[PrimExpr, ...] = ()
    if buffer.strides:
        last = offset_of(
            replace(buffer, elem_offset=None), tuple(extent - 1 for extent in buffer.shape)
        )
        strides = (last + 1, *buffer.strides)
    data = Var(buffer.data.name, buffer.data.dtype, buffer.data.pointee)
    shape = (p.const(count, kind), *buffer.shape)
    return replace(buffer, data=data, shape=shape, strides=strides)


def _size_of_version(buffer: Buffer) -> PrimExpr:
    """Elements from one version of a buffer to the next."""
    if buffer.strides:
        return buffer.strides[0]
    return p.product_of(buffer.shape[1:], p.const(1))


def _with_versions(stmt: s.Stmt, loop: s.For, buffers: dict[Buffer, Buffer]) -> s.Stmt:
    """The statement on the version that belongs to its iteration."""
    step = loop.loop_var - loop.min

    def version(new: Buffer) -> PrimExpr:
        kind = step.dtype
        return p.floormod(step, p.cast(kind, new.shape[0]))

    moved = {old.data: new for old, new in buffers.items() if old is not new}

    def rule(n: Node) -> Node | None:
        if isinstance(n, e.Call) and n.op in POINTERS:
            args = list(n.args)
            for at, *_ in POINTERS[n.op]:  # a place in the memory follows its pointer
                new = moved.get(args[at])  # type: ignore[call-overload]
                if new is not None:
                    size = _size_of_version(new)
                    args[at] = new.data
                    args[at + 1] += p.cast(args[at + 1].dtype, version(new) * size)
            return replace(n, args=tuple(args))
        if isinstance(n, s.Block) and DOUBLE in n.annotations:
            return unmarked(n, DOUBLE)
        if not isinstance(n, BufferLoad | s.BufferStore | BufferRegion):
            return None
        new = buffers.get(n.buffer, n.buffer)
        if new is n.buffer:
            return None
        number = version(new)
        if isinstance(n, BufferRegion):
            one = Range(number, p.const(1, number.dtype))
            return BufferRegion(new, (one, *n.region))
        return replace(n, buffer=new, indices=(number, *n.indices))

    return rewrite(stmt, rule, enter=lambda n: n if isinstance(n, Buffer) else None)


def _schedule(
    loop: s.For, stmts: Sequence[s.Stmt], stages: Sequence[int], order: Sequence[int]
) -> Iterator[s.Stmt]:
    """What fills the pipeline, its steady state, and what empties it."""
    depth, kind = max(stages), loop.loop_var.dtype
    places = sorted(range(len(stmts)), key=lambda k: order[k])
    extent = p.fitted(kind, loop.extent)
    for wall in range(depth):
        for k in places:
            if wall >= stages[k]:
                yield from at_step(loop, stmts[k], p.const(wall - stages[k], kind), extent)
    yield from _steady(loop, stmts, stages, places, extent)
    end = p.maximum(extent, depth)
    for wall in range(depth):
        for k in places:
            if wall < stages[k]:
                yield from at_step(loop, stmts[k], end + (wall - stages[k]), extent)


def _steady(
    loop: s.For, stmts: Sequence[s.Stmt], stages: Sequence[int], places: list[int], extent: PrimExpr
) -> Iterator[s.Stmt]:
    """All statements together, each in its own iteration."""
    depth = max(stages)
    count = p.maximum(extent - depth, 0)
    if p.is_const(count, 0):
        return
    fresh = Var(loop.loop_var.name, loop.loop_var.dtype)
    body = [
        substitute(stmts[k], {loop.loop_var: loop.min + (fresh + (depth - stages[k]))})
        for k in places
    ]
    yield replace(
        unmarked(loop, STAGE, ORDER, ASYNC),
        loop_var=fresh,
        min=p.const(0, loop.min.dtype),
        extent=p.fitted(loop.extent.dtype, count),
        body=s.seq(*body),
    )


class InjectSoftwarePipeline(PrimFuncPass):
    """Overlap the iterations of loops that are annotated as software pipelines."""

    work = staticmethod(inject_software_pipeline)
