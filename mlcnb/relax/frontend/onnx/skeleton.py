"""A model without its weights: what onnx.checker gets, so that gigabytes are not copied for it.

Large, sparse and external tensors become empty ones of the same name and dtype, and an input or
output without a shape (which is legal, but not to the checker) gets one; all else is as it was.
"""

from __future__ import annotations

from typing import Any

from mlcnb.relax.frontend.onnx.limits import element_count
from mlcnb.relax.frontend.onnx.protos import sparse_of, subgraphs_of, tensors_of
from mlcnb.relax.frontend.onnx.tensors import is_external

#: tensors and nodes up to this many bytes are copied as they are
SMALL = 4096


def skeleton(model: Any) -> Any:
    """A copy of a ModelProto whose tensors are small."""
    import onnx

    copy = onnx.ModelProto()
    copy.ir_version = model.ir_version
    copy.opset_import.extend(model.opset_import)
    copy.graph.CopyFrom(_graph(model.graph))
    for function in model.functions:
        copy.functions.append(_function(function))
    return copy


def _graph(graph: Any) -> Any:
    import onnx

    copy = onnx.GraphProto(name=graph.name or "graph")
    copy.input.extend(graph.input)
    copy.output.extend(graph.output)
    for value in (*copy.input, *copy.output):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    copy.node.extend(_node(n) for n in graph.node)
    copy.initializer.extend(_tensor(t) for t in graph.initializer)
    copy.initializer.extend(_empty(s.values) for s in graph.sparse_initializer)
    return copy


def _function(function: Any) -> Any:
    import onnx

    if not _is_large(function):
        return function
    copy = onnx.FunctionProto()
    for field, value in function.ListFields():
        if field.name == "node":
            copy.node.extend(_node(n) for n in value)
        else:
            _set(copy, field, value)
    return copy


def _node(node: Any) -> Any:
    import onnx

    if not _is_large(node):
        return node
    copy = onnx.NodeProto()
    for field, value in node.ListFields():
        if field.name == "attribute":
            copy.attribute.extend(_attribute(a) for a in value)
        else:
            _set(copy, field, value)
    return copy


def _attribute(attribute: Any) -> Any:
    import onnx

    if not _is_large(attribute):
        return attribute
    copy = onnx.AttributeProto(name=attribute.name, type=attribute.type)
    for field, value in attribute.ListFields():
        match field.name:
            case "t":
                copy.t.CopyFrom(_tensor(value))
            case "tensors":
                copy.tensors.extend(map(_tensor, value))
            case "g":
                copy.g.CopyFrom(_graph(value))
            case "graphs":
                copy.graphs.extend(map(_graph, value))
            case _:
                _set(copy, field, value)
    return copy


def _tensor(tensor: Any) -> Any:
    """The tensor, or an empty one; protobuf writes a message out to tell its size, so ask last."""
    is_large = (element_count(tensor.dims) or 0) > SMALL or _is_large(tensor)
    return _empty(tensor) if is_large else tensor


def _empty(tensor: Any) -> Any:
    import onnx

    return onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0])


def _set(copy: Any, field: Any, value: Any) -> None:
    """Copy one field of a message."""
    target = getattr(copy, field.name)
    if hasattr(target, "extend"):
        target.extend(value)
    elif hasattr(target, "CopyFrom"):
        target.CopyFrom(value)
    else:
        setattr(copy, field.name, value)


def _is_large(message: Any) -> bool:
    """True where a message is large, or may name a file."""
    return message.ByteSize() > SMALL or _names_file(message)


def _names_file(message: Any) -> bool:
    kind = message.DESCRIPTOR.name
    if kind == "TensorProto":
        return is_external(message)
    if kind == "SparseTensorProto":
        return is_external(message.values) or is_external(message.indices)
    if kind == "AttributeProto":
        inside = [*tensors_of(message), *sparse_of(message), *subgraphs_of(message)]
        return any(map(_names_file, inside))
    if kind == "NodeProto":
        return any(map(_names_file, message.attribute))
    if kind == "GraphProto":
        return len(message.initializer) > 0 or any(map(_names_file, message.node))
    return any(map(_names_file, message.node))
