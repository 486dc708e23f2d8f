"""Whole models: the nine light ones of the onnx package, the tour's EfficientNet-Lite0, a MiniLM.

The light models come with every weight 0.02. Two programs that differ then agree, and equal arrays
can be shared; so the weights are drawn anew (normal, scaled by the fan-in), the same each time, and
written to a file that every contestant reads. The last layer's are scaled until the scores have a
deviation of 1, for a softmax that is saturated hides every error. Open sizes are fixed at 1.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tests.benchmarks import exact
from tests.benchmarks.case import Case, random
from tests.models import minilm

NOTEBOOKS = Path(__file__).parents[2] / "notebooks" / "assets"
#: name of the encoder
MINILM = "minilm_128"
#: models that a quick run takes
QUICK = ("squeezenet", "shufflenet")
#: weights that are drawn at a time: as float64 they stay in a cache
PIECE = 1 << 16


def model_files() -> dict[str, Path]:
    """Name -> file of the ten models."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    files = {p.stem.removeprefix("light_"): p for p in sorted(folder.glob("light_*.onnx"))}
    return {**files, "efficientnet_lite0": NOTEBOOKS / "efficientnet_lite0.onnx"}


def input_of(session: Any) -> tuple[str, np.ndarray]:
    """The name of a session's only input, and a value for it: the suite's arange(n) / n."""
    (first,) = session.get_inputs()
    shape = [d if isinstance(d, int) else 1 for d in first.shape]
    size = int(np.prod(shape))
    return first.name, (np.arange(size, dtype=np.float32) / size).reshape(shape)


def cases(quick: bool = False, names: tuple[str, ...] = ()) -> Iterator[Case]:
    """The models whose names contain one of `names` (all, if there are none).

    A model's file lives as long as its case is looked at; mlcnb's cache of kernels is an empty
    folder, so that the first compilation of each is a cold one.
    """
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("MLCNB_CACHE_DIR")
        os.environ["MLCNB_CACHE_DIR"] = str(Path(folder) / "cache")
        try:
            for name, path in model_files().items():
                if (name in QUICK or not quick) and (not names or any(n in name for n in names)):
                    yield _case(name, onnx.load(path), Path(folder) / "model.onnx")
            if not quick and (not names or any(n in MINILM for n in names)):
                yield _minilm(Path(folder) / "model.onnx")
        finally:
            os.environ.pop("MLCNB_CACHE_DIR")
            if before is not None:
                os.environ["MLCNB_CACHE_DIR"] = before


def _minilm(path: Path) -> Case:
    """A sentence encoder of six layers on 128 tokens, a quarter of them padding."""
    model = minilm.encoder(minilm.weights(), tokens=128)
    onnx.save(model, path)
    given = minilm.feed(128)
    inputs = tuple(np.ascontiguousarray(given[i.name]) for i in model.graph.input)
    return Case("models", MINILM, model, inputs, path=str(path))


def _case(name: str, model: onnx.ModelProto, path: Path) -> Case:
    model = fixed(with_drawn_weights(model))
    held = {t.name for t in model.graph.initializer}
    (given,) = (i for i in model.graph.input if i.name not in held)
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    inputs = (random(*shape),)
    if name != "efficientnet_lite0":
        model = with_scores_near_one(model, inputs)
    onnx.save(model, path)
    return Case("models", name, model, inputs, path=str(path))


def with_scores_near_one(model: onnx.ModelProto, inputs: tuple[np.ndarray, ...]) -> onnx.ModelProto:
    """The model with the last layer's weights scaled: its scores have a standard deviation of 1."""
    graph = model.graph
    nodes, outputs = deepcopy([*graph.node]), deepcopy([*graph.output])
    count, last = next(
        (n, node)
        for n, node in reversed([*enumerate(nodes, 1)])
        if node.op_type in ("Conv", "Gemm")
    )
    del graph.node[count:], graph.output[:]  # a copy would double hundreds of MB of weights
    graph.output.append(onnx.helper.make_empty_tensor_value_info(last.output[0]))
    (scores,) = exact.run_kept(model, inputs)
    graph.node.extend(nodes[count:])
    del graph.output[:]
    graph.output.extend(outputs)
    for tensor in graph.initializer:
        if tensor.name in last.input[1:]:
            scaled = numpy_helper.to_array(tensor) / np.float32(scores.std())
            tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))
    return model


def fixed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with 1 for every size that is open."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.dim_value = 1
    return model


def with_drawn_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with random numbers where a ConstantOfShape makes floats of a known shape."""
    rng = np.random.default_rng(1)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    norms = {
        name: place
        for node in model.graph.node
        if node.op_type == "BatchNormalization"
        for place, name in enumerate(node.input)
    }
    kept = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes and _is_float(node):
            dims = tuple(int(d) for d in shapes[node.input[0]])
            value = _drawn(rng, dims, norms.get(node.output[0]))
            kind = TensorProto.FLOAT
            model.graph.initializer.add(  # in its place: a tensor that is appended is copied
                name=node.output[0], dims=dims, data_type=kind, raw_data=value.tobytes()
            )
            if model.ir_version < 4:  # an initializer is an input as well
                info = onnx.helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, dims)
                model.graph.input.append(info)
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def _is_float(node: onnx.NodeProto) -> bool:
    return any(a.t.data_type == TensorProto.FLOAT for a in node.attribute)


def _drawn(rng: Any, dims: tuple[int, ...], place_in_norm: int | None) -> np.ndarray:
    """Weights that keep values near 1 from layer to layer; a norm's scales and variances near 1."""
    made = np.empty(math.prod(dims), np.float32)
    scale = 0.05 if len(dims) <= 1 else math.sqrt(2 / math.prod(dims[1:]))
    for begin in range(0, made.size, PIECE):  # one after the other, the numbers are those of one go
        part = made[begin : begin + PIECE]
        if place_in_norm in (1, 4):
            part[:] = rng.uniform(0.8, 1.2, part.size)
        else:
            part[:] = rng.standard_normal(part.size) * scale
    return made.reshape(dims)
