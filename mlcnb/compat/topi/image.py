"""topi.image: pictures in other sizes."""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import run


def resize2d(
    data: te.Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> te.Tensor:
    """A picture whose height and width are `size`: (n, c, h, w) becomes (n, c, *size).

    roi: four zeros, or None.

    Raises:
        MLCError: an option that `relax.op.image.resize2d` does not know.
    """
    return run(
        "image.resize2d",
        data,
        size,
        roi=tuple(roi or (0.0,) * 4),
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method or "round",
        cubic_alpha=bicubic_alpha,
        cubic_exclude=bicubic_exclude,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )
