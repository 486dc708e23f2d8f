"""A bar while a model is read: it counts the model's nodes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

import mlcnb as mlc
from mlcnb.core import progress
from mlcnb.relax.frontend.onnx import importer


class Bar:
    """What stands for tqdm's."""

    def __init__(self, what, total):
        self.what, self.total, self.done, self.is_open = what, total, 0, False

    def __enter__(self):
        self.is_open = True
        return self

    def __exit__(self, *_):
        self.is_open = False

    def update(self, n):
        self.done += n


def test_each_node_of_a_model_moves_the_bar(monkeypatch):
    made = []

    def progress_bar(what, total):
        made.append(Bar(what, total))
        return made[-1]

    monkeypatch.setattr(importer, "progress_bar", progress_bar)
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in ("xy", "yz")]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xz"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    mlc.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    (bar,) = made
    assert (bar.what, bar.total, bar.done, bar.is_open) == ("reading the model", 2, 2, False)


def test_ticking_moves_on_after_each_thing():
    bar, seen = Bar("", 3), []
    for n in progress.ticking(np.arange(3), bar):
        seen.append((int(n), bar.done))
    assert seen == [(0, 0), (1, 1), (2, 2)]
    assert bar.done == 3
