"""Gradients of images in another size, read at places, or averaged over windows that adapt.

Along each dimension that is resized an output element is a weighted sum of input elements. What
an input element gets back is one too: of the outputs that see it, by the same weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.op import _layout
from mlcnb.op._dims import product
from mlcnb.op._spell import Formula
from mlcnb.op.grad.rules.registry import dims_of, known, rule, through
from mlcnb.op.image import _interpolate as ip
from mlcnb.op.image.grid_sample import TAPS
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Var, const
from mlcnb.relax.operator import attrs_of, call_arguments

#: outputs that see one input, from which on the matrix of weights is multiplied by
MANY = 16


def _seen_by(grad: Any, axis: int, weights: np.ndarray, builder: Any) -> Any:
    """`grad` (…, outputs, …) times `weights` (outputs, inputs), of which few are not 0."""
    hit, kind = weights != 0, grad.struct_info.dtype.numpy
    most = max(int(hit.sum(0).max()), 1)
    if most > MANY:
        axes = list(range(grad.struct_info.ndim))
        axes[axis], axes[-1] = axes[-1], axes[axis]
        product = op.matmul(op.permute_dims(grad, axes=axes), const(weights.astype(kind)))
        return builder.emit(op.permute_dims(product, axes=axes))
    order = np.argsort(~hit, axis=0, kind="stable")[:most]
    numbers = np.take_along_axis(weights, order, 0)
    shape = [-1 if a == axis else 1 for a in range(grad.struct_info.ndim)]
    total = None
    for places, factors in zip(order, numbers, strict=True):
        taken = op.take(grad, const(places.astype("int64")), axis=axis)
        factor = const(factors.reshape(shape).astype(kind))
        part = builder.emit(taken * factor)
        total = part if total is None else builder.emit(total + part)
    return total


def _axis_of(layout: str, letter: str) -> int:
    """Where a dimension lies."""
    return [str(a.letter) for a in _layout.axes_in(layout)].index(letter)


@rule("image.resize2d", "image.resize3d")
def _resize(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x = call.args[0]
    at: Any = attrs_of(call)
    kind = str(x.struct_info.dtype)
    for letter in at.spatial:
        axis = _axis_of(at.layout, letter)
        have, want = (known(dims_of(v, call)[axis], call) for v in (x, var))
        resizing = at.resizing(have, want, at.scale_of(letter))
        grad = _seen_by(grad, axis, ip.weights(resizing), builder)
    same = str(grad.struct_info.dtype) == kind
    return [grad if same else op.astype(grad, kind), *[None] * len(call.args[1:])]


@rule(*(f"nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3)))
def _adaptive(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x = call.args[0]
    at: Any = attrs_of(call)
    for letter in at.spatial:
        axis, before = _axis_of(at.out_layout, letter), _axis_of(at.layout, letter)
        have = known(dims_of(x, call)[before], call)
        want = known(dims_of(var, call)[axis], call)
        weights = np.zeros((want, have))
        for i in range(want):
            first, end = i * have // want, -(-(i + 1) * have // want)
            weights[i, first:end] = 1 / (end - first)
        grad = _seen_by(grad, axis, weights, builder)
    if at.out_layout != at.layout:
        grad = op.layout_transform(grad, src=at.out_layout, dst=at.layout)
    return [grad]


@rule("image.affine_grid")
def _affine_grid(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """A product with the homogeneous coordinates of each place."""
    theta, size = call_arguments(call)
    at: Any = attrs_of(call)
    extents = [known(d, call) for d in size.values]
    rank, kind = len(extents), theta.struct_info.dtype
    basis = np.zeros((rank + 1, rank, rank + 1))
    basis[np.arange(rank + 1), 0, np.arange(rank + 1)] = 1
    lines = at.numpy(basis, extents)[:, 0].reshape(rank + 1, -1)
    flat = op.reshape(grad, (dims_of(theta, call)[0], rank, product(extents)))
    return [op.matmul(flat, const(lines.T.astype(kind.numpy))), None]


@rule("image.grid_sample")
def _grid_sample(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Back through what it is made of: weights times elements that are gathered."""
    return through(call, grad, builder, _sampled)


