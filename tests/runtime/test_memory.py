"""How many bytes a model takes: its weights once, and what lies between its kernels.

Bytes are counted by tracemalloc, which sees every array of NumPy's.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.node import walk
from mlcnb.ir import memory
from mlcnb.ir.memory import is_aligned
from mlcnb.relax.expr import Constant

CHANNELS, ROWS = 160, 1024
#: bytes of the weights: a table, two convolutions of 3 x 3, a matrix
TABLE, CONVS, MATRIX = ROWS * CHANNELS * 4, 2 * 9 * CHANNELS**2 * 4, CHANNELS * ROWS * 4
WEIGHTS = TABLE + CONVS + MATRIX
#: bytes that small things may take: text, nodes, modules that are imported
SLACK = 500_000


def model() -> bytes:
    """Rows of a table, two convolutions with batch norms, a product: each kind of weight once."""
    rng = np.random.default_rng(0)
    weights = {
        "table": rng.standard_normal((ROWS, CHANNELS)),
        "w0": rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 30,
        "w1": rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 30,
        "fc": rng.standard_normal((CHANNELS, ROWS)),
        **{
            n: np.abs(rng.standard_normal(CHANNELS)) + 0.5 for n in ("gamma", "beta", "mean", "var")
        },
    }
    stored = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    stored.append(numpy_helper.from_array(np.array([1, CHANNELS, 4, 4]), "image"))
    norm = ["gamma", "beta", "mean", "var"]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], axis=0),
        helper.make_node("Transpose", ["rows"], ["columns"], perm=[1, 0]),
        helper.make_node("Reshape", ["columns", "image"], ["x"]),
        helper.make_node("Conv", ["x", "w0"], ["c0"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c0", *norm], ["n0"]),
        helper.make_node("Relu", ["n0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["c1"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "fc"], ["y"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [16])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, ROWS])
    graph = helper.make_graph(nodes, "g", [ids], [out], stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(proto.SerializeToString())


IDS = np.arange(16, dtype=np.int64)


@pytest.fixture
def traced(monkeypatch) -> Iterator[Any]:
    """The bytes that are held now, after what is imported and made once has been.

    Weights are NumPy's own here: pages of their own are not seen by tracemalloc.
    """
    monkeypatch.setattr(memory, "MAPPED", 1 << 40)
    mlc.compile(mlc.from_onnx(model()))(IDS)
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()


def constants(ex: Any) -> list[np.ndarray]:
    found = (n.data for f in ex.mod.functions.values() for n in walk(f) if isinstance(n, Constant))
    return list({id(array): array for array in found}.values())


def test_an_executable_holds_its_weights_once(traced):
    data = model()
    before = traced()
    ex = mlc.compile(mlc.from_onnx(data))
    ex(IDS)
    assert sum(array.nbytes for array in constants(ex)) < WEIGHTS + SLACK
    assert WEIGHTS < traced() - before < WEIGHTS + SLACK


def test_kernels_read_the_constants_of_the_module():
    ex = mlc.compile(mlc.from_onnx(model()))
    ex(IDS)
    large = [array for array in constants(ex) if array.nbytes > 64]
    planned = {array.ctypes.data for array in ex.plans().layout({}).constants}
    assert all(is_aligned(array) for array in large)
    assert {array.ctypes.data for array in large} <= planned
    assert len(large) >= 4


def test_who_keeps_the_model_keeps_its_weights(traced):
    """The graph as imported still shows its own weights; what is new is packed ones."""
    mod = mlc.from_onnx(model())
    before = traced()
    ex = mlc.compile(mod)
    ex(IDS)
    assert traced() - before < CONVS + MATRIX + SLACK
    weights = [n.data for n in walk(mod["main"]) if isinstance(n, Constant) and n.data.ndim == 4]
    assert [w.shape for w in weights] == [(CHANNELS, CHANNELS, 3, 3)] * 2


def test_a_model_with_its_weights_apart_is_read_into_place(tmp_path: Path, traced):
    proto = onnx.load_from_string(model())
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    del proto
    before = traced()
    mod = mlc.from_onnx(path)
    assert WEIGHTS < traced() - before < WEIGHTS + SLACK
    assert all(is_aligned(n.data) for n in walk(mod["main"]) if isinstance(n, Constant))
