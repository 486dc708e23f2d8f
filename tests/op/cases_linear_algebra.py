"""Cases of linear algebra, attention and losses."""

from __future__ import annotations

import numpy as np

from mlcnb.op.linear_algebra import einsum, grouped, matmul
from mlcnb.op.nn import attention, attention_var_len, loss
from tests.op.harness import Case, numbers

MODULES = ("mlcnb.op.linear_algebra.einsum", "mlcnb.op.linear_algebra.matmul")
MODULES += ("mlcnb.op.linear_algebra.grouped",)
MODULES += ("mlcnb.op.nn.attention", "mlcnb.op.nn.attention_var_len", "mlcnb.op.nn.loss")
RTOL = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
SHAPES = [
    ((2, 3), (3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((3,), (3,)),
    ((3,), (2, 3, 4)),
    ((2, 4, 3), (3,)),
    ((2, 0), (0, 3)),
]


def tensors(*shapes, kind="float32"):
    return [numbers(shape, kind, seed) for seed, shape in enumerate(shapes)]


def _products():
    for pair in SHAPES:
        yield Case(matmul.Matmul(), tensors(*pair), 1e-5)
    for kind in ("float16", "bfloat16", "float64", "int32", "uint8"):
        yield Case(matmul.Matmul(), tensors(*SHAPES[0], kind=kind), RTOL.get(kind, 1e-12))
    yield Case(matmul.Matmul("int32"), tensors(*SHAPES[0], kind="int8"), note="widened")
    yield Case(matmul.Matmul("float32"), tensors(*SHAPES[0], kind="float16"), note="widened")
    for kind in ("float32", "int64"):
        yield Case(matmul.Outer(), tensors((3,), (4,), kind=kind))


def _groups():
    rows = np.array([2, 0, 0, 3, -1, 1], "int64")
    for kind in ("float32", "float16", "bfloat16", "float64", "int32"):
        given = tensors((6, 4), (3, 4, 5), kind=kind)
        yield Case(grouped.GroupedMatmul(), [*given, rows], RTOL.get(kind, 1e-12))
    few = np.array([1, 0], "uint8")
    yield Case(grouped.GroupedMatmul(), [*tensors((2, 4), (2, 4, 3)), few], 1e-5, note="uint8")
    yield Case(grouped.GroupedMatmul(), [*tensors((2, 4), (0, 4, 3)), few], 1e-5, note="none")


def _einsums():
    table = [
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
        ("ij->ji", (2, 3)),
        ("ii->i", (3, 3)),
        ("ii", (3, 3)),
        ("ij", (2, 3)),
        ("ij,jk", (2, 3), (3, 4)),
        ("...ij,...jk->...ik", (2, 1, 3, 2), (3, 2, 2)),
        ("i,j->ij", (2,), (3,)),
        ("ij->", (2, 3)),
        ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)),
        ("b...,b...->...", (2, 3, 2), (2, 3, 2)),
        ("ba , ca -> bc", (2, 3), (4, 3)),
    ]
    for text, *shapes in table:
        yield Case(einsum.Einsum(text), [tensors(*shapes)], 1e-5, note=text.replace(" ", ""))
    yield Case(einsum.Einsum("ij,jk->ik"), [tensors((2, 9), (9, 2), kind="float16")], 4e-3)


def _attention():
    qkv = ((2, 3, 2, 5), (2, 4, 2, 5), (2, 4, 2, 3))
    for kind in ("float32", "float16"):
        yield Case(attention.Attention(), [*tensors(*qkv, kind=kind), None], RTOL[kind])
    biased = tensors(*qkv, (2, 1, 4))
    yield Case(attention.Attention(0.3), biased, 1e-5, note="bias")
    for shape in ((2, 4, 3), (2, 1, 4, 1), (4, 3)):
        made = attention.Attention(0.3, "TopLeft", keys_first=True)
        yield Case(made, tensors(*qkv, shape), 1e-5, note=f"turned-{shape}")
    for mask in ("TopLeft", "BottomRight"):
        for window in (None, 2):
            made = attention.Attention(None, mask, window)
            yield Case(made, [*tensors(*qkv), None], 1e-5, note=f"{mask}-{window}")


def _joined():
    starts, others = (np.array(s, "int32") for s in ([0, 2, 2, 7], [0, 1, 4, 9]))
    longest = np.array(5, "int32")
    for kind in ("float32", "float16"):
        same = tensors((1, 7, 2, 5), (1, 7, 2, 5), (1, 7, 2, 3), kind=kind)
        made = attention_var_len.AttentionVarLen()
        yield Case(made, [*same, starts, longest, None, None], RTOL[kind])
    qkv = tensors((1, 7, 2, 5), (1, 9, 2, 5), (1, 9, 2, 3))
    for mask in (None, "TopLeft", "BottomRight"):
        for window in (None, 2) if mask else (None,):
            made = attention_var_len.AttentionVarLen(0.3, mask, window)
            args = [*qkv, starts, longest, others, longest]
            yield Case(made, args, 1e-5, note=f"{mask}-{window}")


def _losses():
    for kind in ("float32", "float16"):
        for shape in ((3, 4), (4,)):
            pair = tensors(shape, shape, kind=kind)
            yield Case(loss.CrossEntropyWithLogits(), pair, RTOL[kind])
        targets = numbers((3, 2), "int64", 5, 0, 4)
        for reduction in loss.REDUCTIONS:
            x, weights = numbers((3, 5, 2), kind), numbers((5,), kind, 1, 0.5, 2)
            made = loss.NllLoss(reduction, 2)
            yield Case(made, [x, targets, weights], RTOL[kind], note=reduction)
            yield Case(made, [x, targets, None], RTOL[kind], note=reduction)
            single = [numbers((5,), kind), np.array(3), None]
            yield Case(loss.NllLoss(reduction), single, RTOL[kind], note=reduction)


FAMILIES = (_products, _groups, _einsums, _attention, _joined, _losses)
CASES = [case for family in FAMILIES for case in family()]
