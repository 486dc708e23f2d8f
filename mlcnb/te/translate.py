"""From expressions of tensors to expressions of buffers, in the index dtype of one function.

    A[i, k * 2]  (ProducerLoad)   ->   A[v_i, v_k * 2]  (BufferLoad)

Axes become block variables of the index dtype (int32, or int64 in functions over symbolic shapes);
what is computed from them follows by the folding constructors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, map_children, replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import FOLDING
from mlcnb.te.tensor import Tensor
from mlcnb.tir.buffer import Buffer, BufferLoad, ProducerLoad
from mlcnb.tir.stmt import BufferStore, For, IterVar, Reduce

_REBUILD = {**FOLDING, e.Mod: p.truncmod}

#: what cannot be folded where it divides by zero
_DIVISIONS = (e.FloorDiv, e.FloorMod, e.Mod)

_REBUILD_CALL: dict[str, Callable[..., PrimExpr]] = {
    f"tir.{name}": getattr(p, name)
    for name in (
        "if_then_else bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right"
    ).split()
}


class Translator:
    """Rewrites expressions for one block.

    buffers: Tensor -> Buffer; values: variable -> what stands for it (in its new dtype); index: the
    dtype of the function's indices.
    """

    def __init__(
        self, buffers: Mapping[Tensor, Buffer], values: Mapping[Any, PrimExpr], index: DType
    ) -> None:
        self.buffers = buffers
        self.values = values
        self.index = index
        self.done: dict[int, Any] = {}

    def __call__(self, n: Any) -> Any:
        """`n` translated; the same object where nothing in it changes."""
        found = self.done.get(id(n))
        if found is None:
            found = self.done[id(n)] = self.fresh(n)
        return found

    def fresh(self, n: Any) -> Any:
        """`n` translated, not looked up."""
        if isinstance(n, e.Var):
            return self.values.get(n, n)
        if isinstance(n, IterVar):
            return self.values[n.var]
        if isinstance(n, ProducerLoad):
            return BufferLoad(self.buffers[n.producer], tuple(map(self.as_index, n.indices)))
        if isinstance(n, Reduce):
            raise MLCError("a reduction must be the whole expression of a compute")
        if isinstance(n, Buffer | For):
            return n
        rebuilt = map_children(n, self)
        return n if rebuilt is n else _match(n, rebuilt)

    def as_index(self, x: PrimExpr) -> PrimExpr:
        """An index translated; a number in the index dtype."""
        return p.const(x.value, self.index) if isinstance(x, e.IntImm) else self(x)


def _match(old: Any, new: Any) -> Node:
    """`new` with the dtypes of its operands matched again."""
    build = _REBUILD.get(type(new))
    if build is not None:
        by_zero = isinstance(new, _DIVISIONS) and p.is_const(new.b, 0)
        return replace(new, b=p.const(0, new.a.dtype)) if by_zero else build(new.a, new.b)
    if isinstance(new, e.Div) and not new.a.dtype.is_float:
        return p.truncdiv(new.a, new.b)
    if isinstance(new, e.Cast):
        return p.cast(new.dtype, new.value)
    if isinstance(new, e.Select):
        return p.select(new.condition, new.true_value, new.false_value)
    if isinstance(new, BufferStore):
        return BufferStore(new.buffer, p.cast(new.buffer.dtype, new.value), new.indices)
    if isinstance(new, e.Call):
        if new.op in _REBUILD_CALL:
            return _REBUILD_CALL[new.op](*new.args)
        args = tuple(_as_before(a, b) for a, b in zip(old.args, new.args, strict=True))
        return e.Call(new.dtype, new.op, args, new.span)
    return new


def _as_before(old: PrimExpr, new: PrimExpr) -> PrimExpr:
    return new if old.dtype.is_handle else p.cast(old.dtype, new)


def index_dtype(dims: Any, override: str | None = None) -> DType:
    """The dtype of indices in a function over tensors with the given shapes.

    int64 where a dimension is a symbolic int64, or a tensor has 2**31 elements or more.
    """
    if override is not None:
        return p.dtype(override)
    for shape in dims:
        size = 1
        for dim in shape:
            if dim.dtype.bits > 32:
                return p.dtype("int64")
            size *= p.as_int(dim) or 1
        if size >= 1 << 31:
            return p.dtype("int64")
    return p.dtype("int32")
