"""The middle of ordered elements: median."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.op._dims import as_int, axis_at, product, refuse, tell, tensor, tidy, unravel
from mlcnb.op._elementwise import NUMBERS, want_kinds
from mlcnb.op._reduce import reduce_compute, reduced_dims
from mlcnb.op._sort import order_of
from mlcnb.op.sorting import positions
from mlcnb.relax.operator import OpDecl, Tensor, operator
from mlcnb.relax.struct_info import TupleStructInfo


@operator("relax.median")
class Median(OpDecl):
    """The middle one of the ordered elements, of two in the middle the smaller; NaN where one is.

    axis: None (of all elements), or one dimension: then the result is a tuple, of the values and of
    their positions (int64; of NaN the first). keepdims leaves what goes as 1.
    Semantics: torch.median.
    """

    x: Tensor
    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False

    def infer(self, x: Any) -> Any:
        """One tensor, or a tuple of values and indices."""
        want_kinds(self, NUMBERS, x=x)
        place = self.place
        if x.ndim == -1:
            return self.results(None, x.dtype)
        axes = range(x.ndim) if place is None else [axis_at(self, place, x.ndim, x)]
        if x.dims is None:
            return self.results(None, x.dtype, x.ndim if self.keepdims else x.ndim - len(axes))
        if any(as_int(x.dims[a]) == 0 for a in axes):
            refuse(self, f"{tell(x)} has no element in the middle")
        return self.results(reduced_dims(x.dims, axes, self.keepdims), x.dtype)

    @property
    def place(self) -> int | None:
        """The one dimension, or None for all."""
        if isinstance(self.axis, int) or self.axis is None:
            return self.axis
        if len(self.axis) != 1:
            refuse(self, f"axis {self.axis} is not one dimension", hint="give one, or None for all")
        return self.axis[0]

    def results(self, dims: Any, kind: Any, ndim: int = -1) -> Any:
        """Values alone where all elements are ordered, else values and indices."""
        values = tensor(dims, kind, ndim)
        if self.axis is None:
            return values
        return TupleStructInfo((values, tensor(dims, "int64", ndim)))

    def numpy(self, x: Any) -> Any:
        """numpy.argsort, stable, and the middle of it"""
        place = self.place
        rows = np.reshape(x, -1) if place is None else np.moveaxis(x, place, -1)
        numbers = np.sum(rows == rows, -1, keepdims=True)
        count = rows.shape[-1]
        at = np.where(numbers < count, numbers, (count - 1) // 2)
        middle = np.take_along_axis(positions(rows, -1, False), at, -1)
        found = [np.take_along_axis(rows, middle, -1), middle.astype(np.int64)]
        if place is None:
            shape = (1,) * x.ndim if self.keepdims else ()
            return np.reshape(found[0], shape)
        moved = [np.moveaxis(f, -1, place) for f in found]
        return tuple(f if self.keepdims else np.squeeze(f, place) for f in moved)

    def compute(self, x: Any) -> Any:
        """The order, then the middle of it."""
        place, dims = self.place, x.shape
        if place is None:
            flat = te.compute((tidy(product(dims)),), lambda i: x(*unravel(i, dims)), name="flat")
            order, middle = order_of(flat, 0, False), _middle(flat, 0, False)
            shape = (1,) * len(dims) if self.keepdims else ()
            return te.compute(shape, lambda *_: flat(order(middle())), name="median")
        axis = place % len(dims)
        order, middle = order_of(x, axis, False), _middle(x, axis, self.keepdims)
        shape = reduced_dims(dims, [axis], self.keepdims)

        def index(*i: Any) -> tuple[Any, ...]:
            after = i[axis + 1 :] if self.keepdims else i[axis:]
            return (*i[:axis], middle(*i), *after)

        def value(*i: Any) -> Any:
            full = index(*i)
            return x(*full[:axis], order(*full), *full[axis + 1 :])

        def position(*i: Any) -> Any:
            return p.cast("int64", order(*index(*i)))

        values = te.compute(shape, value, name="median_values")
        return values, te.compute(shape, position, name="median_indices")


def _middle(x: te.Tensor, axis: int, keepdims: bool) -> Callable[..., Any]:
    """Where the median of each row stands in its order: NaN, ordered last, come before the middle.

    Args:
        x: the rows lie along `axis`.
        keepdims: whether a place has an index for it.
    """
    count = x.shape[axis]
    half = p.floordiv(count - 1, 2)
    if not x.dtype.is_float:
        return lambda *_: half
    kind = "int64" if as_int(count) is None else "int32"

    def number(*i: Any) -> Any:
        return p.cast(kind, p.logical_not(te.isnan(x(*i))))

    numbers = reduce_compute(te.sum, number, x.shape, [axis], keepdims, "median_numbers")

    def place(*i: Any) -> Any:
        found = numbers(*i)
        return te.Select(p.less(found, p.cast(kind, count)), found, p.cast(kind, half))

    return place
