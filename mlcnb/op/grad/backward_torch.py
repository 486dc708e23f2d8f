"""PyTorch spellings of derivatives, as its backward graphs have them.

    grad * the derivatives of conv2d(x, w)            aten.convolution_backward
    to where the largest of each window stands        aten.max_pool2d_with_indices_backward
    p = exp(scores - logarithms); of q, k and v       _scaled_dot_product_flash_attention_…backward

Convolutions and pools are the shares that the operators' own gradient rules give
(`op.grad.rules`). What is refused here PyTorch computes itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.op._spell import call
from mlcnb.op._torch import formula, rounded
from mlcnb.op.grad.rules.registry import shares
from mlcnb.op.linear_algebra.torch_spellings import attention_scores
from mlcnb.op.nn._window import each
from mlcnb.op.nn.conv_torch import conv_attrs
from mlcnb.op.nn.pool_torch import pool_attrs, rank_of
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


@torch_spelling("aten.convolution_backward.default")
def torch_convolution_backward(
    n: TorchNode,
    grad: Expr,
    x: Expr,
    weight: Expr,
    bias_sizes: Sequence[int] | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Expr | None, ...]:
    """Of the data, the weight and the bias, those of them that are wanted."""
    rank = len(n.dims(weight)) - 2
    if rank not in (1, 2, 3) or len(n.dims(x)) != rank + 2:
        n.refuse(
            "the derivatives of this convolution", "of one to three dimensions and samples they are"
        )
    of_bias = n.emit(call("relax.sum", grad, axis=(0, *range(2, rank + 2))))
    attrs, name = conv_attrs(rank, stride, padding, dilation, groups), f"relax.nn.conv{rank}d"
    if transposed:
        name, attrs["output_padding"] = f"{name}_transpose", each(output_padding, rank)
    forward = call(name, x, weight, **attrs)
    bound: Any = n.emit(forward)  # for its shape; nothing reads it
    made = [n.emit(v) for v in shares(bound, forward, grad, n)]
    found = (*made, of_bias)
    return tuple(v if wanted else None for v, wanted in zip(found, output_mask, strict=True))


@torch_spelling(
    "aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default"
)
def torch_max_pool_backward(
    n: TorchNode,
    grad: Expr,
    x: Expr,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Expr,
) -> Expr:
    """To the first of the largest elements of each window, which is where the indices say."""
    rank = _rank(n, x)
    attrs = pool_attrs(rank, kernel_size, stride, padding, ceil_mode, dilation)
    return call(f"relax.grad.max_pool{rank}d_backward", grad, x, **attrs)


@torch_spelling("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def torch_avg_pool_backward(
    n: TorchNode,
    grad: Expr,
    x: Expr,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Expr:
    """The same share to each element that counted."""
    if divisor_override is not None:
        n.refuse("a divisor of its own")
    rank = _rank(n, x)
    attrs = pool_attrs(rank, kernel_size, stride, padding, ceil_mode)
    attrs["count_include_pad"] = bool(count_include_pad)
    return call(f"relax.grad.avg_pool{rank}d_backward", grad, x, **attrs)


def _rank(n: TorchNode, x: Expr) -> int:
    """How many dimensions the windows go over."""
    rank = rank_of(n)
    if len(n.dims(x)) != rank + 2:
        n.refuse("the derivatives of a pool without samples")
    return rank


@torch_spelling("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def torch_flash_attention_backward(
    n: TorchNode,
    grad: Expr,
    query: Expr,
    key: Expr,
    value: Expr,
    out: Expr,
    logsumexp: Expr,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Expr | None = None,
    scale: float | None = None,
) -> Any:
    """Of queries, keys and values, from the logarithms that the forward graph gave."""
    if dropout_p > 0 or n.dims(query)[1] != n.dims(key)[1]:
        n.refuse("the derivatives of this attention", "without dropout, as many heads of each")
    f, g, q, k, v, found, logarithms = formula(n, grad, query, key, value, out, logsumexp)
    scores, _, factor = attention_scores(n, f, q, k, attn_mask, is_causal, scale)
    weights = f.exp(f.subtract(scores, f.expand_dims(logarithms, axis=(-1,))))

    def turned(x: Expr) -> Any:
        return f.permute_dims(x, axes=(0, 1, 3, 2))

    lost = f.sum(f.multiply(g, found), axis=(-1,), keepdims=True)
    of_scores = f.multiply(weights, f.subtract(f.matmul(g, turned(v)), lost))
    of_scores = f.multiply(of_scores, factor)
    made = f.matmul(of_scores, k), f.matmul(turned(of_scores), q), f.matmul(turned(weights), g)
    return tuple(n.emit(rounded(n, x, i)) for i, x in enumerate(made))
