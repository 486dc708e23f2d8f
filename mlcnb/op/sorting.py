"""Order: sort, argsort, topk.

A few of the first are kept in order while a row is read. All others stand on sorts of positions and
on the selection of some (`_sort`, `_select`).

NaN counts as larger than all numbers: last where the order rises, first where it falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.op._accumulate import wide
from mlcnb.op._convert import convert
from mlcnb.op._dims import as_int, axis_at, exceeds, refuse, tell, tensor, want_axis
from mlcnb.op._elementwise import ANY, want_kinds
from mlcnb.op._loops import (
    Place,
    held,
    hold,
    index_dtype,
    let,
    load,
    loop,
    rows,
    scratch,
    seq,
    store,
    with_scratch,
)
from mlcnb.op._select import passing, selected_rows
from mlcnb.op._sort import Before, falling, order_of, rising
from mlcnb.op._spell import scalar_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt, While

#: so many of the first elements are found by insertion, which costs more for each the more they are
INSERTED = 128
#: and so few before any other way, of however many
SHORT = 64


def positions(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The stable order of the elements along an axis, in NumPy."""
    if not descending:
        return np.argsort(wide(x), axis, kind="stable")
    back = np.argsort(np.flip(wide(x), axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(back, axis)


def first_of(x: te.Tensor, axis: int, count: Any, descending: bool) -> te.Tensor:
    """The first `count` of that order: by insertion, by selection, or of the whole order."""
    few, size = as_int(count), as_int(x.shape[axis])
    if few is None or (size is not None and few > max(size // 4, SHORT)):
        return order_of(x, axis, descending)
    first = _insertion if few <= INSERTED else selected_rows

    def loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return first(ins[0], outs[0], axis, few, falling if descending else rising)

    kind = "int32" if all(as_int(d) is not None for d in x.shape) else "int64"
    shape = [*x.shape[:axis], few, *x.shape[axis + 1 :]]
    return te.extern(shape, [x], loops, "first", kind)


def _insertion(data: Buffer, order: Buffer, axis: int, count: int, before: Before) -> Stmt:
    """The best so far, in order: most elements are compared with the last of them only.

    Args:
        count: of the best; no more than there are elements.
    """
    index = index_dtype(data)
    best = scratch("best", data.dtype, count)
    hole, found = scratch("hole", order.dtype), scratch("found", "int32")

    def row(place: Place) -> Stmt:
        def shift(value: Var) -> Stmt:
            """Up to the hole, those that come after `value` make room for it."""
            previous = p.maximum(held(hole) - 1, 0)
            after = p.logical_and(p.greater(held(hole), 0), before(value, load(best, previous)))
            moved = seq(
                store(best, [held(hole)], load(best, previous)),
                store(order, place(held(hole)), load(order, *place(previous))),
                hold(hole, held(hole) - 1),
            )
            return While(after, moved)

        def put(k: Any, value: Var, last: Any) -> Stmt:
            return seq(
                hold(hole, last),
                shift(value),
                store(best, [held(hole)], value),
                store(order, place(held(hole)), k),
            )

        def first(k: Var) -> Stmt:
            value: PrimExpr = load(data, *place(k))
            if as_int(data.shape[axis]) is None:  # too few are refused where they are gathered
                there = p.less(k, data.shape[axis])
                value = p.if_then_else(there, value, p.const(0, data.dtype))
            return let(lambda v: put(k, v, k), value=value)

        def is_better(k: Any) -> PrimExpr:
            return before(load(data, *place(k + count)), load(best, count - 1))

        def later(k: Any) -> Stmt:
            return let(lambda v: put(k + count, v, count - 1), value=load(data, *place(k + count)))

        rest = data.shape[axis] - count
        if axis == len(data.shape) - 1:
            return seq(
                loop("k", count, first, index), passing(found, rest, is_better, later, index)
            )
        each = loop("k", rest, lambda k: IfThenElse(is_better(k), later(k)), index)
        return seq(loop("k", count, first, index), each)

    buffers = [best, hole, found]
    return with_scratch(buffers, rows(data.shape, axis, row, index), name="insertion")


def gathered(x: te.Tensor, order: te.Tensor, axis: int, count: Any, name: str) -> te.Tensor:
    """The first `count` elements of x in that order."""
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]

    def element(*index: Any) -> Any:
        return x(*index[:axis], order(*index), *index[axis + 1 :])

    return te.compute(shape, element, name=name)


def converted(order: te.Tensor, shape: Sequence[Any], kind: str, name: str) -> te.Tensor:
    """The first positions of an order, in another dtype."""
    return te.compute(tuple(shape), lambda *i: p.cast(kind, order(*i)), name=name)


@operator("relax.sort")
class Sort(OpDecl):
    """The elements in order along `axis`; equal ones keep theirs."""

    x: Tensor
    axis: int = -1
    descending: bool = False

    def infer(self, x: Any) -> Any:
        """As x."""
        want_kinds(self, ANY, x=x)
        want_axis(self, x)
        return x

    def numpy(self, x: Any) -> Any:
        """numpy.sort, stable"""
        return np.take_along_axis(x, positions(x, self.axis, self.descending), self.axis)

    def compute(self, x: Any) -> Any:
        """The order, then one copy."""
        axis = self.axis % len(x.shape)
        return gathered(x, order_of(x, axis, self.descending), axis, x.shape[axis], "sort")


@operator("relax.argsort")
class Argsort(OpDecl):
    """The positions, in `dtype`, of the elements in order along `axis`; equal ones keep theirs."""

    data: Tensor
    axis: int = -1
    descending: bool = False
    dtype: str = "int32"

    def infer(self, data: Any) -> Any:
        """data's shape."""
        want_kinds(self, ANY, data=data)
        want_axis(self, data)
        return replace(data, dtype=dtype(self.dtype))

    def numpy(self, data: Any) -> Any:
        """numpy.argsort, stable"""
        return convert(positions(data, self.axis, self.descending), self.dtype)

    def compute(self, data: Any) -> Any:
        """The order, converted."""
        axis = self.axis % len(data.shape)
        order = order_of(data, axis, self.descending)
        return converted(order, data.shape, self.dtype, "argsort")


@operator("relax.topk")
class Topk(OpDecl):
    """The first `k` elements in order along `axis`: the largest, or the smallest.

    ret_type: "both" (values, indices), "values" or "indices". dtype: of the indices. Of equal ones
    the first comes first. k below 1: all.
    """

    data: Tensor
    k: int = 1
    axis: int = -1
    ret_type: str = "both"
    largest: bool = True
    dtype: str = "int32"

    def infer(self, data: Any) -> Any:
        """data, with k in place of that dimension: values, indices, or a tuple of both."""
        want_kinds(self, ANY, data=data)
        if self.ret_type not in ("both", "values", "indices"):
            refuse(self, f"no ret_type {self.ret_type!r}", hint="both, values or indices")
        values = self.cut(data)
        indices = replace(values, dtype=dtype(self.dtype))
        if self.ret_type == "both":
            return TupleStructInfo((values, indices))
        return values if self.ret_type == "values" else indices

    def cut(self, data: Any) -> Any:
        """data, with k in place of its dimension `axis`."""
        if data.ndim == -1:
            return data
        axis = axis_at(self, self.axis, data.ndim, data)
        if data.dims is None:
            return data
        if exceeds(self.k, data.dims[axis]):
            refuse(self, f"there are no {self.k} elements in axis {axis} of {tell(data)}")
        count = self.k if self.k >= 1 else data.dims[axis]
        return tensor([*data.dims[:axis], count, *data.dims[axis + 1 :]], data.dtype)

    def numpy(self, data: Any) -> Any:
        """numpy.argsort, stable, cut off"""
        order = positions(data, self.axis, self.largest)
        count = self.k if self.k >= 1 else data.shape[self.axis]
        order = np.take(order, np.arange(count), self.axis)
        return self.chosen(
            lambda: np.take_along_axis(data, order, self.axis), lambda: convert(order, self.dtype)
        )

    def compute(self, data: Any) -> Any:
        """The order, then one copy of each result."""
        axis = self.axis % len(data.shape)
        count = self.k if self.k >= 1 else data.shape[axis]
        order = first_of(data, axis, count, self.largest)
        shape = [*data.shape[:axis], count, *data.shape[axis + 1 :]]
        return self.chosen(
            lambda: gathered(data, order, axis, count, "topk_values"),
            lambda: converted(order, shape, self.dtype, "topk_indices"),
        )

    def chosen(self, values: Callable[[], Any], indices: Callable[[], Any]) -> Any:
        """What `ret_type` asks for."""
        if self.ret_type == "both":
            return values(), indices()
        return values() if self.ret_type == "values" else indices()


@onnx("TopK")
def onnx_topk(n: OnnxNode, x: Expr, k: Expr | None = None) -> Any:
    """k is an attribute before opset 10, then an input that must be known at import."""
    axis, largest = n.attr("axis", -1), bool(n.attr("largest", 1))
    count = int(scalar_of(n, k, "k"))
    if count < 0:
        n.refuse(f"k is {count}")
    if count == 0:
        n.refuse("k is 0: a result without elements is not supported")
    both = n.emit(make_call(Topk, x, count, axis, "both", largest, "int64"))
    return both[0], both[1]
