"""Patterns that many libraries have: each function gives (pattern, names of its parts)."""

from __future__ import annotations

from typing import Any

from mlcnb.relax.dpl.make import (
    Named,
    is_op,
    make_residual_block_pattern,
    wildcard,
    with_bias_and_activation,
)

__all__ = [
    "make_attention_pattern",
    "make_conv2d_pattern",
    "make_fused_bias_activation_pattern",
    "make_layer_norm_pattern",
    "make_matmul_pattern",
    "make_residual_block_pattern",
]


def make_fused_bias_activation_pattern(
    op_name: str,
    with_bias: bool = False,
    activation: str | None = None,
    allow_reshape: bool = False,
) -> Named:
    """op(lhs, rhs), then "bias", then an activation; "root" is the operator's call."""
    lhs, rhs = wildcard(), wildcard()
    out = is_op(op_name)(lhs, rhs)
    names = {"lhs": lhs, "rhs": rhs, "root": out}
    return with_bias_and_activation(out, names, with_bias, activation, allow_reshape)  # type: ignore[arg-type]


def make_matmul_pattern(
    with_bias: bool = False, activation: str | None = None, transposed_rhs: bool = False
) -> Named:
    """lhs @ rhs (or rhs transposed), then "bias", then an activation; "root" is the product."""
    lhs, rhs = wildcard(), wildcard()
    names: dict[str, Any] = {"lhs": lhs, "rhs": rhs}
    names["root"] = is_op("relax.matmul")(
        lhs, is_op("relax.permute_dims")(rhs) if transposed_rhs else rhs
    )
    return with_bias_and_activation(names["root"], names, with_bias, activation)


def make_conv2d_pattern(with_bias: bool = False, activation: str | None = None) -> Named:
    """conv2d(input, weight), then "bias", then an activation; "root" is the convolution."""
    data, weight = wildcard(), wildcard()
    names: dict[str, Any] = {"input": data, "weight": weight}
    names["root"] = is_op("relax.nn.conv2d")(data, weight)
    return with_bias_and_activation(names["root"], names, with_bias, activation)


def make_layer_norm_pattern() -> Named:
    """layer_norm(input, gamma, beta)."""
    return is_op("relax.nn.layer_norm")(wildcard(), wildcard(), wildcard()), {}


def make_attention_pattern(with_bias: bool = False) -> Named:
    """attention(query, key, value[, bias])."""
    names: dict[str, Any] = {n: wildcard() for n in ("query", "key", "value")}
    if with_bias:
        names["bias"] = wildcard()
    return is_op("relax.nn.attention")(*names.values()), names
