"""What ONNX operators of arithmetic, reduction and creation meant in older opsets; refusals."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from mlcnb.core.errors import MLCError, UnsupportedOpError
from tests.op.eager import run_node

F = np.float32


def f(*values) -> np.ndarray:
    return np.array(values, F)


MATRIX = np.arange(6, dtype=F).reshape(2, 3)
DEEP = np.arange(24, dtype=F).reshape(2, 3, 4)

MEANINGS = [
    # before opset 7 an attribute said how B lies in A
    ("Add", 6, {"broadcast": 1}, [MATRIX, f(1, 2, 3)], MATRIX + f(1, 2, 3)),
    ("Add", 6, {"broadcast": 1, "axis": 0}, [MATRIX, f(1, 2)], MATRIX + f(1, 2).reshape(2, 1)),
    ("Mul", 6, {"broadcast": 1, "axis": 1}, [DEEP, f(1, 2, 3)], DEEP * f(1, 2, 3).reshape(3, 1)),
    ("Pow", 1, {"broadcast": 1, "axis": -2}, [DEEP, f(2, 1, 0)], DEEP ** f(2, 1, 0).reshape(3, 1)),
    ("Greater", 1, {"broadcast": 1, "axis": 0}, [MATRIX, f(1, 3)], MATRIX > [[1], [3]]),
    # attributes that became inputs
    ("Clip", 6, {"min": 1.0, "max": 2.0}, [f(0, 1.5, 9)], f(1, 1.5, 2)),
    ("Clip", 6, {"max": 2.0}, [f(-9, 9)], f(-9, 2)),
    ("Clip", 6, {}, [f(-9, 9)], f(-9, 9)),
    ("Clip", 12, {}, [np.array([-9, 9], "int8"), None, np.array(3, "int8")],
     np.array([-9, 3], "int8")),
    ("Clip", 12, {}, [f(1, 5), f(4).reshape(()), f(2).reshape(())], f(2, 2)),
    ("ReduceSum", 11, {"axes": [1]}, [MATRIX], f(3, 12).reshape(2, 1)),
    ("ReduceSum", 11, {"axes": [-1], "keepdims": 0}, [MATRIX], f(3, 12)),
    ("ReduceSum", 13, {"noop_with_empty_axes": 1}, [MATRIX], MATRIX),
    ("ReduceSum", 13, {}, [MATRIX], f(15).reshape(1, 1)),
    ("ReduceL1", 18, {"keepdims": 0}, [f(-1, 2), np.array([0])], f(3).reshape(())),
    ("ReduceMean", 17, {"axes": [0, 1], "keepdims": 0}, [MATRIX], f(2.5).reshape(())),
    ("ReduceLogSumExp", 13, {"keepdims": 0}, [f(-np.inf, -np.inf)], f(-np.inf).reshape(())),
    ("ReduceLogSumExp", 13, {"keepdims": 0}, [f(np.inf, 1)], f(np.inf).reshape(())),
    ("TopK", 1, {"k": 2}, [f(3, 1, 2)], [f(3, 2), np.array([0, 2])]),
    ("TopK", 11, {"largest": 0}, [f(3, 1, 1), np.array([2])], [f(1, 1), np.array([1, 2])]),
    ("Cast", 1, {"to": "INT32"}, [f(2.9, -2.9)], np.array([2, -2], "int32")),
    ("Cast", 1, {"to": "FLOAT"}, [np.array([1])], f(1)),
    ("Cast", 13, {"to": 9}, [f(0, -0.0, np.nan, 0.1)], np.array([False, False, True, True])),
    ("Cast", 13, {"to": 2}, [np.array([200, -1, 300], "int16")],
     np.array([200, 255, 44], "uint8")),
    # dtypes that differ
    ("Pow", 13, {}, [f(2, 3, 4), np.array([2], "int64")], f(4, 9, 16)),
    ("Pow", 13, {}, [f(2, 3), np.array([5, -1], "int64")], f(32, 1 / 3)),
    ("Pow", 13, {}, [np.array([2, 3], "int32"), f(0.5, 2)], np.array([1, 9], "int32")),
    ("Pow", 13, {}, [np.array([2, 3], "int32"), np.array([3], "uint8")],
     np.array([8, 27], "int32")),
    ("Pow", 13, {}, [np.float32(2).reshape(()), np.array([[2.0]], F)], f(4).reshape(1, 1)),
    ("Div", 14, {}, [np.array([7, -7, 7], "int32"), np.array([2, 2, -2], "int32")],
     np.array([3, -3, -3], "int32")),
    ("Mod", 13, {}, [np.array([-7, 7]), np.array([3, -3])], np.array([2, -2])),
    ("Mod", 13, {"fmod": 1}, [np.array([-7, 7]), np.array([3, -3])], np.array([-1, 1])),
    # one input, and flags
    ("Max", 8, {}, [MATRIX], MATRIX),
    ("Mean", 8, {}, [f(1), f(2), f(6)], f(3)),
    ("IsInf", 10, {"detect_negative": 0}, [f(np.inf, -np.inf, np.nan)],
     np.array([True, False, False])),
    ("IsInf", 10, {"detect_positive": 0}, [f(np.inf, -np.inf)], np.array([False, True])),
    ("IsInf", 10, {"detect_negative": 0, "detect_positive": 0}, [f(np.inf, -np.inf)],
     np.array([False, False])),
    ("ArgMax", 12, {"select_last_index": 1, "keepdims": 0}, [f(3, 1, 3)], np.array(2)),
    ("CumSum", 11, {"reverse": 1, "exclusive": 1}, [f(1, 2, 3), np.array(0)], f(5, 3, 0)),
    ("Range", 11, {}, [np.int32(5), np.int32(0), np.int32(-2)], np.array([5, 3, 1], "int32")),
    ("ConstantOfShape", 9, {}, [np.array([2, 0])], np.zeros((2, 0), F)),
    ("ConstantOfShape", 9, {}, [np.array([], "int64")], np.zeros((), F)),
    ("HannWindow", 17, {"periodic": 0, "output_datatype": 11}, [np.array(3)],
     np.array([0.0, 1, 0])),
    ("Trilu", 14, {"upper": 0}, [np.ones((2, 2), bool), np.array(-1)],
     np.array([[False, False], [True, False]])),
    ("RandomUniform", 1, {"shape": [0]}, [], np.zeros(0, F)),
    ("QuantizeLinear", 10, {}, [f(1, 3, 5), f(2).reshape(())], np.array([0, 2, 2], "uint8")),
]  # fmt: skip


@pytest.mark.parametrize("case", MEANINGS, ids=lambda c: f"{c[0]}-{c[1]}-{c[2]}")
def test_meanings(case):
    op_type, opset, attrs, inputs, result = case
    wanted = result if isinstance(result, list) else [result]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(len(wanted))], **attrs)
    for got, want in zip(run_node(node, opset, inputs), wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=1e-6)


REFUSED = [
    ("BitShift", 11, {"direction": "UP"}, [np.uint8([1]), np.uint8([1])],
     "BitShift: direction 'UP' is neither LEFT nor RIGHT"),
    ("Range", 11, {}, [np.int64(0), np.int64(3), np.int64(0)], "Range: delta is 0"),
    ("TopK", 11, {}, [f(1, 2), np.array([0])],
     "TopK: k is 0: a result without elements is not supported"),
    ("Cast", 13, {"to": 8}, [f(1)], "Cast: dtype string is not supported"),
    ("Cast", 13, {"to": 99}, [f(1)], "Cast: attribute to is 99, which is no dtype"),
    ("Cast", 13, {"to": 14}, [f(1)], "Cast: dtype complex64 is not supported"),
    ("QuantizeLinear", 21, {"output_dtype": 3}, [f(1), f(1).reshape(()), np.uint8(0)],
     "QuantizeLinear: output_dtype is int8, but the zero point is uint8"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: f"{c[0]}: {c[4][:40]}")
def test_refusals(case):
    op_type, opset, attrs, inputs, message = case
    node = helper.make_node(op_type, [f"x{i}" for i in range(len(inputs))], ["y"], **attrs)
    with pytest.raises(UnsupportedOpError) as caught:
        run_node(node, opset, inputs)
    assert str(caught.value) == message


def test_division_by_zero_is_an_error():
    node = helper.make_node("Div", ["a", "b"], ["y"])
    with pytest.raises(MLCError) as caught:
        run_node(node, 14, [np.array([1]), np.array([0])])
    assert caught.value.message == "divide: an integer is divided by 0"


def test_random_numbers_are_the_same_in_every_run_and_others_for_other_nodes():
    one, two = (helper.make_node("RandomNormal", [], ["y"], name=n, shape=[4]) for n in "ab")
    first, again, other = run_node(one, 1, []), run_node(one, 1, []), run_node(two, 1, [])
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])


def test_draws_follow_their_probabilities():
    bernoulli = helper.make_node("Bernoulli", ["p"], ["y"], seed=1.0)
    (drawn,) = run_node(bernoulli, 15, [np.full(4000, 0.25, F)])
    assert abs(drawn.mean() - 0.25) < 0.03
    weights = np.log(np.array([[0.5, 0.25, 0.25]], F))
    multinomial = helper.make_node("Multinomial", ["x"], ["y"], sample_size=4000, seed=2.0)
    (classes,) = run_node(multinomial, 7, [weights])
    assert (classes.dtype, classes.shape) == (np.int32, (1, 4000))
    np.testing.assert_allclose(np.bincount(classes[0]) / 4000, [0.5, 0.25, 0.25], atol=0.03)
