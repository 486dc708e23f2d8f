"""What ONNX itself says of a node: asked where a spelling stopped without a reason of its own.

Hardmax(x: float[2, 3], axis=9)    ->    "'axis' must be in [-2 , 1]. Its actual value is: 9"
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlcnb.ir.dtype import dtype
from mlcnb.relax.frontend.onnx import functions
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.frontend.shared.symbols import SMALL
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo


def reason(node: Node, inputs: list[Any]) -> str | None:
    """Why ONNX's own inference refuses a node with these inputs; None where it does not."""
    import onnx

    schema = functions.schema(node.domain, node.op_type, node.opset)
    if schema is None:
        return None
    given = {name: x for name, x in zip(node.proto.input, inputs, strict=False) if name}
    types = {name: type_of(x) for name, x in given.items()}
    data = {name: t for name, x in given.items() if (t := _tensor_of(node, x)) is not None}
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    proto.attribute.extend(_named(a, name) for name, a in node.protos.items())
    try:
        onnx.shape_inference.infer_node_outputs(schema, proto, types, data)
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        KeyError,
        RuntimeError,
        ValueError,
    ) as error:
        text = " ".join(str(error).split())
        return text.removeprefix("[ShapeInferenceError] ").removeprefix("[TypeInferenceError] ")
    return None


def _named(attribute: Any, name: str) -> Any:
    """An attribute under the name that it has in the node."""
    if attribute.name == name:
        return attribute
    copy = type(attribute)()
    copy.CopyFrom(attribute)
    copy.name = name
    return copy


def _tensor_of(node: Node, x: Any) -> Any:
    """The TensorProto of a small value that is known."""
    import onnx

    found = node.known(x)
    if found is None or found.dtype == object or found.size > SMALL:
        return None
    return onnx.numpy_helper.from_array(found)


class Held(NamedTuple):
    """A value of which nothing but its struct info is known."""

    struct_info: Any


def type_of(x: Any) -> Any:
    """The TypeProto of a value; empty where it was left out."""
    import onnx

    info = getattr(x, "struct_info", None)
    if isinstance(info, TupleStructInfo):
        inside = type_of(Held(info.fields[0])) if info.fields else onnx.TypeProto()
        return onnx.helper.make_sequence_type_proto(inside)
    if not isinstance(info, TensorStructInfo) or info.dtype is None:
        return onnx.TypeProto()
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype(info.dtype).numpy)
    dims = None if info.dims is None else [getattr(d, "value", None) for d in info.dims]
    return onnx.helper.make_tensor_type_proto(kind, dims)
