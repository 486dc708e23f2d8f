"""topi.nn: layers as tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import run
from mlcnb.compat.topi.elementwise import add, multiply
from mlcnb.compat.topi.reduction import sum
from mlcnb.compat.topi.transform import product, reshape, transpose
from mlcnb.compat.topi.utils import prod
from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p


def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0)"""
    return run("nn.relu", x)


def leaky_relu(t: te.Tensor, alpha: float) -> te.Tensor:
    """x where it is positive, else alpha * x."""
    return run("nn.leakyrelu", t, alpha=float(alpha))


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """e ** x over their sum along an axis."""
    return run("nn.softmax", x, axis=axis)


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """The logarithm of softmax."""
    return run("nn.log_softmax", x, axis=axis)


def dense(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:  # fmt: skip
    """data (m, k) times the transposed weight (n, k), and the bias (n,)."""
    made = run("matmul", data, transpose(weight), out_dtype=out_dtype)
    return made if bias is None else add(made, bias)


def matmul(
    tensor_a: te.Tensor, tensor_b: te.Tensor, bias: te.Tensor | None = None,
    out_dtype: str | None = None, transpose_a: bool = False, transpose_b: bool = False,
) -> te.Tensor:  # fmt: skip
    """The product of two matrices, each transposed first if asked for, and the bias."""
    made = product(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)
    return made if bias is None else add(made, bias)


def batch_matmul(
    x: te.Tensor, y: te.Tensor, oshape: Any = None, out_dtype: str | None = None,
    transpose_a: bool = False, transpose_b: bool = True,
) -> te.Tensor:  # fmt: skip
    """Products of matrices, one for each element of the batch; `y` transposed by default."""
    return product(x, y, transpose_a, transpose_b, out_dtype)


def _pair(value: Any) -> tuple[int, int]:
    return tuple(value) if isinstance(value, tuple | list) else (value, value)  # type: ignore[return-value]


def _around(padding: Any) -> tuple[int, ...]:
    """Padding as (top, left, bottom, right)."""
    if isinstance(padding, int):
        return (padding,) * 4
    return tuple(padding) if len(padding) == 4 else (*padding, *padding)


def conv2d(
    data: te.Tensor, kernel: te.Tensor, strides: Any = 1, padding: Any = 0, dilation: Any = 1,
    data_layout: str = "NCHW", kernel_layout: str = "", out_dtype: str | None = None,
    groups: int = 1,
) -> te.Tensor:  # fmt: skip
    """Convolution in two dimensions."""
    if isinstance(padding, str):
        raise MLCError(f"topi.nn.conv2d: padding {padding!r}", hint="give it as numbers")
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout or "OIHW"}
    return run(
        "nn.conv2d", data, kernel, strides=_pair(strides), padding=_around(padding),
        dilation=_pair(dilation), groups=groups, out_dtype=out_dtype, **layouts,
    )  # fmt: skip


def conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Any, padding: Any, dilation: Any = 1,
    out_dtype: str | None = None,
) -> te.Tensor:  # fmt: skip
    """Convolution of (N, C, H, W) with (O, C, KH, KW)."""
    return conv2d(Input, Filter, stride, padding, dilation, out_dtype=out_dtype)


def conv2d_nhwc(
    Input: te.Tensor, Filter: te.Tensor, stride: Any, padding: Any, dilation: Any = 1,
    out_dtype: str | None = None,
) -> te.Tensor:  # fmt: skip
    """Convolution of (N, H, W, C) with (KH, KW, C, O)."""
    return conv2d(Input, Filter, stride, padding, dilation, "NHWC", "HWIO", out_dtype)


def depthwise_conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Any, padding: Any, dilation: Any = 1,
    out_dtype: str | None = None,
) -> te.Tensor:  # fmt: skip
    """Each channel of (N, C, H, W) with its filters of (C, M, KH, KW)."""
    c, m, kh, kw = Filter.shape
    filters = reshape(Filter, (c * m, 1, kh, kw))
    groups = p.as_int(c)
    if groups is None:
        raise MLCError("topi.nn.depthwise_conv2d_nchw: the number of channels must be known")
    return conv2d(Input, filters, stride, padding, dilation, out_dtype=out_dtype, groups=groups)


def pool2d(
    data: te.Tensor, kernel: Any, stride: Any, dilation: Any, padding: Any, pool_type: str,
    ceil_mode: bool = False, layout: str = "NCHW", count_include_pad: bool = True,
) -> te.Tensor:  # fmt: skip
    """The largest or the average of each window; pool_type: "max" or "avg"."""
    options = {"ceil_mode": ceil_mode, "layout": layout, "count_include_pad": count_include_pad}
    return run(
        f"nn.{_pool(pool_type)}_pool2d", data, pool_size=_pair(kernel), strides=_pair(stride),
        padding=_around(padding), dilation=_pair(dilation), **options,
    )  # fmt: skip


def _pool(kind: str) -> str:
    if kind not in ("max", "avg"):
        raise MLCError(f"topi.nn: no pool_type {kind!r}", hint='"max" or "avg"')
    return kind


def adaptive_pool(
    data: te.Tensor, output_size: Any, pool_type: str, layout: str = "NCHW"
) -> te.Tensor:
    """Windows of such a size that the result has this one."""
    if _pool(pool_type) != "avg":
        raise MLCError("topi.nn.adaptive_pool: averages only", hint='pool_type="avg"')
    return run("nn.adaptive_avg_pool2d", data, output_size=_pair(output_size), layout=layout)


