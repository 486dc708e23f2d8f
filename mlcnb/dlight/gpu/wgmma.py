"""wgmma: products of halves on the tensor cores of sm_90a, by warpgroups; only where asked for.

for i, j, k: C[i, j] += A[i, k] * B[k, j]    blocks of 128 x 256 of C, two warpgroups of 64 x 256
                                             for k_0 in tiles of 64:
                                                 tiles of A and B, cp.async, three ahead
                                      ->         sums += A_tile @ B_tile      T.ptx_wgmma
                                             C = sums, and what is done with them

    dl.ApplyDefaultSchedule(dl.gpu.WarpgroupMatmul(), dl.gpu.Matmul(), dl.gpu.Fallback())
    dl.gpu.WarpgroupMatmul(loads="tma")      tiles as boxes (cp.async.bulk.tensor), by one more warp

Checked by simulation and offline compilation, not yet on a GPU: so no default takes it. The kernel
is a program of its own (`wgmma_program`), put in the place of a product and of what is done with it
element by element. What lies outside of an operand is fetched as zeros, what lies outside of the
result is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlcnb.core.node import Node, rewrite, walk
from mlcnb.dlight.gpu.axes import MANY, factors, product_of
from mlcnb.dlight.gpu.threads import VECTOR_BYTES, most_threads
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.target import Target
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits
from mlcnb.tir.analysis.wgmma import ROWS, SIZE, WARPGROUP
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.functor import substitute
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: elements that are moved at once
PIECE = VECTOR_BYTES // SIZE
#: a side that is shorter leaves too much of a tile empty
LEAST = 16


class Tile(NamedTuple):
    """What a block of threads computes at a time.

    Attributes:
        groups: warpgroups, of 64 rows each.
        columns: a multiple of 64, at most 256.
        stages: tiles of each operand that there is room for: one is used, the others are fetched.
        loads: "cp.async", pieces by all threads; "tma", boxes that one more warp has copied.
    """

    groups: int = 2
    columns: int = 128
    stages: int = 3
    loads: str = "cp.async"

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.groups * ROWS

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.groups * WARPGROUP + (32 if self.loads == "tma" else 0)


#: two blocks on a multiprocessor; and one, of which a step's products take longer than its copies
TILE, WIDE = Tile(), Tile(columns=256, stages=4)


def tile_for(rows: int, columns: int) -> Tile:
    """The wide tile where enough blocks are left."""
    blocks = -(-rows // WIDE.rows) * -(-columns // WIDE.columns)
    return WIDE if blocks >= MANY else TILE


class Side(NamedTuple):
    """An operand: the buffer, its rows (or columns) and whether k lies side by side in it."""

    buffer: Buffer
    length: int
    along_k: bool


@dataclass(frozen=True)
class Product:
    """What is multiplied, and where it goes.

    Attributes:
        a, b: operands.
        depth: k of all.
        out: where the result is stored.
        result: (sum, row, column) -> what is stored.
        place: (row, column) -> where.
        in_rows: neighbouring columns lie side by side there.
    """

    a: Side
    b: Side
    depth: int
    out: Buffer
    result: Callable[..., PrimExpr]
    place: Callable[..., Sequence[PrimExpr]]
    in_rows: bool


def wgmma(
    sch: Schedule,
    survey: Survey,
    target: Target,
    by: Tile | None = None,
    loads: str = "cp.async",
) -> Schedule | bool:
    """Apply to one product of halves in rows of 16 bytes, and what is done with it."""
    limits = GpuLimits.of(target)
    if limits.name != "sm_90a":
        return no(f"the GPU is {limits.name}: warpgroups multiply on sm_90a alone")
    found = product_of(survey, (by or TILE).threads, most_threads(target))
    anchor = survey.anchor
    if anchor is None or isinstance(found, str):
        return no(str(found))
    groups = [[n for n in group if (anchor.extents[n] or 0) > 1] for group in found]
    if groups[0] or any(len(x) != 1 for x in groups[1:]):
        return no("a batch, or several axes of a kind: it takes rows, columns and k")
    rows, columns, depth = (x[0] for x in groups[1:])
    lengths = [anchor.extents[n] or 0 for n in (rows, columns, depth)]
    if min(lengths) < LEAST:
        return no(f"a side under {LEAST} leaves too much of a tile empty")
    operands = _operands(anchor, rows, columns, depth)
    if isinstance(operands, str):
        return no(operands)
    after = survey.after(anchor)
    if len(after) + 1 != len(survey.blocks):
        return no("something else is computed beside the product, or before it")
    func = sch.mod[sch.func_working_on]
    if after and any(b is anchor.node.writes[0].buffer for b in func.buffer_map.values()):
        return no("the product is a result, and so is what is done with it")
    last = anchor.handle
    for number, block in enumerate(after):  # what is done with each sum is done before it is stored
        if number:
            sch.compute_inline(last)
        last = block.handle
    end = _end(anchor, sch.get(last), (rows, columns))
    if end is None:
        return no("what follows the product is not done element by element")
    from mlcnb.dlight.gpu.wgmma_program import WarpgroupProduct  # reads programs

    by = by or tile_for(*lengths[:2])._replace(loads=loads)
    made = WarpgroupProduct(Product(*operands, lengths[2], *end), by).function()
    return Schedule(func.with_body(made.body))


def wgmma_by_boxes(sch: Schedule, survey: Survey, target: Target) -> Schedule | bool:
    """The same with tiles that come as boxes of tensor maps (TMA)."""
    return wgmma(sch, survey, target, loads="tma")


def _operands(block: BlockInfo, rows: int, columns: int, depth: int) -> tuple[Side, Side] | str:
    """A and B; else why they cannot be fetched."""
    loads = factors(block.node.body) or []
    kinds = {str(load.buffer.dtype) for load in loads}
    if kinds not in ({"float16"}, {"bfloat16"}) or block.node.writes[0].buffer.dtype != "float32":
        return "operands and sum are no float16 or bfloat16 summed in float32"
    k = block.node.iter_vars[depth].var
    sides: dict[int, Side] = {}
    for load in loads:
        for axis in (rows, columns):
            side = block.node.iter_vars[axis].var
            if load.indices in ((side, k), (k, side)):
                sides[axis] = Side(load.buffer, block.extents[axis] or 0, load.indices[1] is k)
    if len(sides) != 2:
        return "an operand has other indices than its side and k"
    for buffer in (side.buffer for side in sides.values()):
        shape = [p.as_int(x) or 0 for x in buffer.shape]
        begins = buffer.elem_offset
        if buffer.strides or (begins is not None and not p.is_const(begins, 0)):
            return f"{buffer.name} does not lie in rows from its begin on"
        if shape[1] % PIECE:
            return f"rows of {buffer.name} are no multiple of {VECTOR_BYTES} bytes"
        if shape[0] * shape[1] >= 1 << 31:
            return f"{buffer.name} is larger than indices of 32 bits"
    return sides[rows], sides[columns]


def _end(anchor: BlockInfo, last: Any, axes: tuple[int, int]) -> tuple[Any, ...] | None:
    """Where a result is stored, what, and whether those of neighbouring columns lie side by side;
    None if it is not made of one sum.
    """
    first: Any = anchor.node.body
    store: Any = last.body
    if last is anchor.node:
        store = BufferStore(first.buffer, BufferLoad(first.buffer, first.indices), first.indices)
    if not isinstance(store, BufferStore):
        return None
    made = first.buffer
    loads = [n for n in walk(store.value) if isinstance(n, BufferLoad) and n.buffer is made]
    known = {v.var: p.as_int(v.dom.extent) for v in last.iter_vars}
    sides = [anchor.node.iter_vars[n].var for n in axes]
    if not loads or any(n.indices != loads[0].indices for n in loads):
        return None
    # of each index of a sum the axis that it is
    names = [next((n for n, v in enumerate(sides) if v is i), None) for i in first.indices]
    at: list[Any] = [None, None]
    for index, name in zip(loads[0].indices, names, strict=True):
        if name is not None:
            at[name] = index
    ones = {v for v, extent in known.items() if extent == 1 and v not in at}
    extents = [anchor.extents[n] for n in axes]
    if any(x not in known or known[x] != n for x, n in zip(at, extents, strict=True)):
        return None
    if at[0] is at[1] or {*known} - ones - {*at} and last is not anchor.node:
        return None
    zero = {v: p.const(0, v.dtype) for v in ones}

    def put(x: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        return substitute(x, {**zero, at[0]: i, at[1]: j})

    def result(total: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        def rule(x: Node) -> Node | None:
            return total if isinstance(x, BufferLoad) and x.buffer is made else None

        return put(rewrite(store.value, rule), i, j)

    def place(i: PrimExpr, j: PrimExpr) -> Sequence[PrimExpr]:
        return tuple(put(x, i, j) for x in store.indices)

    return store.buffer, result, place, store.indices[-1] is at[1]
