"""Elements by their positions along one dimension: take (ONNX Gather)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import as_int, cast, const, if_then_else, logical_and, maximum, minimum
from mlcnb.op._dims import axis_at, refuse, tell, tell_dims, tensor
from mlcnb.op._spell import call, place_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import PrimStructInfo
from mlcnb.tir.index_check import checked, checked_from_end, complaint, inside

MODES = ("fast", "clip", "wrap", "nan", "signed")


def want_integers(op: OpDecl, indices: Any) -> None:
    """Refuse indices that are known to be no integers."""
    if indices.dtype and not indices.dtype.is_integer:
        refuse(op, f"indices must be integers, but are {tell(indices)}")


@operator("relax.take")
class Take(OpDecl):
    """x[..., indices, ...] along `axis`: the dimensions of `indices` stand in place of x's; a
    scalar (`R.prim_value`) has none.

    mode, for indices outside of 0 .. size - 1:
        fast    an ExecutionError            clip  the nearest inside
        wrap    modulo size                  nan   NaN is the value (floats only)
        signed  -1 is the last one, as in NumPy and ONNX; what is outside even so is an error
    """

    takes_scalars = True

    x: Tensor
    indices: Tensor
    axis: int | None = None
    mode: str = "fast"

    def infer(self, x: Any, indices: Any) -> Any:
        """x's dimensions, with those of `indices` in place of `axis`."""
        if isinstance(x, PrimStructInfo):
            refuse(self, f"x has to be a tensor, it is a scalar of {x.dtype}")
        if isinstance(indices, PrimStructInfo):
            indices = tensor((), indices.dtype)
        self.check(x, indices)
        if x.ndim == -1 or indices.ndim == -1:
            return tensor(None, x.dtype)
        axis = self.place(x.ndim, x)
        if x.dims is None or indices.dims is None:
            return tensor(None, x.dtype, x.ndim - 1 + indices.ndim)
        return tensor([*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :]], x.dtype)

    def check(self, x: Any, indices: Any) -> None:
        """Refuse unknown modes and indices that are no integers."""
        if self.mode not in MODES:
            refuse(self, f"no mode {self.mode!r}", hint=f"one of {', '.join(MODES)}")
        want_integers(self, indices)
        if self.mode == "nan" and x.dtype and not x.dtype.is_float:
            refuse(self, f"mode nan needs floats, but x is {tell(x)}")

    def place(self, ndim: int, info: Any = None) -> int:
        """The axis, counted from the front."""
        if self.axis is None and ndim != 1:
            refuse(self, f"without an axis x must have one dimension, but has {ndim}")
        return axis_at(self, self.axis or 0, ndim, info)

    def numpy(self, x: Any, indices: Any) -> Any:
        """numpy.take, with its mode"""
        axis, indices = self.place(np.ndim(x)), np.asarray(indices)
        mode: Any = self.mode
        extent = x.shape[axis]
        if mode in ("fast", "signed"):
            lowest = -extent if mode == "signed" else 0
            return np.take(x, inside(indices, lowest, extent, "take: indices"), axis)
        if mode != "nan":
            return np.take(x, indices, axis, mode=mode)
        found = np.take(x, indices, axis, mode="clip")
        outside = (indices < 0) | (indices >= extent)
        outside = np.reshape(outside, np.shape(indices) + (1,) * (x.ndim - axis - 1))
        return np.where(outside, x.dtype.type(np.nan), found)

    def compute(self, x: Any, indices: Any) -> Any:
        """One copy, whose reads go through `indices`."""
        sizes = () if isinstance(indices, PrimExpr) else tuple(indices.shape)
        axis, many = self.place(len(x.shape)), len(sizes)
        extent = x.shape[axis]

        def source(*index: Any) -> Any:
            scalar = isinstance(indices, PrimExpr)
            at = indices if scalar else indices(*index[axis : axis + many])
            value = x(*index[:axis], self.bounded(at, extent), *index[axis + many :])
            if self.mode != "nan":
                return value
            inside = logical_and(at >= 0, at < extent)
            return if_then_else(inside, value, const(float("nan"), x.dtype))

        shape = [*x.shape[:axis], *sizes, *x.shape[axis + 1 :]]
        return te.compute(shape, source, name="take")

    def bounded(self, at: Any, extent: Any) -> Any:
        """The index that is read for index `at`."""
        if at.dtype.is_uint:
            at = cast("int64", at)
        match self.mode:
            case "wrap":
                return te.floormod(at, extent)
            case "signed":
                return checked_from_end(at, extent, "take: indices")
            case "fast":
                return checked(at, extent, "take: indices")
            case _:  # "clip", and "nan", which then asks
                return maximum(minimum(at, extent - 1), 0)


@onnx("Gather")
def onnx_gather(n: OnnxNode, data: Expr, indices: Expr) -> Expr:
    """Negative indices count from the end; known ones are settled here."""
    dims = n.dims(data)
    axis = place_of(n, n.attr("axis", 0), dims)
    found, mode = settled_indices(n, indices, dims[axis])
    return make_call(Take, data, found, axis=axis, mode=mode)


@onnx("Compress", since=9)
def onnx_compress(n: OnnxNode, x: Expr, condition: Expr) -> Expr:
    """The slices along `axis` (default: elements) where `condition` holds."""
    axis, known = n.attr("axis"), n.known(condition)
    if axis is None:
        x, axis = n.emit(call("relax.flatten", x)), 0
    dims = n.dims(x)
    axis = place_of(n, axis, dims)
    if known is None:
        found = n.emit(call("relax.nonzero", condition))
        return make_call(Take, x, call("relax.squeeze", found, axis=0), axis=axis, mode="signed")
    places = np.flatnonzero(known)
    extent = as_int(dims[axis])
    if extent is not None and places.size and places[-1] >= extent:
        n.refuse(f"the condition holds at {places[-1]}, beyond axis {axis} of {tell_dims(dims)}")
    return make_call(Take, x, constant(places.astype(np.int64)), axis=axis)


def want_inside(
    n: OnnxNode, indices: Expr, extents: Sequence[Any], in_columns: bool = False
) -> None:
    """Refuse indices that are known, and outside of a dimension that is known.

    in_columns: the last dimension of the indices has one for each of `extents`.
    """
    known = n.known(indices)
    if known is None or known.dtype == object:
        return
    for column, size in enumerate(map(as_int, extents)):
        if size is not None:
            wrong = complaint(known, -size, size, "indices", column if in_columns else -1)
            if wrong:
                n.refuse(wrong)


def settled_indices(n: OnnxNode, indices: Expr, extent: Any) -> tuple[Expr, str]:
    """Indices, and the mode that they need: fast where they are known to lie inside."""
    known, size = n.known(indices), as_int(extent)
    if known is None or size is None or known.dtype == object:
        return indices, "signed"
    want_inside(n, indices, [extent])
    if known.size and known.min() >= 0:
        return indices, "fast"
    return constant(np.where(known < 0, known + size, known).astype(known.dtype)), "fast"
