"""Names of a model are text: bytes that are no UTF-8 are refused before anybody asks for them.

Protobuf gives such a string as bytes, or stops with an error of its own, depending on its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from mlcnb.core.errors import ModelError
from mlcnb.relax.frontend.onnx.protos import subgraphs


def check_text(model: Any, name: str) -> None:
    """Refuse a model with a name that is no text.

    Raises:
        ModelError: saying what has the name.
    """
    place = "an opset's domain"
    try:
        for place, texts in _texts(model):
            for text in texts:
                if type(text) is not str:
                    _refuse(name, place)
    except UnicodeDecodeError:
        _refuse(name, f"what follows {place}")


def _refuse(name: str, place: str) -> NoReturn:
    raise ModelError(
        f"{name}: a name of {place} is not UTF-8",
        hint="the file is damaged: download or export it again",
    )


Texts = Iterator[tuple[str, Iterable[Any]]]


def _texts(model: Any) -> Texts:
    """Every text that an import reads, with words for where it stands; each message once."""
    yield "an opset's domain", (o.domain for o in model.opset_import)
    graphs = [model.graph]
    for function in model.functions:
        given = (function.name, function.domain, getattr(function, "overload", ""))
        yield "a function", (*given, *function.input, *function.output, *function.attribute)
        yield "an opset's domain", (o.domain for o in function.opset_import)
        yield from _of_attributes(function.attribute_proto)
        yield from _of_nodes(function.node, graphs)
    while graphs:
        graph = graphs.pop()
        yield "a graph", (graph.name,)
        for value in (*graph.input, *graph.output):
            dims = value.type.tensor_type.shape.dim
            yield "an input or output", (value.name, *(d.dim_param for d in dims))
        tensors = (*graph.initializer, *(s.values for s in graph.sparse_initializer))
        yield from _of_tensors(tensors)
        yield from _of_nodes(graph.node, graphs)


def _of_nodes(nodes: Iterable[Any], graphs: list[Any]) -> Texts:
    for number, node in enumerate(nodes):
        given = (node.name, node.op_type, node.domain, getattr(node, "overload", ""))
        yield f"node number {number}", (*given, *node.input, *node.output)
        if node.attribute:
            yield from _of_attributes(node.attribute)
            graphs.extend(subgraphs(node))


def _of_attributes(attributes: Iterable[Any]) -> Texts:
    for attribute in attributes:
        yield "an attribute", (attribute.name, attribute.ref_attr_name)
        if attribute.HasField("t"):
            yield from _of_tensors((attribute.t,))


def _of_tensors(tensors: Iterable[Any]) -> Texts:
    for tensor in tensors:
        more = (t for e in tensor.external_data for t in (e.key, e.value))
        yield "an initializer or constant", (tensor.name, *more)
