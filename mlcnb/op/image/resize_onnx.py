"""ONNX Resize and Upsample.

An image whose scales are whole fractions becomes image.resize2d. Everything else (other dimensions,
scales that do not divide, regions, antialiasing) is a constant matrix for each resized dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import ints, tell_dims, tidy
from mlcnb.op._spell import affordable, call, places_of, shape_of
from mlcnb.op.image import _interpolate as ip
from mlcnb.op.image.resize import Resize2d
from mlcnb.op.image.resize_open import along_open
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import make_call

#: coordinate transformations that a scale by itself makes up
BY_SCALE = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn")
_HALF = np.float32(0.5)
METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@onnx("Upsample", since=7)
def onnx_upsample(n: OnnxNode, x: Expr, scales: Expr | None = None) -> Expr:
    """As Resize of opset 10."""
    return onnx_resize_10(n, x, scales)


@onnx("Resize", since=10)
def onnx_resize_10(n: OnnxNode, x: Expr, scales: Expr | None = None) -> Expr:
    """Coordinates are asymmetric, nearest rounds down."""
    given = n.require("scales") if scales is None else n.constant(scales, "scales")
    factors = _factors(n, given)
    return _resize(n, x, tuple(range(len(factors))), None, factors, "asymmetric", "floor")


@onnx("Resize", since=11)
def onnx_resize(
    n: OnnxNode,
    x: Expr,
    roi: Expr | None = None,
    scales: Expr | None = None,
    sizes: Expr | None = None,
) -> Expr:
    """All coordinate modes; `axes`, `antialias` and the aspect ratio since opset 18."""
    dims = n.dims(x)
    axes = places_of(n, n.attr("axes") or range(len(dims)), dims)
    factors = None if scales is None else _factors(n, n.constant(scales, "scales"))
    if sizes is not None and not factors and n.known(sizes) is None:
        n.constant(sizes, "sizes")  # factors are quotients of what is known
    wanted = None if sizes is None or factors else shape_of(n, sizes, "sizes")
    if not factors and wanted is None:
        n.refuse("neither scales nor sizes are given")
    mode = n.attr("coordinate_transformation_mode", "half_pixel")
    region = None
    if mode == "tf_crop_and_resize":
        region = [float(v) for v in n.constant(roi, "roi")]
    rounding = n.attr("nearest_mode", "round_prefer_floor")
    return _resize(n, x, axes, wanted, factors or None, mode, rounding, region)


def _factors(n: OnnxNode, given: Any) -> list[float]:
    """Scales, which are positive."""
    factors = [float(s) for s in np.reshape(given, -1)]
    if not all(0 < f < math.inf for f in factors):
        n.refuse(f"scales {factors} are not all positive numbers")
    return factors


def _resize(
    n: OnnxNode,
    x: Expr,
    axes: Sequence[int],
    wanted: Sequence[Any] | None,
    factors: Sequence[float] | None,
    mode: str,
    rounding: str,
    region: Sequence[float] | None = None,
) -> Expr:
    method = METHODS.get(n.attr("mode", "nearest"))
    if method is None:
        n.refuse(f"mode {n.attr('mode')!r} is none of {', '.join(METHODS)}")
    dims = n.dims(x)
    out, scales = _sizes(n, [dims[a] for a in axes], wanted, factors)
    if len(out) != len(axes):
        n.refuse(f"{len(out)} sizes for the axes {tuple(axes)} of {tell_dims(dims)}")
    if any(as_int(size) is not None and as_int(size) < 1 for size in out):  # type: ignore[operator]
        n.refuse(f"a result of {tell_dims(out)} has no elements")
    changed = [i for i, a in enumerate(axes) if not _equal(dims[a], out[i], scales[i], region)]
    is_float = method == "nearest_neighbor" or dtype(n.dtype(x)).is_float
    if not is_float and (method != "linear" or n.attr("antialias", 0)):
        n.refuse(f"{method} interpolation of {n.dtype(x)}", hint="cast to float32 before")
    if not changed:
        return x
    if not is_float:
        return _integers(n, x, {axes[i]: (out[i], scales[i]) for i in changed}, mode)
    open_sizes = any(as_int(dims[axes[i]]) is None for i in changed)
    image = _image(dims, {axes[i] for i in changed})
    simple = (
        image is not None
        and (all(scales[i] is None for i in changed) or (open_sizes and mode in BY_SCALE))
        and mode in ip.MODES
        and not n.attr("antialias", 0)
        and not (method == "linear" and n.attr("exclude_outside", 0))
    )
    if simple and image is not None:
        target = dict(enumerate(dims)) | dict(zip(axes, out, strict=True))
        by = dict(zip(axes, factors, strict=True)) if factors and open_sizes else {}
        shape, *sides = image
        made = make_call(
            Resize2d,
            x if len(dims) == 4 else n.emit(call("relax.reshape", x, shape)),
            [target.get(a, 1) for a in sides],
            method=method,
            coordinate_transformation_mode=mode,
            rounding_method=rounding,
            cubic_alpha=n.attr("cubic_coeff_a", -0.75),
            cubic_exclude=n.attr("exclude_outside", 0),
            scales=() if all(s is None for s in scales) else tuple(by.get(a, 1.0) for a in sides),
        )
        return (
            made if len(dims) == 4 else call("relax.reshape", n.emit(made), list(target.values()))
        )
    for i in changed:
        have, want = dims[axes[i]], out[i]
        bounds = (0.0, 1.0) if region is None else (region[i], region[i + len(axes)])
        r = ip.Resizing(
            have, want, method, mode, scales[i], rounding, n.attr("cubic_coeff_a", -0.75),
            bool(n.attr("exclude_outside", 0)), bool(n.attr("antialias", 0)), bounds,
        )  # fmt: skip
        if ints((have, want)) is None:
            x = along_open(n, x, axes[i], r)
        else:
            affordable(n, "the weights", have, want)
            x = _along(n, x, axes[i], r)
    return x


def _image(dims: Sequence[Any], changed: set[int]) -> tuple[Any, int, int] | None:
    """A tensor as images whose sides alone change: their shape (n, c, h, w), and the axes that h
    and w are, -1 for none. None where others change."""
    if len(dims) == 4 and changed <= {2, 3}:
        return dims, 2, 3
    if len(dims) == 3 and changed == {2}:
        return [*dims[:2], 1, dims[2]], -1, 2
    if len(dims) == 3 and changed <= {1, 2}:
        return [1, *dims], 1, 2
    if len(dims) == 5 and changed <= {3, 4}:
        return [dims[0], tidy(dims[1] * dims[2]), *dims[3:]], 3, 4
    return None


def _equal(have: Any, want: Any, scale: float | None, region: Any) -> bool:
    """True where nothing happens along a dimension."""
    same = have is want or (as_int(have) is not None and as_int(have) == as_int(want))
    return same and scale is None and region is None


def _sizes(
    n: OnnxNode, dims: Sequence[Any], wanted: Sequence[Any] | None, factors: Any
) -> tuple[list[Any], list[float | None]]:
    """Output sizes, and for each the scale where it is not output / input."""
    if factors is not None:
        pairs = [_scaled(n, d, f) for d, f in zip(dims, factors, strict=True)]
        return [out for out, _ in pairs], [scale for _, scale in pairs]
    assert wanted is not None
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return list(wanted), [None] * len(wanted)
    have, want = [as_int(d) for d in dims], [as_int(w) for w in wanted]
    if None in have or None in want or policy not in ("not_larger", "not_smaller"):
        n.refuse(f"keep_aspect_ratio_policy {policy!r} of {tell_dims(dims)}")
    ratios = [w / d for w, d in zip(want, have, strict=True)]  # type: ignore[operator]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    out = [math.floor(scale * d + 0.5) for d in have]  # type: ignore[operator]
    return out, [None if o == d * scale else scale for o, d in zip(out, have, strict=True)]  # type: ignore[operator]


def _scaled(n: OnnxNode, size: Any, factor: float) -> tuple[Any, float | None]:
    """floor(size * factor), and the factor where that is not whole."""
    known = as_int(size)
    if known is not None:
        out = math.floor(known * factor)
        return out, None if out == known * factor else factor
    if factor == round(factor):
        return tidy(size * round(factor)), None
    terms = ip.quotient(factor)
    if terms is None:
        n.refuse(
            f"a symbolic size times {factor}, no quotient of numbers up to 64",
            hint="give the input's shape",
        )
    return tidy(size * terms[1] // terms[0]), factor


def _along(n: OnnxNode, x: Expr, axis: int, r: ip.Resizing) -> Expr:
    """`x` resized along one dimension, by a constant matrix or constant indices."""
    kind, ndim = n.dtype(x), len(n.dims(x))
    if r.method == "nearest_neighbor":
        places = const(ip.picked(r).astype(np.int64))
        result = n.emit(call("relax.take", x, places, axis=axis))
    else:
        half = dtype(kind).bits < 32
        wide = n.emit(call("relax.astype", x, dtype="float32")) if half else x
        matrix = const(ip.weights(r).T, "float32" if half else kind)
        order = tuple(a for a in range(ndim) if a != axis) + (axis,)
        back = tuple(sorted(range(ndim), key=order.__getitem__))
        last = n.emit(call("relax.permute_dims", wide, axes=order))
        product = n.emit(call("relax.matmul", last, matrix))
        result = n.emit(call("relax.permute_dims", product, axes=back))
        result = n.emit(call("relax.astype", result, dtype=kind)) if half else result
    beyond = ip.outside(r)
    if not beyond.any():
        return result
    line = [-1 if a == axis else 1 for a in range(ndim)]
    value = const(n.attr("extrapolation_value", 0.0), kind)
    return n.emit(call("relax.where", const(beyond.reshape(line)), value, result))


class _Line(NamedTuple):
    """For each place along a dimension: its two neighbours, and how far it is from each."""

    first: np.ndarray
    second: np.ndarray
    to_first: np.ndarray
    to_second: np.ndarray


def _position(mode: str, out: int, size: int, scale: float) -> np.ndarray | None:
    """Where output places lie in the input, in float32; None for another mode."""
    o, by = np.arange(out, dtype=np.float32), np.float32(scale)
    match mode:
        case "half_pixel":
            return (o + _HALF) / by - _HALF
        case "pytorch_half_pixel":
            return (o + _HALF) / by - _HALF if out > 1 else o * 0
        case "asymmetric":
            return o / by
        case "align_corners":
            return o * np.float32(size - 1) / np.float32(max(out - 1, 1))
    return None


def _line(mode: str, out: int, size: int, scale: float | None) -> _Line | None:
    """The neighbours along one dimension; of a place beyond an end both are the end."""
    at = _position(mode, out, size, out / size if scale is None else scale)
    if at is None:
        return None
    at = np.clip(at, np.float32(0), np.float32(size - 1)).astype(np.float32)
    first = np.minimum(at.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    alone = first == second
    gaps = [np.where(alone, _HALF, np.abs(at - x.astype(np.float32))) for x in (first, second)]
    return _Line(first, second, *(g.astype(np.float32) for g in gaps))


def _integers(
    n: OnnxNode, x: Expr, changed: Mapping[int, tuple[Any, float | None]], mode: str
) -> Expr:
    """`x`, of integers, resized along its last two axes: four neighbours, as ONNX Runtime weighs
    them.

    y = int(dx2 * dy2 * x[y1, x1] + dx1 * dy2 * x[y1, x2]
            + dx2 * dy1 * x[y2, x1] + dx1 * dy1 * x[y2, x2])

    in float32, term by term, rounded towards 0: of an image that is 100 throughout some elements
    are 99 where weights are no binary fractions. ONNX's reference rounds to the nearest in place of
    that. Semantics: `UpsampleBilinear` in onnxruntime/core/providers/cpu/tensor/upsample.h.

    changed: axis -> its new size, and the scale where that is not the quotient of the sizes.
    """
    dims = n.dims(x)
    axes = len(dims) - 2, len(dims) - 1
    sizes = [as_int(dims[a]) for a in axes]
    sides = [changed.get(a, (dims[a], None)) for a in axes]
    if len(dims) not in (2, 4) or not changed.keys() <= set(axes):
        n.refuse(
            f"linear interpolation of {n.dtype(x)} of {len(dims)} dimensions",
            hint="cast to float32 before: integers are resized along the sides of (N, C, H, W)",
        )
    if None in sizes or any(as_int(out) is None for out, _ in sides):
        n.refuse(f"linear interpolation of {n.dtype(x)} of open size", "cast to float32 before")
    lines = [
        _line(mode, as_int(out) or 0, size or 0, scale)
        for size, (out, scale) in zip(sizes, sides, strict=True)
    ]
    if None in lines:
        n.refuse(f"{mode} interpolation of {n.dtype(x)}", hint="cast to float32 before")
    rows: Any = lines[0]
    columns: Any = lines[1]
    kind = n.dtype(x)

    def term(row: Any, row_gap: Any, column: Any, column_gap: Any) -> Expr:
        found = n.emit(call("relax.take", x, const(row), axis=axes[0]))
        found = n.emit(call("relax.take", found, const(column), axis=axes[1]))
        for to in ("float32", "float64"):
            found = n.emit(call("relax.astype", found, dtype=to))
        weights = const((column_gap[None, :] * row_gap[:, None]).astype(np.float64))
        product = n.emit(call("relax.multiply", weights, found))  # exact, then rounded: no FMA
        return n.emit(call("relax.astype", product, dtype="float32"))

    terms = [
        term(row, row_gap, column, column_gap)
        for row, row_gap in ((rows.first, rows.to_second), (rows.second, rows.to_first))
        for column, column_gap in (
            (columns.first, columns.to_second),
            (columns.second, columns.to_first),
        )
    ]
    total = reduce(lambda a, b: n.emit(call("relax.add", a, b)), terms)
    return call("relax.astype", total, dtype=kind)
