"""Loop nests of pooling, in any layout."""

from __future__ import annotations

from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, const, maximum, min_value, minimum, select
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import product, tidy
from mlcnb.op.nn._conv_loops import pad_spatial
from mlcnb.op.nn._window import extent


class Window(NamedTuple):
    """How a window slides along one dimension."""

    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """From its first to its last element."""
        return (self.size - 1) * self.dilation + 1

    @property
    def around(self) -> int:
        """Padding, before and after."""
        return self.before + self.after

    def places(self, size: Any, ceil: bool) -> Any:
        """How many places it has; with `ceil`, none that begins in the padding after."""
        found = extent(size, self.around, self.size, self.stride, self.dilation, ceil)
        if not ceil or self.after + self.stride <= self.reach:
            return found
        beyond = tidy((found - 1) * self.stride - size - self.before)
        gap = as_int(beyond)
        if gap is None:
            return select(beyond >= 0, found - 1, found)
        return found - 1 if gap >= 0 else found


def windows_of(pool: Any) -> dict[str, Window]:
    """The window of each spatial dimension, from a declaration with its attributes."""
    rank = len(pool.spatial)
    both = zip(pool.padding[:rank], pool.padding[rank:], strict=True)
    parts = zip(pool.pool_size, pool.strides, pool.dilation, both, strict=True)
    return {
        c: Window(k, s, d, before, after)
        for c, (k, s, d, (before, after)) in zip(pool.spatial, parts, strict=True)
    }


def result_shape(pool: Any, dims: Any) -> tuple[Any, ...]:
    """The shape of the result, in `out_layout`."""
    sizes = _layout.sizes_of(pool.layout, dims)
    places = {c: w.places(sizes[c], pool.ceil_mode) for c, w in windows_of(pool).items()}
    return _layout.shape_in(pool.out_layout, {"N": sizes["N"], "C": sizes["C"], **places})


def _pad(pool: Any, x: Any, value: Any, only: str | None = None) -> Any:
    """`x` with padding, as far as the last window reaches (`ceil_mode` reaches further).

    only: the one dimension that gets it; None: all.
    """
    windows = windows_of(pool)
    wanted = [c in (only or pool.spatial) for c in windows]
    before = [w.before * use for w, use in zip(windows.values(), wanted, strict=True)]
    after = [
        (w.after + (w.stride - 1 if pool.ceil_mode else 0)) * use
        for w, use in zip(windows.values(), wanted, strict=True)
    ]
    return pad_spatial(x, pool.layout, pool.spatial, (*before, *after), value)


def slide(pool: Any, x: Any, value: Any, combine: Any, name: str) -> Any:
    """`x` padded with `value`, then combined over each window.

    On channels in blocks in one go. Otherwise along one dimension after the other, rows first: a
    window of k x k takes 2 k steps, not k * k, and the rows that it takes together lie in memory.
    """
    windows = windows_of(pool)
    blocked = _layout.block_of(pool.layout, "C") or pool.layout != pool.out_layout
    if blocked or sum(w.size > 1 for w in windows.values()) < 2:
        return _slide(pool, _pad(pool, x, value), x.shape, windows, combine, name)
    for c, w in windows.items():
        padded = _pad(pool, x, cast(x.dtype, value), c)
        more = name if c == pool.spatial[-1] else f"{name}_{c.lower()}"
        x = _slide(pool, padded, x.shape, {c: w}, combine, more)
    return x


def _slide(
    pool: Any, padded: Any, dims: Any, windows: dict[str, Window], combine: Any, name: str
) -> Any:
    """Combined over the windows of some dimensions, of what had `dims` before it was padded."""
    axes = {c: te.reduce_axis((0, w.size), name=f"r{c.lower()}") for c, w in windows.items()}
    sizes = _layout.sizes_of(pool.layout, dims)
    sizes |= {c: w.places(sizes[c], pool.ceil_mode) for c, w in windows.items()}
    kind = accumulator(padded.dtype) if combine is te.sum else padded.dtype

    def element(*index: Any) -> Any:
        out = _layout.places(pool.out_layout, index)
        for c, w in windows.items():
            out[c] = _layout.Place(out[c].outer * w.stride + axes[c] * w.dilation)
        return combine(
            cast(kind, padded(*_layout.index_in(pool.layout, out))), axis=list(axes.values())
        )

    return te.compute(_layout.shape_in(pool.out_layout, sizes), element, name=name)


def max_pool(pool: Any, x: Any) -> Any:
    """The largest of each window."""
    low = const(float("-inf"), x.dtype) if x.dtype.is_float else min_value(x.dtype)
    return slide(pool, x, low, te.max, "pool_max")


def avg_pool(pool: Any, x: Any) -> Any:
    """The sum of each window, then divided by how many elements count."""
    kind = accumulator(x.dtype)
    total = slide(pool, x, const(0, x.dtype), te.sum, "pool_sum")
    sizes = _layout.sizes_of(pool.layout, x.shape)

    def element(*index: Any) -> Any:
        out = _layout.places(pool.out_layout, index)
        counts = [
            counted(w, out[c].outer, sizes[c], pool.count_include_pad, pool.ceil_mode)
            for c, w in windows_of(pool).items()
        ]
        return total(*index) / cast(kind, product(counts))

    return rounded(te.compute(total.shape, element, name="pool_avg"), x.dtype, "pool_cast")


def counted(w: Window, at: Any, size: Any, with_padding: bool, ceil: bool) -> Any:
    """How many elements of the window at place `at` count, along one dimension.

    Padding counts if `with_padding`; what `ceil` reaches beyond the padding never does.
    """
    padded = w.before + w.after > 0
    if not ceil and (with_padding or not padded):
        return w.size
    low, high = (-w.before, size + w.after) if with_padding else (0, size)
    start = at * w.stride - w.before
    last = (
        w.size if not (ceil or w.after) else minimum((high - 1 - start) // w.dilation + 1, w.size)
    )
    first = maximum((low - start + (w.dilation - 1)) // w.dilation, 0) if w.before else 0
    may_miss = w.dilation > 1 or max(w.before, w.after) >= w.reach
    return maximum(last - first, 1) if may_miss else last - first
