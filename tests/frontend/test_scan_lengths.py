"""Scan in the form of opset 8: a scan for each sample, each of its own length."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.errors import MLCError, UnsupportedOpError
from mlcnb.observe.peers import onnxruntime_session

F, I = TensorProto.FLOAT, TensorProto.INT64


def scanning(lengths=None, steps=5, **attributes):
    """Sums of prefixes of (2, steps, 3); lengths are a constant, or an input."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Neg", ["t"], ["y"])],
        "body",
        [info("s", F, [3]), info("x", F, [3])],
        [info("t", F, [3]), info("y", F, [3])],
    )
    scan = helper.make_node(
        "Scan", ["n", "first", "xs"], ["last", "ys"], body=body, num_scan_inputs=1, **attributes
    )
    given = [info("first", F, [2, 3]), info("xs", F, [2, steps, 3])]
    stored = [] if lengths is None else [numpy_helper.from_array(np.array(lengths), "n")]
    graph = helper.make_graph(
        [scan],
        "sums",
        [*given, *([info("n", I, [2])] if lengths is None else [])],
        [info("last", F, [2, 3]), info("ys", F, [2, steps, 3])],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)


def arrays():
    rng = np.random.default_rng(0)
    return [rng.random(s, dtype=np.float32) for s in ((2, 3), (2, 5, 3))]


def same(model, ex, *inputs):
    session = onnxruntime_session(model.SerializeToString(), 1)
    names = [i.name for i in session.get_inputs()]
    wanted = session.run(None, dict(zip(names, inputs, strict=True)))
    for a, b in zip(ex(*inputs), wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("lengths", [(5, 5), (2, 5), (4, 1)])
def test_lengths_that_are_known(lengths):
    model = scanning(lengths)
    same(model, mlc.compile(mlc.from_onnx(model)), *arrays())


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_lengths_that_a_run_tells(target):
    model = scanning()
    ex = mlc.compile(mlc.from_onnx(model), target=target)
    for lengths in ((5, 5), (2, 4), (1, 3)):
        same(model, ex, *arrays(), np.array(lengths))
    for lengths in ((6, 5), (2, -1)):
        with pytest.raises(MLCError):
            ex(*arrays(), np.array(lengths))


def test_what_is_refused():
    with pytest.raises(UnsupportedOpError, match="a sequence of length 6, of 5 slices"):
        mlc.from_onnx(scanning((6, 5)))
    with pytest.raises(UnsupportedOpError, match="different lengths that are read from their end"):
        mlc.from_onnx(scanning((2, 5), directions=[1]))
