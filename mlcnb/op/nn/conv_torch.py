"""PyTorch spellings of convolutions: with and without samples, transposed, padding by name."""

from __future__ import annotations

from typing import Any

from mlcnb.op._spell import call
from mlcnb.op.nn._window import each
from mlcnb.op.nn.conv import with_bias
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


@torch_spelling("aten.convolution", "aten._convolution")
def torch_convolution(
    n: TorchNode,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Expr:
    """Data (N, C, …) or (C, …); weight (O, C / groups, …), or (C, O / groups, …) transposed."""
    rank = len(n.dims(weight)) - 2
    if rank not in (1, 2, 3):
        n.refuse(f"a convolution over {rank} spatial dimensions", hint="1 to 3 are there")
    single = len(n.dims(x)) == rank + 1
    data = n.emit(call("relax.expand_dims", x, axis=(0,))) if single else x
    attrs = conv_attrs(rank, stride, padding, dilation, groups) | {"out_dtype": n.dtype(x)}
    name = f"relax.nn.conv{rank}d"
    if transposed:
        name, attrs["output_padding"] = f"{name}_transpose", each(_ints(output_padding), rank)
    result = call(name, data, weight, **attrs)
    if bias is not None:
        result = with_bias(n, result, bias, rank)  # type: ignore[arg-type]
    return call("relax.squeeze", n.emit(result), axis=(0,)) if single else result


def conv_attrs(rank: int, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    """The attributes of a convolution, each number said for every dimension."""
    return {
        "strides": each(_ints(stride), rank),
        "padding": _sides(padding, rank),
        "dilation": each(_ints(dilation), rank),
        "groups": groups,
    }


def _ints(value: Any) -> Any:
    return value if isinstance(value, int) else tuple(value)


def _sides(padding: Any, rank: int) -> tuple[int, ...]:
    """Beginnings and ends: the same number on both."""
    found = each(_ints(padding), rank)
    return found * 2 if len(found) == rank else found


@torch_spelling("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def torch_conv(
    n: TorchNode,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Expr:
    """The same padding on both sides."""
    return torch_convolution(n, x, weight, bias, stride, padding, dilation, False, 0, groups)


@torch_spelling("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def torch_conv_padding(
    n: TorchNode,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    stride: Any = 1,
    padding: str = "valid",
    dilation: Any = 1,
    groups: int = 1,
) -> Expr:
    """Padding "same" (one more at the end where it is odd) or "valid"."""
    kernel = [int(k) for k in n.dims(weight)[2:]]
    around = [0] * len(kernel)
    if padding == "same":
        spread = each(_ints(dilation), len(kernel))
        around = [d * (k - 1) for d, k in zip(spread, kernel, strict=True)]
    pads = (*(a // 2 for a in around), *(a - a // 2 for a in around))
    return torch_convolution(n, x, weight, bias, stride, pads, dilation, False, 0, groups)


@torch_spelling("aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d")
def torch_conv_transpose(
    n: TorchNode,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Expr:
    """The gradient of a convolution by its data."""
    return torch_convolution(
        n, x, weight, bias, stride, padding, dilation, True, output_padding, groups
    )
