"""Loop nests of pooling, in any layout."""

from __future__ import annotations

from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.ir import prim_ops as p
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

    def outgrows(self, size: Any) -> bool:
        """True if it has more elements than a dimension of that size: most of them are padding."""
        have = p.as_int(size)
        return have is not None and have < self.size

    def is_whole(self, size: Any) -> bool:
        """True if it is as large as a dimension of that size, without padding."""
        return p.as_int(size) == self.size and self.dilation == 1 and self.around == 0

    def sees(self, at: Any, place: Any) -> list[Any]:
        """Conditions: the window at place `at` has the element `place` of the dimension."""
        away = place - (at * self.stride - self.before)
        spaced = [(away % self.dilation).equal(0)] if self.dilation > 1 else []
        return [away >= 0, away < self.reach, *spaced]

    def places(self, size: Any, ceil: bool) -> Any:
        """How many places it has; with `ceil`, none that begins in the padding after."""
        found = extent(size, self.around, self.size, self.stride, self.dilation, ceil)
        if not ceil or self.after + self.stride <= self.reach:
            return found
        beyond = tidy((found - 1) * self.stride - size - self.before)
        gap = p.as_int(beyond)
        if gap is None:
            return p.select(beyond >= 0, found - 1, found)
        return found - 1 if gap >= 0 else found


def windows_of(pool: Any) -> dict[str, Window]:
    """The window of each spatial dimension, from a declaration with its attributes."""
    found = windows(pool.pool_size, pool.strides, pool.dilation, pool.padding)
    return dict(zip(pool.spatial, found, strict=True))


def windows(sizes: Any, strides: Any, dilation: Any, padding: Any) -> list[Window]:
    """The window of each dimension; padding: all beginnings, then all ends."""
    rank = len(sizes)
    parts = zip(sizes, strides, dilation, padding[:rank], padding[rank:], strict=True)
    return [Window(*part) for part in parts]


def result_shape(pool: Any, dims: Any) -> tuple[Any, ...]:
    """The shape of the result, in `out_layout`."""
    sizes = _layout.sizes_of(pool.layout, dims)
    places = {c: w.places(sizes[c], pool.ceil_mode) for c, w in windows_of(pool).items()}
    return _layout.shape_in(pool.out_layout, {"N": sizes["N"], "C": sizes["C"], **places})


