"""Attention, and what diffusion models embed their steps with."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ArgumentError, UnsupportedError
from mlcnb.relax.frontend.nn import op
from mlcnb.relax.frontend.nn.module import Module, ModuleList
from mlcnb.relax.frontend.nn.modules.layers import GroupNorm, Linear, SiLU
from mlcnb.relax.frontend.nn.tensor import Parameter, Tensor, reshape


class Attention(Module):
    """Attention to itself or to another sequence, as in diffusion models.

    Args:
        query_dim: length of a row; cross_attention_dim: of the other sequence's (None: the same).
        heads: how many; dim_head: length of one head.
        bias: of the projections to query, key and value; out_bias: of the last one.
        norm_num_groups: normalize in so many groups first; None: do not.
    """

    def __init__(
        self,
        query_dim: int,
        cross_attention_dim: int | None = None,
        heads: int = 8,
        dim_head: int = 64,
        bias: bool = False,
        norm_num_groups: int | None = None,
        out_bias: bool = True,
        scale_qk: bool = True,
    ) -> None:
        if not scale_qk:
            raise UnsupportedError("nn.Attention: scale_qk=False is not supported")
        other = cross_attention_dim or query_dim
        inner = heads * dim_head
        self.heads = heads
        self.dim_head = dim_head
        self.to_q = Linear(query_dim, inner, bias=bias)
        self.to_k = Linear(other, inner, bias=bias)
        self.to_v = Linear(other, inner, bias=bias)
        self.group_norm = GroupNorm(norm_num_groups, query_dim) if norm_num_groups else None
        self.to_out = ModuleList([Linear(inner, query_dim, bias=out_bias)])

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """(batch, length, query_dim) -> the same; the other sequence is (batch, m, other dim)."""
        if attention_mask is not None:
            raise UnsupportedError("nn.Attention: attention_mask is not supported")
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        other = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        projected = [self.to_q(hidden_states), self.to_k(other), self.to_v(other)]
        q, k, v = (reshape(x, [0, -1, self.heads, self.dim_head]) for x in projected)
        made = op.scaled_dot_product_attention(q, k, v)
        return self.to_out[0](reshape(made, [0, -1, self.heads * self.dim_head]))


class MultiHeadAttention(Module):
    """Attention with parameters named and laid out as `torch.nn.MultiheadAttention` has them.

    Args:
        embed_dim: length of a row; num_heads: divides it.
        bias: of all projections.
        dtype: of the parameters; the default dtype if None.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, bias: bool = True, dtype: str | None = None
    ) -> None:
        if embed_dim % num_heads:
            raise ArgumentError(f"MultiHeadAttention: {num_heads} heads do not divide {embed_dim}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.in_proj_weight = Parameter((3 * embed_dim, embed_dim), dtype)
        self.in_proj_bias = Parameter((3 * embed_dim,), dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(batch, length, embed_dim) -> the same; key and value are the query if None."""
        key = query if key is None else key
        value = key if value is None else value
        weights = op.split(self.in_proj_weight, 3, axis=0)
        biases: Any = (None,) * 3
        if self.in_proj_bias is not None:
            biases = op.split(self.in_proj_bias, 3, axis=0)
        rows = zip((query, key, value), weights, biases, strict=True)
        q, k, v = (self._heads(x, weight, bias) for x, weight, bias in rows)
        made = op.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return self.out_proj(reshape(made, [0, -1, self.embed_dim]))

    def _heads(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        made = op.matmul(x, op.permute_dims(weight))
        made = made if bias is None else op.add(made, bias)
        return reshape(made, [0, -1, self.num_heads, self.embed_dim // self.num_heads])


class TimestepEmbedding(Module):
    """Two linear layers with SiLU between them, on embedded steps.

    Args:
        in_channels: length of an embedding; time_embed_dim: between the layers.
        act_fn: has to be "silu".
        out_dim: length of the result; time_embed_dim if None.
        post_act_fn: None or "silu", after the last layer.
        cond_proj_dim: length of a condition that is projected and added first; None for none.
    """

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        if act_fn != "silu" or post_act_fn not in (None, "silu"):
            raise UnsupportedError("nn.TimestepEmbedding: no activation but silu is supported")
        projects = cond_proj_dim is not None
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = Linear(cond_proj_dim, in_channels, bias=False) if projects else None
        self.act = SiLU()
        self.linear_2 = Linear(time_embed_dim, out_dim or time_embed_dim)
        self.post_act = SiLU() if post_act_fn else None

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """(n, in_channels) -> (n, out_dim)."""
        if condition is not None:
            if self.cond_proj is None:
                raise ArgumentError("TimestepEmbedding: a condition needs cond_proj_dim")
            sample = op.add(sample, self.cond_proj(condition))
        made = self.linear_2(self.act(self.linear_1(sample)))
        return made if self.post_act is None else self.post_act(made)


class Timesteps(Module):
    """`op.get_timestep_embedding` of `num_channels` columns."""

    def __init__(
        self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1
    ) -> None:
        self.num_channels = num_channels
        self.flip_sin_to_cos = flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """(n,) -> (n, num_channels)."""
        options = (self.flip_sin_to_cos, self.downscale_freq_shift)
        return op.get_timestep_embedding(x, self.num_channels, *options)
