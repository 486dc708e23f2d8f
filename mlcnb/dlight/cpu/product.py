"""What a block multiplies: which operand is the left one, how each lies, how large all is.

C[b, i, j] += A[b, i, k] * B[b, k, j]       rows i, columns j (the last index of C), depth k

An operand that lies the other way round (A[k, i], B[j, k]) is transposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.survey import BlockInfo
from mlcnb.ir.expr import Var
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferRegion
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: most rows that are done at a time, one vector of each: with more, B takes less time to read than
#: to multiply
FEW_ROWS = 12
#: lanes that half vectors take, of those that whole ones would: at most, to be worth it
FEWER_LANES = 0.93
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Operand:
    """One of the two that are multiplied.

    index: its place among the block's reads.
    is_transposed: the row of A, or the reduced axis of B, is its last index.
    has_batch: it has an index for the batch.
    """

    index: int
    is_transposed: bool
    has_batch: bool


@dataclass(frozen=True)
class Product:
    """A sum of products over one axis.

    batch, rows, columns, depth: extents; None where not known.
    has_rows: False for a row alone, which has no loop.
    """

    batch: tuple[int | None, ...]
    rows: int | None
    columns: int | None
    depth: int | None
    has_rows: bool
    a: Operand
    b: Operand

    @property
    def is_open(self) -> bool:
        """Whether rows or columns are not known."""
        return self.rows is None or self.columns is None

    @staticmethod
    def of(block: BlockInfo, half: bool = False) -> Product | None:
        """The product that a block computes; None if it computes something else.

        half: its operands may be of half precision; the sums are float32.
        """
        if block.kinds != "S" * (len(block.kinds) - 1) + "R" or len(block.kinds) < 2:
            return None
        store = [n for n in walk(block.node.body) if isinstance(n, BufferStore)]
        reads = block.node.reads
        if len(store) != 1 or len(reads) != 2 or reads[0].buffer is reads[1].buffer:
            return None
        operands = {str(r.buffer.dtype) for r in reads}
        if len(operands) > 1 or not operands <= {"float32", *(HALVES if half else ())}:
            return None
        if {str(r.buffer.dtype) for r in block.node.writes} != {"float32"}:
            return None
        return _roles(block)


def from_memory(product: Product, target: Target) -> bool:
    """True for a B so large that none of it is in a cache when it is needed."""
    return 8 * (product.depth or 0) * (product.columns or 0) >= target.caches[2]


def lanes_of(columns: int | None, target: Target) -> int:
    """Columns in a vector: half as many as there may be, where fewer lanes are idle so."""
    lanes = target.lanes("float32")
    half = lanes // 2
    if columns is None or lanes < 16:
        return lanes
    fewer = -(-columns // half) * half <= FEWER_LANES * -(-columns // lanes) * lanes
    return half if columns <= half or (fewer and target.halves_vectors) else lanes


def _roles(block: BlockInfo) -> Product | None:
    """Which read is A and which is B: the columns are the last index of what is written."""
    *spatial, k = (v.var for v in block.node.iter_vars)
    out = _indices(block.node.writes[0])
    if out is None or out != spatial:
        return None
    column = spatial[-1]
    reads = [_indices(r) for r in block.node.reads]
    found = [n for n, read in enumerate(reads) if read is not None and column in read]
    if len(found) != 1 or any(read is None or k not in read for read in reads):
        return None
    b, a = reads[found[0]], reads[1 - found[0]]
    assert a is not None and b is not None
    has_rows = len(spatial) > 1 and spatial[-2] in a and spatial[-2] not in b
    batch = spatial[: -2 if has_rows else -1]
    own_a, own_b = [k, spatial[-2]] if has_rows else [k], [k, column]
    if set(a[-len(own_a) :]) != set(own_a) or set(b[-2:]) != set(own_b):
        return None
    if any(v not in batch for v in (*a[: -len(own_a)], *b[:-2]) if v is not None):
        return None
    extents = block.extents
    return Product(
        tuple(extents[: len(batch)]),
        extents[-3] if has_rows else 1,
        extents[-2],
        extents[-1],
        has_rows,
        Operand(1 - found[0], a[-1] is not k, len(a) > len(own_a)),
        Operand(found[0], b[-1] is k, len(b) > 2),
    )


def _indices(region: BufferRegion) -> list[Var | None] | None:
    """The index variables of a region of one element, None for a constant index.

    None where an index is something else.
    """
    found: list[Var | None] = []
    for bounds in region.region:
        if isinstance(bounds.min, Var):
            found.append(bounds.min)
        elif any(isinstance(n, Var) for n in walk(bounds.min)):
            return None
        else:
            found.append(None)
    return found


def rows_together(sch: Schedule, block: Any, product: Product, rows: int) -> Any:
    """The block that copies A so that what a step reads of `rows` rows lies side by side."""
    copy = sch.cache_read(block, product.a.index, "global")

    def layout(*index: Any) -> tuple[Any, ...]:
        *batch, i, k = index
        if product.a.is_transposed:
            i, k = k, i
        return (*batch, i // rows, k, i % rows)

    sch.transform_layout(block, ("read", product.a.index), layout)
    return copy
