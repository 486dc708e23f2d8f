"""Branches whose results differ in rank: both are kept, or the one that what follows needs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, MLCError
from mlcnb.relax.frontend.onnx.choices import MOST, Choices
from tests.frontend.build import graph, ints, model, node


def squeezed(*after, outputs):
    """x: (n, h) without its last dimension where h is 1; then more nodes."""
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape last", "h"),
        node("Equal", "h one", "is_one"),
        helper.make_node("If", ["is_one"], ["z"], name="branch",
            then_branch=graph("", [node("Squeeze", "x axes", "a")], "a: float"),
            else_branch=graph("", [node("Identity", "x", "b")], "b: float")),
        *after,
    ]  # fmt: skip
    stored = {"last": np.int64(1), "one": np.int64(1), "axes": ints(1), "dims": ints(4, 2)}
    return model("x: float[n, h]", nodes, outputs, **stored)


def compared(proto, *shapes):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(proto.SerializeToString())
    ex = mlc.compile(mlc.from_onnx(proto))
    for shape in shapes:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        found = np.asarray(ex(x))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    return ex


WRONG = r"node 'branch' \(If\): size is h = 2, but has to be 1\n"


def test_both_are_kept_where_what_follows_takes_both():
    proto = squeezed(node("Relu", "z", "y"), outputs="y: float")
    compared(proto, (2, 1), (2, 3), (1, 1))


def test_of_unknown_rank_no_reshape_is_dropped():
    proto = squeezed(node("Unsqueeze", "z axes", "y"), outputs="y: float")
    compared(proto, (2, 1), (2, 3))


def test_the_one_that_fits_is_taken_and_its_condition_asked():
    after = (node("Expand", "z dims", "y"),)
    proto = squeezed(*after, outputs="y: float")
    ex = compared(proto, (2, 1))
    with pytest.raises(ExecutionError, match=WRONG):
        ex(np.ones((2, 2), np.float32))


def test_the_error_is_that_of_the_model_as_it_is():
    proto = squeezed(node("LSTM", "z z z", "y", hidden_size=1), outputs="y: float")
    with pytest.raises(MLCError) as caught:
        mlc.from_onnx(proto)
    assert "LSTM" in str(caught.value)


def test_all_combinations_are_tried_once_and_not_too_many():
    choices, met = Choices(), []
    while True:
        met.append((choices.next(), choices.next()))
        if not choices.another():
            break
    values = (None, True, False)
    assert met == [(a, b) for a in values for b in values]
    many = Choices()
    for _ in range(9):
        many.next()
    count = 1
    while many.another():
        count += 1
        for _ in range(9):
            many.next()
    assert count == MOST
