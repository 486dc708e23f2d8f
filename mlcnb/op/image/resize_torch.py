"""PyTorch spellings of resampling: upsample_nearest, _bilinear, _bicubic, and sampling by a grid.

Where a scale is given it, and not the ratio of the sizes, says where pixels lie; then the two have
to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, wide
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, const

#: numbers of `grid_sampler` -> words
_METHODS = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def _scales_agree(n: TorchNode, x: Expr, scales: Sequence[float | None]) -> None:
    """Refuse scales that are not the ratio of the sizes: PyTorch samples by them."""
    out = n.result()[0][2:]
    for have, want, scale in zip(n.dims(x)[2:], out, scales, strict=True):
        if scale is None:
            continue
        a, b = as_int(have), as_int(want)
        exact = a is not None and b is not None and a * scale == b
        if not exact and not (a is None and float(scale).is_integer()):
            n.refuse(f"a scale of {scale} makes {want} of {have}", "give the size in place of it")


def _resize(n: TorchNode, x: Expr, **attrs: Any) -> Expr:
    """image.resize to the size that PyTorch says; one dimension is done as two."""
    out = list(n.result()[0][2:])
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
    _scales_agree(n, x, _numbers(scales, len(n.dims(x)) - 2))
    mode, rounding = ("half_pixel", "round") if "exact" in n.target else ("asymmetric", "floor")
    return _resize(
        n, x, method="nearest_neighbor", coordinate_transformation_mode=mode,
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
    if not all(isinstance(d, int) for d in (*n.dims(x)[2:], *out)):
        n.refuse("an image whose size is open", "export with fixed sizes, or without antialias")
    f, given = Formula(n, kind), _numbers(scales, 2)
    tall, broad = (
        const(_smoothing(have, want, s, align_corners, "bicubic" in n.target).astype(kind))
        for have, want, s in zip(n.dims(x)[2:], out, given, strict=True)
    )
    lines = f.matmul(n.tensor(x, kind), f.permute_dims(broad, axes=(1, 0)))
    return n.tensor(f.matmul(tall, lines), n.dtype(x))


def _smoothing(
    have: int, want: int, scale: float | None, align_corners: bool, is_cubic: bool
) -> np.ndarray:
    """(want, have): the weight of each pixel; the filter is as wide as pixels of the result."""
    if align_corners:
        step = (have - 1) / (want - 1) if want > 1 else 0.0
    else:
        step = have / want if scale is None else 1 / scale
    reach = (2.0 if is_cubic else 1.0) * max(step, 1.0)
    weights = np.zeros((want, have))
    for row in range(want):
        centre = step * (row + 0.5)
        first, end = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), have)
        away = np.abs(np.arange(first, end) - centre + 0.5) / max(step, 1.0)
        near = _cubic(away) if is_cubic else np.maximum(1 - away, 0)
        weights[row, first:end] = near / near.sum()
    return weights


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys's kernel with a = -0.5."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


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
    if not align_corners:
        _scales_agree(n, x, _numbers(scales, len(n.dims(x)) - 2))
    mode = "align_corners" if align_corners else "half_pixel"
    method = "cubic" if "bicubic" in n.target else "linear"
    return _resize(n, x, method=method, coordinate_transformation_mode=mode)


@torch_spelling("aten.grid_sampler", "aten.grid_sampler_2d")
def torch_grid_sampler(
    n: TorchNode, x: Expr, grid: Expr, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Expr:  # fmt: skip
    """Pixels at the places of a grid (N, H, W, 2), from -1 to 1."""
    turned = n.emit(call("relax.permute_dims", grid, axes=(0, 3, 1, 2)))
    return call(
        "relax.image.grid_sample",
        x,
        turned,
        method=_METHODS[interpolation_mode],
        padding_mode=_PADDING[padding_mode],
        align_corners=align_corners,
    )
