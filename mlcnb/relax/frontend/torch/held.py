"""Tensors that an exported program holds: parameters, buffers and constants.

self.rows = [torch.zeros(8, 2)]; self.register_buffer("kept", self.rows[0])
self.rows[0].index_copy_(0, i, x)     the list's tensor is the buffer `kept` (`by_one_name`)
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
        if first.setdefault(same, name) != name:
            twins[name] = first[same]
    if not twins:
        return ep
    graph, made = torch.fx.Graph(), {}
    for node in ep.graph.nodes:
        twin = twins.get(node.name)
        made[node.name] = made[twin] if twin else graph.node_copy(node, lambda n: made[n.name])
    told = ep.graph_signature
    specs = [spec for spec in told.input_specs if spec.arg.name not in twins]
    return torch.export.ExportedProgram(
        root=ep.graph_module,
        graph=graph,
        graph_signature=torch.export.ExportGraphSignature(specs, told.output_specs),
        state_dict=ep.state_dict,
        range_constraints=ep.range_constraints,
        module_call_graph=ep.module_call_graph,
        example_inputs=ep.example_inputs,
        constants=ep.constants,
        verifiers=ep.verifiers,
    )


def _memory(value: Any) -> Any:
    """What is the same for two tensors whose elements are the same; their own for empty ones."""
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or not value.numel():
        return id(value)
    place = value.data_ptr(), value.device
    return place, value.dtype, tuple(value.shape), value.stride()
