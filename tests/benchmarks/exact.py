"""What a model computes in float64: the reference by which every contestant's error is told.

`onnx.reference` is the interpreter, with operators of our own: convolution as sums of matrix
products (its own takes minutes); BatchNormalization of opset 9 (its own trains); Softmax before
opset 13, which runs over all axes from `axis` on; LRN (its own does one channel). Nothing of mlcnb
takes part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

#: kept results, for models that take seconds
CACHE = Path(__file__).parents[2] / "build" / "benchmarks"


class Conv(OpRun):
    """Convolution of any rank as one matrix product for each place in the window."""

    def _run(
        self, x, w, b=None, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None,
        pads=None, strides=None,
    ):  # fmt: skip
        rank = x.ndim - 2
        window, strides, dilations = w.shape[2:], strides or [1] * rank, dilations or [1] * rank
        reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
        pads = _pads(auto_pad, pads, x.shape[2:], reach, strides)
        x = np.pad(x, [(0, 0), (0, 0), *pads])
        sizes = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
        x = x.reshape(x.shape[0], group, -1, *x.shape[2:])
        w = w.reshape(group, -1, *w.shape[1:])
        out = np.zeros((x.shape[0], group, w.shape[1], int(np.prod(sizes))), x.dtype)
        for place in np.ndindex(*window):
            cut = tuple(
                slice(p * d, p * d + s * (n - 1) + 1, s)
                for p, d, s, n in zip(place, dilations, strides, sizes, strict=True)
            )
            part = x[(slice(None),) * 3 + cut].reshape(*x.shape[:3], -1)
            out += w[(slice(None),) * 3 + place] @ part
        out = out.reshape(x.shape[0], -1, *sizes)
        return (out if b is None else out + b.reshape(1, -1, *[1] * rank),)


class BatchNormalization(OpRun):
    """Inference: scale and shift by the moments that are given."""

    def _run(self, x, scale, bias, mean, variance, epsilon=1e-5, momentum=0.9, training_mode=0):
        assert not training_mode
        shape = (1, -1, *[1] * (x.ndim - 2))
        factor = scale / np.sqrt(variance + epsilon)
        return (x * factor.reshape(shape) + (bias - mean * factor).reshape(shape),)


class LRN(OpRun):
    """Each channel by the squares of its neighbours."""

    def _run(self, x, alpha=1e-4, beta=0.75, bias=1.0, size=None):
        before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
        sums = np.zeros_like(x)
        for c in range(x.shape[1]):
            near = x[:, max(0, c - before) : c + after + 1]
            sums[:, c] = np.square(near).sum(1)
        return (x / (bias + alpha / size * sums) ** beta,)


class Softmax(OpRun):
    """As it was before opset 13: the axes from `axis` on count as one."""

    def _run(self, x, axis=1):
        axes = tuple(range(axis % x.ndim, x.ndim))
        y = np.exp(x - x.max(axes, keepdims=True))
        return (y / y.sum(axes, keepdims=True),)


class GatherElements(OpRun):
    """One element for each index (its own gives up beyond 64 of them)."""

    def _run(self, x, indices, axis=0):
        return (np.take_along_axis(x, indices, axis),)


def _pads(auto_pad: str, pads: Any, shape: Any, reach: Any, strides: Any) -> list[tuple[int, int]]:
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        missing = [
            max(0, (-(-n // s) - 1) * s + r - n)
            for n, s, r in zip(shape, strides, reach, strict=True)
        ]
        small = [m // 2 for m in missing]
        pairs = [(a, m - a) for a, m in zip(small, missing, strict=True)]
        return pairs if auto_pad == "SAME_UPPER" else [(b, a) for a, b in pairs]
    if not pads:
        return [(0, 0)] * len(reach)
    return list(zip(pads[: len(reach)], pads[len(reach) :], strict=True))


def run(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model in float64."""
    wide = in_double(model)
    old = [Softmax] if opset_of(model) < 13 else []
    ours = [Conv, BatchNormalization, LRN, GatherElements, *old]
    evaluator = ReferenceEvaluator(wide, new_ops=ours)
    initial = {i.name for i in wide.graph.initializer}
    names = [i.name for i in wide.graph.input if i.name not in initial]
    feeds = {n: _widened(x) for n, x in zip(names, inputs, strict=True)}
    return [np.asarray(y) for y in evaluator.run(None, feeds)]


def run_kept(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """As `run`; the answer is kept on disk, by the content of model and inputs."""
    digest = hashlib.sha256(model.SerializeToString(deterministic=True))
    for x in inputs:
        digest.update(np.ascontiguousarray(x).tobytes())
    path = CACHE / f"{digest.hexdigest()[:32]}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            return [kept[name] for name in kept.files]
    found = run(model, inputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, *found)
    return found


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators."""
    return next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float64 wherever it has float32."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        if kind.elem_type == TensorProto.FLOAT:
            kind.elem_type = TensorProto.DOUBLE
    for n, tensor in enumerate(graph.initializer):
        if tensor.data_type == TensorProto.FLOAT:
            graph.initializer[n].CopyFrom(_double(tensor))
    for node in graph.node:
        if node.op_type == "Softmax" and not node.attribute and opset_of(model) < 13:
            node.attribute.append(helper.make_attribute("axis", 1))  # the evaluator says -1
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                if attribute.t.data_type == TensorProto.FLOAT:
                    attribute.t.CopyFrom(_double(attribute.t))
            elif node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return wide


def _double(tensor: TensorProto) -> TensorProto:
    return numpy_helper.from_array(_widened(numpy_helper.to_array(tensor)), tensor.name)


def _widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype == np.float32 else x


def largest_error(found: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest element of the exact result."""
    errors = [0.0]
    for a, b in zip(found, exact, strict=True):
        scale = float(np.max(np.abs(b), initial=0.0)) or 1.0
        apart = np.abs(a.astype(np.float64) - b)
        errors.append(float(np.max(apart, initial=0.0)) / scale)
    return max(errors) if not any(np.isnan(e) for e in errors) else float("nan")
