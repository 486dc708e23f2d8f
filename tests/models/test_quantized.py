"""EfficientNet-Lite0 in int8: the bytes that ONNX Runtime computes, in both forms.

Not one element of the logits differs: the convolutions' sums are exact, and scaling, residual sums
and the mean round where ONNX Runtime's kernels round.
"""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.ir.prim_ops import as_int
from mlcnb.observe.peers import onnxruntime_session
from tests.models.quantized import FORMS, SCALES, photos, quantized_model

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def compiled():
    """Executables by form and scales, each made once."""
    made: dict[tuple[str, str], object] = {}

    def get(form: str, scales: str):
        if (form, scales) not in made:
            made[form, scales] = mlc.compile(mlc.from_onnx(quantized_model(form, scales)), "llvm")
        return made[form, scales]

    return get


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("form", FORMS)
def test_every_logit_is_that_of_onnxruntime(form, scales, compiled):
    ex, session = compiled(form, scales), onnxruntime_session(quantized_model(form, scales), 1)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 3, 224, 224)).astype(np.float32) * 3
    for x in (*photos(), noise):
        (expected,) = session.run(None, {"x": x})
        for threads in (1, 2):
            mlc.set_num_threads(threads)
            np.testing.assert_array_equal(np.asarray(ex(x)), expected)


def test_both_forms_become_the_same_kernels(compiled):
    one, two = (compiled(form, "channel") for form in FORMS)
    assert sorted(one.kernels) == sorted(two.kernels)


def test_nothing_is_float_between_the_layers(compiled):
    """The first kernel takes floats, the last one gives them."""
    kernels = [kernel.func for kernel in compiled("qdq", "channel").kernels.values()]
    wide = [
        f
        for f in kernels
        if any(b.dtype == "float32" and len(b.shape) > 1 and _is_data(b) for b in f.buffers)
    ]
    assert len(kernels) > 30
    assert len(wide) == 2


def _is_data(buffer) -> bool:
    """True for a tensor of activations: not one number for each channel."""
    return len(buffer.shape) in (2, 4) or any(as_int(d) != 1 for d in buffer.shape[2:4])
