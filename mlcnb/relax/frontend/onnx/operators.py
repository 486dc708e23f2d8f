"""Which operators of a model are not imported: all of them are named at once, before any work.

An operator is imported by its spelling, as structure (If, Constant …), by a function of the model,
or by the function that ONNX itself defines it by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlcnb.core.errors import ModelError, UnsupportedOpError
from mlcnb.op.onnx import spelling
from mlcnb.relax.frontend.onnx import functions
from mlcnb.relax.frontend.onnx.control import STRUCTURE
from mlcnb.relax.frontend.onnx.protos import (
    call_key,
    label,
    nodes_below,
    operator_text,
    opsets_of,
    plain_domain,
)


def how(domain: str, op_type: str, opset: int) -> str | None:
    """How an operator is imported: "spelling", "structure", "function"; None: it is not."""
    if spelling(domain, op_type, opset) is not None:
        return "spelling"
    if (domain, op_type) in STRUCTURE:
        return "structure"
    return "function" if functions.has_body(domain, op_type, opset) else None


def check_operators(model: Any, name: str, opsets: Mapping[str, int]) -> None:
    """Refuse a model with operators that are not imported.

    Raises:
        UnsupportedOpError: naming all of them, with one node each.
        ModelError: a domain without an opset.
    """
    missing: dict[tuple[str, int], list[Any]] = {}
    known: dict[Any, Any] = {}
    for node, version in _reached(model, name, opsets):
        key = (node.domain, node.op_type, version)
        if key not in known:
            known[key] = how(plain_domain(node.domain), node.op_type, version)
        if known[key] is None:
            missing.setdefault((operator_text(node), version), []).append(node)
    if missing:
        listed = [_entry(op, opset, nodes) for (op, opset), nodes in missing.items()]
        what = "this operator is" if len(listed) == 1 else f"{len(listed)} operators are"
        raise UnsupportedOpError(
            f"{name}: {what} not imported: {'; '.join(listed)}",
            hint="mlcnb.relax.frontend.onnx.coverage() lists what is imported",
        )


def _entry(op: str, opset: int, nodes: list[Any]) -> str:
    domain = plain_domain(nodes[0].domain)
    unknown = functions.schema(domain, nodes[0].op_type, opset) is None
    also = " has no such operator" if unknown and not domain else ""
    count = f", {len(nodes)} times" if len(nodes) > 1 else ""
    return f"{op} (opset {opset}{also}{count}: {label(nodes[0])})"


def _reached(model: Any, name: str, opsets: Mapping[str, int]) -> Iterator[tuple[Any, int]]:
    """Nodes that run, with the version of their domain; calls of functions are followed once."""
    table = functions.function_table(model)
    waiting = [(model.graph.node, opsets)]
    seen: set[Any] = set()
    while waiting:
        nodes, versions = waiting.pop()
        for node in nodes_below(nodes):
            key = table and call_key(node)
            if key and key in table:
                if key not in seen:
                    seen.add(key)
                    inner = {**versions, **opsets_of(table[key].opset_import)}
                    waiting.append((table[key].node, inner))
                continue
            version = versions.get(plain_domain(node.domain))
            if version is None:
                raise ModelError(
                    f"{name}: no opset is given for domain {node.domain!r} of {label(node)}",
                    hint="the model is damaged: export it again",
                )
            yield node, version
