"""general: what fits no other rule. Outer loops in parallel, whole vectors inside.

for i, j in T.grid(64, 256):                    for i in T.parallel(64):
    with T.block("add"):                 ->         for j_0 in range(16):
        C[i, j] = A[i, j] + B[i, j]                     for j_1 in T.vectorized(16): …

A reduction is split into its start and its steps; where its last spatial axis is contiguous that
axis goes inside, else the sum of a row stays in a register.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.arith.linear import detect_linear_equation
from mlcnb.core.node import walk
from mlcnb.dlight.cpu.columns import one_down_columns
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.rows import one_along_row
from mlcnb.dlight.decide import either
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.expr import Call, Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import Block, BufferStore


def general(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Schedule every block of the function by itself; always applies."""
    inline_chains(sch, survey)
    for block in Survey.of(sch).blocks:
        if block.is_reduction:
            reduction(sch, block, target)
        elif block.is_spatial:
            elementwise(sch, block, target)
    return True


def inline_chains(sch: Schedule, survey: Survey) -> None:
    """Elementwise blocks that feed one elementwise block are computed inside it; those that only
    say where an element lies, inside all that they feed."""
    for block in survey.blocks[:-1]:
        consumers = sch.get_consumers(block.handle)
        few = len(consumers) == 1 or (bool(consumers) and is_view(sch.get(block.handle)))
        if not block.is_spatial or not few or any(_is_reduction(sch, c) for c in consumers):
            continue
        if any(_grows(sch, block.handle, c) for c in consumers):
            continue
        if _is_dear(block.node) and any(_does_more(sch.get(c), block.node) for c in consumers):
            continue  # it would be done again for each element of a row
        if either(f"{block.name} inlined", True):
            sch.compute_inline(block.handle)


def is_view(block: Block) -> bool:
    """Whether a block copies elements that lie beside each other, from places that are sums and
    multiples of its own axes: a slice, a reshape that splits dimensions."""
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
        return False
    axes = [axis.var for axis in block.iter_vars]
    steps = [detect_linear_equation(x, axes)[: len(axes)] for x in store.value.indices]
    if not (axes and steps and all(steps)):
        return False
    *outer, last = (as_int(each[-1]) for each in steps)
    return last == 1 and not any(x != 0 for x in outer)


#: functions that take as long as several instructions
DEAR = frozenset(
    f"tir.{name}"
    for name in "exp exp2 exp10 log log2 log10 log1p pow tanh sigmoid erf sin cos tan".split()
)
#: from so many times on what is dear is not done again: 24 channels fill 32 places, 17 also do
AGAIN = 2
#: a value of more nodes than this, indices included, is kept in memory
LONG = 2_000


def _grows(sch: Schedule, made: Any, consumer: Any) -> bool:
    """True if what a block computes is read several times, and would become long by that.

    y = x + x, z = y + y, …: written out each has twice the terms of the one before.
    """
    block, other = sch.get(made), sch.get(consumer)
    buffer = block.writes[0].buffer
    times = sum(isinstance(n, BufferLoad) and n.buffer is buffer for n in walk(other.body))
    return times > 1 and _size(block.body) * times + _size(other.body) > LONG


def _size(body: Any) -> int:
    return sum(not isinstance(n, Buffer) for n in walk(body))


def _is_reduction(sch: Schedule, handle: Any) -> bool:
    return any(v.iter_type.value == "R" for v in sch.get(handle).iter_vars)


def reduction(sch: Schedule, block: BlockInfo, target: Target) -> None:
    """Along rows or columns; else spatial loops outside, in parallel, the start apart."""
    if one_along_row(sch, block, target) or one_down_columns(sch, block, target):
        return
    if _is_dear(block.node) and _values_apart(sch, block, target):
        return
    loops = sch.get_loops(block.handle)
    kinds = loop_kinds(sch, block, loops)
    spatial = [loop for loop, k in zip(loops, kinds, strict=True) if k == "S"]
    reduce = [loop for loop, k in zip(loops, kinds, strict=True) if k == "R"]
    if len(spatial) + len(reduce) != len(loops) or not reduce:
        return
    inside = bool(spatial) and either("vectors of results", _goes_inside(sch, block, spatial))
    outer = spatial[:-1] if inside else spatial
    sch.reorder(*outer, *reduce, *(spatial[-1:] if inside else []))
    sch.decompose_reduction(block.handle, reduce[0])
    if outer:
        spread(sch, outer, block.work)


def _values_apart(sch: Schedule, block: BlockInfo, target: Target) -> bool:
    """What a short row adds up is computed by itself, in a vector; False: it is no such row."""
    lanes = target.lanes(str(block.node.writes[0].buffer.dtype))
    if block.kinds != "S" * len(block.spatial()) + "R" or not block.spatial():
        return False
    if not 1 < (block.extents[-1] or 0) < lanes:
        return False
    values = sch.rfactor(sch.get_loops(block.handle)[-1], len(block.spatial()))
    for each in (values, block.handle):
        *outer, row = sch.get_loops(each)
        if each is values:
            sch.vectorize(row)
        else:
            sch.decompose_reduction(each, row)
        spread(sch, outer, block.work)
    return True


def _does_more(node: Block, other: Block) -> bool:
    """Whether a block is known to run much more often than another, not just for what fills up
    blocks of channels.
    """
    runs = [[as_int(v.dom.extent) for v in x.iter_vars] for x in (node, other)]
    return all(None not in x for x in runs) and math.prod(runs[0]) >= AGAIN * math.prod(runs[1])  # type: ignore[arg-type]


def _is_dear(node: Block) -> bool:
    """Whether a block computes a function that takes as long as several instructions."""
    return any(isinstance(n, Call) and n.op in DEAR for n in walk(node.body))


def _goes_inside(sch: Schedule, block: BlockInfo, spatial: list[Any]) -> bool:
    """True if the last spatial axis is contiguous in all that is read along it, and long enough."""
    if len(spatial) < 2 or not is_contiguous_spatial(block):
        return False
    extent = as_int(sch.get(spatial[-1]).extent)
    return extent is not None and extent >= 8


def is_contiguous_spatial(block: BlockInfo) -> bool:
    """True if the last spatial axis runs along the result's last index, and along an operand's."""
    axes = [v for v in block.node.iter_vars if v.iter_type.value == "S"]
    writes = block.node.writes
    if not axes or not writes or not writes[0].region:
        return False
    var = axes[-1].var
    if writes[0].region[-1].min is not var:
        return False
    reads = [r for r in block.node.reads if r.region and r.buffer is not writes[0].buffer]
    return any(_mentions(r.region[-1].min, var) for r in reads)


def _mentions(x: Any, var: Var) -> bool:
    return any(n is var for n in walk(x))


def loop_kinds(sch: Schedule, block: BlockInfo, loops: Any) -> str:
    """ "S" or "R" for each loop of a block that has not been touched: in the order of its axes."""
    if len(loops) == len(block.kinds):
        return block.kinds
    return "?" * len(loops)
