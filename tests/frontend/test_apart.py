"""Large tensors that are read beside protobuf: the same model, whatever the bytes are."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.errors import ModelError
from mlcnb.relax.frontend.onnx import apart
from mlcnb.relax.frontend.onnx.apart import Apart, NotApart


def _model(large: int = 50) -> onnx.ModelProto:
    """Tensors in initializers, in an attribute, in a branch, and as floats."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((n, 4)).astype(np.float32) for n in (2, 6, large)]
    held = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    plain = helper.make_tensor("w3", TensorProto.FLOAT, [30], np.arange(30, dtype=np.float32))
    of_branch = numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), "v")
    constant = helper.make_node("Constant", [], ["c"], value=of_branch, name="c")
    float_2d = helper.make_tensor_value_info("b", TensorProto.FLOAT, [4, 4])
    branch = helper.make_graph([helper.make_node("Constant", [], ["b"], value=of_branch)], "g", [],
                               [float_2d])  # fmt: skip
    choice = helper.make_node("If", ["p"], ["y"], then_branch=branch, else_branch=branch)
    boolean = helper.make_tensor_value_info("p", TensorProto.BOOL, [])
    graph = helper.make_graph([constant, choice], "main", [boolean], [float_2d], [*held, plain])
    graph.output[0].name = "y"
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


DATA = _model().SerializeToString()


def _together(data: bytes) -> onnx.ModelProto:
    """A model that was taken apart, with every tensor's data put back."""
    parts = Apart(io.BytesIO(data), len(data))
    model = onnx.ModelProto.FromString(parts.message)
    _put_back(model, parts.held)
    return model


def _put_back(message, held) -> None:
    for field, value in message.ListFields():
        if field.name == "raw_data" and value in held:
            message.raw_data = held[value].tobytes()
        elif field.type == field.TYPE_MESSAGE:
            for one in value if hasattr(value, "append") else [value]:
                _put_back(one, held)


@pytest.fixture(autouse=True, scope="module")
def _small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apart, "LARGE", 40)
        yield


@pytest.fixture
def _large(monkeypatch):
    monkeypatch.setattr(apart, "LARGE", 1 << 16)


def test_all_large_tensors_are_apart():
    parts = Apart(io.BytesIO(DATA), len(DATA))
    assert sorted(len(a) for a in parts.held.values()) == [64, 64, 64, 96, 800]
    assert len(parts.message) <= len(DATA) - (64 * 3 + 96 + 800) + 5 * 32
    assert _together(DATA) == _model()


def test_files_and_bytes_alike(tmp_path):
    (tmp_path / "m.onnx").write_bytes(DATA)
    with open(tmp_path / "m.onnx", "rb") as file:
        parts = Apart(file, len(DATA))
    others = Apart(io.BytesIO(DATA), len(DATA))
    for one, other in zip(parts.held.values(), others.held.values(), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.ctypes.data % 64 == 0


@given(st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), max_size=4),
       st.integers(0, len(DATA)))  # fmt: skip
def test_damaged_bytes_mean_what_protobuf_says(changes, length):
    damaged = bytearray(DATA)
    for place, byte in changes:
        damaged[place] = byte
    data = bytes(damaged[: length or None])
    try:
        wanted = onnx.ModelProto.FromString(data)
    except DecodeError:
        wanted = None
    try:
        found = _together(data)
    except NotApart:  # protobuf gets them whole
        return
    except DecodeError:
        found = None
    same = found == wanted if None in (found, wanted) else _text(found) == _text(wanted)
    assert same


def _text(model) -> bytes:
    """What is compared of a model: NaN is not equal to itself."""
    return model.SerializeToString(deterministic=True)


def test_fields_that_come_twice_are_merged_as_protobuf_does():
    twice = DATA + DATA[2:] if DATA[0] == 0x08 else DATA + DATA
    assert _together(twice) == onnx.ModelProto.FromString(twice)


def test_the_model_does_not_change_with_its_file(tmp_path, _large):
    model = _model(5000)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    mod = mlc.from_onnx(path)
    before = mod.script(show_meta=True)
    path.write_bytes(b"")
    assert mod.script(show_meta=True) == before == mlc.from_onnx(model).script(show_meta=True)


def test_data_of_another_length_than_the_shape_are_refused(tmp_path):
    model = _model()
    model.graph.initializer[2].raw_data += b"more"
    with pytest.raises(ModelError, match="initializer 'w2' has 804 bytes of data, but"):
        mlc.from_onnx(model.SerializeToString())


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    path.write_bytes(DATA)
    read_all = apart._read_all

    def cut(file, spans):
        path.write_bytes(DATA[:100])
        return read_all(file, spans)

    monkeypatch.setattr(apart, "_read_all", cut)
    with pytest.raises(ModelError, match="m.onnx: no ONNX model"):
        mlc.from_onnx(path)


def test_an_executable_of_a_model_with_large_weights(tmp_path):
    w = np.random.default_rng(0).standard_normal((64, 300)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 300])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
              tmp_path / "m.onnx")  # fmt: skip
    ex = mlc.compile(mlc.from_onnx(tmp_path / "m.onnx"))
    given = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(ex(given), given @ w, rtol=1e-4, atol=1e-4)
