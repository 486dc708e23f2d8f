"""Operators on bytes that ONNX Runtime's quantizer writes, one by one beside ONNX Runtime.

Those that go through floats may be a step off where a mean lies between two bytes.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import mlcnb as mlc

onnxruntime = pytest.importorskip("onnxruntime")

SHAPE = [1, 3, 6, 7]
#: scales and zero points of two operands and the result
CONSTANTS = [
    *(helper.make_tensor(f"s{k}", TensorProto.FLOAT, [], [v]) for k, v in enumerate((0.02, 0.035))),
    *(helper.make_tensor(f"z{k}", TensorProto.UINT8, [], [v]) for k, v in enumerate((120, 97))),
    helper.make_tensor("sy", TensorProto.FLOAT, [], [0.05]),
    helper.make_tensor("zy", TensorProto.UINT8, [], [110]),
]


def model_of(operator: str, count: int, attributes: dict):
    operands = [name for k in range(count) for name in (f"x{k}", f"s{k}", f"z{k}")]
    result_first = operator == "QLinearConcat"
    inputs = ["sy", "zy", *operands] if result_first else [*operands, "sy", "zy"]
    node = helper.make_node(operator, inputs, ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(f"x{k}", TensorProto.UINT8, SHAPE) for k in range(count)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [c for c in CONSTANTS if c.name in inputs],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    "operator, count, attributes, steps",
    [
        ("QLinearAdd", 2, {}, 0),
        ("QLinearMul", 2, {}, 0),
        ("QLinearConcat", 2, {"axis": 1}, 0),
        ("QLinearSigmoid", 1, {}, 0),
        ("QLinearLeakyRelu", 1, {"alpha": 0.1}, 0),
        ("QLinearGlobalAveragePool", 1, {}, 0),
        ("QLinearAveragePool", 1, {"kernel_shape": [3, 3]}, 1),
        ("QLinearAveragePool", 1, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}, 1),
    ],
)
def test_an_operator_on_bytes(operator, count, attributes, steps):
    model = model_of(operator, count, attributes)
    rng = np.random.default_rng(0)
    given = {f"x{k}": rng.integers(0, 256, SHAPE).astype(np.uint8) for k in range(count)}
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = peer.run(None, given)
    found = np.asarray(mlc.compile(mlc.from_onnx(model), target="llvm")(*given.values()))
    off = np.abs(found.astype(int) - expected.astype(int))
    assert off.max() <= steps
    assert np.count_nonzero(off) <= 0.05 * off.size
