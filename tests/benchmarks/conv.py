"""Convolutions: every distinct one of ResNet-50 and VGG-19, taken from the models; depthwise ones.

A case is the convolution with its bias (and the Relu that follows it, where nothing else reads the
result) in the plain layout, so whoever blocks channels pays for that. Weights are known ahead of
time, as they are in a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.benchmarks.case import Case, attributes_of, model_of, random, shapes_of
from tests.benchmarks.models import model_files

#: channels, size, window, stride: the depthwise layers of MobileNet v1 and v2 at 224 x 224
DEPTHWISE = (
    (32, 112, 3, 1), (64, 112, 3, 2), (128, 56, 3, 1), (128, 56, 3, 2), (256, 28, 3, 1),
    (512, 14, 3, 1), (512, 14, 3, 2), (1024, 7, 3, 1), (144, 56, 3, 1),
    (192, 28, 5, 1), (672, 14, 5, 2),
)  # fmt: skip


def cases(quick: bool = False) -> Iterator[Case]:
    """Those of ResNet-50, then those of VGG-19."""
    for name in ("resnet50", "vgg19"):
        found = list(distinct(name))
        yield from found[:3] if quick else found


def depthwise(quick: bool = False) -> Iterator[Case]:
    """A filter for each channel."""
    for channels, size, window, stride in DEPTHWISE[:2] if quick else DEPTHWISE:
        pads = [window // 2] * 4
        given = {"group": channels, "pads": pads, "strides": [stride] * 2}
        x, w = (1, channels, size, size), (channels, 1, window, window)
        yield convolution("depthwise", "", x, w, True, given)


def distinct(name: str) -> Iterator[Case]:
    """The convolutions of a light model that differ in shape, stride or what follows."""
    model = onnx.load(model_files()[name])
    shapes, seen = shapes_of(model), set()
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for read in node.input:
            readers.setdefault(read, []).append(node.op_type)
    for node in model.graph.node:
        if node.op_type == "Conv":
            after = readers.get(node.output[0], [])
            if after == ["BatchNormalization"]:  # it is folded into the weights
                norm = next(n for n in model.graph.node if node.output[0] in n.input)
                after = readers.get(norm.output[0], [])
            given = attributes_of(node)
            x, w = (shapes[i] for i in node.input[:2])
            pads, strides = (tuple(given.get(n) or ()) for n in ("pads", "strides"))
            key = (x, w, after == ["Relu"], any(pads) and pads, strides, given.get("group", 1))
            if key not in seen:
                seen.add(key)
                yield convolution("conv", f"{name} ", x, w, after == ["Relu"], given)


def convolution(suite: str, prefix: str, x: Any, w: Any, relu: bool, given: dict[str, Any]) -> Case:
    """One convolution with bias; `given` are ONNX's attributes."""
    window = "x".join(map(str, w[2:]))
    stride = (given.get("strides") or [1])[0]
    suffix = (f"/{stride}" if stride > 1 else "") + (" relu" if relu else "")
    name = f"{prefix}{x[1]}x{x[2]} -> {w[0]}, {window}{suffix}"
    weights = {
        "w": random(*w, seed=3, scale=(2 / np.prod(w[1:])) ** 0.5),
        "b": random(w[0], seed=4, scale=0.1),
    }
    kept = {k: v for k, v in given.items() if k != "order"}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], **kept)]
    if relu:
        nodes.append(helper.make_node("Relu", ["y"], ["z"]))
    model = model_of(nodes, {"x": x}, "z" if relu else "y", weights)

    def torch_run(x: Any) -> Any:
        return _torch(x, weights, kept, relu)

    return Case(suite, name, model, (random(*x, seed=5),), torch=torch_run)


def _torch(x: Any, weights: dict[str, np.ndarray], given: dict[str, Any], relu: bool) -> Any:
    import torch
    from torch.nn.functional import conv2d

    w, b = (torch.from_numpy(weights[n]) for n in "wb")
    pads = given.get("pads") or [0] * 4
    assert pads[:2] == pads[2:], "padding that differs from side to side"
    options = {"stride": given.get("strides") or 1, "padding": pads[:2]}
    options |= {"dilation": given.get("dilations") or 1, "groups": given.get("group", 1)}

    def run() -> Any:
        y = conv2d(x, w, b, **options)
        return torch.relu_(y) if relu else y

    return run
