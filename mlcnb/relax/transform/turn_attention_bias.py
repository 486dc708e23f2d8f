"""TurnAttentionBias: what is added to the scores of attention lies as these do, queries last.

o = R.nn.attention(q, k, v, bias)   ->   b = R.permute_dims(bias, axes=[0, 1, 3, 2])
bias (1, n, i, j)                        o = R.nn.attention(q, k, v, b, keys_first=True)

A vector holds the scores of several queries for one key (`mlcnb.op.nn.attention`). What is added to
them is a vector too then, where it were numbers from as many rows. Constants are turned when the
program is compiled (relative positions: Swin, TinyViT); others where all heads share them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlcnb.op.nn.attention import Attention
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Constant
from mlcnb.relax.operator import call_arguments
from mlcnb.relax.transform.written_out import CallPass, Reader, dims_of


class TurnAttentionBias(CallPass, says="biases of attentions turned", quiet=True):
    """Turn what is added to scores, of known sizes and more than one query and key, in float32.

    What is neither constant nor shared by heads stays, nothing is refused.
    """


@TurnAttentionBias.rewrites(Attention)
def _turned(r: Reader, call: Any, attrs: Any) -> Any:
    """The same attention of a bias that is turned."""
    query, _, _, bias = call_arguments(call)
    dims = None if bias is None or attrs.keys_first else dims_of(bias)
    if dims is None or len(dims) < 2 or 1 in dims[-2:]:
        return None
    heads = (dims_of(query) or [0, 0, 1])[2]
    is_shared = heads != 1 and dims[-3:-2] in ([], [1])
    if not (is_shared or isinstance(r.value_of(bias), Constant)):
        return None
    axes = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
    turned = r.emit(op.permute_dims(bias, axes=axes))
    return Call(call.op, (*call.args[:3], turned), replace(attrs, keys_first=True))
