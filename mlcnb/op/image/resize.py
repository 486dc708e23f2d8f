"""image.resize2d and image.resize3d: an image in another size.

nearest_neighbor   the input element nearest to where an output element lies
linear, cubic      a weighted sum of the 2 or 4 around along each dimension, edges repeated
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from mlcnb import te
from mlcnb.arith import Analyzer
from mlcnb.ir import Range
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int, cast, const, maximum, minimum, select
from mlcnb.ir.rules import rule
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import refuse, same, size, tell, tensor, tidy, want_rank
from mlcnb.op._order import by_layout
from mlcnb.op.image import _interpolate as ip
from mlcnb.op.nn._window import no_void, settle
from mlcnb.relax.expr import Call
from mlcnb.relax.operator import OpDecl, Shape, Tensor, operator
from mlcnb.tir.index_check import checked

#: what a dimension is called
WORDS = {"D": "depth", "H": "height", "W": "width"}
#: the loop nest that blends along a dimension before the last
BLENDED = {"D": "resize_planes", "H": "resize_rows"}


class Tap(NamedTuple):
    """One neighbour along one dimension: its place, and its weight (None: the only one)."""

    place: Any
    weight: Any


#: modes in which each place of an image of the same size is one of its own
IN_PLACE = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


class Resize(OpDecl):
    """What resizing along two and along three dimensions have in common: all but the layout."""

    __slots__ = ()
    in_order = by_layout
    follows = True
    #: the letters of the dimensions that are resized
    spatial: ClassVar[str]

    data: Tensor
    size: Shape
    roi: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = "round"
    cubic_alpha: float = -0.75
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str | None = None
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        settle(self, out_dtype=no_void(self.out_dtype))

    @rule("SimplifyOps", "resize")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """An image that has the size already, element by element."""
        x: Any = call.args[0]
        made: Any = call.struct_info
        if x.struct_info.dims is None or made.dims is None or made.dtype != x.struct_info.dtype:
            return None
        stays = all(map(same, x.struct_info.dims, made.dims)) and all(s == 1 for s in self.scales)
        return x if stays and self.coordinate_transformation_mode in IN_PLACE else None

    def infer(self, data: Any, size: Any) -> Any:
        """data's dimensions, the resized ones those of `size`."""
        self.check(data)
        kind = self.out_dtype or data.dtype
        if size.ndim not in (-1, len(self.spatial)):
            names = ", ".join(WORDS[letter] for letter in self.spatial)
            refuse(self, f"size must be ({names}), but has {size.ndim} dimensions")
        if data.dims is None or size.values is None:
            return tensor(None, kind, data.ndim)
        if any(d < 1 for d in map(as_int, size.values) if d is not None):
            refuse(self, "size must be positive")
        have = _layout.sizes_of(self.layout, data.dims)
        if any(as_int(have[letter]) == 0 for letter in self.spatial):
            refuse(self, f"{tell(data)} has no elements to resize")
        return tensor(_layout.shape_in(self.layout, self.sizes(data.dims, size.values)), kind)

    def check(self, data: Any) -> None:
        """Refuse words that are not known, and layouts that are not of images."""
        known = (
            ("method", ip.METHODS),
            ("coordinate_transformation_mode", ip.MODES),
            ("rounding_method", (*ip.ROUNDING, "")),
        )
        for name, words in known:
            if getattr(self, name) not in words:
                refuse(
                    self, f"no {name} {getattr(self, name)!r}", hint=f"one of {', '.join(words)}"
                )
        if any(self.roi):
            refuse(self, f"a region of interest, {self.roi}, is not there")
        _layout.want_letters(self, layout="NC" + self.spatial)
        if self.scales and (
            len(self.scales) != len(self.spatial)
            or not all(ip.ratio(self.method, s) for s in self.scales)
        ):
            refuse(self, f"scales {self.scales} are not a simple quotient for each dimension")
        if self.scales and self.coordinate_transformation_mode == "align_corners":
            refuse(self, f"scales {self.scales}: corners are aligned by sizes alone")
        want_rank(self, f"data in {self.layout}", data, len(_layout.axes_in(self.layout)))
        if self.method != "nearest_neighbor" and data.dtype and not data.dtype.is_float:
            refuse(self, f"{self.method} needs floats, but data is {tell(data)}")

    def sizes(self, dims: Any, wanted: Any) -> dict[str, Any]:
        """The sizes of the result's dimensions."""
        resized = zip(self.spatial, wanted, strict=True)
        return {**_layout.sizes_of(self.layout, dims), **dict(resized)}

    def numpy(self, data: Any, size: Any) -> Any:
        """A matrix for each dimension; for nearest_neighbor, numpy.take"""
        kind, order = dtype(self.out_dtype or data.dtype.name).numpy, "NC" + self.spatial
        plain = _layout.to_plain(data, self.layout, order, {})
        for axis, out in enumerate(size, 2):
            r = self.resizing(plain.shape[axis], int(out), self.scale_of(self.spatial[axis - 2]))
            if self.method == "nearest_neighbor":
                plain = plain.take(ip.picked(r), axis)
            else:
                matrix = ip.weights(r).astype(wide(plain).dtype)
                plain = np.moveaxis(np.moveaxis(wide(plain), axis, -1) @ matrix.T, -1, axis)
        return _layout.from_plain(plain.astype(kind, copy=False), order, self.layout)

    def scale_of(self, letter: str) -> float | None:
        """What a dimension is resized by; None: by output / input."""
        return self.scales[self.spatial.index(letter)] if self.scales else None

    def resizing(self, size_in: int, size_out: int, scale: float | None) -> ip.Resizing:
        """One dimension of this."""
        return ip.Resizing(
            size_in,
            size_out,
            self.method,
            self.coordinate_transformation_mode,
            scale,
            self.rounding_method,
            self.cubic_alpha,
            bool(self.cubic_exclude),
        )

    def compute(self, data: Any, size: Any) -> Any:
        """nearest_neighbor: one loop nest. Else one a dimension: planes, rows, then columns."""
        wanted = dict(zip(self.spatial, size, strict=True))
        if self.method == "nearest_neighbor":
            return self.resized(data, wanted, data.dtype, "resize")
        columns, blended = wanted.pop("W"), data
        for letter, out in wanted.items():
            kind, name = accumulator(data.dtype), BLENDED[letter]
            blended = self.resized(blended, {letter: out}, kind, name)
        return self.resized(blended, {"W": columns}, data.dtype, "resize")

    def resized(self, data: Any, wanted: dict[str, Any], result: Any, name: str) -> Any:
        """`data` with some dimensions changed to the sizes `wanted`, in one loop nest."""
        have = _layout.sizes_of(self.layout, data.shape)
        shape = _layout.shape_in(self.layout, {**have, **wanted})
        kind, end = accumulator(data.dtype), "W" in wanted
        result = (self.out_dtype or result) if end else result

        def element(*index: Any) -> Any:
            found = _layout.places(self.layout, index)
            taps = {
                c: self.taps(found[c].outer, have[c], out, self.scale_of(c), kind)
                for c, out in wanted.items()
            }

            def read(**at: Tap) -> Any:
                moved = {c: _layout.Place(tap.place) for c, tap in at.items()}
                return data(*_layout.index_in(self.layout, {**found, **moved}))

            if self.method == "nearest_neighbor":
                return cast(result, read(**{c: t[0] for c, t in taps.items()}))
            ((c, both),) = taps.items()
            return cast(result, _sum([cast(kind, read(**{c: t})) * t.weight for t in both]))

        return te.compute(shape, element, name=name)

    def taps(
        self, o: Any, size_in: Any, size_out: Any, scale: float | None, kind: Any
    ) -> list[Tap]:
        """The neighbours of output place `o` along one dimension."""
        mode = self.coordinate_transformation_mode
        given = None if scale is None else ip.ratio(self.method, scale)
        least, most = given or _least(mode, size_in, size_out)
        several = (as_int(size_out) or 0) > 1
        grows = as_int(least) is not None and (as_int(most) or 0) >= (as_int(least) or 1)
        if mode == "pytorch_half_pixel" and (several or grows):
            mode = "half_pixel"  # where it grows, a single place reads the single element
        p, q = ip.fraction(mode, o, least, most, maximum, size_out)
        within = Analyzer()  # of open sizes no later step knows that much
        if isinstance(o, Var):
            within.bind(o, Range(0, size_out))

        def inside(place: Any) -> Any:
            first: Any = 0
            if as_int(least) is None:  # if it is empty when it runs, there is nothing to read
                first = checked(const(0, place.dtype), size_in, "image.resize: the first element")
            if as_int(size_out) is not None:
                return maximum(minimum(place, size_in - 1), first)
            return within.simplify(maximum(within.simplify(minimum(place, size_in - 1)), first))

        if self.method == "nearest_neighbor":
            return [Tap(inside(ip.nearest(self.rounding_method, p, q)), None)]
        base = p // q
        rest = cast(kind, p % q) / cast(kind, q)
        if self.method == "linear":
            parts = [const(1, kind) - rest, rest]
            return [Tap(inside(base + i), w) for i, w in enumerate(parts)]
        parts = ip.cubic_weights(rest, self.cubic_alpha)
        if self.cubic_exclude:
            zero = const(0, kind)
            real = [(base + i >= 0, base + i < size_in) for i in range(-1, 3)]
            parts = [
                select(low, select(high, w, zero), zero)
                for (low, high), w in zip(real, parts, strict=True)
            ]
            total = _sum(parts)
            parts = [w / total for w in parts]
        return [Tap(inside(base + i), w) for i, w in zip(range(-1, 3), parts, strict=True)]

    def flops(self, data: Any, target: Any) -> Any:
        """Two for each neighbour."""
        result = self.infer(data, target)
        around = {"nearest_neighbor": 0, "linear": 2, "cubic": 4}[self.method]
        many = 2 * around ** len(self.spatial)
        return None if result.dims is None else tidy(size(result) * many)


