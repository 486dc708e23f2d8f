"""nn.attention: scaled dot-product attention.

scores[b, n, i, j] = sum over h of query[b, i, n, h] * key[b, j, n, h]
out[b, i, n, h]    = sum over j of softmax(scores * scale + bias)[b, n, i, j] * value[b, j, n, h]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, const
from mlcnb.ir.rules import rule
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
from mlcnb.op._sugar import sugar
from mlcnb.relax import op
from mlcnb.relax.expr import Call
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, OptionalTensor, Tensor, is_null, make_call, operator

#: floats of a cache line: vectors of 16, 8 or 4 divide it
VECTOR = 16
MASKS = (None, "TopLeft", "BottomRight")
#: from (b, i, n, h) to (b, n, i, h), and from that to (b, n, h, i)
HEADS, TURNED = (0, 2, 1, 3), (0, 1, 3, 2)


class Attends(OpDecl):
    """What all attentions have in common: sizes, the factor, all loops but those of the mask."""

    __slots__ = ()
    scale: Any
    causal_mask: Any
    window_size: Any

    def check(self, query: Any, key: Any, value: Any) -> None:
        """Refuse attributes and dtypes that do not fit, and tensors that are not of rank 4."""
        want_same_dtype(self, query=query, key=key, value=value)
        for name, info in (("query", query), ("key", key), ("value", value)):
            want_rank(self, name, info, 4)
        if self.causal_mask not in MASKS:
            refuse(self, f"no causal_mask {self.causal_mask!r}", hint="TopLeft or BottomRight")
        if self.window_size is not None and self.causal_mask is None:
            refuse(self, "window_size needs a causal_mask")

    def result(self, query: Any, key: Any, value: Any) -> Any:
        """(batch, seq, heads, dim_v)"""
        self.check(query, key, value)
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

    def number(self, dim: Any, kind: Any) -> Any:
        """What queries are multiplied by, as an expression."""
        factor = self.factor(dim)
        return 1 / te.sqrt(cast(kind, dim)) if factor is None else const(factor, kind)

    def meaning(
        self, query: Any, key: Any, value: Any, bias: Any, sees: Sequence[np.ndarray]
    ) -> np.ndarray:
        """The formula, in float32 at least; -inf where one of `sees` (seq, seq_kv) is False."""
        q, k, v = (wide(x).transpose(0, 2, 1, 3) for x in (query, key, value))
        scores = q @ k.swapaxes(-1, -2) * q.dtype.type(self.factor(query.shape[3]))
        scores = scores if bias is None else scores + wide(bias)
        for condition in sees:
            scores = np.where(condition, scores, -np.inf).astype(q.dtype)
        with np.errstate(invalid="ignore"):  # NaN for a query that sees nothing
            e = np.exp(scores - scores.max(-1, keepdims=True))
        found = (e / e.sum(-1, keepdims=True)) @ v
        return found.transpose(0, 2, 1, 3).astype(query.dtype)

    def attend(self, query: Any, key: Any, value: Any, mask: Callable[[Any], Any]) -> Any:
        """Scores, the exponentials of softmax, the weighted sum; at last the division.

        The queries stand last in what lies between, so that a vector holds the scores of several
        queries for one key: neither maxima nor sums go across its lanes. Queries and what they
        find are rounded up to whole vectors; what is too much is 0, and not stored.

        mask: scores (batch, heads, seq_kv, seq in whole vectors) -> the scores that count.
        """
        batch, seq, heads, dim = query.shape
        kind, found_dim = accumulator(query.dtype), value.shape[3]
        h, t = te.reduce_axis((0, dim), name="h"), te.reduce_axis((0, key.shape[1]), name="t")
        scaled = te.compute(
            (batch, heads, dim, _whole(seq)),
            lambda b, n, c, i: within(
                i, seq, lambda: cast(kind, query(b, i, n, c)) * self.number(dim, kind)
            ),
            name="attention_query",
        )
        raw = te.compute(
            (batch, heads, key.shape[1], _whole(seq)),
            lambda b, n, j, i: te.sum(scaled(b, n, h, i) * cast(kind, key(b, j, n, h)), axis=h),
            name="attention_scores",
        )
        e, inverse = _exponentials(mask(raw))

        def weighted(b: Any, n: Any, i: Any, d: Any) -> Any:
            one = within(d, found_dim, lambda: cast(kind, value(b, t, n, d)))
            return te.sum(e(b, n, t, i) * one, axis=t)

        shape = (batch, heads, _whole(seq), _whole(found_dim))
        found = te.compute(shape, weighted, name="attention_sum")
        return te.compute(
            (batch, seq, heads, found_dim),
            lambda b, i, n, d: cast(query.dtype, inverse(b, n, i) * found(b, n, i, d)),
            name="attention",
        )

    def work(self, query: Any, key: Any, value: Any) -> Any:
        """Two for each multiplication of the two products, five for each score."""
        if None in (query.dims, key.dims, value.dims):
            return None
        scores = product([query.dims[0], query.dims[2], query.dims[1], key.dims[1]])
        return tidy(scores * ((query.dims[3] + value.dims[3]) * 2 + 5))


@operator("relax.nn.attention", also=("relax.nn.attention_bias",))
class Attention(Attends):
    """softmax(query . key * scale + bias) . value, for each sample and head.

    query (batch, seq, heads, dim); key (batch, seq_kv, heads, dim); value (batch, seq_kv, heads,
    dim_v); bias, broadcast to (batch, heads, seq, seq_kv). scale: default 1 / sqrt(dim).
    causal_mask: TopLeft (query i sees keys up to i), BottomRight (up to i + seq_kv - seq).
    window_size: with a mask, only that many keys before. keys_first: the bias is turned, broadcast
    to (batch, heads, seq_kv, seq), as the scores lie in the loops. Source: arXiv 1706.03762.
    """

    product = True

    query: Tensor
    key: Tensor
    value: Tensor
    bias: OptionalTensor
    scale: float | None = None
    causal_mask: str | None = None
    window_size: int | None = None
    keys_first: bool = False

    @rule("DecomposeOpsForTraining", "attention")
    def for_training(self, call: Call, emit: Any) -> Any:
        """Two products of matrices with a softmax between them, in float32 at least.

        A mask is a constant, so the lengths behind one have to be known. A query that sees nothing
        finds NaN, as ever, but no softmax of its scores: nothing goes back from it, as in PyTorch.
        """
        query, key, value, *bias = call.args
        infos = [x.struct_info for x in (query, key, value)]
        dims: Any = [getattr(info, "dims", None) for info in infos]
        if None in dims or infos[0].dtype is None:
            return None
        factor: Any = self.factor(dims[0][3])
        sizes: list[Any] = [as_int(d[1]) for d in dims[:2]]
        is_masked = self.causal_mask is not None
        if factor is None or (is_masked and None in sizes):
            return None
        kind = str(accumulator(infos[0].dtype))
        q, k, v = (op.permute_dims(_in(x, kind), axes=HEADS) for x in (query, key, value))
        q = op.multiply(q, constant(factor, kind))
        scores = op.matmul(q, op.permute_dims(k, axes=TURNED))
        is_biased = bool(bias) and not is_null(bias[0])
        if is_biased:
            added = _in(bias[0], kind)
            if self.keys_first:
                axes = range(added.struct_info.ndim)
                added = op.permute_dims(added, axes=[*axes[:-2], axes[-1], axes[-2]])
            scores = op.add(scores, added)
        sees = np.ones((1, 1), bool)
        if is_masked:
            for condition in self.seen(*np.ogrid[: sizes[0], : sizes[1]], *sizes):
                sees = sees & np.broadcast_to(condition, sizes)
            scores = op.where(constant(sees), scores, constant(float("-inf"), kind))
        if sees.any(-1).all() and not is_biased:
            found = op.matmul(emit(op.nn.softmax(scores, axis=-1)), v)
        else:
            found = _where_seen(emit(scores), v, kind, emit)
        return _in(emit(op.permute_dims(found, axes=HEADS)), infos[0].dtype)

    def infer(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """(batch, seq, heads, dim_v)"""
        if self.keys_first and bias is not None and bias.ndim in (0, 1):
            refuse(self, f"{tell(bias)} has no keys that could come first")
        return self.result(query, key, value)

    def seen(self, i: Any, j: Any, seq: Any, seq_kv: Any) -> list[Any]:
        """Conditions under which query i sees key j."""
        if self.causal_mask is None:
            return []
        last = i + (seq_kv - seq) if self.causal_mask == "BottomRight" else i
        window = [] if self.window_size is None else [j > last - self.window_size]
        return [j <= last, *window]

    def numpy(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """The formula, in float32 at least"""
        seq, seq_kv = query.shape[1], key.shape[1]
        i, j = np.ogrid[:seq, :seq_kv]
        if bias is not None and self.keys_first:
            bias = bias.swapaxes(-1, -2)
        return self.meaning(query, key, value, bias, self.seen(i, j, seq, seq_kv))

    def compute(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """The loops of every attention, with the bias and the mask."""
        kind = accumulator(query.dtype)
        mask = partial(self.masked, bias=bias, seq=query.shape[1], kind=kind)
        return self.attend(query, key, value, mask)

    def masked(self, raw: Any, bias: Any, seq: Any, kind: Any) -> Any:
        """te tensor: the scores with the bias, and -inf where a query does not see a key."""
        if bias is None and self.causal_mask is None:
            return raw
        seq_kv = raw.shape[2]
        sizes = (seq_kv, seq) if self.keys_first else (seq, seq_kv)

        def element(b: Any, n: Any, j: Any, i: Any) -> Any:
            score = raw(b, n, j, i)
            if bias is not None:
                place = (j, i) if self.keys_first else (i, j)
                at = broadcast_index((b, n, *place), bias.shape, (*raw.shape[:2], *sizes))
                row = at[-1] if self.keys_first else ([0, *at])[-2]
                score = score + within(row, seq, lambda: cast(kind, bias(*at)))
            for condition in self.seen(i, j, seq, seq_kv):
                score = te.Select(condition, score, const(float("-inf"), kind))
            return score

        return te.compute(raw.shape, element, name="attention_masked")

    def flops(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """Those of the two products and of softmax."""
        return self.work(query, key, value)


@sugar("nn.attention_bias")
def attention_bias(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Any:
    """nn.attention with a bias, which TVM has as an operator of its own."""
    attrs = {"scale": scale, "causal_mask": causal_mask, "window_size": window_size}
    return make_call(Attention, query, key, value, bias, **attrs)


def _where_seen(scores: Any, value: Any, kind: str, emit: Any) -> Any:
    """The weighted sums; NaN where all scores are -inf, and no softmax is taken of those."""
    lowest = constant(float("-inf"), kind)
    is_blind = emit(op.equal(op.max(scores, axis=[-1], keepdims=True), lowest))
    weights = op.nn.softmax(op.where(is_blind, constant(0.0, kind), scores), axis=-1)
    found = op.matmul(emit(weights), value)
    return emit(op.where(is_blind, constant(float("nan"), kind), found))


def _in(x: Any, kind: Any) -> Any:
    """A tensor in this dtype."""
    return x if x.struct_info.dtype == kind else op.astype(x, kind)


def _whole(dim: Any) -> Any:
    """A dimension rounded up to whole vectors; a symbolic one as it is."""
    known = as_int(dim)
    return dim if known is None else -(-known // VECTOR) * VECTOR


def within(index: Any, dim: Any, value: Callable[[], Any]) -> Any:
    """The value where index < dim, else 0; tested only where the index may go beyond."""
    if as_int(index) is not None or _whole(dim) is dim or as_int(dim) == as_int(_whole(dim)):
        return value()
    made = value()
    return te.if_then_else(index < dim, made, const(0, made.dtype))


def _exponentials(x: Any) -> tuple[Any, Any]:
    """te tensors: exp(x - the largest), and 1 / their sums, along the last dimension but one."""
    *outer, extent, last = x.shape
    k, m = (te.reduce_axis((0, extent), name="k") for _ in range(2))
    rows = (*outer, last)
    high = te.compute(rows, lambda *i: te.max(x(*i[:-1], k, i[-1]), axis=k), name="attention_max")

    def element(*index: Any) -> Any:
        return te.exp(x(*index) - high(*index[:-2], index[-1]))

    e = te.compute(x.shape, element, name="attention_exp")
    total = te.compute(rows, lambda *i: te.sum(e(*i[:-1], m, i[-1]), axis=m), name="attention_norm")
    return e, te.compute(rows, lambda *i: 1 / total(*i), name="attention_inverse")
