"""TurnAttentionBias: what is added to scores lies as these do."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import const, tensor_info
from mlcnb.relax.operator import attrs_of
from mlcnb.relax.transform import FoldConstant, SplitAttention, TurnAttentionBias
from mlcnb.script import relax as R
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.harness import check_pass


def test_a_mask_that_heads_share() -> None:
    @R.function
    def before(
        q: R.Tensor((1, 5, 3, 16), "float32"),
        k: R.Tensor((1, 7, 3, 16), "float32"),
        v: R.Tensor((1, 7, 3, 16), "float32"),
        mask: R.Tensor((1, 1, 5, 7), "float32"),
    ):
        with R.dataflow():
            gv = R.nn.attention(q, k, v, mask)
            R.output(gv)
        return gv

    @R.function
    def after(
        q: R.Tensor((1, 5, 3, 16), "float32"),
        k: R.Tensor((1, 7, 3, 16), "float32"),
        v: R.Tensor((1, 7, 3, 16), "float32"),
        mask: R.Tensor((1, 1, 5, 7), "float32"),
    ):
        with R.dataflow():
            turned = R.permute_dims(mask, axes=[0, 1, 3, 2])
            gv = R.nn.attention(q, k, v, turned, keys_first=True)
            R.output(gv)
        return gv

    check_pass(TurnAttentionBias(), before, after)


def attending(
    bias: tuple[int, ...], is_constant: bool, queries: int = 50, keys: int = 37, **attrs: object
):
    """A module with one attention of three heads and a bias."""
    rng = np.random.default_rng(3)
    shapes = [(2, queries, 3, 16), (2, keys, 3, 16), (2, keys, 3, 16), bias]
    given = [rng.standard_normal(s).astype("f4") for s in shapes]
    params = [Var(n, tensor_info(s, "float32")) for n, s in zip("qkvb", shapes, strict=True)]
    args = [*params[:3], const(given[3]) if is_constant else params[3]]
    bb = BlockBuilder()
    with bb.function("main", params[: 4 - is_constant]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.attention(*args, **attrs))
        bb.emit_func_output(out)
    return bb.get(), given[: 4 - is_constant]


@pytest.mark.parametrize("target", ["llvm", "interp"])
@pytest.mark.parametrize(
    ("bias", "is_constant"),
    [
        ((3, 50, 37), True),
        ((1, 3, 50, 37), True),
        ((2, 1, 50, 37), True),
        ((50, 37), True),
        ((50, 37), False),
        ((2, 1, 50, 37), False),
    ],
)
def test_the_results_are_the_same(target: str, bias: tuple, is_constant: bool) -> None:
    mod, given = attending(bias, is_constant, scale=0.3)
    turned = TurnAttentionBias()(mod)
    assert turned is not mod
    assert_same_results(evaluate(mod, *given), evaluate(turned, *given))
    found = mlc.compile(mod, target=target)(*given)
    np.testing.assert_allclose(found, evaluate(mod, *given), rtol=1e-4, atol=1e-5)


def test_a_constant_is_turned_before_the_program_runs() -> None:
    mod, _ = attending((3, 50, 37), True)
    made = FoldConstant()(TurnAttentionBias()(mod))
    (binding,) = made["main"].body.blocks[0].bindings
    assert attrs_of(binding.value).keys_first
    assert binding.value.args[3].data.shape == (3, 37, 50)


@pytest.mark.parametrize(
    ("bias", "is_constant", "attrs"),
    [
        (
            (3, 50, 37),
            False,
            {},
        ),  # each head's own, which nobody knows before: turned it costs more
        ((50, 1), True, {}),
        ((1, 37), True, {}),
        ((37,), True, {}),
        ((3, 37, 50), True, {"keys_first": True}),
    ],
)
def test_what_stays(bias: tuple, is_constant: bool, attrs: dict) -> None:
    mod, given = attending(bias, is_constant, **attrs)
    assert TurnAttentionBias()(mod) is mod
    found = mlc.compile(mod, target="llvm")(*given)
    np.testing.assert_allclose(found, evaluate(mod, *given), rtol=1e-4, atol=1e-5)


def test_one_query_whose_bias_is_turned_is_not_split() -> None:
    mod, given = attending((3, 37, 1), True, queries=1, keys_first=True)
    assert SplitAttention()(mod) is mod
    found = mlc.compile(mod, target="llvm")(*given)
    np.testing.assert_allclose(found, evaluate(mod, *given), rtol=1e-4, atol=1e-5)
