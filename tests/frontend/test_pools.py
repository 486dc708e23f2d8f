"""Windows that are larger than what there is: they slide as in onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from tests.frontend.build import model, node


def pooling(op, size, outputs="y", **attributes):
    dims = ", ".join(map(str, (1, 2, *size)))
    kinds = "y: float; i: int64" if " " in outputs else "y: float"
    return model(f"x: float[{dims}]", [node(op, "x", outputs, **attributes)], kinds, opset=19)


def check(proto, size):
    """The numbers of onnxruntime; what it refuses is refused."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    x = np.random.default_rng(0).standard_normal((1, 2, *size)).astype(np.float32)
    try:
        wanted = runtime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    except Exception:  # noqa: BLE001 (onnxruntime's own)
        with pytest.raises(mlc.MLCError):
            mlc.from_onnx(proto)
        return
    found = mlc.compile(mlc.from_onnx(proto), target="interp")(x)
    for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        ours = np.array(ours)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        lowest = wanted[0] == np.finfo(np.float32).min  # a window that sees nothing: ours is -inf
        assert ours.dtype == np.int64 or np.isneginf(ours[lowest]).all()
        np.testing.assert_allclose(ours[~lowest], theirs[~lowest], rtol=1e-5, atol=1e-6)


OVERHANGING = {
    "once, by less than a stride": ([3, 1], [2, 3], [2, 3], [2, 2], [0, 2, 0, 0]),
    "dilated": ([3, 6], [3, 4], [2, 2], [2, 2], [0, 0, 1, 2]),
    "nowhere, by a stride": ([6], [4], [1], [2], [0, 0]),
    "nowhere, by more than a stride": ([5], [4], [2], [3], [1, 2]),
    "nowhere, in one of two": ([1, 6], [2, 1], [2, 2], [2, 2], [0, 0, 0, 0]),
    "refused": ([1], [4], [1], [3], [0, 0]),
    "refused, as negative pads are": ([6], [2], [1], [1], [-1, 1]),
}


@pytest.mark.parametrize("name", OVERHANGING)
@pytest.mark.parametrize(
    ("op", "outputs", "more"),
    [("MaxPool", "y", {}), ("MaxPool", "y i", {}), ("AveragePool", "y", {"count_include_pad": 0}),
     ("AveragePool", "y", {"count_include_pad": 1})],
)  # fmt: skip
def test_windows_that_overhang(name, op, outputs, more):
    size, kernel, strides, dilations, pads = OVERHANGING[name]
    given = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    check(pooling(op, size, outputs, **given, **more), size)


def test_a_window_that_is_never_there_is_refused():
    proto = pooling("MaxPool", [1], kernel_shape=[4], dilations=[3])
    with pytest.raises(mlc.MLCError) as caught:
        mlc.from_onnx(proto)
    assert str(caught.value) == (
        "the model: node 'y' (MaxPool, opset 19): a window of 10 elements over 1, with 0 of padding"
        "\nhint: see the operator at https://onnx.ai/onnx/operators"
    )


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_pools_of_any_form(data):
    rank = data.draw(st.integers(1, 2))

    def draw(low, high):
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    size, kernel, dilations, strides = draw(1, 7), draw(1, 4), draw(1, 3), draw(1, 3)
    pads = [data.draw(st.integers(0, k - 1)) for k in kernel * 2]
    op = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    more = {"count_include_pad": data.draw(st.integers(0, 1))} if op == "AveragePool" else {}
    given = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    check(pooling(op, size, ceil_mode=data.draw(st.integers(0, 1)), **given, **more), size)
