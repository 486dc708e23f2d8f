"""More pooling: adaptive averages, maxima with their indices, and ONNX LpPool and MaxUnpool."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import (
    all_of,
    as_int,
    cast,
    ceildiv,
    const,
)
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, in_wide, rounded
from mlcnb.op._dims import product, ravel, refuse, tell, tell_dims, tensor, unravel, want_rank
from mlcnb.op._order import blocks_of_images, by_layout
from mlcnb.op._spell import call, in_float32, ints_of, spatial_axes
from mlcnb.op.nn import _pool_loops as loops
from mlcnb.op.nn._window import PerDimension, each, extent, of_each_rank, settle, sides
from mlcnb.op.nn.pool import Pool
from mlcnb.op.nn.pool_onnx import AVG, window_attrs
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo


class AdaptiveAvgPool(OpDecl):
    """Means over windows chosen so that the result has `output_size` places {over}.

    Semantics: https://pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool{rank}d.html
    """

    __slots__ = ()
    cost = 1
    in_order = by_layout
    in_blocks = blocks_of_images
    follows = True

    x: Tensor
    output_size: PerDimension | None = None
    layout: str = "NCW"
    out_layout: Any = None

    def __post_init__(self) -> None:
        wanted = None if self.output_size is None else each(self.output_size, len(self.spatial))
        settle(self, output_size=wanted, out_layout=self.out_layout or self.layout)

    @property
    def spatial(self) -> str:
        """The letters of the spatial dimensions: "HW"."""
        return "".join(c for c in "DHW" if c in self.layout)

    def sizes(self, dims: Any) -> dict[str, Any]:
        """The sizes of the result's dimensions."""
        found = _layout.sizes_of(self.layout, dims)
        if self.output_size is not None:
            found.update(zip(self.spatial, self.output_size, strict=True))
        return found

    def infer(self, x: Any) -> Any:
        """x's dimensions, the spatial ones of `output_size`."""
        want_rank(self, f"x in {self.layout}", x, len(_layout.axes_in(self.layout)))
        if x.dtype and not x.dtype.is_float:
            refuse(self, f"x must be of floats, but is {tell(x)}")
        wanted: Any = self.output_size or ()
        if any(as_int(d) is None for d in wanted):
            refuse(self, f"output_size {tell_dims(wanted)} is open", hint="fix it")
        if self.output_size is None and self.out_layout == self.layout:
            return x
        if x.dims is None:
            return tensor(None, x.dtype, len(_layout.axes_in(self.out_layout)))
        return tensor(_layout.shape_in(self.out_layout, self.sizes(x.dims)), x.dtype)

    @in_wide
    def numpy(self, x: Any) -> Any:
        """Means, window by window"""
        plain = _layout.to_plain(x, self.layout, "NC" + self.spatial, {})
        for axis, out in enumerate(self.output_size or plain.shape[2:], start=2):
            size = plain.shape[axis]
            cuts = [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
            means = [plain.take(range(a, b), axis).mean(axis) for a, b in cuts]
            plain = np.stack(means, axis)
        return _layout.from_plain(plain, "NC" + self.spatial, self.out_layout)

    def compute(self, x: Any) -> Any:
        """A sum over windows whose size differs from place to place, then a division."""
        kind, sizes = accumulator(x.dtype), _layout.sizes_of(self.layout, x.shape)
        wanted = self.sizes(x.shape)
        axes = {
            c: te.reduce_axis((0, _widest(sizes[c], wanted[c])), name=f"r{c.lower()}")
            for c in self.spatial
        }

        def window(c: str, at: Any) -> tuple[Any, Any]:
            first = at * sizes[c] // wanted[c]
            return first, ceildiv((at + 1) * sizes[c], wanted[c]) - first

        def part(*index: Any) -> Any:
            found, real = _layout.places(self.out_layout, index), []
            for c in self.spatial:
                first, count = window(c, found[c].outer)
                real.append(axes[c] < count)
                found[c] = _layout.Place(first + axes[c])
            value = cast(kind, x(*_layout.index_in(self.layout, found)))
            chosen = te.if_then_else(all_of(*real), value, const(0, kind))
            return te.sum(chosen, axis=list(axes.values()))

        shape = _layout.shape_in(self.out_layout, wanted)
        sums = te.compute(shape, part, name="adaptive_pool_sum")

        def mean(*index: Any) -> Any:
            found = _layout.places(self.out_layout, index)
            return sums(*index) / cast(
                kind, product(window(c, found[c].outer)[1] for c in self.spatial)
            )

        averaged = te.compute(shape, mean, name="adaptive_pool_avg")
        return rounded(averaged, x.dtype, "adaptive_pool_cast")


def _widest(size_in: Any, size_out: Any) -> Any:
    """The largest window: all of them, where the output's size divides the input's."""
    have, want = as_int(size_in), as_int(size_out)
    if have is None or want is None:
        return ceildiv(size_in, size_out) + 1
    return max(-(-(i + 1) * have // want) - i * have // want for i in range(want)) if want else 0


AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = of_each_rank(
    "relax.nn.adaptive_avg_pool{}d", AdaptiveAvgPool
)


@operator("relax.nn.max_pool_indices")
class MaxPoolIndices(Pool):
    """Maxima of windows, and where they stand: a tuple of values and int64 positions in all of `x`.

    The first of equal elements counts. column_major: the last spatial dimensions are numbered
    first dimension fastest. Of 1 to 3 spatial dimensions: `layout` is NCW, NCHW or NCDHW, by
    `pool_size`. Semantics: https://onnx.ai/onnx/operators/onnx__MaxPool.html
    """

    x: Tensor
    pool_size: tuple[int, ...] = field()
    strides: int | tuple[int, ...] = (1,)
    padding: int | tuple[int, ...] = (0,)
    dilation: int | tuple[int, ...] = (1,)
    ceil_mode: bool = False
    column_major: bool = False

    @property
    def layout(self) -> str:  # type: ignore[override]
        """NCHW, or its form for another number of dimensions."""
        return "NC" + "DHW"[-len(self.pool_size) :]

    @property
    def out_layout(self) -> str:  # type: ignore[override]
        """As `layout`."""
        return self.layout

    def __post_init__(self) -> None:
        rank = len(self.pool_size)
        settle(
            self,
            strides=each(self.strides, rank),
            padding=sides(self.padding, rank),
            dilation=each(self.dilation, rank),
        )

    def infer(self, x: Any) -> Any:
        """A tuple of two tensors."""
        values = Pool.infer(self, x)
        return TupleStructInfo((values, tensor(values.dims, "int64", values.ndim)))

    def renumbered(self, position: Any, dims: Any) -> Any:
        """A row-major position in x, in the numbering that `column_major` asks for."""
        if not self.column_major:
            return position
        n, c, *spatial = unravel(position, dims)
        return ravel([n, c, *spatial[::-1]], [*dims[:2], *dims[:1:-1]])

    def numpy(self, x: Any) -> Any:
        """numpy.argmax over the places of the kernel"""
        kind = dtype(x.dtype.name)
        low = -np.inf if kind.is_float else kind.min_value
        seen = np.stack(self.seen(x, low))
        best = seen.argmax(0)
        tap = np.unravel_index(best, self.pool_size)
        places = np.indices(best.shape)
        windows = list(loops.windows_of(self).values())
        spatial = [
            places[2 + i] * w.stride + tap[i] * w.dilation - w.before for i, w in enumerate(windows)
        ]
        where = ravel([*places[:2], *spatial], x.shape)
        return seen.max(0).astype(x.dtype), self.renumbered(where, x.shape).astype(np.int64)

    def compute(self, x: Any) -> Any:
        """The maxima; the first element of each window that is one; where that stands."""
        windows = loops.windows_of(self)
        values = loops.max_pool(self, x)
        axes = loops.axes_of(windows, _layout.sizes_of(self.layout, x.shape))
        first = loops.first_largest(self, x, values, axes)
        extents = [axis.dom.extent for axis in axes.values()]

        def position(*index: Any) -> Any:
            number, spatial = cast("int64", first(*index)), []
            for i, (w, digit) in enumerate(
                zip(windows.values(), unravel(number, extents), strict=True)
            ):
                at = index[2 + i] * w.stride + digit * w.dilation - w.before
                spatial.append(digit if w.outgrows(x.shape[2 + i]) else at)
            return cast("int64", ravel([index[0], index[1], *spatial], x.shape))

        places = te.compute(values.shape, position, name="max_pool_indices")
        if not self.column_major:
            return values, places

        def renumbered(*index: Any) -> Any:
            return cast("int64", self.renumbered(places(*index), x.shape))

        return values, te.compute(values.shape, renumbered, name="column_major")


@onnx("LpPool", since=2)
@in_float32
def onnx_lp_pool(n: OnnxNode, x: Expr) -> Expr:
    """(sum over the window of |x| ** p) ** (1 / p), as a mean times the size of the window."""
    _want_norm(n)
    attrs, p, kind = window_attrs(n, x), n.attr("p", 2), n.dtype(x)
    dims = n.dims(x)
    if attrs["ceil_mode"]:
        attrs["padding"], attrs["ceil_mode"] = _reaching(n, dims[2:], attrs), False
    magnitude = n.emit(call("relax.abs", x))
    power = magnitude if p == 1 else n.emit(_power(magnitude, p, kind))
    mean = make_call(AVG[len(dims)], power, count_include_pad=True, **attrs)
    count = constant(float(np.prod(attrs["pool_size"])), kind)
    total = n.emit(call("relax.multiply", n.emit(mean), count))
    return total if p == 1 else _power(total, 1 / p, kind)


def _want_norm(n: OnnxNode) -> None:
    """Refuse a p that makes no norm."""
    if n.attr("p", 2) < 1:
        n.refuse(f"p is {n.attr('p')}, it must be 1 or more")


def _power(x: Expr, p: float, kind: str) -> Expr:
    if p == 2:
        return call("relax.multiply", x, x)
    return call("relax.sqrt", x) if p == 0.5 else call("relax.power", x, constant(p, kind))


def _reaching(n: OnnxNode, spatial: Any, attrs: dict[str, Any]) -> tuple[int, ...]:
    """Padding that goes as far as the last window of `ceil_mode`."""
    rank, padding = len(spatial), list(attrs["padding"])
    for i, size_in in enumerate(spatial):
        have = as_int(size_in)
        if have is None:
            n.refuse("ceil_mode needs known sizes")
        k, s, d = (attrs[name][i] for name in ("pool_size", "strides", "dilation"))
        window = loops.Window(k, s, d, padding[i], padding[rank + i])
        last = (window.places(have, True) - 1) * s + window.reach
        padding[rank + i] = max(last - have - padding[i], padding[rank + i])
        if extent(have, padding[i] + padding[rank + i], k, s, d) != window.places(have, True):
            n.refuse("ceil_mode with padding beyond the last window")
    return tuple(padding)


@onnx("GlobalLpPool", since=2)
@in_float32
def onnx_global_lp_pool(n: OnnxNode, x: Expr) -> Expr:
    """(sum of |x| ** p over all spatial dimensions) ** (1 / p)"""
    _want_norm(n)
    p, kind = n.attr("p", 2), n.dtype(x)
    magnitude = n.emit(call("relax.abs", x))
    power = magnitude if p == 1 else n.emit(_power(magnitude, p, kind))
    total = call("relax.sum", power, axis=spatial_axes(n, x), keepdims=True)
    return total if p == 1 else _power(n.emit(total), 1 / p, kind)


@onnx("MaxUnpool", since=9)
def onnx_max_unpool(n: OnnxNode, x: Expr, indices: Expr, shape: Expr | None = None) -> Expr:
    """Zeros, with each element put where its index in the flat, unpooled tensor says."""
    dims, kernel = [as_int(d) for d in n.dims(x)], n.require("kernel_shape")
    if None in dims:
        n.refuse("unpooling needs known sizes")
    rank = len(kernel)
    strides, pads = n.attr("strides") or (1,) * rank, n.attr("pads") or (0,) * (2 * rank)
    inner = [
        (dims[2 + i] - 1) * strides[i] - pads[i] - pads[rank + i] + kernel[i]  # type: ignore[operator]
        for i in range(rank)
    ]
    unpooled = [*dims[:2], *inner]
    zeros = n.emit(call("relax.zeros", unpooled, dtype=n.dtype(x)))
    zeros = n.emit(call("relax.reshape", zeros, [-1]))
    flat = [n.emit(call("relax.reshape", v, [-1])) for v in (indices, x)]
    filled = n.emit(call("relax.scatter_elements", zeros, *flat, axis=0))
    result = n.emit(call("relax.reshape", filled, unpooled))
    wanted = ints_of(n, shape, "output_shape")
    if wanted is None or list(wanted) == unpooled:
        return result
    width = [w for d, t in zip(unpooled, wanted, strict=True) for w in (0, t - d)]  # type: ignore[operator]
    return call("relax.nn.pad", result, pad_width=tuple(width))
