"""Mean and inverse deviation over some dimensions, in two passes, as te tensors.

name_sum[kept]      += x
name_mean[kept]      = name_sum / count
name_squares[kept]  += (x - name_mean) ** 2
name_inverse[kept]   = 1 / sqrt(name_squares / count + epsilon)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.ir.dtype import DType
from mlcnb.ir.prim_ops import cast, const
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


class Moments(NamedTuple):
    """te tensors over the kept dimensions."""

    mean: Any
    inverse: Any


def moments(view: View, kind: DType, epsilon: float, name: str) -> Moments:
    """Mean and 1 / sqrt(biased variance + epsilon), computed in dtype `kind`."""
    count = cast(kind, product(view.reduced))
    sums = total(view, lambda _, v: cast(kind, v), f"{name}_sum")
    mean = te.compute(view.kept, lambda *kept: sums(*kept) / count, name=f"{name}_mean")

    def squared(kept: Sequence[Any], v: Any) -> Any:
        away = cast(kind, v) - mean(*kept)
        return away * away

    squares = total(view, squared, f"{name}_squares")
    return Moments(mean, inverse_root(view, squares, count, epsilon, name))


def inverse_root(view: View, squares: Any, count: Any, epsilon: float, name: str) -> Any:
    """te tensor over the kept dimensions: 1 / sqrt(squares / count + epsilon)."""

    def element(*kept: Any) -> Any:
        return 1 / te.sqrt(squares(*kept) / count + const(epsilon, squares.dtype))

    return te.compute(view.kept, element, name=f"{name}_inverse")


def normalised(x: Any, view: View, index: Sequence[Any], m: Moments) -> Any:
    """(x - mean) * inverse deviation for one element."""
    at = view.home(index)
    return (cast(m.mean.dtype, x(*index)) - m.mean(*at)) * m.inverse(*at)
