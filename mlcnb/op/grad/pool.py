"""grad.max_pool2d_backward, grad.avg_pool2d_backward, and along 1 and over 3 dimensions: what each
window gives to what it saw.

max   all of it to the largest element; of several to the first, row by row
avg   an equal share to each element that counted

An element y of a dimension is seen by place p of the window at its element r where
p * stride + r * dilation = y + padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import all_of, cast, const
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, rounded, wide
from mlcnb.op._dims import refuse, size, tell, unfit, want_same_dtype
from mlcnb.op.nn import _pool_loops as loops
from mlcnb.op.nn._window import PerDimension, of_each_rank, settle
from mlcnb.op.nn.pool import AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d
from mlcnb.relax.operator import OpDecl, Tensor

_ATTRIBUTES = (
    *("pool_size", "strides", "padding", "dilation", "ceil_mode"),
    *("count_include_pad", "layout", "out_layout"),
)


class PoolBackward(OpDecl):
    """What both have in common: everything but what a window gives."""

    __slots__ = ()
    #: the operators along 1, over 2 and over 3 dimensions whose gradients these are
    pools: ClassVar[tuple[Any, ...]]

    output_grad: Tensor
    data: Tensor
    pool_size: PerDimension = (1,)
    strides: PerDimension = (1,)
    padding: PerDimension = (0, 0)
    dilation: PerDimension = (1,)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NCW"
    out_layout: str | None = None

    def __post_init__(self) -> None:
        settled = self.forward
        settle(self, **{name: getattr(settled, name) for name in _ATTRIBUTES})

    @property
    def forward(self) -> Any:
        """The operator whose gradient this is, with the same attributes."""
        pool = self.pools[sum(letter in self.layout for letter in "DHW") - 1]
        return pool(**{name: getattr(self, name) for name in _ATTRIBUTES})

    def infer(self, output_grad: Any, data: Any) -> Any:
        """Like data."""
        want_same_dtype(self, output_grad=output_grad, data=data)
        pooled = self.forward.infer(data)
        if data.dtype and not data.dtype.is_float:
            refuse(self, f"a gradient is of floats, but data is {tell(data)}")
        if unfit(pooled.dims, output_grad.dims):
            refuse(self, f"output_grad is {tell(output_grad)}, but pooled is {tell(pooled)}")
        return data

    def numpy(self, output_grad: Any, data: Any) -> Any:
        """Window by window"""
        return self.spread(output_grad, data)

    def spread(self, output_grad: Any, data: Any) -> Any:
        """Like data: what the windows give, one after another."""
        pool = self.forward
        plain = "NC" + pool.spatial
        x = _layout.to_plain(wide(data), self.layout, plain, {})
        grad = _layout.to_plain(wide(output_grad), self.out_layout or self.layout, plain, {})
        found = np.zeros_like(x)
        for place in np.ndindex(grad.shape[2:]):
            self.give(found, x, grad[(..., *place)], list(_taps(pool, place, x.shape[2:])))
        found = found.astype(data.dtype, copy=False)
        return _layout.from_plain(found, plain, self.layout)

    def give(self, found: np.ndarray, x: np.ndarray, grad: np.ndarray, taps: list[Any]) -> None:
        """Add to `found` what one window, which sees the places `taps`, gives of `grad` (N, C)."""
        raise NotImplementedError

    def compute(self, output_grad: Any, data: Any) -> Any:
        """For each element a sum over the places of windows that may see it."""
        pool, kind = self.forward, accumulator(data.dtype)
        windows = loops.windows_of(pool)
        axes = {c: te.reduce_axis((0, w.size), name=f"r{c.lower()}") for c, w in windows.items()}
        sizes = _layout.sizes_of(self.layout, data.shape)
        part = self.part(output_grad, data)

        def element(*index: Any) -> Any:
            where = _layout.places(self.layout, index)
            at, conditions = dict(where), []
            for c, w in windows.items():
                reached = where[c].outer + w.before - axes[c] * w.dilation
                place = te.floordiv(reached, w.stride)
                places = w.places(sizes[c], self.ceil_mode)
                conditions += [te.floormod(reached, w.stride).equal(0), place >= 0, place < places]
                at[c] = _layout.Place(place)
            held = all_of(*conditions)
            value = te.if_then_else(held, part(at, axes), const(0, kind))
            return te.sum(value, axis=list(axes.values()))

        found = te.compute(data.shape, element, name="pool_backward")
        return rounded(found, data.dtype, "pool_backward_cast")

    def part(self, output_grad: Any, data: Any) -> Any:
        """(place of the window, its element) -> what goes to what it sees there."""
        raise NotImplementedError

    def flops(self, output_grad: Any, data: Any) -> Any:
        """Two for each element that a window sees."""
        if output_grad.dims is None:
            return None
        return size(output_grad) * int(np.prod(self.pool_size)) * 2


def _taps(pool: Any, place: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The elements inside of the data that the window at `place` sees, in order."""
    windows = list(loops.windows_of(pool).values())
    for tap in np.ndindex(*pool.pool_size):
        at = tuple(
            p * w.stride - w.before + r * w.dilation
            for p, w, r in zip(place, windows, tap, strict=True)
        )
        if all(0 <= y < extent for y, extent in zip(at, sizes, strict=True)):
            yield at


