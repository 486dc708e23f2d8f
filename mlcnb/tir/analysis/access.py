"""What a block reads and writes, as boxes."""

from __future__ import annotations

from mlcnb.core.node import children, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Range
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.stmt import Block, BufferStore


def complete_regions(block: Block) -> Block:
    """`block` with reads and writes as its body has them."""
    reads, writes = detect_buffer_access(block)
    return replace(block, reads=reads, writes=writes)


def detect_buffer_access(
    block: Block,
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """The regions that a block reads and writes."""
    reads: dict = {}
    writes: dict = {}

    def visit(n):
        if isinstance(n, BufferLoad):
            merge(reads, n)
        if isinstance(n, BufferStore):
            merge(writes, n)
        for c in children(n):
            if not isinstance(c, Buffer):
                visit(c)

    def merge(found, n):
        region = tuple(Range(i, p.const(1, i.dtype)) for i in n.indices)
        old = found.get(n.buffer)
        if old is None:
            found[n.buffer] = region
            return
        found[n.buffer] = tuple(
            a if structural_equal(a, b) else Range(p.const(0, d.dtype), d)
            for a, b, d in zip(old, region, n.buffer.shape, strict=True)
        )

    if block.init is not None:
        visit(block.init)
    visit(block.body)
    if block.init is not None:
        reads = {b: r for b, r in reads.items() if b not in writes}
    return (
        tuple(BufferRegion(b, r) for b, r in reads.items()),
        tuple(BufferRegion(b, r) for b, r in writes.items()),
    )
