"""RemoveStoreUndef: a store of a value that was never given is no store.

A[0] = T.undef(dtype="int32") + 1        ->        (nothing)
"""

from __future__ import annotations

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, walk
from mlcnb.ir import expr as e
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING, rewrite_statements, taken
from mlcnb.tir.stmt import BufferStore, LetStmt


def remove_store_undef(func: PrimFunc) -> PrimFunc:
    """`func` without stores of undefined values, and the variables that hold some.

    Raises:
        PassError: an undefined value is an index.
    """
    undefined: set[Node] = set()
    for n in walk(func.body):
        if isinstance(n, LetStmt) and _is_undefined(n.value, undefined):
            undefined.add(n.var)
    if not undefined and not _is_undefined(func.body, undefined):
        return func
    _check_indices(func, undefined)

    def rule(n: Node) -> Node | None:
        if isinstance(n, BufferStore) and _is_undefined(n.value, undefined):
            return NOTHING
        if isinstance(n, LetStmt) and n.var in undefined:
            return n.body
        return taken(n)

    return func.with_body(rewrite_statements(func.body, rule))


def _is_undefined(n: Node, undefined: set[Node]) -> bool:
    return any(x in undefined or (isinstance(x, e.Call) and x.op == "tir.undef") for x in walk(n))


def _check_indices(func: PrimFunc, undefined: set[Node]) -> None:
    for n in walk(func.body):
        if not isinstance(n, BufferLoad | BufferStore):
            continue
        if any(_is_undefined(index, undefined) for index in n.indices):
            raise PassError(
                f"RemoveStoreUndef: an index of {n.buffer.name} is undefined", where=n, root=func
            )


class RemoveStoreUndef(PrimFuncPass):
    """Remove stores of `T.undef()`."""

    work = staticmethod(remove_store_undef)
