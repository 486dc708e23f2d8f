"""Convolutions with a bias, padding, and interpolation: what is done to images and signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError, UnsupportedOpError
from mlcnb.relax.frontend.nn.tensor import Tensor, call, named, reshape


def _convolution(
    sugar: str, name: str, layout: str, data: Any, bias: Any, attrs: dict[str, Any]
) -> Tensor:
    """A convolution, and the bias along the layout's axis C.

    layout: of the data.
    """
    made = call(sugar, *data, **attrs, name="lv" if bias is not None else name)
    if bias is None:
        return made
    along = reshape(bias, [-1 if axis == "C" else 1 for axis in layout], "lv")
    return call("add", made, along, name=name)


def _layout(given: str, rank: int, kernel: str) -> dict[str, Any]:
    """Attributes of a layout: channels first or last."""
    spatial = "DHW"[-rank:]
    if given not in (f"NC{spatial}", f"N{spatial}C"):
        raise ArgumentError(
            f"nn.op.conv{rank}d: Dont know how to handle layout {given}.",
            hint=f"NC{spatial} or N{spatial}C",
        )
    return {"data_layout": given, "kernel_layout": kernel, "out_layout": given}


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    name: str = "conv1d",
) -> Tensor:
    """Convolution of signals: x (N, C, W), weight (O, C / groups, w), bias (O,)."""
    attrs = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _convolution("nn.conv1d", name, "NCW", (x, weight), bias, attrs)


def _of_layout(rank: int, layout: str, kernel: str, text: str) -> Callable[..., Tensor]:
    def convolve(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        data_layout: str = layout,
        name: str = f"conv{rank}d",
    ) -> Tensor:
        attrs = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
        attrs |= _layout(data_layout, rank, kernel)
        return _convolution(f"nn.conv{rank}d", name, data_layout, (x, weight), bias, attrs)

    return named(convolve, f"conv{rank}d", text)  # type: ignore[no-any-return]


conv2d = _of_layout(
    2, "NCHW", "OIHW",
    "Convolution of images: x in `data_layout`, weight (O, C / groups, h, w), bias (O,).",
)  # fmt: skip
conv3d = _of_layout(
    3, "NCDHW", "OIDHW",
    "Convolution of volumes: x in `data_layout`, weight (O, C / groups, d, h, w), bias (O,).",
)  # fmt: skip


def _transposed(rank: int, layout: str, text: str) -> Callable[..., Tensor]:
    own = f"conv{rank}d_transpose"

    def convolve(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        name: str = own,
    ) -> Tensor:
        attrs = {"strides": stride, "padding": padding, "output_padding": output_padding}
        attrs |= {"dilation": dilation, "groups": groups}
        return _convolution(f"nn.{own}", name, layout, (x, weight), bias, attrs)

    return named(convolve, own, text)  # type: ignore[no-any-return]


conv1d_transpose = _transposed(
    1, "NCW",
    "Transposed convolution of signals: x (N, C, W), weight (C, O / groups, w), bias (O,).",
)  # fmt: skip
conv2d_transpose = _transposed(
    2, "NCHW",
    "Transposed convolution of images: x (N, C, H, W), weight (C, O / groups, h, w), bias (O,).",
)  # fmt: skip


def pad(
    x: Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0, name: str = "pad"
) -> Tensor:
    """More elements around x: before and after axis 0, before and after axis 1, …"""
    return call("nn.pad", x, pad_width=list(pad), pad_mode=mode, pad_value=value, name=name)


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """Images in another size.

    Args:
        x: images in `data_layout`.
        size: height and width (an int for both), or None for `scale_factor` of x's own.
        scale_factor: one number, or one for each of height and width.
        mode: "nearest" (the element at the rounded index, where torch takes the one below),
            "bilinear" or "bicubic".
        align_corners: the corners' centres stay where they are.
        recompute_scale_factor: has to be None.
        antialias: has to be None.
        data_layout: "NCHW" or "NHWC".
        name: the variable's name.

    Raises:
        UnsupportedOpError: an option that has to be None.
        ArgumentError: both or neither of size and scale_factor.
    """
    options = {"recompute_scale_factor": recompute_scale_factor, "antialias": antialias}
    for option, given in options.items():
        if given:
            raise UnsupportedOpError(f"nn.op.interpolate: {option} is not supported.")
    if (size is None) == (scale_factor is None):
        raise ArgumentError("nn.op.interpolate: give one of size and scale_factor")
    method = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    method = "nearest_neighbor" if mode.startswith("nearest") else method
    mapping = "align_corners" if align_corners else "half_pixel"
    if method == "nearest_neighbor":
        mapping = "asymmetric"
    attrs = {"layout": data_layout, "method": method}
    attrs["coordinate_transformation_mode"] = mapping
    wanted = _sizes(x, size, scale_factor, data_layout)
    return call("image.resize2d", x, tuple(wanted), **attrs, name=name)


def _sizes(x: Tensor, size: Any, scale: Any, layout: str) -> list[Any]:
    if size is not None:
        return list(size) if isinstance(size, list | tuple) else [size, size]
    at = [i for i, axis in enumerate(layout) if axis not in "NC"]
    factors = scale if isinstance(scale, list | tuple) else [scale] * len(at)
    own = [x.shape[i] for i in at]
    for length, factor in zip(own, factors, strict=True):
        if not isinstance(length, int) and int(factor) != factor:
            raise ArgumentError(
                f"nn.op.interpolate: {factor} times the open size {length} is no size",
                hint="give size=, or a whole factor",
            )
    return [
        int(length * f) if isinstance(length, int) else length * int(f)
        for length, f in zip(own, factors, strict=True)
    ]
