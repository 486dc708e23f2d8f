"""SplitAttention: the attention of one query is two products of a row, and a softmax between them.

                                                s = R.matmul(q, kT)             (b, n, 1, j)
o = R.nn.attention(query, key, value)    ->     w = R.nn.softmax(s * scale, axis=-1)
query (b, 1, n, h)                              o = R.matmul(w, v)              (b, n, 1, d)

As when a language model makes one token after the other: keys and values are read once, as fast as
memory gives them, and there are no scores of other queries that would have to be kept near.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op.nn.attention import HEADS, TURNED, Attention
from mlcnb.relax import op
from mlcnb.relax.expr import const
from mlcnb.relax.operator import is_null
from mlcnb.relax.transform.written_out import CallPass, Reader, shape_of


class SplitAttention(CallPass, says="attentions of one query split", quiet=True, prunes=True):
    """Write the attention of one query for each head as products of a row.

    float32, a known number of values in a head, without a mask that hides keys of that query; any
    bias. Other attentions stay, none is refused.
    """


class _Splitter(Reader, of=SplitAttention):
    @SplitAttention.rewrites(Attention, name="one query")
    def one_query(self, call: Any, attrs: Any) -> Any:
        """Two products with a softmax between them."""
        query, key, value, *bias = call.args
        shapes = [shape_of(x) for x in (query, key, value)]
        if any(shape is None for shape in shapes) or not _sees_all(attrs, shapes[1]):
            return None
        one, dim = shapes[0][1], shapes[0][3]  # type: ignore[index]
        if one != 1 or not isinstance(dim, int) or attrs.keys_first:
            return None
        b, _, n, h = query.struct_info.dims  # type: ignore[union-attr]
        row = self.emit(op.reshape(query, [b, n, 1, h]))
        scale = 1 / math.sqrt(dim) if attrs.scale is None else attrs.scale
        row = self.emit(op.multiply(row, const(scale, "float32")))
        keys = self.emit(op.permute_dims(self.by_heads(key), axes=TURNED))
        scores = self.emit(op.matmul(row, keys))
        if bias and not is_null(bias[0]):
            scores = self.emit(op.add(scores, bias[0]))
        weights = self.emit(op.nn.softmax(scores, axis=-1))
        found = self.emit(op.matmul(weights, self.by_heads(value)))
        return op.reshape(found, [b, 1, n, value.struct_info.dims[3]])  # type: ignore[union-attr]

    def by_heads(self, x: Any) -> Any:
        """(b, j, n, h) as (b, n, j, h): with one head these are the same elements."""
        b, j, n, h = x.struct_info.dims
        if as_int(n) == 1:
            return self.emit(op.reshape(x, [b, n, j, h]))
        return self.emit(op.permute_dims(x, axes=HEADS))


def _sees_all(attrs: Any, key: Any) -> bool:
    """Whether the last query sees every key."""
    if attrs.causal_mask is None:
        return True
    window, keys = attrs.window_size, key[1]
    fits = window is None or (isinstance(keys, int) and keys <= window)
    return bool(fits and (attrs.causal_mask == "BottomRight" or as_int(keys) == 1))
