"""Convolutions, with a bias unless they are told otherwise."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.ir.prim_ops import floordiv
from mlcnb.relax.frontend.nn import op
from mlcnb.relax.frontend.nn.module import Module
from mlcnb.relax.frontend.nn.tensor import Parameter, Tensor, size_of


class _Convolution(Module):
    """What convolutions share: their options, and weight and bias of the right shapes.

    Args:
        in_channels: channels of x (an int; a size or a name for an open one).
        out_channels: channels of the result.
        kernel_size: of the window: an int, or one for each dimension.
        stride, padding, dilation: an int, or one for each dimension.
        groups: channels are cut into so many groups.
        bias: whether there is one.
        dtype: of weight and bias; the default dtype if None.
    """

    rank = 0
    transposed = False
    #: what the operator is told beside the tensors
    options: tuple[str, ...] = ("stride", "padding", "dilation", "groups")

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        one = isinstance(kernel_size, int)
        window = [kernel_size] * self.rank if one else list(kernel_size)
        if len(window) != self.rank:
            raise ArgumentError(
                f"{type(self).__name__}: kernel_size {kernel_size} has {len(window)} lengths",
                hint=f"an int, or {self.rank} of them",
            )
        outer, inner = out_channels, in_channels
        if self.transposed:
            outer, inner = in_channels, out_channels
        self.weight = Parameter((outer, self._of_group(inner), *window), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def _of_group(self, channels: Any) -> Any:
        """Channels of one group."""
        dim = size_of(channels)
        if not isinstance(dim, int):
            return floordiv(dim, self.groups)
        if dim % self.groups:
            raise ArgumentError(
                f"{type(self).__name__}: {dim} channels are no {self.groups} equal groups"
            )
        return dim // self.groups

    def forward(self, x: Tensor) -> Tensor:
        """(N, in_channels, …) -> (N, out_channels, …), in the layout of the class."""
        apply = getattr(op, f"conv{self.rank}d{'_transpose' if self.transposed else ''}")
        named = {name: getattr(self, name) for name in self.options}
        return apply(x, self.weight, self.bias, **named)


class Conv1D(_Convolution):
    """Convolution of signals (N, C, W); the weight is (out, in / groups, w)."""

    rank = 1


class _ImageConvolution(_Convolution):
    layout = ""
    options = (*_Convolution.options, "data_layout")

    def __init__(self, *args: Any, data_layout: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.data_layout = data_layout or self.layout


class Conv2D(_ImageConvolution):
    """Convolution of images in `data_layout`; the weight is (out, in / groups, h, w)."""

    rank, layout = 2, "NCHW"


class Conv3D(_ImageConvolution):
    """Convolution of volumes in `data_layout`; the weight is (out, in / groups, d, h, w)."""

    rank, layout = 3, "NCDHW"


class _Transposed(_Convolution):
    transposed = True
    options = (*_Convolution.options, "output_padding")

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        options = (stride, padding, dilation, groups, bias, dtype)
        super().__init__(in_channels, out_channels, kernel_size, *options)
        self.output_padding = output_padding


class ConvTranspose1D(_Transposed):
    """Transposed convolution of signals; the weight is (in, out / groups, w)."""

    rank = 1


class ConvTranspose2D(_Transposed):
    """Transposed convolution of images (N, C, H, W); the weight is (in, out / groups, h, w)."""

    rank = 2
