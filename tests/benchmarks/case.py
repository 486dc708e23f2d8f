"""A case: one program that every contestant runs on the same inputs, as an ONNX model.

    Case("conv", "resnet50 56x56x64 3x3", model, (x,), torch=...)

Beside the model there may be what NumPy and PyTorch are asked to do instead, and the loops that
mlcnb compiles where no graph is wanted. FLOPs are those of convolutions and matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        suite, name: how it is called.
        model: with weights, every size fixed.
        inputs: what is given at each call.
        numpy: from arrays to a function of nothing that returns the result; None: no contestant.
        torch: the same, from torch's tensors.
        loops: a PrimFunc of the inputs and the output; None: mlcnb compiles the model.
        path: where the model lies as a file, if it does.
    """

    suite: str
    name: str
    model: onnx.ModelProto = field(repr=False)
    inputs: tuple[np.ndarray, ...] = field(repr=False)
    numpy: Callable[..., Callable[[], Any]] | None = None
    torch: Callable[..., Callable[[], Any]] | None = None
    loops: Any = field(default=None, repr=False)
    path: str | None = None

    @cached_property
    def flops(self) -> int:
        """Operations of its convolutions and matrix products."""
        return flops_of(self.model)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of inputs, weights and outputs."""
        weights = sum(numpy_helper.to_array(t).nbytes for t in self.model.graph.initializer)
        outputs = sum(
            4 * math.prod(d.dim_value for d in o.type.tensor_type.shape.dim)
            for o in self.model.graph.output
        )
        return weights + outputs + sum(x.nbytes for x in self.inputs)


def flops_of(model: onnx.ModelProto) -> int:
    """Two for each multiply-add of Conv, Gemm and MatMul; the rest counts nothing."""
    shapes = shapes_of(model)
    total = 0
    for node in model.graph.node:
        known = [shapes.get(name) for name in (*node.input[:2], node.output[0])]
        if node.op_type in ("Conv", "Gemm", "MatMul") and all(known):
            a, b, out = known
            if node.op_type == "Conv":
                depth = math.prod(b[1:])
            elif node.op_type == "Gemm" and attributes_of(node).get("transA"):
                depth = a[0]
            else:
                depth = a[-1]
            total += 2 * math.prod(out) * depth
    return total


def shapes_of(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor whose shape is known."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    found = {}
    for tensor in bare.graph.initializer:
        found[tensor.name] = tuple(tensor.dims)
        if math.prod(tensor.dims) > 1000:  # inference needs small ones only: they may be shapes
            tensor.raw_data = b""
            tensor.ClearField("float_data")
    known = {v.name for v in bare.graph.input}
    bare.graph.input.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims)
        for t in model.graph.initializer
        if t.name not in known
    )
    large = [t for t in bare.graph.initializer if not t.raw_data and math.prod(t.dims) > 1000]
    for tensor in large:
        bare.graph.initializer.remove(tensor)
    graph = shape_inference.infer_shapes(bare).graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            found[value.name] = tuple(d.dim_value for d in kind.shape.dim)
    return found


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    output: str | Sequence[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    dtypes: dict[str, np.dtype] | None = None,
) -> onnx.ModelProto:
    """A model of a few nodes, its outputs inferred; inputs are float32 unless `dtypes` says, and a
    size that has a name is open.
    """
    outputs = [output] if isinstance(output, str) else list(output)
    kinds = {n: helper.np_dtype_to_tensor_dtype(d) for n, d in (dtypes or {}).items()}
    given = [
        helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s)
        for n, s in inputs.items()
    ]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    made = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "case", given, ends, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    del model.graph.output[:]
    model.graph.output.extend(inferred.graph.output)
    return model


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normal numbers, the same each time."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)
