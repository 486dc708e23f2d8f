"""MatMulInteger and QLinearMatMul of matrices that are given: exact, and by sums of four bytes."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError

KINDS = st.sampled_from(["uint8", "int8"])


def drawn(seed: int, kind: str, *shape: int) -> np.ndarray:
    ends = np.iinfo(kind)
    return np.random.default_rng(seed).integers(ends.min, ends.max, shape, kind, endpoint=True)


#: names of the last sizes where they are open, of products of one number of dimensions
OPEN = {"a": ("d1", "d0", "m", "k"), "b": ("d1", "d0", "k", "n"), "p": ("m",), "q": ("n",)}


def module(constants: dict[str, np.ndarray], is_open: bool = False, **given_ones: Any) -> Any:
    """A product of a and b, with zero points p and q where there are some; of open sizes where
    they are of no constant."""
    names = {**given_ones, **constants}
    node = helper.make_node("MatMulInteger", [n if n in names else "" for n in "abpq"], ["y"])
    inputs = [
        helper.make_tensor_value_info(
            n,
            helper.np_dtype_to_tensor_dtype(x.dtype),
            OPEN[n][len(OPEN[n]) - x.ndim :] if is_open else x.shape,
        )
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
    each=st.booleans(), own=st.booleans(), is_open=st.booleans(),
)  # fmt: skip
def test_products_are_exact(sizes, batch, kinds, points, known, each, own, is_open):
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
    ex = mlc.compile(module(constants, is_open, **given_ones), "llvm")
    found = ex(*given_ones.values())
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


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "uint8")])
def test_open_sizes_are_packed_when_it_runs(kinds, batch):
    """They were products of int32, six times as long."""
    a, b = drawn(1, kinds[0], *batch, 9, 39), drawn(2, kinds[1], *batch, 39, 50)
    ex = mlc.compile(module({}, True, a=a, b=b), "llvm -mcpu=icelake-server")
    texts = {n: kernel.asm for n, kernel in ex.kernels.items()}
    assert any(re.search(r"\bvpdpbusd\b", x) for x in texts.values())
    (packing,) = (x for n, x in texts.items() if n.endswith("layout_transform_layout_transform"))
    assert not re.search(r"\bvp?gather|\bpinsrb|\bvpinsrb", packing)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 64, 128), (5, 3, 65), (11, 130, 31), (33, 9, 64)])
def test_one_program_of_open_sizes_takes_all(sizes):
    m, k, n = sizes
    a, b = drawn(1, "int8", 2, m, k), drawn(2, "uint8", 2, k, n)
    p, q = np.int8(-7), np.uint8(200)
    ex = of_open_sizes()
    wanted = (a.astype(np.int32) + 7) @ (b.astype(np.int32) - 200)
    np.testing.assert_array_equal(ex(a, b, np.array(p), np.array(q)), wanted)


@functools.cache
def of_open_sizes() -> Any:
    a, b = np.zeros((2, 1, 1), np.int8), np.zeros((2, 1, 1), np.uint8)
    return mlc.compile(module({}, True, a=a, b=b, p=np.int8([0])[0], q=np.uint8([0])[0]), "llvm")


def test_depths_that_differ_are_refused():
    """Both are filled up to eight, and would fit."""
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    inputs = [
        helper.make_tensor_value_info("a", 2, ("m", "k")),
        helper.make_tensor_value_info("b", 3, ("l", "n")),
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 6, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    ex = mlc.compile(mlc.from_onnx(model), "llvm")
    with pytest.raises(ExecutionError, match="b_dim0 is l = 7, but has to be k = 5"):
        ex(drawn(1, "uint8", 2, 5), drawn(2, "int8", 7, 3))


def test_open_rows_read_a_constant_matrix_in_tiles():
    """Row by row it was read for each of them: 268 us of 128 x 768 by 768 x 768, now 145."""
    a, b = drawn(1, "uint8", 9, 64), drawn(2, "int8", 64, 256)
    ex = mlc.compile(module({"b": b}, True, a=a), "llvm -mcpu=icelake-server")
    (product,) = (k.asm for n, k in ex.kernels.items() if "matmul" in n)
    assert len(re.findall(r"\bvpdpbusd\b", product)) > 20
    for rows in (1, 2, 4, 5, 6, 9, 32):
        x = drawn(rows, "uint8", rows, 64)
        host = mlc.compile(module({"b": b}, True, a=a), "llvm")
        np.testing.assert_array_equal(host(x), x.astype(np.int32) @ b.astype(np.int32))