def _sampled(f: Formula, call: Call) -> Any:
    """grid_sample in operators that have gradients."""
    data, grid = call.args
    at: Any = attrs_of(call)
    n, channels, *spatial = dims_of(data, call)
    extents = [known(d, call) for d in spatial]
    rank, out = len(extents), dims_of(grid, call)[2:]
    count = product(out)
    f.kind = str(data.struct_info.dtype)
    lines = f.reshape(grid, [n, rank, count])
    flat = f.reshape(data, [n, channels, product(extents)])
    bases, rests = [], []
    for axis, extent in enumerate(extents):
        where = f.take(lines, const(np.array([rank - 1 - axis])), axis=1)
        where = _position(f, at, where, extent)
        base = f.floor(where)
        bases.append(f.astype(base, dtype="int64"))
        rests.append(f.subtract(where, base))
    first, taps = TAPS[at.method]
    total = None
    for chosen in itertools.product(range(taps), repeat=rank):
        weight, place = None, None
        for axis, tap in enumerate(chosen):
            inside, is_valid = _inside(f, at, bases[axis], first + tap, extents[axis])
            one = _weight(f, at, rests[axis], tap)
            one = one if is_valid is None else f.where(is_valid, one, 0.0)
            weight = one if weight is None else f.multiply(weight, one)
            step = const(extents[axis], "int64")
            place = inside if place is None else f.add(f.multiply(place, step), inside)
        wide = f.broadcast_to(place, [n, channels, count])
        part = f.multiply(f.gather_elements(flat, wide, axis=2), weight)
        total = part if total is None else f.add(total, part)
    return f.reshape(total, [n, channels, *out])


def _position(f: Formula, at: Any, g: Any, extent: int) -> Any:
    """Coordinates -1 … 1 as positions, brought inside as padding_mode says."""
    length = extent - 1 if at.align_corners else extent
    where = f.multiply(f.add(g, 1.0), length / 2)
    where = where if at.align_corners else f.subtract(where, 0.5)
    where = f.round(where) if at.method == "nearest" else where
    if at.padding_mode == "border" and at.method != "bicubic":
        return f.clip(where, 0, extent - 1)
    if at.padding_mode != "reflection":
        return f.clip(where, -4, extent + 4)
    half, edge = (0.0, extent - 1) if at.align_corners else (0.5, extent)
    if edge == 0:
        return f.multiply(where, 0.0)
    around = f.floor_mod(f.add(where, half), 2.0 * edge)
    return f.subtract(float(edge) - half, f.abs(f.subtract(around, float(edge))))


def _inside(f: Formula, at: Any, base: Any, shift: int, extent: int) -> tuple[Any, Any]:
    """A neighbour's place brought inside, and whether it counts (None: it does)."""

    def whole(value: int) -> Any:
        return const(value, "int64")

    place = f.add(base, whole(shift))
    if at.padding_mode == "reflection":
        period = max(2 * (extent - 1), 1) if at.align_corners else 2 * extent
        around = f.floor_mod(place, whole(period))
        back = f.subtract(whole(period - (0 if at.align_corners else 1)), around)
        place = f.minimum(around, back)
    held = f.minimum(f.maximum(place, whole(0)), whole(extent - 1))
    return held, None if at.padding_mode != "zeros" else f.equal(held, place)


def _weight(f: Formula, at: Any, rest: Any, tap: int) -> Any:
    """The weight of a neighbour along one dimension."""
    if at.method == "nearest":
        return f.ones_like(rest)
    if at.method == "bilinear":
        return rest if tap else f.subtract(1.0, rest)
    return _polynomial(f, rest, _CUBIC[tap])


def _polynomial(f: Formula, x: Any, numbers: Sequence[float]) -> Any:
    """numbers[0] + numbers[1] x + …, by Horner's rule."""
    *rest, last = numbers
    total: Any = last
    for number in reversed(rest):
        total = f.add(f.multiply(x, total), number)
    return total


#: the weights of `ip.cubic_weights` for a = -0.75, as polynomials
_CUBIC = tuple(
    tuple(np.polynomial.Polynomial.fit(_T, w, 3, domain=[-1, 1]).coef.round(9).tolist())
    for _T in [np.array([0.0, 0.25, 0.5, 1.0])]
    for w in ip.cubic_weights(_T, -0.75)
)
