"""The head of a YOLOv8 detector with open height and width, as exporters write it.

Of three scales: Shape -> Range for the anchors' places, Expand and Stack to pairs, Concat of all;
boxes are the expectation of 16 bins a side (softmax, then a 1 x 1 convolution with 0 … 15).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from tests.frontend.build import ints, model, node

CLASSES, BINS = 5, 16
STRIDES = (8, 16, 32)


class Head:
    """The nodes and constants of a head, named as they are made."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[Any] = []
        self.stored: dict[str, Any] = {
            "zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "three": np.int64(3),
            "half": np.float32(0.5), "first": ints(0), "second": ints(1), "last": ints(-1),
        }  # fmt: skip
        self.random = np.random.default_rng(seed)

    def op(self, kind: str, inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(node(kind, inputs, name, name=name, **attributes))
        return name

    def const(self, value: Any) -> str:
        name = f"c{len(self.stored)}"
        self.stored[name] = value
        return name

    def conv(self, x: str, inner: int, outer: int, stride: int = 1) -> str:
        window = 3 if stride > 1 else 1
        shape = (outer, inner, window, window)
        weight = self.random.standard_normal(shape).astype(np.float32) * 0.3
        pads = [window // 2] * 4
        made = self.op("Conv", f"{x} {self.const(weight)}", strides=[stride] * 2, pads=pads)
        gate = self.op("Sigmoid", made)
        return self.op("Mul", f"{made} {gate}")

    def size(self, x: str, axis: str) -> str:
        return self.op("Gather", f"{self.op('Shape', x)} {axis}", axis=0)

    def places(self, x: str) -> str:
        """(height * width, 2): the middle of each cell, x before y."""
        height, width = self.size(x, "two"), self.size(x, "three")
        sides = []
        for size in (width, height):
            steps = self.op("Range", f"zero {size} one")
            sides.append(self.op("Add", f"{self.op('Cast', steps, to=1)} half"))
        whole = [self.op("Unsqueeze", f"{s} first") for s in (height, width)]
        grid = self.op("Concat", " ".join(whole), axis=0)
        row = self.op("Expand", f"{self.op('Unsqueeze', f'{sides[0]} first')} {grid}")
        column = self.op("Expand", f"{self.op('Unsqueeze', f'{sides[1]} second')} {grid}")
        pair = [self.op("Unsqueeze", f"{x} last") for x in (row, column)]
        stacked = self.op("Concat", " ".join(pair), axis=-1)
        return self.op("Reshape", f"{stacked} {self.const(ints(-1, 2))}")

    def strides(self, x: str, stride: int) -> str:
        """(height * width, 1): the stride of each cell."""
        cells = self.op("Mul", f"{self.size(x, 'two')} {self.size(x, 'three')}")
        count = self.op("Unsqueeze", f"{cells} first")
        shape = self.op("Concat", f"{count} second", axis=0)
        return self.op("Expand", f"{self.const(np.full((1, 1), stride, np.float32))} {shape}")

    def boxes(self, x: str, anchors: str, strides: str) -> str:
        """(n, 4, cells): middles and sizes in pixels."""
        split = self.op("Reshape", f"{x} {self.const(ints(0, 4, BINS, -1))}")
        turned = self.op("Transpose", split, perm=[0, 2, 1, 3])
        weights = self.op("Softmax", turned, axis=1)
        counts = np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1)
        found = self.op("Conv", f"{weights} {self.const(counts)}")
        sides = self.op("Reshape", f"{found} {self.const(ints(0, 4, -1))}")
        ends = [self.op("Slice", f"{sides} {self.const(ints(a))} {self.const(ints(a + 2))} second")
                for a in (0, 2)]  # fmt: skip
        low = self.op("Sub", f"{anchors} {ends[0]}")
        high = self.op("Add", f"{anchors} {ends[1]}")
        middle = self.op("Div", f"{self.op('Add', f'{low} {high}')} {self.const(np.float32(2))}")
        extent = self.op("Sub", f"{high} {low}")
        both = self.op("Concat", f"{middle} {extent}", axis=1)
        return self.op("Mul", f"{both} {strides}")


def detector() -> Any:
    """x: (n, 3, h, w) -> (n, 4 + classes, cells of three scales)."""
    head = Head()
    x, channels = "x", 3
    scales = []
    for stride in (2, 4, *STRIDES):
        x, channels = head.conv(x, channels, 8, 2), 8
        if stride in STRIDES:
            scales.append(x)
    flat = head.const(ints(0, 4 * BINS + CLASSES, -1))
    cells = [head.op("Reshape", f"{head.conv(s, 8, 4 * BINS + CLASSES)} {flat}") for s in scales]
    joined = head.op("Concat", " ".join(cells), axis=2)
    places = head.op("Concat", " ".join(head.places(s) for s in scales), axis=0)
    steps = [head.strides(s, n) for s, n in zip(scales, STRIDES, strict=True)]
    anchors, strides = (
        head.op("Transpose", t, perm=[1, 0])
        for t in (places, head.op("Concat", " ".join(steps), axis=0))
    )
    anchors = head.op("Unsqueeze", f"{anchors} first")
    head.nodes.append(node("Split", f"{joined} parts", "sides scores", axis=1))
    head.stored["parts"] = ints(4 * BINS, CLASSES)
    boxes = head.boxes("sides", anchors, strides)
    scores = head.op("Sigmoid", "scores")
    head.nodes.append(node("Concat", f"{boxes} {scores}", "y", axis=1))
    return model("x: float[n, 3, h, w]", head.nodes, "y: float[n, c, cells]", **head.stored)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["default", "zero"])
def test_one_module_serves_all_heights_and_widths(pipeline: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    proto = detector()
    session = runtime.InferenceSession(proto.SerializeToString())
    ex = mlc.compile(mlc.from_onnx(proto), target="llvm", relax_pipeline=pipeline)
    for shape in ((1, 3, 64, 96), (2, 3, 32, 32), (1, 3, 100, 52), (3, 3, 160, 64)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        found = np.asarray(ex(x))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