def global_pool(data: te.Tensor, pool_type: str, layout: str = "NCHW") -> te.Tensor:
    """One number for each channel."""
    if _pool(pool_type) == "avg":
        return adaptive_pool(data, (1, 1), "avg", layout)
    height, width = (p.as_int(data.shape[layout.index(x)]) for x in "HW")
    return pool2d(data, (height, width), 1, 1, 0, "max", layout=layout)


def flatten(data: te.Tensor) -> te.Tensor:
    """(N, …) as (N, all the rest)."""
    return reshape(data, (data.shape[0], prod(data.shape[1:])))


def pad(
    data: te.Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None = None,
    pad_value: Any = None, name: str = "PadInput", attrs: Any = None,
) -> te.Tensor:  # fmt: skip
    """`pad_value` (0) around, so many before and after along each axis."""
    before = [p.as_expr(x) for x in pad_before]
    after = before if pad_after is None else [p.as_expr(x) for x in pad_after]
    shape = [a + n + b for a, n, b in zip(before, data.shape, after, strict=True)]
    value = p.const(0, data.dtype) if pad_value is None else p.as_expr(pad_value, data.dtype)

    def element(*indices: Any) -> Any:
        inner = [i - a for i, a in zip(indices, before, strict=True)]
        tests = []
        for i, a, n, b in zip(indices, before, data.shape, after, strict=True):
            tests += [] if p.is_const(a, 0) else [i >= a]
            tests += [] if p.is_const(b, 0) else [i < a + n]
        return te.if_then_else(te.all(*tests), data(*inner), value) if tests else data(*inner)

    return te.compute(shape, element, name=name, attrs=attrs)


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """A number for each channel added."""
    at = axis % data.ndim
    shape = [dim if i == at else 1 for i, dim in enumerate(data.shape)]
    return add(data, reshape(bias, shape))


def scale_shift_nchw(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Each channel times a number, and a number added."""
    scaled = multiply(Input, reshape(Scale, (1, Scale.shape[0], 1, 1)))
    return bias_add(scaled, Shift)


def batch_norm(
    data: te.Tensor, gamma: te.Tensor, beta: te.Tensor, moving_mean: te.Tensor,
    moving_var: te.Tensor, axis: int | None = None, epsilon: float | None = None,
    center: bool | None = None, scale: bool | None = None, training: bool | None = None,
    momentum: float | None = None,
) -> list[te.Tensor]:  # fmt: skip
    """Mean 0 and variance 1 along the channels (axis 1), then scaled and shifted; and the moving
    mean and variance. `training` (False): by the statistics of this batch, which move the others.
    """
    options = {"axis": axis, "epsilon": epsilon, "center": center, "scale": scale}
    made = run(
        "nn.batch_norm", data, gamma, beta, moving_mean, moving_var, training=bool(training),
        momentum=0.1 if momentum is None else momentum,
        **{name: value for name, value in options.items() if value is not None},
    )  # fmt: skip
    return list(made)


def space_to_depth(data: te.Tensor, block_size: int, layout: str = "NCHW") -> te.Tensor:
    """Squares of `block_size` x `block_size` pixels become channels, the first rows first."""
    channel, row, column = _image_axes("space_to_depth", data, layout)
    count = data.shape[channel]
    shape = list(data.shape)
    shape[channel] = count * block_size * block_size
    shape[row], shape[column] = (data.shape[x] // block_size for x in (row, column))

    def pixel(*index: Any) -> Any:
        source = list(index)
        square = index[channel] // count
        source[channel] = index[channel] % count
        source[row] = index[row] * block_size + square // block_size
        source[column] = index[column] * block_size + square % block_size
        return data(*source)

    return te.compute(shape, pixel, name="space_to_depth")


def depth_to_space(
    data: te.Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> te.Tensor:
    """Channels become squares of `block_size` x `block_size` pixels.

    mode: "DCR" takes the pixel from the outer part of the channel's index, "CRD" from the inner.
    """
    if mode not in ("DCR", "CRD"):
        raise MLCError(f"topi.nn.depth_to_space: no mode {mode!r}", hint='"DCR" or "CRD"')
    channel, row, column = _image_axes("depth_to_space", data, layout)
    count = data.shape[channel] // (block_size * block_size)
    shape = list(data.shape)
    shape[channel] = count
    shape[row], shape[column] = (data.shape[x] * block_size for x in (row, column))

    def pixel(*index: Any) -> Any:
        source = list(index)
        inside = index[row] % block_size * block_size + index[column] % block_size
        if mode == "DCR":
            source[channel] = inside * count + index[channel]
        else:
            source[channel] = index[channel] * (block_size * block_size) + inside
        source[row], source[column] = (index[x] // block_size for x in (row, column))
        return data(*source)

    return te.compute(shape, pixel, name="depth_to_space")


def _image_axes(name: str, data: te.Tensor, layout: str) -> tuple[int, int, int]:
    """Where channels, rows and columns stand."""
    if layout not in ("NCHW", "NHWC") or data.ndim != 4:
        raise MLCError(
            f"topi.nn.{name}: {data.ndim} dimensions in layout {layout!r}", hint="NCHW or NHWC"
        )
    return layout.index("C"), layout.index("H"), layout.index("W")


def layer_norm(
    data: te.Tensor, gamma: te.Tensor, beta: te.Tensor, axis: Any, epsilon: float = 1e-5
) -> te.Tensor:
    """Mean 0 and variance 1 over some axes, then scaled and shifted."""
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    return run("nn.layer_norm", data, gamma, beta, axes=axes, epsilon=epsilon)


def sum_of_squares(data: te.Tensor, axis: Any = None) -> te.Tensor:
    """The sum of x * x over some axes."""
    return sum(multiply(data, data), axis)
