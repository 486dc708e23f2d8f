"""RNN, GRU and LSTM of ONNX: the numbers of onnxruntime, and one kernel for each direction."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from tests.frontend.build import model, node

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(op, seq="t", batch=2, hidden=3, directions=1, opset=17, **attributes):
    rng = np.random.default_rng(1)
    draw = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)
    wide = GATES[op] * hidden
    stored = {"w": draw(directions, wide, 4), "r": draw(directions, wide, hidden),
              "b": draw(directions, 2 * wide), "h": draw(directions, 2, hidden)}  # fmt: skip
    outs, inputs = "y yh", "x w r b - h"
    kinds = "y: float; yh: float"
    if op == "LSTM":
        stored |= {"c": draw(directions, 2, hidden), "p": draw(directions, 3 * hidden)}
        outs, inputs, kinds = "y yh yc", "x w r b - h c p", f"{kinds}; yc: float"
    made = node(op, inputs, outs, hidden_size=hidden, **attributes)
    return model(f"x: float[{seq}, {batch}, 4]", [made], kinds, opset=opset, **stored)


def check(proto, *sizes):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(proto.SerializeToString())
    ex = mlc.compile(mlc.from_onnx(proto))
    for size in sizes:
        x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        for ours, theirs in zip(ex(x), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-5, strict=True)


@pytest.mark.parametrize("op", GATES)
def test_any_number_of_steps(op):
    check(layer(op), (5, 2, 4), (1, 2, 4))


def test_both_ways_with_other_activations():
    names = ["HardSigmoid", "Softsign", "Relu"] * 2
    check(layer("LSTM", directions=2, direction="bidirectional", activations=names, clip=1.0),
          (4, 2, 4))  # fmt: skip


def test_backwards_and_reset_late():
    check(layer("GRU", direction="reverse", linear_before_reset=1), (4, 2, 4))


def test_a_layer_is_one_call():
    mod = mlc.from_onnx(layer("LSTM"))
    names = [b.value.op.name for b in mod["main"].body.bindings if hasattr(b.value, "op")]
    assert names.count("relax.nn.lstm") == 1
    assert [str(d) for d in mod["main"].body.bindings[0].var.struct_info.dims][1:] == [
        "T.int64(2)",
        "T.int64(12)",
    ]
    x = np.zeros((3, 2, 4), np.float32)
    assert [np.asarray(y).shape for y in mlc.compile(mod)(x)] == [
        (3, 1, 2, 3),
        (1, 2, 3),
        (1, 2, 3),
    ]


def test_an_activation_that_is_not_known_is_refused():
    with pytest.raises(mlc.MLCError) as caught:
        mlc.from_onnx(layer("RNN", activations=["Cosine"]))
    assert str(caught.value) == (
        "the model: node 'y' (RNN, opset 17): no activation 'Cosine'\nhint: one of Sigmoid, Tanh, "
        "Relu, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign, Softplus"
    )
