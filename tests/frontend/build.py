"""Small ONNX models in a line or two.

graph("x: float[n, 3]; c: bool[]", [node("Relu", "x", "y")], "y: float[n, 3]", w=np.ones(3))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node; names are separated by spaces, `-` stands for one that is left out."""
    names = [[n.replace("-", "") for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op_type, *names, **attributes)


def values(text: str) -> list[Any]:
    """Inputs or outputs: `x: float[n, 3]; y: int64[]`, without brackets: no shape."""
    return [value(part) for part in text.split(";") if part.strip()]


def value(text: str) -> Any:
    name, _, kind = (p.strip() for p in text.partition(":"))
    element, bracket, dims = kind.partition("[")
    shape = [_dim(d.strip()) for d in dims.rstrip("]").split(",") if d.strip()]
    number = getattr(TensorProto, element.strip().upper())
    return helper.make_tensor_value_info(name, number, shape if bracket else None)


def _dim(text: str) -> Any:
    if text == "?":
        return None
    return int(text) if text.lstrip("-").isdigit() else text


def graph(
    inputs: str,
    nodes: Sequence[Any],
    outputs: str,
    name: str = "g",
    sparse: Sequence[Any] = (),
    **stored: Any,
) -> Any:
    """A GraphProto; further keywords are initializers, arrays or TensorProtos."""
    tensors = [_tensor(v, n) for n, v in stored.items()]
    return helper.make_graph(
        list(nodes), name, values(inputs), values(outputs), tensors, sparse_initializer=list(sparse)
    )


def _tensor(data: Any, name: str) -> Any:
    if isinstance(data, TensorProto):
        data.name = name
        return data
    return numpy_helper.from_array(np.asarray(data), name)


def model(
    inputs: str,
    nodes: Sequence[Any],
    outputs: str,
    opset: int = 17,
    functions: Sequence[Any] = (),
    domains: Mapping[str, int] | None = None,
    **stored: Any,
) -> ModelProto:
    """A ModelProto."""
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, v) for d, v in (domains or {}).items()]
    made = graph(inputs, nodes, outputs, **stored)
    return helper.make_model(made, opset_imports=imports, functions=list(functions), ir_version=10)


def ints(*numbers: int) -> np.ndarray:
    """A vector of int64."""
    return np.array(numbers, np.int64)


def floats(*shape: int) -> np.ndarray:
    """Float32 numbers 0, 1, 2, … in a shape."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
