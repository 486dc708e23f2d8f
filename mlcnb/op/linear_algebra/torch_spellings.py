"""PyTorch spellings of products: linear, matmul, addmm, einsum, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, formula, rounded, spread, torch_formula
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


@torch_spelling("aten.linear")
def torch_linear(n: TorchNode, x: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    """x . weight' + bias"""
    turned = weight
    if len(n.dims(weight)) == 2:
        turned = n.emit(call("relax.permute_dims", weight, axes=(1, 0)))
    result = call("relax.matmul", x, turned, out_dtype=n.dtype(x))
    return result if bias is None else call("relax.add", n.emit(result), bias)


@torch_spelling("aten.matmul", "aten.mm.default", "aten.bmm.default", "aten.mv", "aten.dot")
@torch_spelling("aten.vdot", "aten.linalg_matmul")
def torch_matmul(n: TorchNode, x: Expr, other: Expr) -> Expr:
    """The product of matrices, vectors, or stacks of matrices."""
    return call("relax.matmul", x, other, out_dtype=n.dtype(x))


@torch_spelling("aten.addmm.default", "aten.baddbmm.default", "aten.addmv")
def torch_addmm(n: TorchNode, x: Expr, a: Expr, b: Expr, *, beta: Any = 1, alpha: Any = 1) -> Expr:
    """beta * x + alpha * a . b"""
    f = Formula(n, n.dtype(a))
    product = f.matmul(a, b, out_dtype=n.dtype(a))
    product = product if alpha == 1 else f.multiply(product, alpha)
    if beta == 0:
        return product
    return f.add(x if beta == 1 else f.multiply(x, beta), product)


@torch_spelling("aten.addbmm")
def torch_addbmm(n: TorchNode, x: Expr, a: Expr, b: Expr, *, beta: Any = 1, alpha: Any = 1) -> Expr:
    """beta * x + alpha * the sum of all a . b"""
    f = Formula(n, n.dtype(a))
    total = f.sum(f.matmul(a, b), axis=(0,))
    total = total if alpha == 1 else f.multiply(total, alpha)
    if beta == 0:
        return total
    return f.add(total, x if beta == 1 else f.multiply(x, beta))


@torch_spelling("aten.outer", "aten.ger")
def torch_outer(n: TorchNode, x: Expr, other: Expr) -> Expr:
    """Every product of two elements."""
    kind = n.result()[1]
    return call("relax.outer", n.tensor(x, kind), n.tensor(other, kind))


@torch_spelling("aten.einsum")
def torch_einsum(n: TorchNode, equation: str, tensors: Sequence[Expr]) -> Expr:
    """Einstein's sum of products; whole numbers that are summed over become int64 first."""
    kind = n.result()[1]
    return call(
        "relax.einsum", [n.tensor(x, kind) for x in tensors], subscripts=equation.replace(" ", "")
    )


