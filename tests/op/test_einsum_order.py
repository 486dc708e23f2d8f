"""einsum of several operands: two at a time, in the order that multiplies least."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.ir.module import IRModule
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import tensor_info
from mlcnb.relax.transform import SimplifyOps
from mlcnb.tir import SizeVar

SIZES = dict(zip("abcde", (3, 5, 2, 7, 4), strict=True))


def of(text: str, shapes: list, kind: str = "float32") -> IRModule:
    params = [Var(f"x{i}", tensor_info(s, kind)) for i, s in enumerate(shapes)]
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(op.einsum(params, subscripts=text))
        bb.emit_func_output(out)
    return bb.get()


@st.composite
def sums(draw):
    """Subscripts of three to five operands, and the operands."""
    letters = st.text("abcde", min_size=1, max_size=3).map(lambda t: "".join(dict.fromkeys(t)))
    terms = draw(st.lists(letters, min_size=3, max_size=5))
    used = sorted(set("".join(terms)))
    result = "".join(draw(st.lists(st.sampled_from(used), unique=True, max_size=3)))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([SIZES[c] for c in t]).astype(np.float32) for t in terms]
    return f"{','.join(terms)}->{result}", arrays


@settings(max_examples=40, deadline=None)
@given(made=sums())
def test_any_sum_of_products(made):
    text, arrays = made
    found = mlc.compile(of(text, [a.shape for a in arrays]))(*arrays)
    wanted = np.einsum(text, *(a.astype(np.float64) for a in arrays))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [32, SizeVar("n", "int64")])
def test_a_chain_costs_what_its_products_cost(rows):
    mod = of("ij,jk,kl->il", [(rows, 64), (64, 48), (48, 32)])
    made = SimplifyOps()(mod).script()
    assert made.count("R.einsum(") == 2
    assert '"ij,jk->ik"' in made.replace("'", '"') or '"jk,kl->jl"' in made.replace("'", '"')


@pytest.mark.parametrize(
    "text, shapes, kind",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)], "float32"),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)], "float16"),
        ("...j,jk,kl->...l", [(2, 3, 4), (4, 5), (5, 6)], "float32"),
    ],
)
def test_what_stays(text, shapes, kind):
    mod = of(text, shapes, kind)
    assert SimplifyOps()(mod) is mod
