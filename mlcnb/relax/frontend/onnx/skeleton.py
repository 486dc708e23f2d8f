"""A model without its weights: what onnx.checker gets, so that gigabytes are not copied for it.

    Constant(value: float[4096, 4096])    ->    Constant(value: float[0])
    x: float                              ->    x: float[]

Large, sparse and external tensors become empty ones of the same name and dtype, wherever they hide:
in initializers, in attributes, in graphs inside of nodes. An input or output without a shape (which
is legal, but not to the checker) gets one; all else is as it was. Every message is looked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mlcnb.relax.frontend.onnx.protos import sparse_of, subgraphs_of, tensors_of
from mlcnb.relax.frontend.onnx.tensors import is_external
from mlcnb.relax.frontend.shared.limits import element_count

#: tensors of up to this many elements, and of four times as many bytes, are copied as they are
SMALL = 1024
#: from this IR version on, initializers need not be inputs; the checker minds it, nobody else does
_INITIALIZERS_ALONE = 4


def skeleton(model: Any, held: Mapping[bytes, Any]) -> Any:
    """A copy of a ModelProto whose tensors are small.

    Args:
        model: the ModelProto.
        held: what stands for tensors that were read apart (`load.Source`).
    """
    import onnx

    stripper = _Stripper(held)
    copy = onnx.ModelProto()
    copy.ir_version = model.ir_version if model.ir_version != 3 else _INITIALIZERS_ALONE
    copy.opset_import.extend(model.opset_import)
    stripper.graph(model.graph, copy.graph)
    for function in model.functions:
        stripper.fields(function, copy.functions.add(), {"node": stripper.node})
    return copy


class _Stripper:
    """Fills copies of messages, each from above into its place: nothing is copied twice."""

    def __init__(self, held: Mapping[bytes, Any]) -> None:
        self.held = held

    def graph(self, graph: Any, copy: Any) -> None:
        """A graph: its inputs, outputs, nodes and tensors."""
        copy.name = graph.name or "graph"
        copy.input.extend(graph.input)
        copy.output.extend(graph.output)
        for value in (*copy.input, *copy.output):
            if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
                value.type.tensor_type.shape.SetInParent()
        for node in graph.node:
            self.node(node, copy.node.add())
        for tensor in graph.initializer:
            self.tensor(tensor, copy.initializer.add())
        for sparse in graph.sparse_initializer:
            _empty(sparse.values, copy.initializer.add())

    def node(self, node: Any, copy: Any) -> None:
        """A node; most hold no tensors."""
        if all(map(self.is_plain, node.attribute)):
            copy.CopyFrom(node)
        else:
            self.fields(node, copy, {"attribute": self.attribute})

    def is_plain(self, attribute: Any) -> bool:
        """True for an attribute without graphs, large, sparse or external tensors."""
        inside = any(True for _ in subgraphs_of(attribute)) or any(
            True for _ in sparse_of(attribute)
        )
        return not inside and all(map(self.is_small, tensors_of(attribute)))

    def is_small(self, tensor: Any) -> bool:
        """True for a tensor that is copied; its data are looked at last, for that copies them."""
        count = element_count(tensor.dims)
        if count is None or count > SMALL or is_external(tensor):
            return False
        return tensor.ByteSize() <= 4 * SMALL and tensor.raw_data not in self.held

    def attribute(self, attribute: Any, copy: Any) -> None:
        """An attribute: its graphs and tensors without weights."""
        rules = {"t": self.tensor, "tensors": self.tensor, "g": self.graph, "graphs": self.graph,
                 "sparse_tensor": _empty_sparse, "sparse_tensors": _empty_sparse}  # fmt: skip
        self.fields(attribute, copy, rules)

    def tensor(self, tensor: Any, copy: Any) -> None:
        """The tensor, or an empty one."""
        if self.is_small(tensor):
            copy.CopyFrom(tensor)
        else:
            _empty(tensor, copy)

    def fields(self, message: Any, copy: Any, rules: Mapping[str, Any]) -> None:
        """All fields of a message; those with a rule by it, each message in them."""
        for field, value in message.ListFields():
            rule = rules.get(field.name)
            if rule is None:
                _set(copy, field, value)
            elif hasattr(value, "extend"):
                _fill(rule, value, getattr(copy, field.name))
            else:
                rule(value, getattr(copy, field.name))


def _fill(rule: Any, messages: Iterable[Any], copies: Any) -> None:
    for message in messages:
        rule(message, copies.add())


def _empty(tensor: Any, copy: Any) -> None:
    copy.name, copy.data_type = tensor.name, tensor.data_type
    copy.dims.append(0)


def _empty_sparse(sparse: Any, copy: Any) -> None:
    _empty(sparse.values, copy.values)
    _empty(sparse.indices, copy.indices)
    copy.dims.extend(sparse.dims)


def _set(copy: Any, field: Any, value: Any) -> None:
    """Copy one field of a message."""
    target = getattr(copy, field.name)
    if hasattr(target, "extend"):
        target.extend(value)
    elif hasattr(target, "CopyFrom"):
        target.CopyFrom(value)
    else:
        setattr(copy, field.name, value)
