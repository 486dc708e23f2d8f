"""The MiniLM encoder as exporters write it: right beside ONNX Runtime, in few kernels."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.node import walk
from mlcnb.ir.prim_ops import as_int
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.relax.expr import Call, Op
from mlcnb.relax.transform import get_pipeline
from tests.models import minilm, packages

FORMS = {"fused": 17, "decomposed": 14}
SMALL = {"layers": 2, "width": 64, "inner": 128, "words": 50}


def small(form: str, tokens: int = 128, batch: int = 1):
    """A narrow encoder of two layers with four heads."""
    weights = minilm.seeded(**SMALL)
    return minilm.encoder(weights, tokens, batch, heads=4, form=form, opset=FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tokens, batch", [(128, 1), (7, 3), (50, 2)])
def test_equals_onnxruntime_on_one_and_two_threads(form, tokens, batch):
    model = small(form, tokens, batch).SerializeToString()
    given = minilm.feed(tokens, batch, words=50)
    (expected,) = onnxruntime_session(model, 2).run(None, given)
    ex = mlc.compile(mlc.from_onnx(model), target="llvm")
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        np.testing.assert_allclose(ex(*given.values()), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_layer_is_nine_kernels_and_no_scores_are_kept(form):
    mod = get_pipeline("default")(mlc.from_onnx(small(form).SerializeToString()))
    calls = [n for n in walk(mod["main"].body) if isinstance(n, Call) and isinstance(n.op, Op)]
    kernels = [c.args[0].name_hint for c in calls if c.op.name == "relax.call_tir"]
    count = collections.Counter(k.rstrip("0123456789") for k in kernels)
    layers = SMALL["layers"]
    assert count["attention"] == layers
    assert count["layer_norm"] == 2 * layers + 1
    assert sum(name.startswith("fused_matmul_packed") for name in kernels) == 6 * layers
    assert len(kernels) <= 9 * layers + 5
    sizes = [np.prod([as_int(d) for d in c.struct_info.dims]) for c in calls if _is_tensor(c)]
    assert max(sizes) == 128 * SMALL["inner"] < 4 * 128 * 128


def _is_tensor(call) -> bool:
    return getattr(call.struct_info, "dims", None) is not None


def test_the_real_weights_are_read_where_they_are_at_hand():
    packages.need(minilm.WEIGHTS)
    found, made = minilm.weights(), minilm.seeded()
    for name, array in made.items():
        assert found[name].shape == array.shape
        assert not np.array_equal(found[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("tokens, batch", [(128, 1), (12, 3)])
def test_real_weights_equal_onnxruntime(tokens, batch):
    packages.need(minilm.WEIGHTS)
    model = minilm.encoder(minilm.weights(), tokens, batch).SerializeToString()
    given = minilm.feed(tokens, batch)
    (expected,) = onnxruntime_session(model, 2).run(None, given)
    ex = mlc.compile(mlc.from_onnx(model), target="llvm")
    np.testing.assert_allclose(ex(*given.values()), expected, rtol=1e-3, atol=2e-4)
