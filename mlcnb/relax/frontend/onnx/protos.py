"""Reading ONNX's protobuf messages: names, domains, and what hides in attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


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


class Growth(NamedTuple):
    """A value that a loop carries, and that only grows: its number, and along which axis."""

    number: int
    axis: int


def grown(body: Any, carried: int, is_fixed: Callable[[str], bool]) -> tuple[Any, list[Growth]]:
    """A loop's body with what grows as rows, the last outputs; itself where nothing does.

    ys_out = Concat(ys_in, y, axis=0), and nothing else reads ys_in      ->      a row: y

    carried: how many values are carried: inputs from the third on, outputs from the second.
    is_fixed: whether a name of around the body is a tensor of a known size.
    """
    own = {o for n in body.node for o in n.output} | {
        x.name for x in (*body.input, *body.initializer)
    }
    uses = [name for n in nodes_below(body.node) for name in n.input]
    uses += [o.name for g in (body, *_graphs_below(body)) for o in g.output]
    found: dict[str, Growth] = {}
    for i in range(carried):
        before, after = body.input[2 + i].name, body.output[1 + i].name
        makers = [n for n in body.node if after in n.output and operator_text(n) == "Concat"]
        axis = [a.i for n in makers for a in n.attribute if a.name == "axis"]
        if not axis or uses.count(before) != 1 or uses.count(after) != 1:
            continue
        first, *pieces = makers[0].input
        if first == before and pieces and all(x in own or is_fixed(x) for x in pieces):
            found[after] = Growth(i, axis[0])
    return (_with_rows(body, found) if found else body), [*found.values()]


def _graphs_below(graph: Any) -> Iterator[Any]:
    for node in nodes_below(graph.node):
        yield from subgraphs(node)


def _with_rows(body: Any, found: dict[str, Growth]) -> Any:
    """A copy whose makers leave out what is carried."""
    made = type(body)()
    made.CopyFrom(body)
    gone = {body.input[2 + g.number].name for g in found.values()}
    for node in made.node:
        if node.output and node.output[0] in found:
            del node.input[0]
    inputs = [x for x in body.input if x.name not in gone]
    outputs = sorted(body.output, key=lambda o: o.name in found)  # the others first, in order
    del made.input[:], made.output[:]
    made.input.extend(inputs)
    made.output.extend(outputs)
    return made
