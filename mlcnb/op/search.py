"""Where something is: argmax, argmin, bucketize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.op._accumulate import accumulator
from mlcnb.op._dims import (
    as_int,
    product,
    ravel,
    refuse,
    tell,
    tensor,
    tidy,
    want_rank,
    want_same_dtype,
)
from mlcnb.op._elementwise import NUMBERS, short_name, want_kinds
from mlcnb.op._reduce import reduce_compute, reduced_axes, reduced_info
from mlcnb.op._spell import Formula, call, place_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.tir.index_check import checked

#: so many are looked at twice, by vectors; fewer once, element by element
MANY = 8


class _ArgExtreme(OpDecl):
    """Base of argmax and argmin."""

    __slots__ = ()
    cost = 1

    x: Tensor
    axis: int | None = None
    keepdims: bool = False
    meaning: ClassVar[Callable[..., Any]]
    #: is the first value before the second?
    ahead: ClassVar[Callable[..., Any]]
    #: the reducer that finds the value alone
    extreme: ClassVar[Callable[..., Any]]
    #: the value of a dtype that is behind all others
    last: ClassVar[Callable[..., PrimExpr]]

    def infer(self, x: Any) -> Any:
        """x without that dimension, int64."""
        want_kinds(self, NUMBERS, x=x)
        if x.dims is not None:
            axes = reduced_axes(self, self.axis, x.ndim, x)
            if any(as_int(x.dims[a]) == 0 for a in axes):
                refuse(self, f"{tell(x)} has no element to choose from")
        return reduced_info(self, x, self.axis, self.keepdims, "int64")

    def numpy(self, x: Any) -> Any:
        """numpy.argmax or argmin"""
        return np.asarray(self.meaning(x, axis=self.axis, keepdims=self.keepdims), np.int64)

    def compute(self, x: Any) -> Any:
        """Of many along one axis the value, then its first place; else pairs (index, value)."""
        axes = reduced_axes(self, self.axis, len(x.shape))
        if not axes:
            return te.compute(x.shape, lambda *_: p.const(0, "int64"), name=short_name(self))
        extent = as_int(x.shape[axes[0]])
        if len(axes) == 1 and extent and extent >= MANY:
            return self.along(x, axes, "int32" if extent < 2**31 else "int64")

        def pair(*index: Any) -> Any:
            place = ravel([index[a] for a in axes], [x.shape[a] for a in axes])
            return p.cast("int64", place), x(*index)

        reducer = te.comm_reducer(self.better, self.worst, short_name(self))
        name = short_name(self)
        found = reduce_compute(reducer, pair, x.shape, axes, self.keepdims, name)[0]
        extent = product([x.shape[a] for a in axes])
        if as_int(extent) is not None:
            return found
        first = checked(p.const(0, "int64"), extent, f"{name}: the first element")
        return te.compute(found.shape, lambda *at: found(*at) + first, name=f"{name}_of_some")

    def along(self, x: Any, axes: Any, kind: str) -> Any:
        """The extreme of each row, then the first place where it stands: both by vectors.

        A row with a NaN has NaN for its extreme, and its first NaN is looked for.
        """
        name, beyond = short_name(self), p.max_value(kind)
        (axis,), inside = axes, accumulator(x.dtype)

        def given(*index: Any) -> Any:
            return p.cast(inside, x(*index))

        extreme = reduce_compute(self.extreme, given, x.shape, axes, False, f"{name}_value")

        def place(*index: Any) -> Any:
            value = given(*index)
            stands = p.equal(value, extreme(*index[:axis], *index[axis + 1 :]))
            if x.dtype.is_float:
                stands = p.logical_or(stands, te.isnan(value))
            return te.Select(stands, p.cast(kind, p.cast("int64", index[axis])), beyond)

        first = reduce_compute(te.min, place, x.shape, axes, self.keepdims, f"{name}_place")
        return te.compute(first.shape, lambda *at: p.cast("int64", first(*at)), name=name)

    def better(self, a: Any, b: Any) -> Any:
        """Of two pairs the one that is ahead; of equal ones the first. NaN is ahead of all."""
        (i, v), (j, w) = a, b
        first, tie = self.ahead(v, w), p.equal(v, w)
        if v.dtype.is_float:
            one, two = te.isnan(v), te.isnan(w)
            first = p.logical_or(first, p.logical_and(one, p.logical_not(two)))
            tie = p.logical_or(tie, p.logical_and(one, two))
        chosen = p.logical_or(first, p.logical_and(tie, p.less(i, j)))
        return te.Select(chosen, i, j), te.Select(chosen, v, w)

    def worst(self, index: DType, value: DType) -> tuple[PrimExpr, PrimExpr]:
        """Behind every pair: the last value, at an index beyond all."""
        return p.max_value(index), self.last(value)


def _least(kind: DType) -> PrimExpr:
    return p.neg(p.infinity(kind)) if kind.is_float and kind.bits >= 16 else p.min_value(kind)


def _most(kind: DType) -> PrimExpr:
    return p.infinity(kind) if kind.is_float and kind.bits >= 16 else p.max_value(kind)


@operator("relax.argmax")
class Argmax(_ArgExtreme):
    """The index, int64, of the largest element along `axis` (None: in the flat tensor).

    The first of equal ones; a NaN is larger than all.
    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.argmax.html
    """

    meaning = staticmethod(np.argmax)
    ahead = staticmethod(p.greater)
    extreme = staticmethod(te.max)
    last = staticmethod(_least)


@operator("relax.argmin")
class Argmin(_ArgExtreme):
    """The index, int64, of the smallest element along `axis` (None: in the flat tensor).

    The first of equal ones; a NaN is smaller than all.
    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.argmin.html
    """

    meaning = staticmethod(np.argmin)
    ahead = staticmethod(p.less)
    extreme = staticmethod(te.min)
    last = staticmethod(_most)


@onnx("ArgMax")
@onnx("ArgMin")
def onnx_arg_extreme(n: OnnxNode, data: Expr) -> Expr:
    """Along `axis`; `select_last_index` asks for the last of equal ones."""
    decl = Argmax if n.op_type == "ArgMax" else Argmin
    axis, keepdims = n.attr("axis", 0), bool(n.attr("keepdims", 1))
    if not n.attr("select_last_index", 0):
        return make_call(decl, data, axis=axis, keepdims=keepdims)
    extent = n.dims(data)[place_of(n, axis, n.dims(data))]
    last = Formula(n).size_of(tidy(extent - 1))
    flipped = n.emit(call("relax.flip", data, axis=axis))
    found = n.emit(make_call(decl, flipped, axis=axis, keepdims=keepdims))
    return call("relax.subtract", last, found)


@operator("relax.bucketize")
class Bucketize(OpDecl):
    """For each element the number of the bucket between rising `boundaries` in which it lies.

    Bucket i holds boundaries[i - 1] < x <= boundaries[i]; with `right`, <= x <. NaN is beyond all.
    out_int32: the result is int32, else int64. Semantics: torch.bucketize.
    """

    tir_name = "searchsorted"

    input_tensor: Tensor
    boundaries: Tensor
    out_int32: bool = False
    right: bool = False

    def infer(self, input_tensor: Any, boundaries: Any) -> Any:
        """input_tensor's shape."""
        want_kinds(self, NUMBERS, input_tensor=input_tensor, boundaries=boundaries)
        want_same_dtype(self, input_tensor=input_tensor, boundaries=boundaries)
        want_rank(self, "boundaries", boundaries, 1)
        return tensor(input_tensor.dims, self.result_dtype, input_tensor.ndim)

    @property
    def result_dtype(self) -> DType:
        """int32 or int64."""
        return dtype("int32" if self.out_int32 else "int64")

    def numpy(self, input_tensor: Any, boundaries: Any) -> Any:
        """numpy.searchsorted"""
        side = "right" if self.right else "left"
        found = np.searchsorted(boundaries, input_tensor, side)  # type: ignore[call-overload]
        return np.asarray(found, self.result_dtype.numpy)

    def compute(self, input_tensor: Any, boundaries: Any) -> Any:
        """How many boundaries are passed."""
        k = te.reduce_axis((0, boundaries.shape[0]), name="k")
        stops = p.greater if self.right else p.greater_equal

        def count(*index: Any) -> Any:
            passed = p.logical_not(stops(boundaries(k), input_tensor(*index)))
            return te.sum(p.cast(self.result_dtype, passed), axis=k)

        return te.compute(input_tensor.shape, count, name="bucketize")
