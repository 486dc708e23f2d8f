"""PyTorch spellings of what its fast path fuses: an encoder layer, attention with its weights.

    qkv = x . W' + b;  attention of heads;  . P' + c         _native_multi_head_attention
    that, added to x, normalised; two products with relu     _transformer_encoder_layer_fwd
    or gelu between, added, normalised

Where a mask is not 0 nothing is seen. mask_type: 0 (query, key), 1 (batch, key), 2 all four.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlcnb.op._torch import Formula
from mlcnb.op.linear_algebra.torch_spellings import torch_linear
from mlcnb.op.nn.norm_torch import torch_layer_norm
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


def _bias(f: Formula, x: Expr, mask: Expr | None, mask_type: int | None) -> Expr | None:
    """A mask as what is added to scores: (batch or 1, 1 or heads, query or 1, key)."""
    if mask is None:
        return None
    tokens, batch = f.n.dims(x)[1], f.n.dims(x)[0]
    shapes = {0: [1, 1, tokens, tokens], 1: [batch, 1, 1, tokens], 2: list(f.n.dims(mask))}
    if mask_type not in shapes:
        f.n.refuse(f"a mask of type {mask_type}")
    hidden = f.n.tensor(mask, "bool")
    added = f.where(hidden, f.n.tensor(-math.inf, f.kind), f.n.tensor(0.0, f.kind))
    return f.reshape(added, shapes[mask_type])


def _attended(
    f: Formula,
    inputs: Sequence[Expr],
    heads: int,
    weights: Sequence[Expr],
    bias: Expr | None,
) -> tuple[Expr, Expr, Expr]:
    """What attention makes of (query, key, value), and the query and key of each head.

    weights: of queries, keys and values in one, their bias, of the result, its bias.
    """
    n, (w, b, projection, last) = f.n, weights
    width = n.dims(w)[1]
    parts = [f.split(v, indices_or_sections=3, axis=0) for v in (w, b)]
    products = [
        n.emit(torch_linear(n, x, *(n.emit(p[i]) for p in parts))) for i, x in enumerate(inputs)
    ]
    q, k, v = (f.reshape(x, [*n.dims(x)[:2], heads, width // heads]) for x in products)
    joined = f.reshape(f.nn("attention", q, k, v, bias), [*n.dims(inputs[0])[:2], width])
    return n.emit(torch_linear(n, joined, projection, last)), q, k


@torch_spelling("aten._native_multi_head_attention.default")
def torch_native_attention(
    n: TorchNode,
    query: Expr,
    key: Expr,
    value: Expr,
    embed_dim: int,
    num_head: int,
    qkv_weight: Expr,
    qkv_bias: Expr,
    proj_weight: Expr,
    proj_bias: Expr,
    mask: Expr | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """The result, and the weights of each head or their mean where they are asked for."""
    f = Formula(n, n.dtype(query))
    bias = _bias(f, query, mask, mask_type)
    weights = qkv_weight, qkv_bias, proj_weight, proj_bias
    made, q, k = _attended(f, (query, key, value), num_head, weights, bias)
    if not need_weights or not n.is_used(1):
        return made, None
    q, turned = f.permute_dims(q, axes=(0, 2, 1, 3)), f.permute_dims(k, axes=(0, 2, 3, 1))
    scores = f.multiply(f.matmul(q, turned), math.sqrt(num_head / embed_dim))
    seen = f.nn("softmax", scores if bias is None else f.add(scores, bias), axis=-1)
    return made, f.mean(seen, axis=(1,)) if average_attn_weights else seen


@torch_spelling("aten._transformer_encoder_layer_fwd.default")
def torch_encoder_layer(
    n: TorchNode,
    x: Expr,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Expr,
    qkv_bias: Expr,
    proj_weight: Expr,
    proj_bias: Expr,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Expr,
    norm_bias_1: Expr,
    norm_weight_2: Expr,
    norm_bias_2: Expr,
    ffn_weight_1: Expr,
    ffn_bias_1: Expr,
    ffn_weight_2: Expr,
    ffn_bias_2: Expr,
    mask: Expr | None = None,
    mask_type: int | None = None,
) -> Expr:
    """The layer, normalised before or after what is added."""
    f = Formula(n, n.dtype(x))
    bias = _bias(f, x, mask, mask_type)
    norms = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)

    def normed(y: Expr, i: int) -> Expr:
        return n.emit(torch_layer_norm(n, y, [embed_dim], *norms[i], eps))

    def attended(y: Expr) -> Expr:
        weights = qkv_weight, qkv_bias, proj_weight, proj_bias
        return _attended(f, (y, y, y), num_heads, weights, bias)[0]

    def fed(y: Expr) -> Expr:
        inner = n.emit(torch_linear(n, y, ffn_weight_1, ffn_bias_1))
        active = f.nn("gelu" if use_gelu else "relu", inner)
        return n.emit(torch_linear(n, active, ffn_weight_2, ffn_bias_2))

    for i, part in enumerate((attended, fed)):
        x = f.add(x, part(normed(x, i))) if norm_first else normed(f.add(x, part(x)), i)
    return x