@operator("relax.image.resize2d")
class Resize2d(Resize):
    """`data` with H and W changed to `size`.

    method: nearest_neighbor, linear, cubic. coordinate_transformation_mode: half_pixel,
    pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn. rounding_method, for
    nearest_neighbor: round (halves up), floor, ceil, round_prefer_floor, round_prefer_ceil.
    cubic_exclude: neighbours outside do not count. `roi` is there for TVM's text and must be zeros.
    scales, a number for each of H and W, say how far an output place is from the next, in place of
    output / input: of an open size times 0.5 rounded down the two are not the same.
    Semantics: https://onnx.ai/onnx/operators/onnx__Resize.html, with scale = output / input.
    """

    spatial = "HW"


@operator("relax.image.resize3d")
class Resize3d(Resize):
    """`data` with D, H and W changed to `size`; attributes as those of image.resize2d."""

    roi = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    layout = "NCDHW"
    spatial = "DHW"


def _least(mode: str, size_in: Any, size_out: Any) -> tuple[Any, Any]:
    """The sizes in lowest terms, where only their quotient counts and one divides the other.

    Open sizes then are gone from where an element lies: h * 2 from h is 2 from 1.
    """
    if mode == "align_corners":
        return size_in, size_out
    for large, small in ((size_out, size_in), (size_in, size_out)):
        times = as_int(tidy(large // small))
        if times is not None and as_int(tidy(large - small * times)) == 0:
            return (1, times) if large is size_out else (times, 1)
    return size_in, size_out


def _sum(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
