"""MatMulInteger and QLinearMatMul of matrices that are given: exact, and by sums of four bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import mlcnb as mlc

KINDS = st.sampled_from(["uint8", "int8"])


def drawn(seed: int, kind: str, *shape: int) -> np.ndarray:
    ends = np.iinfo(kind)
    return np.random.default_rng(seed).integers(ends.min, ends.max, shape, kind, endpoint=True)


def module(constants: dict[str, np.ndarray], **given_ones: np.ndarray) -> Any:
    """A product of a and b, with zero points p and q where there are some."""
    names = {**given_ones, **constants}
    node = helper.make_node("MatMulInteger", [n if n in names else "" for n in "abpq"], ["y"])
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given_ones.items()
    ]
    stored = [tensor(n, x) for n, x in constants.items()]
    output = helper.make_tensor_value_info("y", 6, None)
    return mlc.from_onnx(
        helper.make_model(
            helper.make_graph([node], "g", inputs, [output], stored),
            opset_imports=[helper.make_opsetid("", 17)],
        )
    )


def tensor(name: str, x: np.ndarray) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    return helper.make_tensor(name, kind, x.shape, x.tobytes(), raw=True)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 19), st.integers(1, 37)),
    batch=st.sampled_from([(), (3,), (2, 1)]), kinds=st.tuples(KINDS, KINDS),
    points=st.sampled_from(["", "p", "q", "pq"]), known=st.sampled_from(["", "b", "bq", "q", "pq"]),
    each=st.booleans(), own=st.booleans(),
)  # fmt: skip
def test_products_are_exact(sizes, batch, kinds, points, known, each, own):
    m, k, n = sizes
    a = drawn(1, kinds[0], *batch, m, k)
    b = drawn(2, kinds[1], *(batch if own else ()), k, n)
    shapes = {"p": (m,) if each else (), "q": (n,) if each else ()}
    zeros = {c: drawn(3, kinds["pq".index(c)], *shapes[c]) for c in points}
    p, q = (zeros.get(c, np.zeros((), np.int8)).astype(np.int64) for c in "pq")
    wanted = (a - (p[:, None] if p.ndim else p)) @ (b - q)
    everything = {"a": a, "b": b, **zeros}
    constants = {c: x for c, x in everything.items() if c in known}
    given_ones = {c: x for c, x in everything.items() if c not in known}
    found = mlc.compile(module(constants, **given_ones), "llvm")(*given_ones.values())
    np.testing.assert_array_equal(found, wanted.astype(np.int32))


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_given_matrices_are_packed_when_it_runs(kinds, batch):
    """By an instruction that sums four products; what brings them together looks nothing up."""
    a, b = drawn(1, kinds[0], *batch, 9, 39), drawn(2, kinds[1], *batch, 39, 50)
    ex = mlc.compile(module({}, a=a, b=b), "llvm -mcpu=icelake-server")
    texts = {n: kernel.asm for n, kernel in ex.kernels.items()}
    assert any(re.search(r"\bvpdpbusd\b", x) for x in texts.values())
    (packing,) = (x for n, x in texts.items() if "layout_transform" in n)
    assert not re.search(r"\bvp?gather|\bpinsrb|\bvpinsrb", packing)


def test_a_depth_of_no_fours_is_filled_up():
    a, b = drawn(1, "uint8", 9, 39), drawn(2, "int8", 39, 50)
    ex = mlc.compile(module({"b": b}, a=a), "llvm -mcpu=icelake-server")
    assert any(re.search(r"\bvpdpbusd\b", kernel.asm) for kernel in ex.kernels.values())
