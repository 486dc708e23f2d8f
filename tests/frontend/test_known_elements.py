"""What a model computes from the sizes of a tensor that are known, beside others that are open."""

from __future__ import annotations

import numpy as np

import mlcnb as mlc
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.operator import called
from tests.frontend.build import model, node


def test_a_known_size_of_an_open_shape_is_a_number() -> None:
    """Heads of attention are scaled by the root of their length, which the shape tells."""
    proto = model(
        "x: float[n, 4, 16]",
        [
            node("Shape", "x", "s"),
            node("Gather", "s last", "d"),
            node("Cast", "d", "f", to=1),
            node("Sqrt", "f", "r"),
            node("Div", "x r", "y"),
        ],
        "y: float[n, 4, 16]",
        last=np.array(2),
    )
    mod = mlc.from_onnx(proto)
    names = [getattr(called(b.value), "op_name", "") for b in bindings_of(mod["main"])]
    assert [n for n in names if n] == ["relax.divide"]
    x = np.random.default_rng(0).standard_normal((3, 4, 16)).astype("f4")
    np.testing.assert_allclose(mlc.compile(mod)(x), x / 4, rtol=1e-6)


def test_an_open_size_stays_open() -> None:
    proto = model(
        "x: float[n, 4]",
        [
            node("Shape", "x", "s"),
            node("Gather", "s first", "d"),
            node("Cast", "d", "f", to=1),
            node("Div", "x f", "y"),
        ],
        "y: float[n, 4]",
        first=np.array(0),
    )
    ex = mlc.compile(mlc.from_onnx(proto))
    for n in (1, 5):
        x = np.ones((n, 4), np.float32)
        np.testing.assert_allclose(ex(x), x / n, rtol=1e-6)
