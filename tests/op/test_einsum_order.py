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


MATRICES = {
    "blhn,bshn->blsh": [(2, 12, 3, 16), (2, 9, 3, 16)],
    "lhn,shn->lsh": [(8, 5, 8), (8, 5, 8)],
    "klh,kmsh->mlsh": [(10, 8, 3), (10, 4, 2, 3)],
    "nh,nsh->sh": [(16, 3), (16, 9, 3)],
    "lhn,shn->lhs": [(8, 5, 8), (8, 5, 8)],
    "lhnq,shn->lsh": [(8, 5, 8, 2), (8, 5, 8)],
}


@pytest.mark.parametrize("text", ["blhn,bshn->blsh", "lhn,shn->lsh", "klh,kmsh->mlsh"])
def test_sums_that_end_with_a_letter_of_both_are_products_of_matrices(text):
    """As Mamba 2 has them, with its heads last: loops over them took 23 ms a layer."""
    shapes = MATRICES[text]
    mod = of(text, shapes)
    made = SimplifyOps()(mod).script()
    assert "R.matmul(" in made and "einsum" not in made
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    found = mlc.compile(mod)(*arrays)
    np.testing.assert_allclose(found, np.einsum(text, *arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("text", ["nh,nsh->sh", "lhn,shn->lhs", "lhnq,shn->lsh"])
def test_sums_that_are_none_stay(text):
    """Of one row; with rows or columns last; where one operand is summed up alone."""
    shapes = MATRICES[text]
    mod = of(text, shapes)
    assert "einsum" in SimplifyOps()(mod).script()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    found = mlc.compile(mod)(*arrays)
    np.testing.assert_allclose(found, np.einsum(text, *arrays), rtol=1e-4, atol=1e-4)


def test_sums_of_half_precision_and_of_open_sizes_stay():
    text, shapes = "lhn,shn->lsh", [(16, 5, 16), (16, 5, 16)]
    assert "einsum" in SimplifyOps()(of(text, shapes, "float16")).script()
    n = SizeVar("n", "int64")
    assert "einsum" in SimplifyOps()(of(text, [(n, 5, 16), (16, 5, 16)])).script()
