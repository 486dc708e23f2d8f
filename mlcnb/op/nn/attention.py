"""nn.attention: scaled dot-product attention.

scores[b, n, i, j] = sum over h of query[b, i, n, h] * key[b, j, n, h]
out[b, i, n, h]    = sum over j of softmax(scores * scale + bias)[b, n, i, j] * value[b, j, n, h]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, const
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import (
    broadcast_index,
    differ,
    product,
    refuse,
    tell,
    tensor,
    tidy,
    want_rank,
    want_same_dtype,
)
from mlcnb.relax.operator import OpDecl, OptionalTensor, Tensor, operator

MASKS = (None, "TopLeft", "BottomRight")


@operator("relax.nn.attention")
class Attention(OpDecl):
    """softmax(query . key * scale + bias) . value, for each sample and head.

    query (batch, seq, heads, dim); key (batch, seq_kv, heads, dim); value (batch, seq_kv, heads,
    dim_v); bias, broadcast to (batch, heads, seq, seq_kv). scale: default 1 / sqrt(dim).
    causal_mask: TopLeft (query i sees keys up to i), BottomRight (up to i + seq_kv - seq).
    window_size: with a mask, only that many keys before. Source: arXiv 1706.03762.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    bias: OptionalTensor
    scale: float | None = None
    causal_mask: str | None = None
    window_size: int | None = None

    def infer(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """(batch, seq, heads, dim_v)"""
        want_same_dtype(self, query=query, key=key, value=value)
        for name, info in (("query", query), ("key", key), ("value", value)):
            want_rank(self, name, info, 4)
        if self.causal_mask not in MASKS:
            refuse(self, f"no causal_mask {self.causal_mask!r}", hint="TopLeft or BottomRight")
        if self.window_size is not None and self.causal_mask is None:
            refuse(self, "window_size needs a causal_mask")
        if None in (query.dims, key.dims, value.dims):
            return tensor(None, query.dtype, 4)
        q, k, v = query.dims, key.dims, value.dims
        pairs = [(q[0], k[0]), (q[0], v[0]), (q[2], k[2]), (q[2], v[2]), (q[3], k[3]), (k[1], v[1])]
        if any(differ(a, b) for a, b in pairs):
            refuse(self, f"{tell(query)}, {tell(key)} and {tell(value)} do not fit each other")
        return tensor([*q[:3], v[3]], query.dtype)

    def factor(self, dim: Any) -> Any:
        """What scores are multiplied by: a number, or an expression where `dim` is symbolic."""
        known = as_int(dim)
        if self.scale is not None or known is None:
            return self.scale
        return 1 / math.sqrt(known)

    def seen(self, i: Any, j: Any, seq: Any, seq_kv: Any) -> list[Any]:
        """Conditions under which query i sees key j."""
        if self.causal_mask is None:
            return []
        last = i + (seq_kv - seq) if self.causal_mask == "BottomRight" else i
        window = [] if self.window_size is None else [j > last - self.window_size]
        return [j <= last, *window]

    def numpy(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """The formula, in float32 at least"""
        q, k, v = (wide(x).transpose(0, 2, 1, 3) for x in (query, key, value))
        scores = q @ k.swapaxes(-1, -2) * q.dtype.type(self.factor(query.shape[3]))
        scores = scores if bias is None else scores + wide(bias)
        i, j = np.ogrid[: q.shape[2], : k.shape[2]]
        for condition in self.seen(i, j, q.shape[2], k.shape[2]):
            scores = np.where(condition, scores, -np.inf).astype(q.dtype)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        found = (e / e.sum(-1, keepdims=True)) @ v
        return found.transpose(0, 2, 1, 3).astype(query.dtype)

    def compute(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """Scores, the blocks of softmax, and the weighted sum."""
        batch, seq, heads, dim = query.shape
        seq_kv, kind = key.shape[1], accumulator(query.dtype)
        h = te.reduce_axis((0, dim), name="h")
        raw = te.compute(
            (batch, heads, seq, seq_kv),
            lambda b, n, i, j: te.sum(
                cast(kind, query(b, i, n, h)) * cast(kind, key(b, j, n, h)), axis=h
            ),
            name="attention_scores",
        )

        def scaled(b: Any, n: Any, i: Any, j: Any) -> Any:
            factor = self.factor(dim)
            score = raw(b, n, i, j)
            if factor is None:
                score = score / te.sqrt(cast(kind, dim))
            else:
                score = score * const(factor, kind)
            if bias is not None:
                score = score + cast(kind, bias(*broadcast_index((b, n, i, j), bias.shape)))
            for condition in self.seen(i, j, seq, seq_kv):
                score = te.Select(condition, score, const(float("-inf"), kind))
            return score

        scores = te.compute(raw.shape, scaled, name="attention_scaled")
        weights = _softmax(scores, kind)
        t = te.reduce_axis((0, seq_kv), name="t")
        found = te.compute(
            (batch, seq, heads, value.shape[3]),
            lambda b, i, n, d: te.sum(weights(b, n, i, t) * cast(kind, value(b, t, n, d)), axis=t),
            name="attention",
        )
        if found.dtype == query.dtype:
            return found
        return te.compute(
            found.shape, lambda *i: cast(query.dtype, found(*i)), name="attention_cast"
        )

    def flops(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """Two for each multiplication of the two products, five for each score."""
        if None in (query.dims, key.dims, value.dims):
            return None
        scores = product([query.dims[0], query.dims[2], query.dims[1], key.dims[1]])
        return tidy(scores * ((query.dims[3] + value.dims[3]) * 2 + 5))


def _softmax(x: Any, kind: Any) -> Any:
    """te tensor: softmax along the last dimension."""
    outer, extent = x.shape[:-1], x.shape[-1]
    k, m = (te.reduce_axis((0, extent), name="k") for _ in range(2))
    high = te.compute(outer, lambda *i: te.max(x(*i, k), axis=k), name="T_softmax_maxelem")
    e = te.compute(x.shape, lambda *i: te.exp(x(*i) - high(*i[:-1])), name="T_softmax_exp")
    total = te.compute(outer, lambda *i: te.sum(e(*i, m), axis=m), name="T_softmax_expsum")
    return te.compute(x.shape, lambda *i: e(*i) / total(*i[:-1]), name="T_softmax_norm")
