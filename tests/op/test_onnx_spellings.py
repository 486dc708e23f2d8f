"""ONNX spellings against ONNX's own test cases: the NumPy meaning of what they import to."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op import load_all
from mlcnb.op.onnx import spellings
from tests.op.eager import run_node

#: operators whose spellings stand in manipulate, indexing, linear_algebra, nn, image and shape
OPERATORS = """
    AffineGrid Attention AveragePool BatchNormalization CausalConvWithState Celu CenterCropPad
    Col2Im Compress Concat Conv ConvInteger ConvTranspose DepthToSpace Dropout Einsum Elu Expand
    Flatten Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool GridSample
    GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN
    LayerNormalization LeakyRelu LogSoftmax LpNormalization LpPool MatMul MatMulInteger MaxPool
    MaxUnpool MeanVarianceNormalization Mish NegativeLogLikelihoodLoss OneHot PRelu Pad
    QLinearConv QLinearMatMul RMSNormalization Relu Reshape Resize ReverseSequence
    RotaryEmbedding Scatter ScatterElements ScatterND Selu Shape Shrink Size Slice Softmax
    SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Squeeze SwiGLU Swish
    TensorScatter ThresholdedRelu Tile Transpose Unsqueeze Upsample
""".split()

#: those of arithmetic, comparisons, reductions, scans, sorting, creation, casts, quantisation
OPERATORS += """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Clip ConstantOfShape Cos Cosh
    CumProd CumSum DequantizeLinear Div DynamicQuantizeLinear Equal Erf Exp EyeLike Floor Greater
    GreaterOrEqual HammingWindow HannWindow IsInf IsNaN Less LessOrEqual Log Max Mean
    MelWeightMatrix Min Mod Mul Neg NonZero Not Or Pow QuantizeLinear Range Reciprocal ReduceL1
    ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Round Sigmoid Sign Sin Sinh Sqrt Sub Sum Tan Tanh TopK Trilu Unique Where Xor
