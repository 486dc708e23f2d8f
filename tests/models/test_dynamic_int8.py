"""An encoder quantised as it runs: DynamicQuantizeLinear, MatMulInteger; its products by bytes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

import mlcnb as mlc
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.models import minilm
from tests.models.test_minilm import small


@pytest.fixture(scope="module")
def model(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("dynamic")
    onnx.save(small("fused", tokens=16), folder / "float.onnx")
    quantize_dynamic(folder / "float.onnx", folder / "bytes.onnx", weight_type=QuantType.QInt8)
    return folder / "bytes.onnx"


def test_equals_onnxruntime(model: Path) -> None:
    session = onnxruntime_session(model, 1)
    feed = minilm.feed(16, words=50)
    given = {i.name: feed[i.name] for i in session.get_inputs()}
    (wanted,) = session.run(None, given)
    found = mlc.compile(mlc.from_onnx(model))(*given.values())
    # both round to the same bytes but where a sum lies between two
    np.testing.assert_allclose(found, wanted, atol=2e-2)
    assert np.median(np.abs(np.asarray(found) - wanted)) < 1e-5


def test_every_product_is_made_of_sums_of_four(model: Path) -> None:
    ex = mlc.compile(mlc.from_onnx(model), "llvm -mcpu=icelake-server")
    products = {
        name: kernel
        for name, kernel in ex.kernels.items()
        if "qmatmul_packed" in ex.mod[name].script()
    }
    assert len(products) >= 4
    for name, kernel in products.items():
        assert re.search(r"\bvpdpbusd\b", kernel.asm), name


def test_what_a_sum_does_not_feed_may_stand_behind_it() -> None:
    """A correction that is computed between the product and its use: the rule still takes it."""

    @R.function
    def main(x: R.Tensor((5, 64), "uint8"), z: R.Tensor((), "int32"),
             c: R.Tensor((32,), "int32"), w: R.Tensor((64, 32), "int8")):  # fmt: skip
        with R.dataflow():
            p = R.qnn.matmul(x, w)
            share = R.multiply(z, c)
            gv = R.subtract(p, share)
            R.output(gv)
        return gv

    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (5, 64)).astype("uint8")
    w = rng.integers(-128, 128, (64, 32)).astype("int8")
    c, z = w.sum(0, dtype="int32"), np.int32(7)
    ex = mlc.compile(mlc.ir.IRModule.from_expr(main), params={"w": w})
    wanted = (x.astype("int32") - z) @ w.astype("int32")
    np.testing.assert_array_equal(ex(x, np.array(z), c), wanted)


def test_a_survey_tells_what_uses_a_block_from_what_stands_behind_it() -> None:
    from mlcnb import tir
    from mlcnb.dlight.survey import Survey

    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), b: T.Buffer((8,), "float32"),
             C: T.Buffer((8,), "float32")):  # fmt: skip
        total = T.alloc_buffer((8,), "float32")
        twice = T.alloc_buffer((8,), "float32")
        for i, k in T.grid(8, 8):
            with T.block("total"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + A[vi, vk]
        for i in range(8):
            with T.block("twice"):
                vi = T.axis.spatial(8, i)
                twice[vi] = b[vi] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = total[vi] - twice[vi]

    survey = Survey.of(tir.Schedule(main))
    assert survey.anchor is not None
    assert [b.name for b in survey.before(survey.anchor)] == ["twice"]
    assert [b.name for b in survey.after(survey.anchor)] == ["C"]
