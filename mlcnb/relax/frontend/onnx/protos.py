"""Reading ONNX's protobuf messages: names, domains, and what hides in attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def plain_domain(domain: str) -> str:
    """A domain's name; ONNX's own has two."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    """Version by domain; ONNX's own domain is ""."""
    return {plain_domain(o.domain): o.version for o in imports}


def operator_text(node: Any) -> str:
    """`Conv`, or `com.microsoft::FusedConv`."""
    domain = plain_domain(node.domain)
    return f"{domain}::{node.op_type}" if domain else str(node.op_type)


def node_name(node: Any) -> str:
    """A node's name, or its first output where it has none."""
    return node.name or next(filter(None, node.output), "")


def label(node: Any) -> str:
    """`node 'conv1' (Conv)`"""
    return f"node {node_name(node)!r} ({operator_text(node)})"


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        yield from subgraphs_of(attribute)


def subgraphs_of(attribute: Any) -> Iterator[Any]:
    """The graphs in an attribute."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def tensors_of(attribute: Any) -> Iterator[Any]:
    """The tensors in an attribute."""
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors


def sparse_of(attribute: Any) -> Iterator[Any]:
    """The sparse tensors in an attribute."""
    if attribute.HasField("sparse_tensor"):
        yield attribute.sparse_tensor
    yield from attribute.sparse_tensors


def nodes_below(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes, and those of the graphs inside of them."""
    for node in nodes:
        yield node
        if node.attribute:
            for graph in subgraphs(node):
                yield from nodes_below(graph.node)


def function_key(function: Any) -> tuple[str, str, str]:
    """What a node's domain, operator and overload must be to call a function of the model."""
    return plain_domain(function.domain), function.name, getattr(function, "overload", "")


def call_key(node: Any) -> tuple[str, str, str]:
    """The key of the function that a node would call."""
    return plain_domain(node.domain), node.op_type, getattr(node, "overload", "")