""".split()

#: cases of strings, which no tensor of ours holds
STRINGS = ("test_equal_string", "test_equal_string_broadcast")

#: what is refused, and what the refusal says
REFUSED = {
    r"test_training_dropout(_default)?(_mask)?$": "Dropout: training_mode is random",
    r"test_cast_e8m0_.*_to_FLOAT8E8M0$": "Cast: conversion to float8_e8m0fnu is not supported",
}

#: half precision is rounded in other places than ONNX's reference rounds it
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2}


def _array(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else x


@cache
def cases() -> dict[str, Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX overflows on purpose while it makes its cases
        collected = collect_testcases(None)
    found = {}
    for case in collected:
        nodes = case.model.graph.node
        if len(nodes) != 1 or case.name in STRINGS:
            continue
        if nodes[0].op_type in OPERATORS and not nodes[0].domain:
            found[case.name] = case
    return found


def _opset(case: Any) -> int:
    return next(o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx"))


def test_every_operator_has_cases():
    tried = {case.model.graph.node[0].op_type for case in cases().values()}
    assert set(OPERATORS) - tried == set()


@pytest.mark.parametrize("op_type", OPERATORS)
def test_the_cases_of_onnx(op_type):
    for name, case in cases().items():
        node = case.model.graph.node[0]
        if node.op_type == op_type:
            for inputs, outputs in case.data_sets:
                _run(name, case, node, [_array(x) for x in inputs], [_array(x) for x in outputs])


def _run(name: str, case: Any, node: Any, inputs: list[Any], outputs: list[Any]) -> None:
    by_name = dict(zip([i.name for i in case.model.graph.input], inputs, strict=True))
    args = [by_name.get(i) if i else None for i in node.input]
    why = next((w for pattern, w in REFUSED.items() if re.match(pattern, name)), None)
    if why is not None:
        with pytest.raises(UnsupportedOpError, match=re.escape(why)):
            run_node(node, _opset(case), args)
        return
    found = run_node(node, _opset(case), args)
    for got, want in zip(found, outputs, strict=True):
        want = np.asarray(want)
        assert (name, got.shape, got.dtype) == (name, want.shape, want.dtype)
        rtol = TOLERANCE.get(want.dtype.name, 1e-3)
        one, two = (a.astype(np.float64) for a in (got, want))
        np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol / 100, err_msg=name)


#: attributes that later opsets turned into inputs: operator, opset, attributes, inputs, result
OLD = [
    ("Squeeze", 11, {"axes": [0]}, [np.ones((1, 2, 1))], np.ones((2, 1))),
    ("Unsqueeze", 11, {"axes": [0, 2]}, [np.ones(2)], np.ones((1, 2, 1))),
    (
        "Split",
        11,
        {"split": [1, 2], "axis": 0},
        [np.arange(3.0)],
        [np.zeros(1), np.array([1.0, 2])],
    ),
    ("Slice", 9, {"starts": [1], "ends": [9]}, [np.arange(3.0)], np.array([1.0, 2])),
    ("Slice", 9, {"starts": [-2], "ends": [-1], "axes": [0]}, [np.arange(3.0)], np.array([1.0])),
    ("Pad", 10, {"pads": [1, 0], "value": 7.0}, [np.zeros(1)], np.array([7.0, 0])),
    ("Pad", 1, {"paddings": [1, 0]}, [np.ones(1)], np.array([0.0, 1])),
    ("Reshape", 1, {"shape": [0, -1]}, [np.ones((2, 3, 4))], np.ones((2, 12))),
    ("Upsample", 7, {"scales": [1.0, 2.0]}, [np.array([[1.0, 2]])], np.array([[1.0, 1, 2, 2]])),
    ("Dropout", 6, {"is_test": 1}, [np.ones(2)], np.ones(2)),
    ("Softmax", 9, {"axis": 1}, [np.zeros((1, 2, 2))], np.full((1, 2, 2), 0.25)),
    ("Concat", 1, {}, [np.zeros((1, 1)), np.ones((1, 1))], np.array([[0.0, 1]])),
]


@pytest.mark.parametrize("old", OLD, ids=lambda o: f"{o[0]}-{o[1]}")
def test_old_opsets(old):
    op_type, opset, attrs, inputs, result = old
    wanted = result if isinstance(result, list) else [result]
    names = [f"y{i}" for i in range(len(wanted))]
    node = helper.make_node(op_type, [f"x{i}" for i in range(len(inputs))], names, **attrs)
    for got, want in zip(run_node(node, opset, inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


REFUSALS = [
    ("Reshape", 13, {}, [np.ones(6), np.array([4, -1])],
     "Reshape: (6,) does not fit into (4, -1)"),
    ("Gather", 13, {}, [np.ones(3), np.array([3])],
     "Gather: indices[0] is 3, outside of -3 to 2"),
    ("Gather", 13, {"axis": 1}, [np.ones(3), np.array([0])], "Gather: axis 1 is outside of (3,)"),
    ("Expand", 13, {}, [np.ones(3), np.array([2])], "Expand: (3,) does not broadcast with (2,)"),
    ("Conv", 11, {}, [np.ones((1, 1, 2, 2, 2, 2)), np.ones((1,) * 6)],
     "Conv: a convolution over 4 spatial dimensions\nhint: 1 to 3 are there"),
    ("Resize", 13, {}, [np.ones(3), None, None, None],
     "Resize: neither scales nor sizes are given"),
    ("Gemm", 13, {"alpha": 0.5}, [np.ones((1, 1), "int32"), np.ones((1, 1), "int32")],
     "Gemm: alpha 0.5 and beta 1.0 are no whole numbers, but A is int32"),
    ("Slice", 13, {}, [np.ones(3), np.array([0]), np.array([1]), np.array([0]), np.array([0])],
     "Slice: a step is 0"),
    ("Tile", 13, {}, [np.ones((2, 3)), np.array([2])],
     "Tile: repeats (2,) are not one number for each dimension of (2, 3)"),
    ("OneHot", 13, {"axis": 2}, [np.array([0, 1]), np.array(3), np.array([0.0, 1.0])],
     "OneHot: axis 2 is outside of (2, 3)"),
    ("LayerNormalization", 17, {"axis": 3}, [np.ones((2, 3, 4), "float32"), np.ones(4, "float32")],
     "LayerNormalization: axis 3 is outside of (2, 3, 4)"),
    ("RMSNormalization", 23, {"axis": -4}, [np.ones((2, 3, 4), "float32"), np.ones(4, "float32")],
     "RMSNormalization: axis -4 is outside of (2, 3, 4)"),
    ("Pad", 18, {}, [np.ones((2, 3)), np.array([1, 1]), np.array(0.0), np.array([2**62])],
     "Pad: axis 4611686018427387904 is outside of (2, 3)"),
    ("Pad", 18, {}, [np.ones((2, 3)), np.ones(4, "int64"), np.array(0.0), np.array([1, -1])],
     "Pad: axes (1, -1) name a dimension twice"),
    ("Resize", 19, {"axes": [3]}, [np.ones((2, 3, 4)), None, None, np.array([7])],
     "Resize: axis 3 is outside of (2, 3, 4)"),
    ("CenterCropPad", 18, {"axes": [0, 0]}, [np.ones((2, 3)), np.array([1, 1])],
     "CenterCropPad: axes (0, 0) name a dimension twice"),
    ("CenterCropPad", 18, {}, [np.ones((2, 3)), np.array([1])],
     "CenterCropPad: shape (1,) has no number for each of the axes (0, 1)"),
    ("TensorScatter", 24, {"axis": 3}, [np.ones((2, 3, 4)), np.ones((2, 1, 4)), np.array([0, 0])],
     "TensorScatter: axis 3 is outside of (2, 3, 4)"),
    ("SplitToSequence", 11, {"axis": 2}, [np.ones((2, 3)), np.array(1)],
     "SplitToSequence: axis 2 is outside of (2, 3)"),
    ("Softmax", 11, {"axis": 2}, [np.ones((2, 3))], "Softmax: axis 2 is outside of 2 dimensions"),
    ("Conv", 11, {"pads": [0, -1]}, [np.ones((1, 1, 4)), np.ones((1, 1, 2))],
     "Conv: negative pads (0, -1)\nhint: ONNX has 0 or more; a Pad node may cut"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS, ids=lambda c: c[0])
def test_refusals(case):
    op_type, opset, attrs, inputs, message = case
    node = helper.make_node(op_type, [f"x{i}" for i in range(len(inputs))], ["y"], **attrs)
    with pytest.raises(UnsupportedOpError) as caught:
        run_node(node, opset, inputs)
    assert str(caught.value) == message


def test_constant_negative_indices_of_gather_are_settled():
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    (found,) = run_node(node, 13, [np.arange(4.0), np.array([-1, 0, -4])])
    np.testing.assert_array_equal(found, [3, 0, 0])


def test_spellings_begin_where_the_operators_do():
    load_all()
    for (domain, op_type), since in spellings().items():
        if domain == "" and onnx.defs.has(op_type):
            assert since[0] <= onnx.defs.get_schema(op_type).since_version
