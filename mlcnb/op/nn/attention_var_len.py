"""nn.attention_var_len: attention within sequences that lie one after another in one tensor.

lengths 2, 5, 3 -> seqstart = [0, 2, 7, 10]; token i is in sequence s where
seqstart[s] <= i < seqstart[s + 1]; a query sees the keys of the sequence of its own number
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, const
from mlcnb.op._accumulate import accumulator
from mlcnb.op._dims import refuse, tell, want_rank
from mlcnb.op.nn.attention import Attends, within
from mlcnb.relax.operator import OptionalTensor, Tensor, operator


@operator("relax.nn.attention_var_len")
class AttentionVarLen(Attends):
    """nn.attention of several sequences that are joined along the second axis.

    queries (1, total, heads, dim); keys (1, total_kv, heads, dim); values (1, total_kv, heads,
    dim_v); seqstart_q and seqstart_k: where each sequence begins, and the total, (n + 1,) int32;
    those of keys are by default those of queries. max_seqlen_q, max_seqlen_k: the longest lengths,
    a hint. scale, causal_mask, window_size as for nn.attention, sequence by sequence. A query whose
    sequence has no keys gives NaN. Order of the arguments as in tvm.relax.op.nn.
    """

    queries: Tensor
    keys: Tensor  # type: ignore[assignment]
    values: Tensor
    seqstart_q: Tensor
    max_seqlen_q: OptionalTensor
    seqstart_k: OptionalTensor
    max_seqlen_k: OptionalTensor
    scale: float | None = None
    causal_mask: str | None = None
    window_size: int | None = None

    def infer(self, *given: Any) -> Any:
        """(1, total, heads, dim_v)"""
        queries, keys, values, seqstart_q, max_seqlen_q, seqstart_k, max_seqlen_k = _all(given)
        starts = {"seqstart_q": seqstart_q, "seqstart_k": seqstart_k}
        longest = {"max_seqlen_q": max_seqlen_q, "max_seqlen_k": max_seqlen_k}
        for name, info in {**starts, **longest}.items():
            if info is not None and info.dtype and not info.dtype.is_int:
                refuse(self, f"{name} must be of int32, but is {tell(info)}")
        for name, info in starts.items():
            if info is not None:
                want_rank(self, name, info, 1)
        result = self.result(queries, keys, values)
        if queries.dims is not None and as_int(queries.dims[0]) not in (1, None):
            refuse(
                self, f"sequences are joined along the second axis, but queries: {tell(queries)}"
            )
        return result

    def numpy(self, *given: Any) -> Any:
        """nn.attention of all tokens, without what is in other sequences"""
        queries, keys, values, seqstart_q, _, seqstart_k, _ = _all(given)
        other = seqstart_q if seqstart_k is None else seqstart_k
        i, j = np.arange(queries.shape[1]), np.arange(keys.shape[1])
        of_query, of_key = _numbers(i, seqstart_q), _numbers(j, other)
        sees = [of_query[:, None] == of_key]
        if self.causal_mask is not None:
            here = i - self.edges(of_query, seqstart_q, len(i))
            there = j - self.edges(of_key, other, len(j))
            sees += self.seen(here[:, None], there)
        return self.meaning(queries, keys, values, None, sees)

    def edges(self, numbers: np.ndarray, seqstart: np.ndarray, total: int) -> np.ndarray:
        """Where the sequence of each token begins, or ends (BottomRight)."""
        ends = np.append(seqstart, total)
        return ends[numbers + int(self.causal_mask == "BottomRight")]

    def seen(self, i: Any, j: Any) -> list[Any]:
        """Conditions under which a query sees a key, by their places from the edge that counts."""
        return [j <= i] + ([] if self.window_size is None else [j > i - self.window_size])

    def compute(self, *given: Any) -> Any:
        """The number and the place of each token in its sequence, then the loops of attention."""
        queries, keys, values, seqstart_q, _, seqstart_k, _ = _all(given)
        other, seq = seqstart_q if seqstart_k is None else seqstart_k, queries.shape[1]
        of_query = _number_loop(seqstart_q, seq, "query_sequence")
        of_key = _number_loop(other, keys.shape[1], "key_sequence")
        low = const(float("-inf"), accumulator(queries.dtype))
        if self.causal_mask is not None:
            here = self.place_loop(seqstart_q, seq, "query_place")
            there = self.place_loop(other, keys.shape[1], "key_place")

        def mask(raw: Any) -> Any:
            def element(b: Any, n: Any, j: Any, i: Any) -> Any:
                conditions = [within(i, seq, lambda: of_query(i)) == of_key(j)]
                if self.causal_mask is not None:
                    conditions += self.seen(within(i, seq, lambda: here(i)), there(j))
                score = raw(b, n, j, i)
                for condition in conditions:
                    score = te.Select(condition, score, low)
                return score

            return te.compute(raw.shape, element, name="attention_masked")

        return self.attend(queries, keys, values, mask)

    def place_loop(self, seqstart: Any, total: Any, name: str) -> Any:
        """te tensor: how far each token is from the first of its sequence, or from the end."""
        s, kind = te.reduce_axis((0, seqstart.shape[0]), name="s"), seqstart.dtype

        def edge(i: Any) -> Any:
            start, i = seqstart(s), cast(kind, i)
            if self.causal_mask == "BottomRight":
                return te.min(te.Select(start > i, start, cast(kind, total)), axis=s)
            return te.max(te.Select(start <= i, start, const(0, kind)), axis=s)

        edges = te.compute((total,), edge, name=f"{name}_edge")
        return te.compute((total,), lambda i: cast(kind, i) - edges(i), name=name)

    def flops(self, queries: Any, keys: Any, values: Any, *_: Any) -> Any:
        """Those of one attention of all tokens."""
        return self.work(queries, keys, values)


def _all(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The seven arguments; None for each that is left out at the end."""
    return (*given, *[None] * (7 - len(given)))


def _numbers(tokens: np.ndarray, seqstart: np.ndarray) -> np.ndarray:
    """The number of the sequence of each token; those after the last are in one of their own."""
    return np.searchsorted(seqstart[1:], tokens, side="right")


def _number_loop(seqstart: Any, total: Any, name: str) -> Any:
    """te tensor: the number of the sequence of each token."""
    s, kind = te.reduce_axis((0, seqstart.shape[0] - 1), name="s"), seqstart.dtype

    def number(i: Any) -> Any:
        return te.sum(cast("int32", seqstart(s + 1) <= cast(kind, i)), axis=s)

    return te.compute((total,), number, name=name)
