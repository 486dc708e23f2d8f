"""Concatenations whose operands lie in the result as they are: one after the other.

for i0, i1, i2 in T.grid(1, 48, 49):
    C[i0, i1, i2] = if i1 < 32: A[i0, i1, i2] else B[i0, i1 - 32, i2]         ->    (0, 6272)

Then whoever makes A may make it at the first byte of C and whoever makes B 6272 bytes on, and
nothing is left to copy. It is read off the loops, not off the name.
"""

from __future__ import annotations

import math

from mlcnb.arith.reading import of
from mlcnb.core.node import identical
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BufferStore


def joined_at(func: PrimFunc) -> tuple[int, ...] | None:
    """The byte of the result at which each operand lies; None if `func` is no such copy."""
    *operands, result = func.buffers
    if len(operands) < 2 or not all(map(_whole, func.buffers)):
        return None
    if sum(map(_size, operands)) != _size(result):
        return None
    store = _only_store(func)
    if store is None or store.buffer is not result:
        return None
    loads, edges = _parts(store.value)
    if [load.buffer for load in loads] != operands:
        return None
    axis = _joined_axis(store, loads[0], [tested for tested, _ in edges])
    if axis is None or any(p.as_int(d) != 1 for d in result.shape[:axis]):
        return None
    start, starts = 0, []
    for load in loads:
        if not _reads(load, store, axis, start):
            return None
        starts.append(start)
        start += p.as_int(load.buffer.shape[axis]) or 0
    if [p.as_int(edge) for _, edge in edges] != starts[1:]:
        return None
    inner = math.prod(p.as_int(d) or 0 for d in result.shape[axis + 1 :])
    size = inner * result.dtype.bits // 8
    return tuple(s * size for s in starts) if start == p.as_int(result.shape[axis]) else None


def _only_store(func: PrimFunc) -> BufferStore | None:
    """The store of a function of one block, whose axes are the indices of what it writes."""
    if func.buffers[-1].dtype.bits % 8:
        return None
    store = block = None
    for n in statements(func.body):
        if isinstance(n, BufferStore):
            if store is not None:
                return None
            store = n
        elif isinstance(n, Block) and n.iter_vars:
            if block is not None:
                return None
            block = n
    axes = () if block is None else [axis.var for axis in block.iter_vars]
    return store if store is not None and axes and identical(axes, store.indices) else None


def _whole(buffer: Buffer) -> bool:
    """True if the sizes are known and nothing but the elements is between them."""
    known = all(p.as_int(d) is not None for d in buffer.shape)
    return known and not buffer.strides and not p.as_int(buffer.elem_offset)


def _size(buffer: Buffer) -> int:
    """The number of elements."""
    return math.prod(p.as_int(d) or 0 for d in buffer.shape)


#: an expression that is tested, and the number from which on the next part is chosen
_Edge = tuple[e.PrimExpr, e.PrimExpr]


def _parts(value: e.PrimExpr) -> tuple[list[BufferLoad], list[_Edge]]:
    """What is read, in the order of a tree of choices and its edges; of what reads else, none."""
    match value:
        case BufferLoad():
            return [value], []
        case e.Call(_, "tir.if_then_else", (e.LT(tested, edge), before, after)):
            pass
        case e.Call(_, "tir.if_then_else", (e.LE(edge, tested), after, before)):
            pass
        case _:
            return [], []
    (first, left), (second, right) = _parts(before), _parts(after)
    known = first and second
    return ([*first, *second], [*left, (tested, edge), *right]) if known else ([], [])


def _joined_axis(store: BufferStore, first: BufferLoad, tests: list[e.PrimExpr]) -> int | None:
    """The dimension whose index all tests compare."""
    if len(first.indices) != len(store.indices) or not tests:
        return None
    if any(t is not tests[0] for t in tests):
        return None
    return next((n for n, i in enumerate(store.indices) if i is tests[0]), None)


def _reads(load: BufferLoad, store: BufferStore, axis: int, start: int) -> bool:
    """The load is of the element that is written, `start` places before along the axis."""
    if load.buffer.dtype != store.buffer.dtype or len(load.indices) != len(store.indices):
        return False
    for n, (read, written) in enumerate(zip(load.indices, store.indices, strict=True)):
        if of(read).minus(of(written)).value != (-start if n == axis else 0):
            return False
        if n != axis and p.as_int(load.buffer.shape[n]) != p.as_int(store.buffer.shape[n]):
            return False
    return True