class MaxPoolBackward(PoolBackward):
    """The gradient of nn.max_pool{rank}d for its data; attributes as there.

    A window gives all to its largest element, of several the first; a NaN counts as the largest.
    count_include_pad is there for TVM's text and says nothing.
    """

    __slots__ = ()
    pools = (MaxPool1d, MaxPool2d, MaxPool3d)

    def give(self, found: np.ndarray, x: np.ndarray, grad: np.ndarray, taps: list[Any]) -> None:
        """All to the first of the largest."""
        seen = np.stack([x[(..., *at)] for at in taps])
        first = np.argmax(np.where(np.isnan(seen), np.inf, seen), 0)
        first = np.where(np.isnan(seen).any(0), np.argmax(np.isnan(seen), 0), first)
        for i, at in enumerate(taps):
            found[(..., *at)] += np.where(first == i, grad, 0)

    def part(self, output_grad: Any, data: Any) -> Any:
        """Where the element is the first of the window's largest."""
        pool, kind = self.forward, accumulator(data.dtype)
        windows = loops.windows_of(pool).items()
        own = {c: te.reduce_axis((0, w.size), name=f"s{c.lower()}") for c, w in windows}
        first = loops.first_largest(pool, data, loops.max_pool(pool, data), own)

        def given(at: Any, taps: Any) -> Any:
            index = _layout.index_in(pool.out_layout, at)
            grad = cast(kind, output_grad(*index))
            is_it = first(*index).equal(loops.number_of(taps))
            return te.Select(is_it, grad, const(0, kind))

        return given


class AvgPoolBackward(PoolBackward):
    """The gradient of nn.avg_pool{rank}d for its data; attributes as there."""

    __slots__ = ()
    pools = (AvgPool1d, AvgPool2d, AvgPool3d)

    def numpy(self, output_grad: Any, data: Any) -> Any:
        """Window by window, each divided by how many elements count"""
        pool = self.forward
        plain = "NC" + pool.spatial
        counts = pool.counts(_layout.to_plain(data, pool.layout, plain, {}))
        shared = _layout.to_plain(wide(output_grad), pool.out_layout, plain, {}) / counts
        return self.spread(_layout.from_plain(shared, plain, pool.out_layout), data)

    def give(self, found: np.ndarray, x: np.ndarray, grad: np.ndarray, taps: list[Any]) -> None:
        """The same to all."""
        for at in taps:
            found[(..., *at)] += grad

    def part(self, output_grad: Any, data: Any) -> Any:
        """The gradient of the window, divided by how many elements count."""
        pool, kind = self.forward, accumulator(data.dtype)
        sizes = _layout.sizes_of(self.layout, data.shape)

        def given(at: Any, taps: Any) -> Any:
            grad = cast(kind, output_grad(*_layout.index_in(pool.out_layout, at)))
            for c, w in loops.windows_of(pool).items():
                include, ceil = self.count_include_pad, self.ceil_mode
                grad = grad / cast(kind, loops.counted(w, at[c].outer, sizes[c], include, ceil))
            return grad

        return given


MaxPool1dBackward, MaxPool2dBackward, MaxPool3dBackward = of_each_rank(
    "relax.grad.max_pool{}d_backward", MaxPoolBackward
)
AvgPool1dBackward, AvgPool2dBackward, AvgPool3dBackward = of_each_rank(
    "relax.grad.avg_pool{}d_backward", AvgPoolBackward
)
