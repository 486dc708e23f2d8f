"""PyTorch spellings of resampling: upsample_nearest, _bilinear, _bicubic, and sampling by a grid.

Where a scale is given it, and not the ratio of the sizes, says where pixels lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import same
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, wide
from mlcnb.op.image._interpolate import ratio
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr

#: numbers of `grid_sampler` -> words
_METHODS = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def _agree(have: Any, want: Any, scale: float | None) -> bool:
    """Whether a scale is the ratio of the sizes, open ones among them."""
    a, b = as_int(have), as_int(want)
    if scale is None or (a is not None and b is not None and a * scale == b):
        return True
    return a is None and float(scale).is_integer() and same(have * int(scale), want)


def _resize(n: TorchNode, x: Expr, given: Sequence[float | None] = (), **attrs: Any) -> Expr:
    """image.resize to the size that PyTorch says; one dimension is done as two.

    given: a scale for each dimension, by which PyTorch samples.
    """
    out, dims = list(n.result()[0][2:]), n.dims(x)[2:]
    if not all(map(_agree, dims, out, given)):
        scales = [float(s or 1.0) for s in given]
        for scale in scales:
            if ratio(attrs["method"], scale) is None:
                n.refuse(f"nearest places by {scale}, no quotient of numbers up to 64")
        attrs["scales"] = tuple(scales) if len(out) > 1 else (1.0, *scales)
    if len(out) != 1:
        return call(f"relax.image.resize{len(out)}d", x, out, **attrs)
    tall = n.emit(call("relax.expand_dims", x, axis=(2,)))
    wide = n.emit(call("relax.image.resize2d", tall, [1, out[0]], **attrs))
    return call("relax.squeeze", wide, axis=(2,))


def _numbers(values: Sequence[Any], rank: int) -> list[float | None]:
    """The scales among the last arguments: a list of them, or one each."""
    flat: list[Any] = []
    for v in values:
        flat += v if isinstance(v, list | tuple) else [v]
    return (flat + [None] * rank)[:rank]


@torch_spelling(*(f"aten.upsample_nearest{rank}d" for rank in (1, 2, 3)))
@torch_spelling(*(f"aten._upsample_nearest_exact{rank}d" for rank in (1, 2, 3)))
def torch_upsample_nearest(n: TorchNode, x: Expr, output_size: Any, *scales: Any) -> Expr:
    """The pixel at floor(place * input / output), or (exact) the one whose centre is nearest."""
    given = _numbers(scales, len(n.dims(x)) - 2)
    mode, rounding = ("half_pixel", "round") if "exact" in n.target else ("asymmetric", "floor")
    return _resize(
        n, x, given, method="nearest_neighbor", coordinate_transformation_mode=mode,
        rounding_method=rounding,
    )  # fmt: skip


@torch_spelling("aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa")
def torch_upsample_smoothed(
    n: TorchNode, x: Expr, output_size: Any, align_corners: bool, *scales: Any
) -> Expr:
    """Weighted neighbours as far as a pixel of the result reaches: a matrix for each dimension."""
    kind, out = wide(n.dtype(x)), n.result()[0][2:]
    if "float" not in n.dtype(x):
        n.refuse(f"pixels of {n.dtype(x)}", "convert them to float32")
    f, given = Formula(n, kind), _numbers(scales, 2)
    tall, broad = (
        n.tensor(_smoothing(n, have, want, s, align_corners, "bicubic" in n.target), kind)
        for have, want, s in zip(n.dims(x)[2:], out, given, strict=True)
    )
    lines = f.matmul(n.tensor(x, kind), f.permute_dims(broad, axes=(1, 0)))
    return n.tensor(f.matmul(tall, lines), n.dtype(x))


def _smoothing(
    n: TorchNode, have: Any, want: Any, scale: float | None, align_corners: bool, is_cubic: bool
) -> Expr:
    """(want, have): the weight of each pixel; the filter is as wide as pixels of the result."""
    f = Formula(n, "float64")
    if align_corners:
        step = f.divide(n.tensor(have - 1, f.kind), f.maximum(n.tensor(want - 1, f.kind), 1.0))
        step = f.where(n.tensor(want > 1, "bool"), step, 0.0)
    elif scale is None:
        step = f.divide(n.tensor(have, f.kind), n.tensor(want, f.kind))
    else:
        step = n.tensor(1 / scale, f.kind)
    wide_step = f.maximum(step, 1.0)
    reach = f.multiply(wide_step, 2.0 if is_cubic else 1.0)
    rows = f.reshape(n.tensor(f.counted(want), f.kind), [want, 1])
    pixels = f.reshape(n.tensor(f.counted(have), f.kind), [1, have])
    centre = f.multiply(f.add(rows, 0.5), step)
    first = f.maximum(f.trunc(f.add(f.subtract(centre, reach), 0.5)), 0.0)
    end = f.minimum(f.trunc(f.add(f.add(centre, reach), 0.5)), n.tensor(have, f.kind))
    away = f.divide(f.abs(f.add(f.subtract(pixels, centre), 0.5)), wide_step)
    near = _cubic(f, away) if is_cubic else f.maximum(f.subtract(1.0, away), 0.0)
    inside = f.logical_and(f.greater_equal(pixels, first), f.less(pixels, end))
    weights = f.where(inside, near, 0.0)
    return f.divide(weights, f.sum(weights, axis=(1,), keepdims=True))


def _cubic(f: Formula, x: Expr) -> Expr:
    """Keys's kernel with a = -0.5."""

    def polynomial(first: float, *rest: float) -> Expr:
        total: Any = first
        for number in rest:
            total = f.add(f.multiply(total, x), number)
        return total

    near, far = polynomial(1.5, -2.5, 0.0, 1.0), polynomial(-0.5, 2.5, -4.0, 2.0)
    return f.where(f.less(x, 1.0), near, f.where(f.less(x, 2.0), far, 0.0))


@torch_spelling(
    "aten.upsample_linear1d",
    "aten.upsample_bilinear2d",
    "aten.upsample_trilinear3d",
    "aten.upsample_bicubic2d",
)
def torch_upsample_linear(
    n: TorchNode, x: Expr, output_size: Any, align_corners: bool, *scales: Any
) -> Expr:
    """Weighted neighbours, 2 or 4 along each dimension."""
    given = () if align_corners else _numbers(scales, len(n.dims(x)) - 2)
    mode = "align_corners" if align_corners else "half_pixel"
    method = "cubic" if "bicubic" in n.target else "linear"
    return _resize(n, x, given, method=method, coordinate_transformation_mode=mode)


@torch_spelling("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def torch_grid_sampler(
    n: TorchNode, x: Expr, grid: Expr, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Expr:  # fmt: skip
    """Pixels at the places of a grid (N, H, W, 2) or (N, D, H, W, 3), from -1 to 1."""
    rank = len(n.dims(grid))
    turned = n.emit(call("relax.permute_dims", grid, axes=(0, rank - 1, *range(1, rank - 1))))
    return call(
        "relax.image.grid_sample",
        x,
        turned,
        method=_METHODS[interpolation_mode],
        layout="NCHW" if rank == 4 else "NCDHW",
        padding_mode=_PADDING[padding_mode],
        align_corners=align_corners,
    )