@torch_spelling("aten.scaled_dot_product_attention")
def torch_attention(
    n: TorchNode,
    query: Expr,
    key: Expr,
    value: Expr,
    attn_mask: Expr | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Expr:
    """softmax(query . key' * scale + mask) . value, over the last two dimensions.

    A row that sees nothing gives 0, as in PyTorch.
    """
    if dropout_p > 0:
        n.refuse(f"it drops weights at random (p = {dropout_p})", "call model.eval() first")
    rank = len(n.dims(query))
    if enable_gqa:
        key, value = (_repeated(n, query, x) for x in (key, value))
    alike = rank == 4 and all(len(n.dims(x)) == 4 for x in (key, value))
    batches = [n.dims(x)[:2] for x in (query, key, value)] if alike else []
    if alike and attn_mask is None and _same(batches):
        return _whole(n, query, key, value, None, is_causal, scale)
    if alike and attn_mask is not None and n.dtype(attn_mask) != "bool" and _same(batches):
        return _whole(n, query, key, value, attn_mask, is_causal, scale)
    return _formula(n, query, key, value, attn_mask, is_causal, scale)


def _same(batches: list[Any]) -> bool:
    first = batches[0]
    return all(
        a is b or (as_int(a) is not None and as_int(a) == as_int(b)) or str(a) == str(b)
        for other in batches[1:]
        for a, b in zip(first, other, strict=True)
    )


def _whole(
    n: TorchNode, q: Expr, k: Expr, v: Expr, bias: Expr | None, causal: bool, scale: float | None
) -> Expr:
    """The operator nn.attention, which has the heads after the sequence."""
    q, k, v = (n.emit(call("relax.permute_dims", x, axes=(0, 2, 1, 3))) for x in (q, k, v))
    attrs = {"scale": scale, "causal_mask": "TopLeft" if causal else None}
    bias = _four(n, bias)
    made = n.emit(call("relax.nn.attention", q, k, v, bias, **attrs))
    found = call("relax.permute_dims", made, axes=(0, 2, 1, 3))
    known = None if bias is None else n.known(bias)
    if bias is None or (known is not None and np.all(np.max(known, -1) > -math.inf)):
        return found
    f = Formula(n, n.dtype(bias))
    blind = f.equal(f.max(bias, axis=(-1,), keepdims=True), -math.inf)
    return call("relax.where", blind, n.tensor(0.0, n.dtype(made)), n.emit(found))


def _four(n: TorchNode, bias: Expr | None) -> Expr | None:
    """A mask with four dimensions."""
    if bias is None or len(n.dims(bias)) == 4:
        return bias
    dims = n.dims(bias)
    return n.emit(call("relax.reshape", bias, [*[1] * (4 - len(dims)), *dims]))


def _formula(
    n: TorchNode, q: Expr, k: Expr, v: Expr, mask: Expr | None, causal: bool, scale: float | None
) -> Expr:
    f, q, k, v = formula(n, q, k, v)
    scores, sees, _ = attention_scores(n, f, q, k, mask, causal, scale)
    if sees is None:
        weights = f.nn("softmax", scores, axis=-1)
    else:
        _, powers, total = _powers(f, scores)
        weights = f.divide(powers, f.where(f.equal(total, 0.0), 1.0, total))
    return rounded(n, f.matmul(weights, v))


def _with_logarithms(
    n: TorchNode, q: Expr, k: Expr, v: Expr, mask: Expr | None, causal: bool, scale: float | None
) -> tuple[Expr, Expr]:
    """The same, and the logarithm of what each row was divided by, from which gradients are made:
    -inf of a row that sees nothing.
    """
    f, q, k, v = formula(n, q, k, v)
    scores, *_ = attention_scores(n, f, q, k, mask, causal, scale)
    top, powers, total = _powers(f, scores)
    weights = f.divide(powers, f.where(f.equal(total, 0.0), 1.0, total))
    logarithms = f.squeeze(f.add(top, f.log(total)), axis=[-1])
    return n.emit(rounded(n, f.matmul(weights, v))), rounded(n, logarithms, 1)


def _powers(f: Formula, scores: Expr) -> tuple[Expr, Expr, Expr]:
    """What is taken from each row of scores, their exponentials after that, and the sums."""
    top = f.max(scores, axis=(-1,), keepdims=True)
    top = f.where(f.isinf(top), 0.0, top)
    powers = f.exp(f.subtract(scores, top))
    return top, powers, f.sum(powers, axis=(-1,), keepdims=True)


def attention_scores(
    n: TorchNode, f: Formula, q: Expr, k: Expr, mask: Any, causal: bool, scale: float | None
) -> tuple[Expr, Expr | None, float]:
    """The scores of all pairs, -inf where one does not see the other; who sees whom, if said; what
    products were multiplied by.
    """
    rank, width = len(n.dims(k)), as_int(n.dims(q)[-1])
    if scale is None and not width:
        n.refuse("the size of a head is not known", "give scale")
    axes = (*range(rank - 2), rank - 1, rank - 2)
    factor = float(scale if scale is not None else 1 / math.sqrt(width or 1))
    scores = f.multiply(f.matmul(q, f.permute_dims(k, axes=axes)), factor)
    sees = None
    if causal:
        seq, seq_kv = n.dims(q)[-2], n.dims(k)[-2]
        rows = f.reshape(f.arange(0, seq, 1, dtype="int64"), [seq, 1])
        columns = f.reshape(f.arange(0, seq_kv, 1, dtype="int64"), [1, seq_kv])
        sees = f.less_equal(columns, rows)
    if mask is not None and n.dtype(mask) == "bool":
        sees = mask if sees is None else f.logical_and(sees, mask)
    elif mask is not None:
        scores = f.add(scores, n.tensor(mask, f.kind))
    return (scores if sees is None else f.where(sees, scores, -math.inf)), sees, factor


def _repeated(n: TorchNode, query: Expr, x: Expr) -> Expr:
    """Keys or values with each head said as often as there are queries for it."""
    want, have = as_int(n.dims(query)[-3]), as_int(n.dims(x)[-3])
    if not want or not have or want % have:
        n.refuse(f"{want} heads of queries do not go into {have} heads of keys")
    if want == have:
        return x
    return n.emit(call("relax.repeat", x, repeats=want // have, axis=len(n.dims(x)) - 3))


@torch_spelling("aten._scaled_dot_product_flash_attention_for_cpu")
def torch_flash_attention(
    n: TorchNode,
    query: Expr,
    key: Expr,
    value: Expr,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Expr | None = None,
    scale: float | None = None,
) -> Any:
    """As scaled_dot_product_attention, each head of keys for as many of queries as there are.

    The second output, the logarithms of the sums, is there where something reads it: for gradients.
    """
    heads = [as_int(n.dims(x)[1]) for x in (query, key)]
    shared = None not in heads and heads[0] != heads[1]
    if n.is_used(1) and not dropout_p > 0:
        if shared:
            key, value = (_repeated(n, query, x) for x in (key, value))
        return _with_logarithms(n, query, key, value, attn_mask, is_causal, scale)
    attrs = {"scale": scale, "enable_gqa": shared}
    return torch_attention(n, query, key, value, attn_mask, dropout_p, is_causal, **attrs), None


@torch_spelling("aten.cumsum", "aten.cumprod")
def torch_cumulated(n: TorchNode, x: Expr, dim: int) -> Expr:
    """Sums or products of all elements so far, in the dtype of the result."""
    kind = n.result()[1]
    name = f"relax.{n.target.split('.')[1]}"
    if not n.dims(x):
        return n.tensor(x, kind)
    return call(name, n.tensor(x, kind), axis=dim, dtype=kind)


@torch_spelling("aten.tril", "aten.triu")
def torch_triangle(n: TorchNode, x: Expr, diagonal: int = 0) -> Expr:
    """The lower or upper triangle; zeros elsewhere."""
    name = f"relax.{n.target.split('.')[1]}"
    if n.dtype(x) == "bool":
        return n.tensor(n.emit(call(name, n.tensor(x, "int8"), diagonal)), "bool")
    return call(name, x, diagonal)


@torch_spelling("aten.cosine_similarity")
def torch_cosine_similarity(
    n: TorchNode, x: Expr, other: Expr, dim: int = 1, eps: float = 1e-8
) -> Expr:
    """The cosine of the angle between vectors along one dimension, after both are broadcast."""
    f, a, b = formula(n, x, other)
    a, b = spread(n, a, b)
    lengths = [
        f.maximum(f.sqrt(f.sum(f.multiply(v, v), axis=(dim,), keepdims=True)), float(eps))
        for v in (a, b)
    ]
    a, b = (f.divide(v, length) for v, length in zip((a, b), lengths, strict=True))
    return rounded(n, f.sum(f.multiply(a, b), axis=(dim,)))


@torch_spelling("aten._trilinear")
def torch_trilinear(
    n: TorchNode,
    a: Expr,
    b: Expr,
    c: Expr,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Expr:
    """The sum of products of three tensors, each with dimensions of one put in where it is said."""
    f, *given = formula(n, a, b, c)
    wide = [
        f.expand_dims(x, axis=tuple(axes)) if axes else x
        for x, axes in zip(given, (expand1, expand2, expand3), strict=True)
    ]
    found = f.multiply(f.multiply(wide[0], wide[1]), wide[2])
    return rounded(n, f.sum(found, axis=tuple(sumdim)) if sumdim else found)


@torch_spelling("aten.cdist", "aten._cdist_forward")
def torch_cdist(
    n: TorchNode, x: Expr, other: Expr, p: float = 2.0, compute_mode: int | None = None
) -> Expr:
    """The length of the difference of each row of x and each of the other."""
    f, a, b = formula(n, x, other)
    a, b = f.expand_dims(a, axis=(-2,)), f.expand_dims(b, axis=(-3,))
    away = f.abs(f.subtract(a, b))
    if p == math.inf:
        return rounded(n, f.max(away, axis=(-1,)))
    if p == 0:
        return rounded(n, f.sum(f.minimum(f.ceil(away), 1.0), axis=(-1,)))
    if p == 1:
        return rounded(n, f.sum(away, axis=(-1,)))
    if p == 2:
        return rounded(n, f.sqrt(f.sum(f.multiply(away, away), axis=(-1,))))
    return rounded(n, f.power(f.sum(f.power(away, float(p)), axis=(-1,)), 1.0 / p))


@torch_formula("aten.trace")
def torch_trace(f: Formula, x: Expr) -> Expr:
    """The sum of the diagonal."""
    mask = f.eye(*f.n.dims(x), 0, dtype=f.kind)
    return f.sum(f.multiply(x, mask))
