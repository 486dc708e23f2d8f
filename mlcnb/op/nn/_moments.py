"""Mean and inverse deviation over some dimensions, in two passes, as te tensors.

name_first[kept]     = x                               the first of the elements that are summed
name_sum[kept]      += x - name_first
name_mean[kept]      = name_first + name_sum / count
name_rest[kept]      = name_sum / count - (name_mean - name_first)
name_squares[kept]  += (x - name_mean) ** 2
name_inverse[kept]   = 1 / sqrt(name_squares / count - name_rest ** 2 + epsilon)
name_shift[kept]     = name_rest * name_inverse

(x - mean) * inverse is (x - name_mean) * name_inverse - name_shift. Numbers that are all near a
large one, such as a million and 1, have a mean that is not a float32: the sum of the distances from
the first one has all its digits, and `rest` is what the rounded mean lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.ir.dtype import DType
from mlcnb.ir.prim_ops import all_of, as_int, cast, const, if_then_else, maximum
from mlcnb.op._dims import product


class View(NamedTuple):
    """A tensor seen as (kept, reduced): which of its elements are averaged together.

    read(kept index, reduced index) is an element; home(index of the tensor) is its kept index.
    """

    kept: Sequence[Any]
    reduced: Sequence[Any]
    read: Callable[[Sequence[Any], Sequence[Any]], Any]
    home: Callable[[Sequence[Any]], Sequence[Any]]


def over_axes(x: Any, axes: Sequence[int]) -> View:
    """The dimensions `axes` are averaged over, the others kept."""
    ndim = len(x.shape)

    def read(kept: Sequence[Any], reduced: Sequence[Any]) -> Any:
        left, right = list(kept), list(reduced)
        return x(*(right.pop(0) if i in axes else left.pop(0) for i in range(ndim)))

    def home(index: Sequence[Any]) -> list[Any]:
        return [v for i, v in enumerate(index) if i not in axes]

    kept = [d for i, d in enumerate(x.shape) if i not in axes]
    return View(kept, [x.shape[a] for a in sorted(axes)], read, home)


def in_groups(x: Any, channel: int, groups: int, axes: Sequence[int]) -> View:
    """As over_axes, and over the channels of one group too."""
    ndim, each = len(x.shape), x.shape[channel] // groups

    def read(kept: Sequence[Any], reduced: Sequence[Any]) -> Any:
        left, right = list(kept[:-1]), list(reduced[1:])
        place = []
        for i in range(ndim):
            if i == channel:
                place.append(kept[-1] * each + reduced[0])
            else:
                place.append(right.pop(0) if i in axes else left.pop(0))
        return x(*place)

    def home(index: Sequence[Any]) -> list[Any]:
        rest = [v for i, v in enumerate(index) if i not in axes and i != channel]
        return [*rest, index[channel] // each]

    kept = [d for i, d in enumerate(x.shape) if i not in axes and i != channel]
    return View([*kept, groups], [each, *(x.shape[a] for a in sorted(axes))], read, home)


def total(view: View, value: Callable[[Sequence[Any], Any], Any], name: str) -> Any:
    """te tensor over the kept dimensions: the sum of value(kept index, element)."""
    axes = [te.reduce_axis((0, d), name=f"k{i}") for i, d in enumerate(view.reduced)]

    def element(*kept: Any) -> Any:
        return te.sum(value(kept, view.read(kept, axes)), axis=axes)

    return te.compute(view.kept, element, name=name)


class Spread(NamedTuple):
    """mean, rest: te tensors over the kept dimensions, whose sum the mean is. variance: from a kept
    index to the biased variance.
    """

    mean: Any
    rest: Any
    variance: Callable[..., Any]


def spread(
    sum_of: Callable[[Callable[[Sequence[Any], Any], Any], str], Any],
    made: Callable[[Callable[..., Any], str], Any],
    first: Callable[..., Any],
    count: Any,
) -> Spread:
    """Mean and variance of `count` numbers for each kept index.

    Args:
        sum_of: from value(kept index, element) and a name to the te tensor of sums.
        made: from a function of a kept index and a name to a te tensor.
        first: one of the numbers, from a kept index; any one will do.
        count: a float.
    """
    kind, share = count.dtype, 1 / count
    start = made(first, "first")
    sums = sum_of(lambda kept, v: cast(kind, v) - start(*kept), "sum")
    mean = made(lambda *kept: start(*kept) + sums(*kept) * share, "mean")
    rest = made(lambda *kept: sums(*kept) * share - (mean(*kept) - start(*kept)), "rest")

    def squared(kept: Sequence[Any], v: Any) -> Any:
        away = cast(kind, v) - mean(*kept)
        return away * away

    squares = sum_of(squared, "squares")

    def variance(*kept: Any) -> Any:
        found = squares(*kept) * share - rest(*kept) * rest(*kept)
        return maximum(found, const(0, kind))

    return Spread(mean, rest, variance)


def first_of(read: Callable[[], Any], dims: Sequence[Any], kind: DType) -> Any:
    """read(), an element at the places 0 of `dims`; 0 where one of them is empty."""
    if any(as_int(d) == 0 for d in dims):
        return const(0, kind)
    value = cast(kind, read())
    inside = [d > 0 for d in dims if as_int(d) is None]
    return if_then_else(all_of(*inside), value, const(0, kind)) if inside else value


def spread_over(view: View, kind: DType, name: str) -> Spread:
    """Mean and variance of what a view averages together, computed in dtype `kind`."""
    zeros = [const(0)] * len(view.reduced)

    def sum_of(value: Callable[[Sequence[Any], Any], Any], what: str) -> Any:
        return total(view, value, f"{name}_{what}")

    def made(value: Callable[..., Any], what: str) -> Any:
        return te.compute(view.kept, value, name=f"{name}_{what}")

    def first(*kept: Any) -> Any:
        return first_of(lambda: view.read(kept, zeros), view.reduced, kind)

    return spread(sum_of, made, first, cast(kind, product(view.reduced)))


class Moments(NamedTuple):
    """te tensors over the kept dimensions; the mean is that of `spread`."""

    mean: Any
    inverse: Any
    shift: Any


def moments(view: View, kind: DType, epsilon: float, name: str) -> Moments:
    """Mean and 1 / sqrt(biased variance + epsilon), computed in dtype `kind`."""
    mean, rest, variance = spread_over(view, kind, name)
    inverse = inverse_root(view, variance, kind, epsilon, name)

    def shift(*kept: Any) -> Any:
        return rest(*kept) * inverse(*kept)

    return Moments(mean, inverse, te.compute(view.kept, shift, name=f"{name}_shift"))


def inverse_root(
    view: View, mean_square: Callable[..., Any], kind: DType, epsilon: float, name: str
) -> Any:
    """te tensor over the kept dimensions: 1 / sqrt(mean_square + epsilon)."""

    def element(*kept: Any) -> Any:
        return 1 / te.sqrt(mean_square(*kept) + const(epsilon, kind))

    return te.compute(view.kept, element, name=f"{name}_inverse")


def normalised(x: Any, view: View, index: Sequence[Any], m: Moments) -> Any:
    """(x - mean) * inverse deviation for one element."""
    at = view.home(index)
    away = cast(m.mean.dtype, x(*index)) - m.mean(*at)
    return away * m.inverse(*at) - m.shift(*at)
