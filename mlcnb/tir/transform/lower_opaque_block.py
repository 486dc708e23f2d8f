"""LowerOpaqueBlock: blocks are gone; what they allocated is allocated in plain statements.

with T.block("C"):                              B_data = T.allocate([64], "float32", "local")
    T.where(i * 4 + j < 15)                     B = T.decl_buffer((64,), data=B_data)
    B = T.alloc_buffer((64,))            ->     if i * 4 + j < 15:
    ...                                             ...
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.core.node import FrozenDict, Node, replace, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Call, PrimExpr
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import IMPLICIT, uses_threads
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.transform.flatten_buffer import offset_of


def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """`func` without blocks: predicates become `if`, local buffers become allocations.

    Loops of one iteration are replaced by their only value. Blocks of threads see what those before
    them wrote: without blocks that takes barriers, which `ThreadSync` will place.
    """
    new = func.with_body(rewrite_statements(func.body, _lower))
    if new is func or not uses_threads(new) or any(map(_is_barrier, walk(new.body))):
        return new
    return replace(new, attrs=FrozenDict({**new.attrs, IMPLICIT: True}))


def _is_barrier(n: Node) -> bool:
    return isinstance(n, Call) and n.op == "tir.tvm_storage_sync"


def _lower(n: Node) -> Node | None:
    if isinstance(n, s.BlockRealize):
        return _lower_block(n)
    if isinstance(n, s.For) and p.as_int(n.extent) == 1 and not n.annotations:
        if n.kind is not s.ForKind.THREAD_BINDING and not is_left_early(n.body):
            return substitute(n.body, {n.loop_var: n.min})
    return s.flattened(n)


def _lower_block(n: s.BlockRealize) -> s.Stmt:
    body = allocated(n.block.alloc_buffers, n.block.body)
    if not p.is_const(n.predicate, 1):
        body = s.IfThenElse(n.predicate, body, span=n.block.span)
    return body


def allocated(buffers: Sequence[Buffer], body: s.Stmt) -> s.Stmt:
    """A body in which the memory of some buffers is there, and is declared."""
    for b in reversed(buffers):
        body = s.DeclBuffer(b, body)
        body = s.Allocate(b.data, b.dtype, _extents(b), p.const(True), body, FrozenDict())
    return body


def _extents(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """The memory that a buffer takes: its shape, or up to the last element where it has strides."""
    if not buffer.strides and buffer.elem_offset is None:
        return buffer.shape or (p.const(1),)
    last = offset_of(buffer, tuple(extent - 1 for extent in buffer.shape))
    return (last + 1,)


class LowerOpaqueBlock(PrimFuncPass):
    """Remove the blocks: predicates become `if`, local buffers become allocations."""

    work = staticmethod(lower_opaque_block)