def _pad(pool: Any, x: Any, value: Any, only: str | None = None) -> Any:
    """`x` with padding, as far as the last window reaches (`ceil_mode` reaches further).

    only: the one dimension that gets it; None: all. What a window outgrows gets none: `axes_of`.
    """
    windows, sizes = windows_of(pool), _layout.sizes_of(pool.layout, x.shape)
    wanted = [c in (only or pool.spatial) and not w.outgrows(sizes[c]) for c, w in windows.items()]
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
    What has one place only is one reduction.
    """
    windows, sizes = windows_of(pool), _layout.sizes_of(pool.layout, x.shape)
    blocked = _layout.block_of(pool.layout, "C") or pool.layout != pool.out_layout
    at_once = all(w.is_whole(sizes[c]) for c, w in windows.items())
    if blocked or at_once or sum(w.size > 1 for w in windows.values()) < 2:
        return _slide(pool, _pad(pool, x, value), x.shape, windows, value, combine, name)
    for c, w in windows.items():
        padded = _pad(pool, x, p.cast(x.dtype, value), c)
        more = name if c == pool.spatial[-1] else f"{name}_{c.lower()}"
        x = _slide(pool, padded, x.shape, {c: w}, value, combine, more)
    return x


def axes_of(windows: dict[str, Window], sizes: Any) -> dict[str, Any]:
    """A reduce axis over each window's elements.

    For a window larger than its dimension (a kernel of 2 ** 16 rows, with padding as large): over
    the dimension's elements, each of which the window `sees` or not.
    """
    over = {c: sizes[c] if w.outgrows(sizes[c]) else w.size for c, w in windows.items()}
    return {c: te.reduce_axis((0, n), name=f"r{c.lower()}") for c, n in over.items()}


def _slide(
    pool: Any,
    padded: Any,
    dims: Any,
    windows: dict[str, Window],
    value: Any,
    combine: Any,
    name: str,
) -> Any:
    """Combined over the windows of some dimensions, of what had `dims` before it was padded."""
    sizes = _layout.sizes_of(pool.layout, dims)
    axes = axes_of(windows, sizes)
    places = {c: w.places(sizes[c], pool.ceil_mode) for c, w in windows.items()}
    kind = accumulator(padded.dtype) if combine is te.sum else padded.dtype

    def element(*index: Any) -> Any:
        out, seen = _layout.places(pool.out_layout, index), []
        for c, w in windows.items():
            if w.outgrows(sizes[c]):
                seen += w.sees(out[c].outer, axes[c])
                out[c] = _layout.Place(axes[c])
            elif w.is_whole(sizes[c]):
                out[c] = _layout.Place(axes[c])  # its one place is the beginning
            else:
                out[c] = _layout.Place(out[c].outer * w.stride + axes[c] * w.dilation)
        found = p.cast(kind, padded(*_layout.index_in(pool.layout, out)))
        if seen:
            found = te.if_then_else(p.all_of(*seen), found, p.cast(kind, value))
        return combine(found, axis=list(axes.values()))

    return te.compute(_layout.shape_in(pool.out_layout, sizes | places), element, name=name)


def max_pool(pool: Any, x: Any) -> Any:
    """The largest of each window."""
    low = p.const(float("-inf"), x.dtype) if x.dtype.is_float else p.min_value(x.dtype)
    return slide(pool, x, low, te.max, "pool_max")


def first_largest(pool: Any, x: Any, best: Any, axes: dict[str, Any]) -> Any:
    """te tensor: the number of the first element of each window that is `best` there, or NaN.

    Elements are numbered along `axes`, row by row: `axes_of`, or each window's own elements.
    """
    windows, sizes = windows_of(pool), _layout.sizes_of(pool.layout, x.shape)
    low = p.const(float("-inf"), x.dtype) if x.dtype.is_float else p.min_value(x.dtype)

    def number(*index: Any) -> Any:
        at, held = _layout.places(pool.out_layout, index), []
        for c, w in windows.items():
            if p.as_int(axes[c].dom.extent) == w.size:
                y = at[c].outer * w.stride - w.before + axes[c] * w.dilation
                held += [y >= 0, y < sizes[c]]
            else:
                y, held = axes[c], held + w.sees(at[c].outer, axes[c])
            at[c] = _layout.Place(y)
        inside = p.all_of(*held)
        value = te.if_then_else(inside, x(*_layout.index_in(pool.layout, at)), low)
        is_it = value.equal(best(*index))
        if x.dtype.is_float:
            is_it = p.logical_or(is_it, te.isnan(value))
        found = number_of(axes)
        none = p.const(_FLOATS, found.dtype) if found.dtype.is_float else p.max_value(found.dtype)
        chosen = p.select(p.logical_and(inside, is_it), found, none)
        return te.min(chosen, axis=list(axes.values()))

    return te.compute(best.shape, number, name="pool_max_first")


def number_of(axes: dict[str, Any]) -> Any:
    """An element of a window, counted along `axes` row by row: as float32 where that holds all
    numbers, for more of those fit into a vector than of the int64 of a graph's indices.
    """
    extents = [axis.dom.extent for axis in axes.values()]
    count = p.as_int(product(extents))
    kind = "float32" if count is not None and count <= _FLOATS else "int64"
    total = p.const(0, kind)
    for axis, count in zip(axes.values(), extents, strict=True):
        total = total * p.cast(kind, count) + p.cast(kind, axis.var)
    return total


#: the largest number up to which float32 has all integers
_FLOATS = 1 << 24


def avg_pool(pool: Any, x: Any) -> Any:
    """The sum of each window, then divided by how many elements count."""
    kind = accumulator(x.dtype)
    total = slide(pool, x, p.const(0, x.dtype), te.sum, "pool_sum")
    sizes = _layout.sizes_of(pool.layout, x.shape)

    def element(*index: Any) -> Any:
        out = _layout.places(pool.out_layout, index)
        counts = [
            counted(w, out[c].outer, sizes[c], pool.count_include_pad, pool.ceil_mode)
            for c, w in windows_of(pool).items()
        ]
        return total(*index) / p.cast(kind, product(counts))

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
        w.size if not (ceil or w.after) else p.minimum((high - 1 - start) // w.dilation + 1, w.size)
    )
    first = p.maximum((low - start + (w.dilation - 1)) // w.dilation, 0) if w.before else 0
    may_miss = w.dilation > 1 or max(w.before, w.after) >= w.reach
    return p.maximum(last - first, 1) if may_miss else last - first
