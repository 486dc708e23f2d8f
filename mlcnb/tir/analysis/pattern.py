"""op_pattern: how an operator may be fused, read off its loops.

0 elementwise  B[i, j] = f(A[i, j])               3 reduction           sum, max, …
1 broadcast    B[i, j] = f(A[j])                  4 out-elementwise-fusable  matmul, conv, pooling
2 injective    B[i, j] = f(A[g(i, j)])            8 opaque              anything else

The rules are those of TVM's `AnnotateTIROpPattern`. The kind of a function is the largest of its
blocks' kinds; a reduction whose result other blocks go on with (softmax, mean) is of kind 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from mlcnb.core.node import Node, children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.analysis.structure import outer_blocks
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.reducers import is_element
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, IterType, Stmt


class OpPatternKind(IntEnum):
    """The fusion kinds, with TVM's numbers."""

    ELEM_WISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEM_WISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


def op_pattern(func: PrimFunc) -> OpPatternKind:
    """The fusion kind of a function in block form."""
    found: OpPatternKind | None = None
    for block in _leaf_blocks(func.body):
        kind = _kind_of(block)
        if found is OpPatternKind.COMM_REDUCE and kind <= OpPatternKind.INJECTIVE:
            kind = OpPatternKind.OUT_ELEM_WISE_FUSABLE
        found = kind if found is None else max(found, kind)
    return OpPatternKind.OPAQUE if found is None else found


def _leaf_blocks(body: Stmt) -> Iterator[Block]:
    """The blocks below the root, not looking into them."""
    root = body.block if isinstance(body, BlockRealize) and not body.block.iter_vars else None
    if root is not None and root.name_hint == "root":
        body = root.body
    yield from (realize.block for realize in outer_blocks(body))


def _kind_of(block: Block) -> OpPatternKind:
    stores = [n for n in walk(block.body) if isinstance(n, BufferStore)]
    if not block.iter_vars or not stores or not _all_at_one_place(stores):
        return OpPatternKind.OPAQUE
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad)]
    reduced = [v.var for v in block.iter_vars if v.iter_type is IterType.REDUCE]
    if reduced:
        pure = all(_is_pure_reduction(load, reduced) for load in loads)
        is_plain = pure and not _is_multiply_add(block.body)
        return OpPatternKind.COMM_REDUCE if is_plain else OpPatternKind.OUT_ELEM_WISE_FUSABLE
    return _index_pattern(stores[0], loads)


def _all_at_one_place(stores: list[BufferStore]) -> bool:
    """True if all stores have the same indices."""
    first = stores[0].indices
    return all(
        len(store.indices) == len(first)
        and all(structural_equal(a, b) for a, b in zip(store.indices, first, strict=True))
        for store in stores
    )


def _index_pattern(store: BufferStore, loads: list[BufferLoad]) -> OpPatternKind:
    kind = OpPatternKind.ELEM_WISE
    has_elementwise = False
    for load in loads:
        found = _relation(store, load)
        has_elementwise |= found is OpPatternKind.ELEM_WISE
        kind = max(kind, found)
    if kind is OpPatternKind.BROADCAST and has_elementwise:
        return OpPatternKind.ELEM_WISE
    return kind


def _relation(store: BufferStore, load: BufferLoad) -> OpPatternKind:
    """How one load's indices follow from the indices of the store."""
    if _is_elementwise(store, load):
        return OpPatternKind.ELEM_WISE
    if _is_broadcast(store, load):
        return OpPatternKind.BROADCAST
    if _is_injective(store, load):
        return OpPatternKind.INJECTIVE
    return OpPatternKind.OPAQUE


def _is_elementwise(store: BufferStore, load: BufferLoad) -> bool:
    return len(load.indices) == len(store.indices) and all(
        structural_equal(a, b) for a, b in zip(load.indices, store.indices, strict=True)
    )


def _is_broadcast(store: BufferStore, load: BufferLoad) -> bool:
    """The load's indices stand among the store's in the same order."""
    position = 0
    for extent, index in zip(load.buffer.shape, load.indices, strict=True):
        if p.is_const(extent, 1) and p.is_const(index, 0):
            continue
        while position < len(store.indices) and store.indices[position] is not index:
            position += 1
        if position == len(store.indices):
            return False
    return True


def _is_injective(store: BufferStore, load: BufferLoad) -> bool:
    """The load uses indices of the store only: no other variable, and no value in memory."""
    known = {i for i in store.indices if isinstance(i, Var)}
    if len(known) != len(store.indices):
        return False
    used = [n for index in load.indices for n in walk(index)]
    return not any(
        isinstance(n, BufferLoad) or (isinstance(n, Var) and n not in known) for n in used
    )


def _index_vars(x: Node) -> Iterator[Var]:
    """The variables of an index; of a load in it, those of its indices."""
    if isinstance(x, Var):
        yield x
    elif not isinstance(x, Buffer):
        for child in children(x):
            yield from _index_vars(child)


def _is_pure_reduction(load: BufferLoad, reduced: list[Var]) -> bool:
    """Each reduce axis that the load uses is an index by itself."""
    for index in load.indices:
        used = [v for v in _index_vars(index) if v in reduced]
        if used and index is not used[0]:
            return False
    return True


def _is_multiply_add(store: Stmt) -> bool:
    """C[…] = C[…] + A[…] * B[…] where both factors are used again: a matmul, a convolution.

    Casts may stand anywhere in the product. A factor is used again where it does not depend on
    every index of C.
    """
    if not isinstance(store, BufferStore):
        return False
    value = store.value
    if not (isinstance(value, e.Add) and is_element(value.a, store)):
        return False
    product = uncast(value.b)
    if not isinstance(product, e.Mul):
        return False
    return all(_is_used_again(store, uncast(side)) for side in (product.a, product.b))


def _is_used_again(store: BufferStore, x: PrimExpr) -> bool:
    if not isinstance(x, BufferLoad):
        return False
    used = {v for index in x.indices for v in _index_vars(index)}
    return any(v not in used for v in store.indices)


def uncast(x: PrimExpr) -> PrimExpr:
    """The value itself, whatever other dtypes it is turned into."""
    while isinstance(x, e.Cast):
        x = x.value
    return x
