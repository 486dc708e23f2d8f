"""Resizing along one dimension, as arithmetic: where an output place lies in the input.

An output place `o` lies at input position p / q, with whole numbers p and q, so that rounding is
exact. `weights` is the matrix (output, input) that one resized dimension is; it knows all that ONNX
asks for (given scales, regions, antialiasing), in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

#: coordinate transformations that are exact fractions
MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
METHODS = ("nearest_neighbor", "linear", "cubic")
ROUNDING = ("round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def fraction(
    mode: str, o: Any, size_in: Any, size_out: Any, larger: Callable, places: Any = None
) -> tuple[Any, Any]:
    """(p, q): where output place `o` lies in the input. Ints, arrays or expressions.

    Args:
        mode: one of MODES.
        o: the output place.
        size_in, size_out: the sizes, or two numbers of the same quotient; not for align_corners.
        larger: max, np.maximum or the maximum of expressions.
        places: how many output places there are, where that is not `size_out`.
    """
    if mode == "asymmetric":
        return o * size_in, size_out
    if mode == "align_corners":
        return o * (size_in - 1), larger(size_out - 1, 1)
    if mode == "tf_half_pixel_for_nn":
        return (o * 2 + 1) * size_in, size_out * 2
    p = (o * 2 + 1) * size_in - size_out
    if mode == "pytorch_half_pixel":  # a single output place lies at 0
        p = p * -larger(1 - (size_out if places is None else places), -1)
    return p, size_out * 2


def quotient(scale: float) -> tuple[int, int] | None:
    """(input, output): whole numbers up to 64 whose quotient is `scale` in float32, or None."""
    near = Fraction(scale).limit_denominator(64)
    if not near or np.float32(near.numerator / near.denominator) != np.float32(scale):
        return None
    return near.denominator, near.numerator


def ratio(method: str, scale: float) -> tuple[int, int] | None:
    """(input, output) of a scale: its `quotient`, or numbers as near to it as float32 is, where a
    place that is off by so little is as good.
    """
    found = quotient(scale)
    if found is not None or method == "nearest_neighbor":
        return found
    near = Fraction(scale).limit_denominator(1 << 12)
    return (near.denominator, near.numerator) if near else None


def nearest(rounding: str, p: Any, q: Any) -> Any:
    """p / q rounded to a whole number; `round` goes up at halves."""
    if rounding == "floor":
        return p // q
    if rounding == "ceil":
        return -((-p) // q)
    if rounding == "round_prefer_floor":
        return -((q - p * 2) // (q * 2))
    return (p * 2 + q) // (q * 2)


def cubic_weights(t: Any, a: float) -> list[Any]:
    """Weights of the four neighbours of a place `t` (0 … 1) after the second one.

    Source: Keys 1981, https://ieeexplore.ieee.org/document/1163711, equation (4).
    """
    far, near = t + 1, 1 - t
    return [
        ((far * a - 5 * a) * far + 8 * a) * far - 4 * a,
        (t * (a + 2) - (a + 3)) * t * t + 1,
        (near * (a + 2) - (a + 3)) * near * near + 1,
        (((near + 1) * a - 5 * a) * (near + 1) + 8 * a) * (near + 1) - 4 * a,
    ]


class Resizing(NamedTuple):
    """One dimension to be resized, with everything that ONNX can say of it."""

    size_in: Any
    size_out: Any
    method: str
    mode: str
    #: None: size_out / size_in
    scale: float | None = None
    rounding: str = "round"
    cubic_alpha: float = -0.75
    exclude: bool = False
    antialias: bool = False
    roi: tuple[float, float] = (0.0, 1.0)


def positions(r: Resizing) -> np.ndarray:
    """Where each output place lies in the input, in float64."""
    o = np.arange(r.size_out, dtype=np.float64)
    scale = r.size_out / r.size_in if r.scale is None else r.scale
    width, start, end = scale * r.size_in, *r.roi
    if r.mode == "half_pixel_symmetric":
        offset = r.size_in / 2 * (1 - r.size_out / width)
        return offset + (o + 0.5) / scale - 0.5
    if r.mode == "tf_crop_and_resize":
        if width == 1:
            return np.full_like(o, 0.5 * (start + end) * (r.size_in - 1))
        step = (end - start) * (r.size_in - 1) / (width - 1)
        return start * (r.size_in - 1) + o * step
    if r.mode == "align_corners":
        return np.zeros_like(o) if width == 1 else o * (r.size_in - 1) / (width - 1)
    if r.mode == "asymmetric":
        return o / scale
    if r.mode == "tf_half_pixel_for_nn":
        return (o + 0.5) / scale
    if r.mode == "pytorch_half_pixel" and r.size_out == 1:
        return np.zeros_like(o)
    return (o + 0.5) / scale - 0.5


def outside(r: Resizing) -> np.ndarray:
    """Which output places take the extrapolation value (tf_crop_and_resize only)."""
    at = positions(r)
    return (r.mode == "tf_crop_and_resize") & ((at < 0) | (at > r.size_in - 1))


def exact(r: Resizing) -> tuple[np.ndarray, np.ndarray]:
    """Whole part and rest of each position: by fractions, unless a scale is none."""
    terms = (r.size_in, r.size_out) if r.scale is None else quotient(r.scale)
    if terms and r.mode in MODES and (r.scale is None or r.mode != "align_corners"):
        o = np.arange(r.size_out, dtype=np.int64)
        have, want = terms
        p, q = fraction(r.mode, o, have, want, max, r.size_out)
        return p // q, (p % q) / q
    at = positions(r)
    base = np.floor(at)
    return base.astype(np.int64), at - base


def picked(r: Resizing) -> np.ndarray:
    """The input place that each output place is, for nearest_neighbor."""
    base, rest = exact(r)
    up = {
        "floor": rest < 0,
        "ceil": rest > 0,
        "round_prefer_floor": rest > 0.5,
    }.get(r.rounding, rest >= 0.5)
    return np.clip(base + up, 0, r.size_in - 1)


def weights(r: Resizing) -> np.ndarray:
    """The matrix (size_out, size_in) that resizing is, in float64."""
    matrix = np.zeros((r.size_out, r.size_in))
    rows = np.arange(r.size_out)
    if r.method == "nearest_neighbor":
        matrix[rows, picked(r)] = 1
        return matrix
    base, rest = exact(r)
    for shift, w in _taps(r, rest):
        place = base + shift
        inside = (place >= 0) & (place < r.size_in)
        part = np.where(inside, w, 0) if r.exclude else w
        np.add.at(matrix, (rows, np.clip(place, 0, r.size_in - 1)), part)
    total = matrix.sum(1, keepdims=True)
    return matrix / np.where(total == 0, 1, total) if r.exclude or r.antialias else matrix


def _taps(r: Resizing, rest: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(shift from the whole part, weight) for each neighbour."""
    if not r.antialias:
        if r.method == "linear":
            return [(0, 1 - rest), (1, rest)]
        return list(zip(range(-1, 3), cubic_weights(rest, r.cubic_alpha), strict=True))
    scale = min(r.size_out / r.size_in if r.scale is None else r.scale, 1.0)
    reach = 1 if r.method == "linear" else 2
    first = math.floor(-reach / scale) + 1
    taps = []
    for shift in range(first, 2 - first):
        away = np.abs((shift - rest) * scale)
        kernel = np.clip(1 - away, 0, 1) if reach == 1 else _cubic_kernel(away, r.cubic_alpha)
        taps.append((shift, kernel))
    return taps


def _cubic_kernel(x: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
