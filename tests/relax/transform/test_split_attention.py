"""SplitAttention: one query for each head, as two products of a row."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import const, tensor_info
from mlcnb.relax.transform import SplitAttention
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.harness import check_pass


def test_one_query_of_several_heads() -> None:
    @R.function
    def before(
        q: R.Tensor((2, 1, 3, 16), "float32"),
        k: R.Tensor((2, "n", 3, 16), "float32"),
        v: R.Tensor((2, "n", 3, 8), "float32"),
    ):
        with R.dataflow():
            gv = R.nn.attention(q, k, v)
            R.output(gv)
        return gv

    @R.function
    def after(
        q: R.Tensor((2, 1, 3, 16), "float32"),
        k: R.Tensor((2, "n", 3, 16), "float32"),
        v: R.Tensor((2, "n", 3, 8), "float32"),
    ):
        n = T.int64()
        with R.dataflow():
            row = R.reshape(q, (2, 3, 1, 16))
            row1 = R.multiply(row, R.const(0.25, "float32"))
            k1 = R.permute_dims(k, axes=[0, 2, 1, 3])
            k2 = R.permute_dims(k1, axes=[0, 1, 3, 2])
            scores = R.matmul(row1, k2)
            weights = R.nn.softmax(scores, axis=-1)
            v1 = R.permute_dims(v, axes=[0, 2, 1, 3])
            found = R.matmul(weights, v1)
            gv = R.reshape(found, (2, 1, 3, 8))
            R.output(gv)
        return gv

    check_pass(SplitAttention(), before, after)


SHAPE = (1, 1, 4, 16), (1, 9, 4, 16)


def attending(query: tuple[int, ...], key: tuple[int, ...], bias: bool = False, **attrs: object):
    """A module with one attention."""
    bb = BlockBuilder()
    infos = [query, key, key, *([(1, 4, 1, key[1])] if bias else [])]
    params = [Var(n, tensor_info(s, "float32")) for n, s in zip("qkvb", infos, strict=False)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(op.nn.attention(*params, **attrs))
        bb.emit_func_output(out)
    return bb.get(), [np.random.default_rng(3).standard_normal(s).astype("f4") for s in infos]


@pytest.mark.parametrize("target", ["llvm", "interp"])
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"bias": True},
        {"scale": 0.5},
        {"causal_mask": "BottomRight"},
        {"causal_mask": "BottomRight", "window_size": 9},
    ],
)
def test_the_results_are_the_same(target: str, form: dict) -> None:
    mod, given = attending(*SHAPE, **form)
    split = SplitAttention()(mod)
    assert split is not mod
    assert_same_results(evaluate(mod, *given), evaluate(split, *given))
    found = mlc.compile(mod, target=target)(*given)
    np.testing.assert_allclose(found, evaluate(mod, *given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("query", "key", "form"),
    [
        ((1, 2, 4, 16), (1, 9, 4, 16), {}),  # two queries
        (*SHAPE, {"causal_mask": "TopLeft"}),  # sees the first key alone
        (*SHAPE, {"causal_mask": "BottomRight", "window_size": 8}),  # does not see the first key
    ],
)
def test_what_stays(query: tuple, key: tuple, form: dict) -> None:
    mod, given = attending(query, key, **form)
    assert SplitAttention()(mod) is mod
    found = mlc.compile(mod, target="llvm")(*given)
    np.testing.assert_allclose(found, evaluate(mod, *given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 12])
def test_keys_are_read_as_a_model_keeps_them(heads: int) -> None:
    """(b, n, j, h): neither keys nor values are moved, and scores take no room of other queries."""
    bb = BlockBuilder()
    shapes = [(2, heads, 1, 64), (2, heads, 40, 64), (2, heads, 40, 64)]
    q, k, v = params = [
        Var(n, tensor_info(s, "float32")) for n, s in zip("qkv", shapes, strict=True)
    ]
    with bb.function("main", params):
        with bb.dataflow():
            scores = bb.emit(op.matmul(q, op.permute_dims(k, axes=[0, 1, 3, 2])))
            scores = bb.emit(op.multiply(scores, const(0.125, "float32")))
            out = bb.emit_output(op.matmul(op.nn.softmax(scores, axis=-1), v))
        bb.emit_func_output(out)
    ex = mlc.compile(bb.get(), target="llvm")
    assert not any("transpose" in name or name == "attention" for name in ex.kernels)
    assert any("NT_matmul" in name for name in ex.kernels)
    given = [np.random.default_rng(1).standard_normal(s).astype("f4") for s in shapes]
    np.testing.assert_allclose(ex(*given), evaluate(bb.get(), *given), rtol=1e-4, atol=1e-5)
