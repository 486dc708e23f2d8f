"""Functions of ONNX: those that a model brings, and those that stand for an operator.

f(x) = Relu(Add(x, x))        y = f(a)    ->    t = Add(a, a); y = Relu(t)

A model's functions may call each other, but not themselves; how deep and how many nodes they come
to when written out is counted before that is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

from mlcnb.core.errors import ModelError
from mlcnb.relax.frontend.onnx.check_order import first_of
from mlcnb.relax.frontend.onnx.protos import call_key, function_key, nodes_below
from mlcnb.relax.frontend.shared.limits import MAX_FUNCTION_DEPTH, MAX_NODES

Key = tuple[str, str, str]


def function_table(model: Any) -> dict[Key, Any]:
    """The functions of a model, by what calls them."""
    return {function_key(f): f for f in model.functions}


def check_functions(model: Any, name: str) -> None:
    """Refuse recursion, deep chains, and functions that grow beyond all measure.

    Raises:
        ModelError: naming the functions.
    """
    twice = first_of(map(function_key, model.functions))
    if twice is not None:
        raise ModelError(
            f"{name}: function {twice[1]!r} is given twice", hint="the model is damaged"
        )
    table = function_table(model)
    nodes = {key: [call_key(n) for n in nodes_below(f.node)] for key, f in table.items()}
    calls = {key: [k for k in keys if k in table] for key, keys in nodes.items()}
    sizes = _sizes(calls, {key: len(keys) for key, keys in nodes.items()}, name)
    graph = list(nodes_below(model.graph.node))
    total = len(graph) + sum(sizes.get(call_key(n), 0) for n in graph)
    if total > MAX_NODES:
        raise ModelError(
            f"{name}: {total} nodes with all functions written out; at most {MAX_NODES} are built",
            hint="export the model in parts",
        )


def _sizes(calls: Mapping[Key, list[Key]], own: Mapping[Key, int], name: str) -> dict[Key, int]:
    """Nodes of each function, written out; callees first, without recursion of Python's."""
    sizes: dict[Key, int] = {}
    depth: dict[Key, int] = {}
    for start in calls:
        path = {start: iter(calls[start])} if start not in sizes else {}
        while path:
            here = next(reversed(path))
            callee = next((c for c in path[here] if c not in sizes), None)
            if callee is None:
                sizes[here] = own[here] + sum(sizes[c] for c in calls[here])
                depth[here] = 1 + max((depth[c] for c in calls[here]), default=0)
                _check_depth(depth[here], name)
                del path[here]
            elif callee in path:
                _refuse_circle([*path, callee], name)
            else:
                path[callee] = iter(calls[callee])
                _check_depth(len(path), name)
    return sizes


def _refuse_circle(path: list[Key], name: str) -> NoReturn:
    circle = path[path.index(path[-1]) :]
    raise ModelError(
        f"{name}: functions call themselves: {' -> '.join(k[1] for k in circle)}",
        hint="ONNX has no recursion: the model is damaged",
    )


def _check_depth(depth: int, name: str) -> None:
    if depth > MAX_FUNCTION_DEPTH:
        raise ModelError(
            f"{name}: functions call each other more than {MAX_FUNCTION_DEPTH} deep",
            hint="inline them first: onnx.inliner.inline_local_functions(model)",
        )


@cache
def schema(domain: str, op_type: str, opset: int) -> Any:
    """ONNX's schema of an operator at an opset, or None."""
    import onnx

    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def has_body(domain: str, op_type: str, opset: int) -> bool:
    """True for an operator that ONNX itself defines by others."""
    found = schema(domain, op_type, opset)
    return found is not None and _version(found, opset) is not None


def _version(found: Any, opset: int) -> tuple[int, bool] | None:
    """The newest body that this opset may use: its version, and whether it depends on types."""
    plain = [(v, False) for v in found.function_opset_versions if v <= opset]
    typed = [(v, True) for v in found.context_dependent_function_opset_versions if v <= opset]
    return max([*plain, *typed], default=None, key=lambda entry: (entry[0], not entry[1]))


def body(node: Any, opset: int, types: list[Any]) -> Any:
    """The FunctionProto that defines an operator.

    Args:
        node: the NodeProto.
        opset: version of its domain.
        types: a TypeProto for each input.

    Returns:
        None where ONNX has no body for these types.
    """
    import onnx

    domain = "" if node.domain == "ai.onnx" else node.domain
    found = schema(domain, node.op_type, opset)
    version = None if found is None else _version(found, opset)
    if version is None:
        return None
    if not version[1]:
        data = found.get_function_with_opset_version(version[0])
    else:
        try:
            data = found.get_context_dependent_function_with_opset_version(
                version[0], node.SerializeToString(), [t.SerializeToString() for t in types]
            )
        except (onnx.checker.ValidationError, ValueError, RuntimeError):  # of a sequence …
            return None
    return onnx.FunctionProto.FromString(data) if data else None
