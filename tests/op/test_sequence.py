"""ONNX sequences, through their spellings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op import load_all
from mlcnb.op.onnx import spelling
from mlcnb.relax.expr import Tuple
from tests.op.eager import EagerNode, _constant, evaluate

A, B, C = (np.full(2, v, np.float32) for v in (1, 2, 3))


def run(op_type: str, *inputs: Any, **attrs: Any) -> Any:
    load_all()
    node = helper.make_node(op_type, [f"x{i}" for i in range(len(inputs))], ["y"], **attrs)
    args = [None if a is None else _constant(a) for a in inputs]
    return evaluate(spelling("", op_type, 17)(EagerNode(node, 17), *args))


def same(found: Any, wanted: Any) -> None:
    assert len(found) == len(wanted)
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, two)


def at(i: int) -> np.ndarray:
    return np.array(i)


def test_sequences_are_taken_apart_and_put_together():
    same(run("SequenceEmpty"), [])
    same(run("SequenceConstruct", A, B), [A, B])
    same(run("SequenceInsert", [A, B], C), [A, B, C])
    same(run("SequenceInsert", [A, B], C, at(-1)), [A, C, B])
    same(run("SequenceInsert", [A, B], C, at(2)), [A, B, C])
    same(run("SequenceErase", [A, B, C]), [A, B])
    same(run("SequenceErase", [A, B, C], at(0)), [B, C])
    np.testing.assert_array_equal(run("SequenceAt", [A, B], at(-1)), B)
    assert run("SequenceLength", [A, B]) == 2


def test_concatenation_and_stacking():
    same([run("ConcatFromSequence", [A, B], axis=0)], [np.concatenate([A, B])])
    same([run("ConcatFromSequence", [A, B], axis=1, new_axis=1)], [np.stack([A, B], 1)])


def test_splits():
    x = np.arange(5.0)
    same(run("SplitToSequence", x, at(2)), [x[:2], x[2:4], x[4:]])
    same(run("SplitToSequence", x, np.array([1, 4])), [x[:1], x[1:]])
    same(run("SplitToSequence", x), [x[i : i + 1] for i in range(5)])
    same(run("SplitToSequence", x, keepdims=0), [x[i] for i in range(5)])


def test_a_position_outside_is_refused():
    with pytest.raises(UnsupportedOpError) as caught:
        run("SequenceAt", [A, B], at(2))
    assert str(caught.value) == "SequenceAt: position 2 is outside of a sequence of 2"
    assert isinstance(_constant([A]), Tuple)
