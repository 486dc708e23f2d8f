"""one_thread: a whole function on one thread of a GPU, in its own order. Slow, and always right.

with T.block("root"):                     with T.block("root"):
    for i in range(n):                        work = T.allocate([n], …)
        with T.block("scan"):        ->       for bx in T.thread_binding(1, "blockIdx.x"):
            work = T.alloc_buffer(n)              for tx in T.thread_binding(1, "threadIdx.x"):
            …                                         for i in range(n): …

Memory of a size that only a run knows, or too large for a thread, is allocated around the kernel.
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.core.node import replace
from mlcnb.dlight.gpu.threads import bytes_of
from mlcnb.dlight.survey import Survey
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Range, Var
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies, nested
from mlcnb.tir.schedule import Schedule

#: bytes of a buffer that a thread has for itself, at most
OWN_BYTES = 4096


def one_thread(sch: Schedule, survey: Survey, target: Target) -> Schedule:
    """Everything on one thread; always applies."""
    func: Any = sch.mod[sch.func_working_on]
    sch = Schedule(_on_one_thread(func))
    for block in _blocks(sch, sch.get_block("root")):
        for buffer in sch.get(block).alloc_buffers:
            sch.set_scope(block, buffer, "local")
    return sch


def _blocks(sch: Schedule, block: Any) -> list[Any]:
    """A block and all in it."""
    return [block, *(x for child in sch.get_child_blocks(block) for x in _blocks(sch, child))]


def _on_one_thread(func: PrimFunc) -> PrimFunc:
    shapes = (n for b in func.buffer_map.values() for n in b.shape)
    given = {*func.params, *(v for n in shapes for v in variables_of(n))}
    root: Any = func.body
    moved = [b for b in _allocated(func.body) if not _is_own(b) and variables_of(b.shape) <= given]

    def lifted(n: Any) -> Any:
        """A block whose memory is around the kernel touches it as that of others."""
        made = map_bodies(n, lifted)
        parts = tuple(_whole(b) for b in _allocated(n) if b in moved)
        if not (parts and isinstance(n, s.Block)):
            return made
        kept = tuple(b for b in n.alloc_buffers if b not in moved)
        return replace(made, alloc_buffers=kept, reads=n.reads + parts, writes=n.writes + parts)

    body: s.Stmt = lifted(root.block.body)
    for name, axis in (("tx", "threadIdx.x"), ("bx", "blockIdx.x")):
        var = Var(name, dtype("int32"))
        body = s.For(var, p.const(0), p.const(1), s.ForKind.THREAD_BINDING, body, axis)
    around: list[Any] = []
    for b in moved:
        around.append(s.Allocate(b.data, b.dtype, b.shape, p.const(True), body))
        around.append(s.DeclBuffer(b, body))
    kept = tuple(b for b in root.block.alloc_buffers if b not in moved)
    block = replace(root.block, alloc_buffers=kept, body=nested(around, body))
    return func.with_body(replace(root, block=block))


def _allocated(n: s.Stmt) -> list[Buffer]:
    """What the blocks in a statement allocate, itself included."""
    return [b for x in statements(n) if isinstance(x, s.Block) for b in x.alloc_buffers]


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range(p.const(0, n.dtype), n) for n in buffer.shape))


def _is_own(buffer: Buffer) -> bool:
    """True if a thread can have it for itself."""
    size = bytes_of(buffer)
    return size is not None and size <= OWN_BYTES
