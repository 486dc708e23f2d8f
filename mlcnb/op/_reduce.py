"""Reductions: which dimensions go, what shape is left, and the loops.

    Sum = reduction("sum", np.sum, te.sum, NUMBERS, "The sum")     fields: x, axis, keepdims

axis: a dimension or several, negative ones from the end; None: all of them; (): none of them.
Half precision is summed in float32 and rounded once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from mlcnb import te
from mlcnb.core.node import replace
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import axes_at, product, tensor, tidy
from mlcnb.op._elementwise import Kinds, operator_of_table, quiet, short_name, want_kinds
from mlcnb.relax.operator import OpDecl
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.traits import Order

Axes = int | tuple[int, ...] | None


def reduced_axes(op: OpDecl, axis: Axes, ndim: int, info: Any = None) -> tuple[int, ...]:
    """The dimensions that go, counted from the front, in order."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(axes_at(op, (axis,) if isinstance(axis, int) else axis, ndim, info)))


def reduced_dims(dims: Sequence[Any], axes: Sequence[int], keepdims: bool) -> tuple[Any, ...]:
    """The dimensions that are left: those that went are 1, or missing."""
    kept = [1 if i in axes else d for i, d in enumerate(dims)]
    return tuple(kept if keepdims else [d for i, d in enumerate(dims) if i not in axes])


def reduced_info(op: OpDecl, x: TensorStructInfo, axis: Axes, keepdims: bool, kind: Any) -> Any:
    """The tensor that a reduction of x gives."""
    if x.ndim == -1:
        return tensor((), kind) if axis is None and not keepdims else tensor(None, kind)
    axes = reduced_axes(op, axis, x.ndim, x)
    if x.dims is None and len(axes) == x.ndim:
        return tensor([1] * x.ndim if keepdims else [], kind)
    if x.dims is None:
        return tensor(None, kind, x.ndim if keepdims else x.ndim - len(axes))
    return tensor(reduced_dims(x.dims, axes, keepdims), kind)


def reduce_compute(
    fn: Callable[..., Any],
    element: Callable[..., Any],
    shape: Sequence[Any],
    axes: Sequence[int],
    keepdims: bool,
    name: str,
) -> Any:
    """One loop nest: out[i] = fn over k of element(*i with k in the place of `axes`).

    Args:
        fn: a reducer such as te.sum.
        element: from an index of the input to what is combined (or a tuple, for several at once).
        shape: of the input.
        axes: the dimensions that go; where there are none, nothing is combined. Where one is known
            to be empty, its loop would not start, and the reducer's identity is stored outright.
        keepdims: whether they stay as 1.
        name: of the block.
    """
    nothing = any(as_int(shape[a]) == 0 for a in axes)
    over = {a: te.reduce_axis((0, shape[a]), name=f"k{a}") for a in axes}

    def source(*index: Any) -> Any:
        rest = iter(i for at, i in enumerate(index) if not (keepdims and at in over))
        full = [over[at] if at in over else next(rest) for at in range(len(shape))]
        value = element(*full)
        if not over:
            return value
        made = fn(value, axis=list(over.values()))
        return made.combiner.identity_element[0] if nothing else made

    return te.compute(reduced_dims(shape, axes, keepdims), source, name=name)


class Reduction(OpDecl):
    """Base of reductions of one tensor to one of the same dtype."""

    __slots__ = ()
    cost = 1
    axis: Axes
    keepdims: bool
    #: (array, axis, keepdims) -> array
    meaning: ClassVar[Callable[..., Any]]
    #: reducer
    loop: ClassVar[Callable[..., Any]]
    accepts: ClassVar[Kinds]
    #: whether half precision is combined in float32
    widens: ClassVar[bool] = True

    def in_order(self, order: Order) -> Any:
        """The dimensions that are left keep their order."""
        given: Any = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        if None in given:
            return None
        axes = [a % len(order) for a in given]
        left = [a for a in order if a not in axes]
        after = order if self.keepdims else tuple(sorted(left).index(a) for a in left)
        places = tuple(order.index(a) for a in axes)
        return (replace(self, axis=places), after) if after else None

    def in_blocks(self, layout: str) -> Any:
        """Over all places of an image."""
        axes: Any = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        images = None not in axes and sorted(a % 4 for a in axes) == [2, 3]
        return replace(self, axis=(2, 3)) if images and self.keepdims else None

    def infer(self, x: Any) -> Any:
        """x without those dimensions."""
        want_kinds(self, self.accepts, x=x)
        return reduced_info(self, x, self.axis, self.keepdims, x.dtype)

    def numpy(self, x: Any) -> Any:
        """The meaning, formed in the accumulation dtype, rounded to x's."""
        array = np.asarray(x)
        axes = reduced_axes(self, self.axis, array.ndim)
        wide = array.astype(self.inside(dtype(array.dtype.name)).numpy, copy=False)
        found = quiet(self.meaning, wide, axes, self.keepdims)
        return np.asarray(found).astype(array.dtype, copy=False)

    def inside(self, kind: DType) -> DType:
        """The dtype in which values are combined."""
        return accumulator(kind) if self.widens else kind

    def compute(self, x: Any) -> Any:
        """One loop nest, and one that rounds half precision."""
        return rounded(self.combined(x), x.dtype, f"{short_name(self)}_cast")

    def combined(self, x: Any, keepdims: bool | None = None, name: str | None = None) -> Any:
        """The loop nest, in the accumulation dtype."""
        axes = reduced_axes(self, self.axis, len(x.shape))
        kind = self.inside(x.dtype)
        keep = self.keepdims if keepdims is None else keepdims

        def element(*index: Any) -> Any:
            return cast(kind, x(*index))

        return reduce_compute(self.loop, element, x.shape, axes, keep, name or short_name(self))

    def count(self, shape: Sequence[Any]) -> Any:
        """How many elements are combined to one."""
        return tidy(product(shape[a] for a in reduced_axes(self, self.axis, len(shape))))


def reduction(
    name: str,
    meaning: Callable[..., Any],
    loop: Callable[..., Any],
    accepts: Kinds,
    doc: str,
    base: type = Reduction,
    **more: Any,
) -> Any:
    """Declare a reduction: a line of a table. Arguments as of `_elementwise.unary`."""
    return operator_of_table(
        sys._getframe(1),
        name,
        base,
        f"{doc}, over the dimensions `axis` (None: all); `keepdims` leaves them as 1.",
        {"x": "Tensor", "axis": Axes, "keepdims": bool},
        axis=None,
        keepdims=False,
        meaning=staticmethod(meaning),
        loop=staticmethod(loop),
        accepts=accepts,
        **more,
    )
