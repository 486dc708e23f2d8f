"""Inputs that are sequences or optional: tuples of tensors whose shapes the caller gives."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedError
from mlcnb.onnx_backend import prepare
from tests.frontend.build import model, node


def with_input(kind, nodes, outputs):
    """A model whose input x is a sequence of floats, or an optional float tensor."""
    proto = model("", nodes, outputs, opset=17)
    tensor = helper.make_tensor_type_proto(1, None)
    made = (
        helper.make_sequence_type_proto if kind == "sequence" else helper.make_optional_type_proto
    )
    proto.graph.input.append(helper.make_value_info("x", made(tensor)))
    return proto


def test_a_sequence_is_a_tuple():
    joined = node("ConcatFromSequence", "x", "y", axis=0)
    proto = with_input("sequence", [joined], "y: float[n, 2]")
    mod = mlc.from_onnx(proto, shape={"x": [(2, 2), ("n", 2)]})
    first, second = mod["main"].params[0].struct_info.fields
    assert [d.value for d in first.dims] == [2, 2]
    assert second.dims[0].name == "n"
    parts = (np.ones((2, 2), "float32"), np.zeros((3, 2), "float32"))
    np.testing.assert_array_equal(np.asarray(mlc.compile(mod)(parts)), np.concatenate(parts))
    np.testing.assert_array_equal(prepare(proto).run([list(parts)])[0], np.concatenate(parts))


def test_a_sequence_of_unknown_length_is_refused():
    proto = with_input("sequence", [node("SequenceLength", "x", "y")], "y: int64[]")
    with pytest.raises(UnsupportedError) as caught:
        mlc.from_onnx(proto)
    assert str(caught.value) == (
        "the model: input 'x' is a sequence, whose length is not known\n"
        'hint: shape={"x": [(2, 3), (4, 3)]}: a list of shapes, one a tensor'
    )


def test_an_optional_input_is_there_or_not():
    proto = with_input("optional", [node("OptionalHasElement", "x", "y")], "y: bool[]")
    assert prepare(proto).run([None])[0] == np.array(False)
    assert prepare(proto).run([np.ones(2, "float32")])[0] == np.array(True)
    proto = with_input("optional", [node("OptionalGetElement", "x", "y", name="get")], "y: float")
    np.testing.assert_array_equal(prepare(proto).run([np.ones(2, "float32")])[0], [1, 1])
    with pytest.raises(mlc.MLCError, match=r"'get' \(OptionalGetElement.*: there is no element"):
        mlc.from_onnx(proto, freeze={"x": None})
