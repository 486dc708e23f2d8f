"""nn.attention_var_len is nn.attention of each sequence; both against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb
from mlcnb.core.errors import TypeInferError
from mlcnb.op.nn.attention import Attention
from mlcnb.op.nn.attention_var_len import AttentionVarLen
from mlcnb.relax import op
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.infer import infer
from mlcnb.script import relax as R
from tests.op.harness import Case, numbers

LENGTHS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4)
MASKS = st.sampled_from([(None, None), ("TopLeft", None), ("BottomRight", None), ("TopLeft", 2)])


def starts(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths]).astype("int32")


@settings(max_examples=40, deadline=None)
@given(LENGTHS, MASKS, st.sampled_from([None, 0.3]))
def test_it_is_attention_of_each_sequence(lengths, mask, scale) -> None:
    of_q, of_k = starts([q for q, _ in lengths]), starts([k for _, k in lengths])
    q = numbers((1, of_q[-1], 2, 4))
    k, v = numbers((1, of_k[-1], 2, 4), seed=1), numbers((1, of_k[-1], 2, 3), seed=2)
    longest = np.array(4, "int32")
    case = Case(AttentionVarLen(scale, *mask), [q, k, v, of_q, longest, of_k, longest], 1e-5)
    (found,) = case.expected()
    one = Attention(scale, *mask)
    for n in range(len(lengths)):
        at, there = slice(of_q[n], of_q[n + 1]), slice(of_k[n], of_k[n + 1])
        expected = one.numpy(q[:, at], k[:, there], v[:, there])
        np.testing.assert_allclose(found[:, at], expected, rtol=1e-5, atol=1e-6)
    case.check(case.run_loops())


def test_one_module_serves_all_lengths() -> None:
    @R.function
    def main(
        q: R.Tensor((1, "n", 2, 4), "float32"),
        k: R.Tensor((1, "n", 2, 4), "float32"),
        v: R.Tensor((1, "n", 2, 4), "float32"),
        s: R.Tensor(("b",), "int32"),
    ):
        with R.dataflow():
            out = R.nn.attention_var_len(q, k, v, s, R.const(9, "int32"), causal_mask="TopLeft")
            R.output(out)
        return out

    ex = mlcnb.compile(mlcnb.IRModule({"main": main}))
    for lengths in ([3, 1], [1, 2, 4], [5]):
        s = starts(lengths)
        q, k, v = (numbers((1, s[-1], 2, 4), seed=i) for i in range(3))
        expected = AttentionVarLen(None, "TopLeft").numpy(q, k, v, s)
        np.testing.assert_allclose(ex(q, k, v, s), expected, rtol=1e-5, atol=1e-6)


def test_against_torch() -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    lengths = [3, 1, 4]
    s = starts(lengths)
    q, k, v = (numbers((1, s[-1], 2, 4), seed=i) for i in range(3))
    found = AttentionVarLen(None, "TopLeft").numpy(q, k, v, s)
    for begin, end in zip(s[:-1], s[1:], strict=True):
        parts = (torch.tensor(x[:, begin:end]).transpose(1, 2) for x in (q, k, v))
        expected = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        np.testing.assert_allclose(
            found[:, begin:end], expected.transpose(1, 2).numpy(), rtol=1e-5, atol=1e-6
        )


def test_what_does_not_fit_is_refused() -> None:
    q, two = (Var("q", tensor_info([n, 4, 2, 8], "float32")) for n in (1, 2))
    s, f = Var("s", tensor_info([3], "int32")), Var("f", tensor_info([3], "float32"))
    longest = Var("m", tensor_info([], "int32"))
    for args, message in (
        ((q, q, q, f, longest), "seqstart_q must be of int32"),
        ((two, two, two, s, longest), "sequences are joined along the second axis"),
        ((q, q, q, longest, longest), "seqstart_q must have 1 dimension"),
    ):
        with pytest.raises(TypeInferError, match=message):
            infer(op.nn.attention_var_len(*args))
