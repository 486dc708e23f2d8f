"""What an exported program holds, takes and returns, as tensors.

self.rows = [torch.zeros(8, 2)]; self.register_buffer("kept", self.rows[0])
self.rows[0].index_copy_(0, i, x)     the list's tensor is the buffer `kept` (`by_one_name`)
def forward(self, x, cache)           (x, cache_keys, cache_values) (`by_tensors`)
"""

from __future__ import annotations

from typing import Any


def value_of(ep: Any, spec: Any) -> Any:
    """The parameter, buffer or constant that an input of a program is."""
    return next(s[spec.target] for s in (ep.state_dict, ep.constants) if spec.target in s)


def by_one_name(ep: Any) -> Any:
    """The program in which a tensor that the model holds under several names has one: PyTorch does
    not write out what changes it by one and reads it by another.
    """
    import torch

    kinds = torch.export.graph_signature.InputKind
    held = (kinds.PARAMETER, kinds.BUFFER, kinds.CONSTANT_TENSOR)
    first: dict[Any, str] = {}
    twins: dict[str, str] = {}
    for spec in ep.graph_signature.input_specs:
        name = spec.arg.name
        same = _memory(value_of(ep, spec)) if spec.kind in held else name
        if first.setdefault(same, name) != name and spec.kind is not kinds.PARAMETER:
            twins[name] = first[same]
    if not twins:
        return ep
    graph = torch.fx.Graph()
    made: dict[str, Any] = {}
    for node in ep.graph.nodes:
        twin = twins.get(node.name)
        made[node.name] = made[twin] if twin else graph.node_copy(node, lambda n: made[n.name])
    told = ep.graph_signature
    specs = [spec for spec in told.input_specs if spec.arg.name not in twins]
    signature = torch.export.ExportGraphSignature(specs, told.output_specs)
    return _rebuilt(ep, graph=graph, graph_signature=signature)


def by_tensors(ep: Any) -> Any:
    """The program that takes and returns tensors alone, by their names: a class that makes tensors
    as PyTorch puts it together is not put together again.
    """
    import torch

    tree = torch.utils._pytree
    told = ep.graph_signature
    kind = torch.export.graph_signature.InputKind.USER_INPUT
    names = [spec.arg.name for spec in told.input_specs if spec.kind is kind]
    given = dict(zip(names, tree.tree_leaves(ep.example_inputs), strict=True))
    taken, made = (tree.tree_structure(v) for v in (((), given), tuple(told.user_outputs)))
    entry = torch.export.ModuleCallSignature(inputs=[], outputs=[], in_spec=taken, out_spec=made)
    return _rebuilt(
        ep,
        module_call_graph=[torch.export.ModuleCallEntry(fqn="", signature=entry)],
        example_inputs=((), given),
    )


def _rebuilt(ep: Any, **parts: Any) -> Any:
    """The program with other parts."""
    import torch

    kept = (
        "graph graph_signature state_dict range_constraints module_call_graph example_inputs "
        "constants verifiers"
    )
    same = {name: getattr(ep, name) for name in kept.split()}
    return torch.export.ExportedProgram(root=ep.graph_module, **same | parts)


def _memory(value: Any) -> Any:
    """What is the same for two tensors whose elements are the same; their own for empty ones."""
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or not value.numel():
        return id(value)
    place = value.data_ptr(), value.device
    return place, value.dtype, tuple(value.shape), value.stride()
