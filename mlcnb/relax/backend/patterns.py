"""Patterns that many libraries have: each function gives (pattern, names of its parts).

Attention is found as an operator, behind one stacked tensor, and written out in products:

q, k, v = R.split(qkv, 3)                                        make_stacked_attention_pattern
R.nn.attention(R.reshape(q, …), R.reshape(k, …), R.reshape(v, …))

R.matmul(R.nn.softmax(R.add(R.multiply(R.matmul(q, k), scale), bias)), v)
                                                                 make_attention_rewrite_pattern
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.op._dims import same, tidy
from mlcnb.relax import op as relax_op
from mlcnb.relax.dpl.make import (
    Named,
    is_const,
    is_gv,
    is_op,
    is_tuple,
    is_tuple_get_item,
    make_residual_block_pattern,
    wildcard,
    with_bias_and_activation,
)
from mlcnb.relax.dpl.nodes import DFPattern

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


def matmul_patterns(library: str, check: Any) -> Iterator[tuple[Any, ...]]:
    """Products, of a transposed matrix too, and what follows them; as `register_patterns` takes
    them.
    """
    for transposed in (False, True):
        name = f"{library}.matmul" + "_transposed" * transposed
        make = partial(make_matmul_pattern, transposed_rhs=transposed)
        yield from with_endings(name, make, check, "relu", "gelu")


def with_endings(
    name: str, make: Callable[..., Named], check: Any, *activations: str
) -> Iterator[tuple[Any, ...]]:
    """`make(with_bias, activation)` as it is, with a bias, and with a bias and each activation."""
    yield name, *make(), check
    yield f"{name}_bias", *make(True), check
    for activation in activations:
        yield f"{name}_bias_{activation}", *make(True, f"relax.nn.{activation}"), check


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


#: what a rewriting pattern makes of a match: (what stands there, what matched) -> in its place
Rewriter = Callable[[Any, Mapping[DFPattern, Any]], Any]


def make_attention_pattern(with_bias: bool = False, var_len: bool = False) -> Named:
    """attention(query, key, value[, bias]), or of sequences of several lengths (`var_len`)."""
    names: dict[str, Any] = {n: wildcard() for n in ("query", "key", "value")}
    if with_bias:
        names["bias"] = wildcard()
    elif var_len:
        starts = ("seqstart_q", "max_seqlen_q", "seqstart_k", "max_seqlen_k")
        names |= {n: wildcard() for n in starts}
        return is_op("relax.nn.attention_var_len")(*names.values()), names
    return is_op("relax.nn.attention")(*names.values()), names


def make_stacked_attention_pattern(
    start_op: str, with_bias: bool = False, layout: str = "BS3NH"
) -> Named:
    """Attention whose query, key and value are cut out of one tensor, "stacked_qkv".

    Args:
        start_op: how they are cut: "split", or "strided_slice".
        with_bias: the attention has a bias.
        layout: "BS3NH": each is reshaped, to "query_reshape_list" …; "SBN3H": each is permuted
            ("q_transpose" …), and the result is permuted back.

    Raises:
        ArgumentError: another `start_op` or `layout`.
    """
    names: dict[str, Any] = {"stacked_qkv": wildcard()}
    parts = _cut(start_op, names)
    names |= {f"{n}_reshape_list": wildcard() for n in parts}
    if layout == "BS3NH":
        reshape = is_op("relax.reshape")
        parts = {n: reshape(p, names[f"{n}_reshape_list"]) for n, p in parts.items()}
    elif layout == "SBN3H":
        parts = {n: is_op("relax.permute_dims")(p) for n, p in parts.items()}
        names |= {f"{n[0]}_transpose": p for n, p in parts.items()}
    else:
        raise ArgumentError(f"no layout {layout!r} of stacked attention", hint="BS3NH or SBN3H")
    if with_bias:
        names["bias"] = parts["bias"] = wildcard()
    names["attention"] = out = is_op("relax.nn.attention")(*parts.values())
    return (is_op("relax.permute_dims")(out) if layout == "SBN3H" else out), names


def _cut(start_op: str, names: dict[str, Any]) -> dict[str, Any]:
    """Query, key and value, out of what is named "stacked_qkv"."""
    wanted = ("query", "key", "value")
    if start_op == "split":
        names["split"] = whole = is_op("relax.split")(names["stacked_qkv"])
        return {n: is_tuple_get_item(whole, i) for i, n in enumerate(wanted)}
    if start_op == "strided_slice":
        slice_of = is_op("relax.strided_slice")
        for n in wanted:
            cut = slice_of(names["stacked_qkv"], varg_default_wildcard=True)
            names[f"strided_slice_{n}"] = cut
        return {n: names[f"strided_slice_{n}"] for n in wanted}
    raise ArgumentError(
        f"stacked attention does not start with {start_op!r}", hint="split or strided_slice"
    )


@dataclass
class _Part:
    """An operand of the products, from (batch, seq, heads, dim) or (batch, seq, dim)."""

    layout: str
    #: what there is before it is turned
    tensor: DFPattern
    #: what the product reads
    pattern: DFPattern
    #: permutations that have to be there: the call, its axes
    turns: list[tuple[DFPattern, list[int]]] = field(default_factory=list)

    def given(self, found: Mapping[DFPattern, Any]) -> Any:
        """The operand as nn.attention takes it, or None where it is not of the layout."""
        x = found[self.tensor]
        dims = getattr(x.struct_info, "dims", None)
        if dims is None or len(dims) != len(self.layout):
            return None
        if not all(_turns(found[call], axes) for call, axes in self.turns):
            return None
        return x if self.layout == "BSNH" else relax_op.reshape(x, [*dims[:2], 1, dims[2]])

    def dims(self, found: Mapping[DFPattern, Any]) -> tuple[Any, ...]:
        """Batch, positions, heads."""
        dims = found[self.tensor].struct_info.dims
        return (dims[0], dims[1], dims[2] if self.layout == "BSNH" else 1)


def _turns(call: Any, axes: Sequence[int]) -> bool:
    given, rank = call.attrs.axes, len(axes)
    if given is None:
        return list(axes) == list(range(rank))[::-1]
    return [a % rank for a in given] == list(axes)


def _operand(layout: str, transposed: bool, repeated: bool) -> _Part:
    tensor: DFPattern = wildcard()
    if repeated:
        tensor = is_op("relax.repeat")(tensor)
    part = _Part(layout, tensor, tensor)
    if layout == "BSNH":
        turned = is_op("relax.permute_dims")(tensor)
        part.turns.append((turned, [0, 2, 1, 3]))
        part.pattern = is_op("relax.reshape")(turned, wildcard())
    if transposed:
        part.pattern = is_op("relax.permute_dims")(part.pattern)
        part.turns.append((part.pattern, [0, 2, 1]))
    return part


def make_attention_rewrite_pattern(
    qkv_layout: str, out_layout: str, with_bias: bool, with_cast: bool, with_kv_repeat: bool = False
) -> tuple[DFPattern, Rewriter]:
    """Attention written out, and what puts `R.nn.attention` in its place (for `rewrite_call`).

    softmax(query . key * scale + bias) . value, of (batch * heads, positions, dim) each.

    Args:
        qkv_layout: of query, key and value: "BSNH" (permuted and reshaped to heads), or "BSH".
        out_layout: of the result, "BSNH" or "BSH".
        with_bias: something is added before softmax.
        with_cast: softmax is taken in another dtype, and the scale is cast.
        with_kv_repeat: key and value are made by R.repeat, for queries of more heads.

    The rewriter gives back what stood there where sizes or permutations are not those of attention.

    Raises:
        ArgumentError: another layout.
    """
    if {qkv_layout, out_layout} - {"BSNH", "BSH"}:
        raise ArgumentError(f"no layouts {qkv_layout!r}, {out_layout!r}", hint="BSNH or BSH")
    q = _operand(qkv_layout, False, False)
    k = _operand(qkv_layout, True, with_kv_repeat)
    v = _operand(qkv_layout, False, with_kv_repeat)
    scale, bias, cast = is_const(), wildcard(), is_op("relax.astype")
    scores: DFPattern = is_op("relax.matmul")(q.pattern, k.pattern)
    scores = scores * (cast(scale) if with_cast else scale)
    scores = is_op("relax.add")(scores, bias) if with_bias else scores
    softmax = is_op("relax.nn.softmax")(cast(scores) if with_cast else scores)
    product = is_op("relax.matmul")(cast(softmax) if with_cast else softmax, v.pattern)
    whole: DFPattern = product
    if out_layout == "BSNH":
        apart = is_op("relax.reshape")(product, wildcard())
        whole = is_op("relax.permute_dims")(apart)

    def rewriter(original: Any, found: Mapping[DFPattern, Any]) -> Any:
        parts = [one.given(found) for one in (q, k, v)]
        if any(p is None for p in parts) or found[softmax].attrs.axis not in (-1, 2):
            return original
        batch, seq, heads = q.dims(found)
        _, seq_kv, heads_kv = k.dims(found)
        if not same(heads, heads_kv):
            return original
        if out_layout == "BSNH":
            rows = found[apart].struct_info.dims
            fits = same(rows[0], batch) and same(rows[1], heads) and _turns(found[whole], TURN)
            if not fits:
                return original
        added = None
        if with_bias:
            added = _as_bias(found[bias], batch, heads, seq, seq_kv)
            if added is None:
                return original
        factor = float(found[scale].data)
        made = relax_op.nn.attention(*parts, added, scale=factor)
        if out_layout == "BSNH":
            return made
        return relax_op.reshape(made, found[product].struct_info.dims)

    return whole, rewriter


#: (batch, heads, positions, dim) <-> (batch, positions, heads, dim)
TURN = [0, 2, 1, 3]


def _as_bias(bias: Any, batch: Any, heads: Any, seq: Any, seq_kv: Any) -> Any:
    """What is added to (batch * heads, seq, seq_kv), with the heads apart; None: it is not so."""
    dims = getattr(bias.struct_info, "dims", None)
    if dims is None or not 1 <= len(dims) <= 3 or not same(dims[-1], seq_kv):
        return None
    lead, row = [1, 1, *dims[:-1]][-2:]
    if not same(row, seq) and not same(row, 1):
        return None
    if same(lead, 1):
        return relax_op.reshape(bias, [1, 1, row, seq_kv])
    if same(lead, tidy(batch * heads)):
        return relax_op.reshape(bias, [batch, heads, row, seq_kv])
    return None
