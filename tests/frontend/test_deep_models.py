"""Models whose values are read twice by what follows, again and again: nothing doubles."""

from __future__ import annotations

import numpy as np

import mlcnb as mlc
from tests.frontend.build import model, node


def test_sums_of_a_value_with_itself():
    """Written out as one expression, the last of forty sums would have 2 ** 40 terms."""
    nodes = [node("Add", f"v{i} v{i}", f"v{i + 1}") for i in range(40)]
    made = model("v0: float[3, 5]", nodes, "v40: float[3, 5]")
    x = np.arange(15, dtype="float32").reshape(3, 5)
    found = mlc.compile(mlc.from_onnx(made), "llvm")(x)
    np.testing.assert_array_equal(found, x * np.float32(2**40))
