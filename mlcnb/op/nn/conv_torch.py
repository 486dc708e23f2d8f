"""PyTorch spellings of convolutions: with and without samples, transposed, padding by name."""

from __future__ import annotations

from typing import Any

from mlcnb.op._spell import call
from mlcnb.op.nn._window import each, sides
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
    data, single = batched(n, x, rank)
    attrs = conv_attrs(rank, stride, padding, dilation, groups) | {"out_dtype": n.dtype(x)}
    name = f"relax.nn.conv{rank}d"
    if transposed:
        name, attrs["output_padding"] = f"{name}_transpose", each(output_padding, rank)
    result = call(name, data, weight, **attrs)
    if bias is not None:
        result = with_bias(n, result, bias, rank)  # type: ignore[arg-type]
    return unbatched(n, result, single)


def batched(n: TorchNode, x: Expr, rank: int) -> tuple[Expr, bool]:
    """x as (N, C, …), of `rank` spatial dimensions, and whether it came without samples."""
    if len(n.dims(x)) == rank + 2:
        return x, False
    return n.emit(call("relax.expand_dims", x, axis=(0,))), True


def unbatched(n: TorchNode, result: Expr, single: bool) -> Expr:
    """A result without samples, where x came without."""
    return call("relax.squeeze", n.emit(result), axis=(0,)) if single else result


def conv_attrs(rank: int, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    """The attributes of a convolution, each number said for every dimension."""
    return {
        "strides": each(stride, rank),
        "padding": sides(padding, rank),
        "dilation": each(dilation, rank),
        "groups": groups,
    }


@torch_spelling("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
@torch_spelling("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
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
    """The same padding on both sides; or "same" (one more at the end where it is odd), "valid"."""
    kernel = n.dims(weight)[2:]
    if padding == "same":
        spread = zip(each(dilation, len(kernel)), kernel, strict=True)
        around = [d * (int(k) - 1) for d, k in spread]
        padding = (*(a // 2 for a in around), *(a - a // 2 for a in around))
    elif padding == "valid":
        padding = 0
    return torch_convolution(n, x, weight, bias, stride, padding, dilation, False, 0, groups)


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
