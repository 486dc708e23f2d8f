"""ONNX Attention (opset 23), as the formula of its function body; RotaryEmbedding.

Y = softmax(softcap(Q * sqrt(scale) . K' * sqrt(scale)) + bias) . V
bias = attention mask + causal mask + window + padding; a row that sees nothing gives 0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int, less_equal, maximum
from mlcnb.op._accumulate import accumulator
from mlcnb.op._dims import same, tell_dim, tell_dims, tidy
from mlcnb.op._spell import Formula, want_sizes
from mlcnb.op.manipulate.pad import filled_around
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Constant, Expr, const

#: TensorProto.DataType that softmax_precision may name
PRECISIONS = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}


def _iota(f: Formula, extent: Any, line: Sequence[int]) -> Expr:
    """0, 1, … extent - 1 as int64, reshaped to `line` (with one -1)."""
    shape = [extent if d == -1 else d for d in line]
    return f.reshape(f.arange(0, extent, 1, dtype="int64"), shape)


@onnx("Attention", since=23)
def onnx_attention(
    n: OnnxNode,
    q: Expr,
    k: Expr,
    v: Expr,
    mask: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    nonpad: Expr | None = None,
) -> Any:
    """3-D inputs are cut into heads; fewer key heads than query heads are repeated."""
    f, kind, flat = Formula(n), n.dtype(q), len(n.dims(q)) == 3
    q = _heads(n, f, q, n.attr("q_num_heads"))
    k, v = (_heads(n, f, x, n.attr("kv_num_heads")) for x in (k, v))
    if past_key is not None and past_value is not None:
        k, v = f.concat([past_key, k], axis=2), f.concat([past_value, v], axis=2)
    offset = _offset(n, f, q, past_key, nonpad)
    bias = _bias(n, f, q, k, mask, offset, nonpad)
    scores, modes = _scores(n, f, q, k), {}
    modes[0] = scores
    cap = n.attr("softcap", 0.0)
    if cap > 0:
        scores = f.multiply(f.tanh(f.divide(scores, const(cap, kind))), const(cap, kind))
    modes[1] = scores
    scores = scores if bias is None else f.add(scores, bias)
    modes[2] = scores
    weights = _weights(n, f, scores, bias, kind)
    modes[3] = weights
    result = f.matmul(weights, _repeated(n, f, q, v))
    if flat:
        batch, heads, seq, dim = n.dims(result)
        turned = f.permute_dims(result, axes=(0, 2, 1, 3))
        result = f.reshape(turned, [batch, seq, tidy(heads * dim)])
    mode = n.attr("qk_matmul_output_mode", 0)
    if mode not in modes:
        n.refuse(f"qk_matmul_output_mode is {mode}, not one of {tuple(modes)}")
    outputs = (result, k, v, modes[mode])
    return outputs[: n.num_outputs] if n.num_outputs > 1 else result


def _heads(n: OnnxNode, f: Formula, x: Expr, heads: int | None) -> Expr:
    """(batch, seq, hidden) as (batch, heads, seq, dim)."""
    dims = n.dims(x)
    if len(dims) == 4:
        return x
    if len(dims) != 3 or not heads:
        n.refuse(f"an input of shape {tell_dims(dims)} with {heads} heads")
    apart = f.reshape(x, [dims[0], dims[1], heads, tidy(dims[2] // heads)])
    return f.permute_dims(apart, axes=(0, 2, 1, 3))


def _repeated(n: OnnxNode, f: Formula, q: Expr, x: Expr) -> Expr:
    """Keys or values with each head said as often as there are queries for it."""
    batch, have, *rest = n.dims(x)
    want = n.dims(q)[1]
    if same(want, have):
        return x
    if as_int(want) is None or as_int(have) is None:
        each = tidy(want // maximum(have, 1))
        apart = f.broadcast_to(f.expand_dims(x, axis=2), [batch, have, each, *rest])
        return f.reshape(apart, [batch, want, *rest])
    if not want or not have or want % have:
        n.refuse(f"{want} heads of queries do not go into {have} heads of keys")
    return f.repeat(x, repeats=want // have, axis=1)


def _scores(n: OnnxNode, f: Formula, q: Expr, k: Expr) -> Expr:
    root = _root_of_scale(n, f, q)
    turned = f.permute_dims(_repeated(n, f, q, k), axes=(0, 1, 3, 2))
    return f.matmul(f.multiply(q, root), f.multiply(turned, root))


def _root_of_scale(n: OnnxNode, f: Formula, q: Expr) -> Expr:
    """What queries and keys are both multiplied by; without `scale` the run may have to find it."""
    kind, dim = n.dtype(q), n.dims(q)[3]
    size, scale = as_int(dim), n.attr("scale")
    if scale is None and size is None:
        wide = str(accumulator(dtype(kind)))
        root = f.rsqrt(f.sqrt(f.size_of(dim, wide)))
        return root if wide == kind else f.astype(root, dtype=kind)
    if scale is None:
        if not size:
            n.refuse("the head size is 0")
        scale = 1 / math.sqrt(size)
    if not 0 <= scale < math.inf:
        n.refuse(f"scale is {scale}")
    return const(math.sqrt(scale), kind)


def _weights(n: OnnxNode, f: Formula, scores: Expr, bias: Expr | None, kind: str) -> Expr:
    """Softmax, with zeros in rows that see nothing."""
    precision = PRECISIONS.get(n.attr("softmax_precision", 0), kind)
    wide = scores if precision == kind else f.astype(scores, dtype=precision)
    weights = f.nn("softmax", wide, axis=-1)
    if bias is not None:
        high = f.max(bias, axis=(-1,), keepdims=True)
        blind = f.equal(high, const(-math.inf, n.dtype(bias)))
        if not (isinstance(blind, Constant) and not blind.data.any()):
            weights = f.where(blind, const(0, precision), weights)
    return weights if precision == kind else f.astype(weights, dtype=kind)


def _offset(n: OnnxNode, f: Formula, q: Expr, past: Expr | None, nonpad: Expr | None) -> Expr:
    """How many keys stand before the first query: one number, or one a sample (batch, 1, 1, 1)."""
    if past is not None:
        if len(n.dims(past)) != 4:
            n.refuse(f"the past has shape {tell_dims(n.dims(past))}, not four dimensions")
        return f.size_of(n.dims(past)[2])
    if nonpad is None:
        return const(0, "int64")
    after = f.subtract(nonpad, f.size_of(n.dims(q)[2]))
    return f.reshape(after, [n.dims(q)[0], 1, 1, 1])


def _bias(
    n: OnnxNode,
    f: Formula,
    q: Expr,
    k: Expr,
    mask: Expr | None,
    offset: Expr,
    nonpad: Expr | None,
) -> Expr | None:
    """Everything that is added to the scores; None where nothing is."""
    kind, seq, seq_kv = n.dtype(q), n.dims(q)[2], n.dims(k)[2]
    i, j = _iota(f, seq, [-1, 1]), _iota(f, seq_kv, [1, -1])
    parts, rules = [], []
    if mask is not None:
        parts.append(_additive(n, f, mask, kind, seq_kv))
    at = f.add(i, offset)
    if n.attr("is_causal", 0):
        rules.append(f.less_equal(j, at))
    left, right = n.attr("left_window_size", -1), n.attr("right_window_size", -1)
    if left >= 0:
        rules.append(f.less_equal(f.subtract(at, j), const(left, "int64")))
    if right >= 0:
        rules.append(f.less_equal(f.subtract(j, at), const(right, "int64")))
    if nonpad is not None:
        rules.append(f.less(j, f.reshape(nonpad, [n.dims(q)[0], 1, 1, 1])))
    zero, low = const(0, kind), const(-math.inf, kind)
    parts += [f.where(rule, zero, low) for rule in rules]
    bias = None
    for part in parts:
        bias = part if bias is None else f.add(bias, part)
    return bias


def _additive(n: OnnxNode, f: Formula, mask: Expr, kind: str, seq_kv: Any) -> Expr:
    """The mask as numbers to add, as long as there are keys."""
    if n.dtype(mask) == "bool":
        mask = f.where(mask, const(0, kind), const(-math.inf, kind))
    dims = n.dims(mask)
    if same(dims[-1], seq_kv) or as_int(dims[-1]) == 1:
        return mask
    missing = tidy(seq_kv - dims[-1])
    if (as_int(missing) or 0) < 0:
        n.refuse(f"a mask of shape {tell_dims(dims)}")
    want_sizes(n, less_equal(0, missing), f"a mask of shape {tell_dims(dims)}")
    return n.emit(filled_around(n, mask, [(0, 0)] * (len(dims) - 1) + [(0, missing)], -math.inf))


@onnx("RotaryEmbedding", since=23)
def onnx_rotary_embedding(
    n: OnnxNode, x: Expr, cos: Expr, sin: Expr, position_ids: Expr | None = None
) -> Expr:
    """Pairs of elements of each head turned by the angles of their position. arXiv 2104.09864."""
    f, dims = Formula(n), n.dims(x)
    flat = len(dims) == 3
    if flat:
        heads = n.attr("num_heads", 0)
        if not heads:
            n.refuse("num_heads is needed for an input of three dimensions")
        batch, seq, size = dims[0], dims[1], tidy(dims[2] // heads)
        apart = f.reshape(x, [batch, seq, heads, size])
    else:
        batch, heads, seq, size = dims
        apart = f.permute_dims(x, axes=(0, 2, 1, 3))
    turning = n.attr("rotary_embedding_dim", 0) or size
    if position_ids is not None:
        cos, sin = (f.take(t, position_ids, axis=0, mode="signed") for t in (cos, sin))
    cos, sin = (f.expand_dims(t, axis=2) for t in (cos, sin))
    head, tail = apart, None
    if not same(turning, size):
        want_sizes(n, less_equal(turning, size), f"{turning} of {tell_dim(size)} elements turn")
        both = f.split(apart, indices_or_sections=(turning,), axis=-1)
        head, tail = both[0], both[1]
    turned = _turned(n, f, head, cos, sin, turning)
    turned = turned if tail is None else f.concat([turned, n.emit(tail)], axis=-1)
    if flat:
        return f.reshape(turned, list(dims))
    return f.permute_dims(turned, axes=(0, 2, 1, 3))


def _turned(n: OnnxNode, f: Formula, x: Expr, cos: Expr, sin: Expr, size: Any) -> Expr:
    """(a, b) -> (a cos - b sin, a sin + b cos), a and b halves or neighbours.

    Halves of an open size lie along an axis of their own: nobody asks where one ends.
    """
    x = n.emit(x)
    dims, woven, is_open = n.dims(x), n.attr("interleaved", 0), as_int(size) is None
    half, along = tidy(size // 2), -1 if woven else -2
    if is_open:
        cos, sin = (f.reshape(t, [*n.dims(t)[:-1], half]) for t in (cos, sin))
    if woven or is_open:
        pairs = f.reshape(x, [*dims[:3], *([half, 2] if woven else [2, half])])
        parts = f.split(pairs, indices_or_sections=2, axis=along)
        a, b = (f.reshape(n.emit(parts[i]), [*dims[:3], half]) for i in (0, 1))
    else:
        parts = f.split(x, indices_or_sections=2, axis=-1)
        a, b = n.emit(parts[0]), n.emit(parts[1])
    one = f.subtract(f.multiply(a, cos), f.multiply(b, sin))
    two = f.add(f.multiply(a, sin), f.multiply(b, cos))
    if woven or is_open:
        return f.reshape(f.stack([one, two], axis=along), list(dims))
    return f.concat([one, two], axis=-1)
