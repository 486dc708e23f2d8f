"""Patterns that many libraries have: each function gives (pattern, names of its parts)."""

from __future__ import annotations

from typing import Any

from mlcnb.relax.backend.attention_patterns import (
    make_attention_pattern,
    make_attention_rewrite_pattern,
    make_stacked_attention_pattern,
)
from mlcnb.relax.dpl.make import (
    Named,
    is_const,
    is_gv,
    is_op,
    is_tuple,
    make_residual_block_pattern,
    wildcard,
    with_bias_and_activation,
)

__all__ = [
    "make_attention_pattern",
    "make_attention_rewrite_pattern",
    "make_conv2d_pattern",
    "make_fused_bias_activation_pattern",
    "make_layer_norm_pattern",
    "make_matmul_dequantize_pattern",
    "make_matmul_multiply_pattern",
    "make_matmul_pattern",
    "make_residual_block_pattern",
    "make_rms_norm_pattern",
    "make_stacked_attention_pattern",
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


def _matmul(transposed_rhs: bool) -> tuple[Any, dict[str, Any]]:
    """lhs @ rhs, or rhs transposed."""
    lhs, rhs = wildcard(), wildcard()
    product = is_op("relax.matmul")(
        lhs, is_op("relax.permute_dims")(rhs) if transposed_rhs else rhs
    )
    return product, {"lhs": lhs, "rhs": rhs, "root": product}


def make_matmul_pattern(
    with_bias: bool = False, activation: str | None = None, transposed_rhs: bool = False
) -> Named:
    """lhs @ rhs (or rhs transposed), then "bias", then an activation; "root" is the product."""
    product, names = _matmul(transposed_rhs)
    return with_bias_and_activation(product, names, with_bias, activation)


def make_matmul_dequantize_pattern(transposed_rhs: bool = False) -> Named:
    """dequantize(lhs @ rhs, scale, zp), both constants; "root" is the product."""
    product, names = _matmul(transposed_rhs)
    names |= {"scale": is_const(), "zp": is_const()}
    return is_op("relax.dequantize")(product, names["scale"], names["zp"]), names


def make_matmul_multiply_pattern(transposed_rhs: bool = False) -> Named:
    """astype(lhs @ rhs * (scaleA * scaleB)), scales of shape (1,); "root" is the product."""
    product, names = _matmul(transposed_rhs)
    names |= {"scaleA": wildcard(), "scaleB": wildcard()}
    scale = names["scaleA"].has_shape((1,)) * names["scaleB"].has_shape((1,))
    return is_op("relax.astype")(product * scale), names


def make_conv2d_pattern(with_bias: bool = False, activation: str | None = None) -> Named:
    """conv2d(input, weight), then "bias", then an activation; "root" is the convolution."""
    data, weight = wildcard(), wildcard()
    names: dict[str, Any] = {"input": data, "weight": weight}
    names["root"] = is_op("relax.nn.conv2d")(data, weight)
    return with_bias_and_activation(names["root"], names, with_bias, activation)


def make_layer_norm_pattern() -> Named:
    """layer_norm(input, gamma, beta)."""
    return is_op("relax.nn.layer_norm")(wildcard(), wildcard(), wildcard()), {}


def make_rms_norm_pattern() -> Named:
    """call_tir(gv, (inp, weight)), of any loop function; "rms_norm" is the call."""
    names: dict[str, Any] = {"gv": is_gv(), "inp": wildcard()}
    arguments = is_tuple([names["inp"], wildcard()])
    names["rms_norm"] = is_op("relax.call_tir")(names["gv"], arguments)
    return names["rms_norm"], names
