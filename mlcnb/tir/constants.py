"""Constants that stand in a function: memory whose elements are known, and that nothing writes.

K = T.allocate_const([5, -6, 7], "int32", [3])          Allocate(K, "int32", [3], data=array(…))
table = T.decl_buffer((3,), "int32", data=K)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mlcnb.core.errors import ArgumentError, WellFormedError
from mlcnb.core.node import EMPTY, walk
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_expr, as_int, const
from mlcnb.tir.buffer import MatchBufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Allocate, BufferStore, Stmt


def AllocateConst(
    buffer_var: Var,
    kind: Any,
    extents: Sequence[Any],
    data: Any,
    body: Stmt,
    annotations: Any = None,
) -> Allocate:
    """Memory that holds a constant, by TVM's name.

    Args:
        buffer_var: the pointer to it.
        kind: the dtype of its elements.
        extents: its shape.
        data: the elements in the order of memory, as many as the extents say.
        body: what sees it.
        annotations: as of Allocate.

    Raises:
        ArgumentError: no elements of that dtype, another number of them, or an extent that is open.
    """
    sizes = [n for n in map(as_int, map(as_expr, extents)) if n is not None]
    if len(sizes) < len(extents):
        raise ArgumentError("a constant in a function needs extents that are numbers")
    of = dtype(str(kind))
    try:
        array = np.array(data, of.numpy)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"the constant is no array of {of}: {error}") from error
    if array.size != prod(sizes):
        raise ArgumentError(
            f"the constant has {array.size} elements, the extents {sizes} take {prod(sizes)}"
        )
    array = array.reshape(sizes)
    array.flags.writeable = False
    marks = annotations or EMPTY
    return Allocate(buffer_var, of, tuple(extents), const(True), body, marks, array)


def is_plain(n: Allocate) -> bool:
    """True for memory that may be shared, moved or cut: no constant, and nothing is said of it."""
    return n.data is None and not n.annotations


def refuse_stores_to_constants(func: PrimFunc) -> None:
    """Refuse stores to memory that holds a constant, also by the name of a view.

    Raises:
        WellFormedError: naming the buffer.
    """
    made = (x for x in walk(func.body) if isinstance(x, Allocate))
    constants = {x.buffer_var for x in made if x.data is not None}
    if not constants:
        return
    for view in (x for x in walk(func.body) if isinstance(x, MatchBufferRegion)):
        if view.source.buffer.data in constants:
            constants.add(view.buffer.data)
    for x in walk(func.body):
        if isinstance(x, BufferStore) and x.buffer.data in constants:
            raise WellFormedError(
                f"{x.buffer.name} is a constant, and nothing may write it",
                where=x,
                root=func,
                hint="copy it to a buffer of T.alloc_buffer",
            )
