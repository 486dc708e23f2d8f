"""Col2Im of any windows, against the sum written out place by place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError
from tests.op.eager import run_node


@st.composite
def windows(draw):
    """(image, block, strides, dilations, pads before, after), with at least one place each."""
    rank = draw(st.integers(1, 3))
    number = lambda low, high: [draw(st.integers(low, high)) for _ in range(rank)]
    block, strides, dilations = number(1, 3), number(1, 3), number(1, 2)
    before, after = number(0, 2), number(0, 2)
    image = [
        max(1, (b - 1) * d + 1 - p - q) + draw(st.integers(0, 4))
        for b, d, p, q in zip(block, dilations, before, after, strict=True)
    ]
    return image, block, strides, dilations, before, after


def places_of(image, block, strides, dilations, before, after):
    each = zip(image, block, strides, dilations, before, after, strict=True)
    return [(n + p + q - (b - 1) * d - 1) // s + 1 for n, b, s, d, p, q in each]


def put_back(x, image, block, strides, dilations, before, after):
    """Element by element."""
    places = places_of(image, block, strides, dilations, before, after)
    x = x.reshape(x.shape[0], -1, *block, *places)
    out = np.zeros((*x.shape[:2], *image), np.float64)
    for k in np.ndindex(*block):
        for p in np.ndindex(*places):
            each = zip(p, k, strides, dilations, before, strict=True)
            at = tuple(i * s + j * d - pad for i, j, s, d, pad in each)
            if all(0 <= i < n for i, n in zip(at, image, strict=True)):
                out[(..., *at)] += x[(..., *k, *p)]
    return out


def node(strides, dilations, before, after):
    return helper.make_node(
        "Col2Im",
        ["x", "image", "block"],
        ["y"],
        strides=strides,
        dilations=dilations,
        pads=[*before, *after],
    )


@given(windows(), st.integers(1, 3), st.integers(0, 2**31))
def test_each_element_is_added_where_its_block_had_it(lay, channels, seed):
    image, block, *rest = lay
    places = places_of(*lay)
    shape = (2, channels * np.prod(block), np.prod(places))
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    (found,) = run_node(node(*rest), 18, [x, np.array(image), np.array(block)])
    np.testing.assert_allclose(found, put_back(x, *lay), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "lay",
    [
        ([9, 8], [3, 3], [1, 1], [1, 1], [1, 1], [1, 1]),
        ([9, 8], [3, 2], [2, 3], [1, 2], [0, 1], [2, 0]),
        ([11, 7], [2, 3], [2, 3], [1, 1], [1, 0], [0, 0]),  # side by side, some cut off
        ([5, 6, 4], [2, 1, 2], [1, 2, 1], [2, 1, 1], [0, 0, 1], [0, 0, 1]),
        ([5, 5], [2, 2], [2**40, 1], [1, 1], [0, 0], [0, 0]),  # one place: no stride
        ([5, 5], [3, 1], [1, 1], [2**40, 1], [2**40, 0], [2**40, 0]),  # in the padding but one
        ([2, 5], [1, 2], [9, 1], [1, 1], [1, 0], [0, 0]),  # all of it
    ],
    ids=str,
)
def test_compiled_it_is_no_convolution_with_zeros(lay):
    image, block, *rest = lay
    shape = (1, 4 * int(np.prod(block)), int(np.prod(places_of(*lay))))
    whole = [
        numpy_helper.from_array(np.array(v), k) for k, v in (("image", image), ("block", block))
    ]
    value = lambda name, dims: helper.make_tensor_value_info(name, 1, dims)
    graph = helper.make_graph(
        [node(*rest)], "g", [value("x", shape)], [value("y", (1, 4, *image))], whole
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    mod = mlc.from_onnx(model)
    np.testing.assert_allclose(mlc.compile(mod)(x), put_back(x, *lay), rtol=1e-5, atol=1e-5)
    assert "conv" not in mod.script()


def test_columns_that_are_no_blocks_are_refused():
    with pytest.raises(UnsupportedOpError, match="Col2Im.*7 columns"):
        x = np.zeros((1, 7, 4), np.float32)
        run_node(node([1, 1], [1, 1], [0, 0], [0, 0]), 18, [x, np.array([3, 3]), np.array([2, 2])])
