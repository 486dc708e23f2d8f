"""ONNX Resize of open sizes, in the modes that are no fractions of them: smoothed, cropped, aligned
by scales, symmetric.

y[o] = sum over t of weight[o, t] * x[place[o, t]]: places and weights are computed by the run, as
`_interpolate.positions` and `_interpolate.weights` say, in float64.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_expr, ceildiv, maximum
from mlcnb.op._dims import tidy
from mlcnb.op._spell import Formula
from mlcnb.op.image import _interpolate as ip
from mlcnb.op.onnx import OnnxNode
from mlcnb.relax.expr import Expr, const

FLOAT = "float64"


def along_open(n: OnnxNode, x: Expr, axis: int, r: ip.Resizing) -> Expr:
    """`x` resized along one dimension, whose sizes only a run knows."""
    kind, f = n.dtype(x), Formula(n, FLOAT)
    at = _positions(f, r)
    if r.method == "nearest_neighbor":
        found = f.take(x, _inside(f, r, f.astype(_nearest(f, r, at), dtype="int64")), axis=axis)
    else:
        found = _blended(f, x, axis, r, at)
    if r.mode != "tf_crop_and_resize":
        return found
    last = f.size_of(tidy(r.size_in - 1), FLOAT)
    beyond = f.logical_or(f.less(at, 0.0), f.greater(at, last))
    line = [-1 if a == axis else 1 for a in range(len(n.dims(x)))]
    value = const(n.attr("extrapolation_value", 0.0), kind)
    return f.where(f.reshape(beyond, line), value, found)


def _positions(f: Formula, r: ip.Resizing) -> Expr:
    """Where each output place lies in the input: `_interpolate.positions`, and of sizes that are
    whole the quotient of two whole numbers, as `_interpolate.exact`: halves are halves."""
    o = f.astype(f.counted(r.size_out), dtype=FLOAT)
    size, out = (f.size_of(d, FLOAT) for d in (r.size_in, r.size_out))
    scale = f.divide(out, size) if r.scale is None else const(r.scale, FLOAT)
    width = out if r.scale is None else f.multiply(scale, size)
    last = f.subtract(size, 1.0)
    centres = f.add(o, 0.5)
    is_one = f.equal(width, 1.0)
    steps = f.where(is_one, 1.0, f.subtract(width, 1.0))

    def before(places: Expr) -> Expr:
        if r.scale is not None:
            return f.divide(places, scale)
        return f.divide(f.multiply(places, size), out)

    match r.mode:
        case "half_pixel_symmetric":
            offset = f.multiply(f.divide(size, 2.0), f.subtract(1.0, f.divide(out, width)))
            return f.subtract(f.add(offset, f.divide(centres, scale)), 0.5)
        case "tf_crop_and_resize":
            start, end = r.roi
            step = f.divide(f.multiply(last, end - start), steps)
            moved = f.add(f.multiply(last, start), f.multiply(o, step))
            return f.where(is_one, f.multiply(last, 0.5 * (start + end)), moved)
        case "align_corners":
            return f.where(is_one, 0.0, f.divide(f.multiply(o, last), steps))
        case "asymmetric":
            return before(o)
        case "tf_half_pixel_for_nn":
            return before(centres)
    found = f.subtract(before(centres), 0.5)
    if r.mode != "pytorch_half_pixel":
        return found
    return f.where(f.equal(out, 1.0), 0.0, found)


def _nearest(f: Formula, r: ip.Resizing, at: Expr) -> Expr:
    """Positions as whole numbers: `_interpolate.picked`."""
    base = f.floor(at)
    rest = f.subtract(at, base)
    match r.rounding:
        case "floor":
            return base
        case "ceil":
            return f.ceil(at)
        case "round_prefer_floor":
            return f.where(f.greater(rest, 0.5), f.add(base, 1.0), base)
    return f.where(f.greater_equal(rest, 0.5), f.add(base, 1.0), base)


def _inside(f: Formula, r: ip.Resizing, places: Expr) -> Expr:
    first = const(0, "int64")
    return f.maximum(f.minimum(places, f.size_of(tidy(r.size_in - 1))), first)


def _blended(f: Formula, x: Expr, axis: int, r: ip.Resizing, at: Expr) -> Expr:
    """The weighted neighbours of each place."""
    kind = f.n.dtype(x)
    wide = "float32" if dtype(kind).bits < 32 else kind
    first, count = _reach(r)
    base = f.reshape(f.floor(at), [r.size_out, 1])
    rest = f.subtract(f.reshape(at, [r.size_out, 1]), base)
    shifts = f.add(f.counted(count), f.size_of(first))
    shifts = f.reshape(f.astype(shifts, dtype=FLOAT), [1, count])
    away = f.abs(f.subtract(shifts, rest))
    if r.antialias:
        size, out = (f.size_of(d, FLOAT) for d in (r.size_in, r.size_out))
        scale = f.divide(out, size) if r.scale is None else const(r.scale, FLOAT)
        away = f.multiply(away, f.minimum(scale, 1.0))
    weights = _kernel(f, r, away)
    places = f.astype(f.add(base, shifts), dtype="int64")
    read = _inside(f, r, places)
    if r.exclude:
        weights = f.where(f.equal(places, read), weights, 0.0)
    if r.exclude or r.antialias:
        total = f.sum(weights, axis=(1,), keepdims=True)
        weights = f.divide(weights, f.where(f.equal(total, 0.0), 1.0, total))
    beside = f.astype(f.take(x, read, axis=axis), dtype=wide)
    behind = [1] * (len(f.n.dims(x)) - axis - 1)
    shaped = f.reshape(f.astype(weights, dtype=wide), [r.size_out, count, *behind])
    return f.astype(f.sum(f.multiply(beside, shaped), axis=(axis + 1,)), dtype=kind)


def _reach(r: ip.Resizing) -> tuple[Any, Any]:
    """The first neighbour, counted from the whole part of a place, and how many there are."""
    far: Any = 1 if r.method == "linear" else 2
    if r.antialias and r.scale is not None:
        far *= math.ceil(1 / min(r.scale, 1.0))
    elif r.antialias:  # the input's places that one of the output covers
        far = tidy(ceildiv(as_expr(r.size_in), maximum(r.size_out, 1)) * far)
    return tidy(1 - far), tidy(far * 2)


def _kernel(f: Formula, r: ip.Resizing, x: Expr) -> Expr:
    """The weight of a neighbour so far away: a tent, or Keys's kernel."""
    if r.method == "linear":
        return f.maximum(f.subtract(1.0, x), 0.0)
    a = r.cubic_alpha

    def polynomial(first: float, *rest: float) -> Expr:
        total: Any = f.number(first)
        for number in rest:
            total = f.add(f.multiply(total, x), number)
        return total

    near = polynomial(a + 2, -a - 3, 0.0, 1.0)
    far = polynomial(a, -5 * a, 8 * a, -4 * a)
    return f.where(f.less_equal(x, 1.0), near, f.where(f.less(x, 2.0), far, 0.0))
