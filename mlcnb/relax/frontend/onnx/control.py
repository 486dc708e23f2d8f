"""Nodes that are structure, not operators: constants, branches and loops.

Constant      a constant                      If      the branch that is known to be taken, or
Loop, Scan    `loops`                                 R.If of the two
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.relax.analysis.struct_info import erase_to_well_defined, symbolic_vars
from mlcnb.relax.expr import (
    BindingBlock,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
)
from mlcnb.relax.frontend.onnx.loops import loop, scan
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.frontend.shared.fold import constant
from mlcnb.relax.frontend.shared.turns import scalar
from mlcnb.relax.infer import infer
from mlcnb.relax.operator import is_null
from mlcnb.relax.struct_info import ObjectStructInfo

Walk = Any  # an Importer, which imports this module
Place = Any  # a Frame of it


def constants(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Constant: a tensor, a sparse one, or numbers in an attribute."""
    for name, kind in _CONSTANTS.items():
        value = node.attr(name)
        if value is not None:
            return [constant(np.asarray(value, kind), node.span)]
    return node.refuse("no value, or one of strings")


_CONSTANTS: dict[str, Any] = {
    "value": None, "sparse_value": None, "value_float": np.float32, "value_floats": np.float32,
    "value_int": np.int64, "value_ints": np.int64,
}  # fmt: skip


def branch(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """If: one of two graphs, which see all names around them."""
    if len(inputs) != 1:
        node.refuse(f"{len(inputs)} inputs: it takes one condition")
    graphs = node.require("then_branch"), node.require("else_branch")
    known = node.known(inputs[0])
    value = None if known is None or known.size != 1 else p.as_int(known.item())
    if value is not None:
        return walk.graph(graphs[0] if value else graphs[1], place.inside())
    before = len(node.values.found_at_run_time)
    sequences = [_sequence(walk, graph, place.inside()) for graph in graphs]
    inside = node.values.found_at_run_time[before:]
    if len({len(names) for _, names in sequences}) > 1:
        node.refuse("the branches have different numbers of outputs")
    taken = walk.choices.next() if known is not None and _ranks_differ(sequences) else None
    if known is not None and taken is not None:
        condition = known.item()
        node.assume(condition if condition.dtype.is_bool else p.not_equal(condition, 0), taken)
        body, outputs = sequences[0 if taken else 1]
        walk.emitter.bindings.extend(b for block in body.blocks for b in block.bindings)
        return outputs
    choice = If(scalar(node, inputs[0]), sequences[0][0], sequences[1][0])
    if any(is_null(leaf) for _, names in sequences for leaf in names):
        node.unknown(inputs[0], "which branch makes a value that is optional is not known")
    if infer(choice) is None or isinstance(infer(choice), ObjectStructInfo):
        node.unknown(inputs[0], "which of two branches of different kinds is taken is not known")
    info = erase_to_well_defined(infer(choice), _others(infer(choice), inside))
    made = node.values.opened(node.values.bind(replace(choice, struct_info=info)))
    count = len(graphs[0].output)
    return [made] if count == 1 else [node.emit(TupleGetItem(made, i)) for i in range(count)]


def _ranks_differ(sequences: list[tuple[SeqExpr, list[Any]]]) -> bool:
    """True where a tensor of one branch has another rank than that of the other one."""
    ranks = [[getattr(x.struct_info, "ndim", None) for x in outputs] for _, outputs in sequences]
    return ranks[0] != ranks[1]


def _others(info: Any, inside: list[Any]) -> list[Any]:
    """The symbols of a struct info but those that were met inside of branches."""
    return [v for v in symbolic_vars(info) if v not in set(inside)]


def _sequence(walk: Walk, graph: Any, place: Place) -> tuple[SeqExpr, list[Any]]:
    """A graph as a block of bindings of its own, and its results."""
    with walk.emitter.scope(False) as bindings:
        outputs = walk.graph(graph, place)
        body = outputs[0] if len(outputs) == 1 else Tuple(tuple(outputs))
    return SeqExpr((BindingBlock(tuple(bindings)),) if bindings else (), body), outputs


#: nodes that are structure, by domain and name
STRUCTURE: dict[tuple[str, str], Callable[[Walk, Node, list[Any], Place], list[Any]]] = {
    ("", "Constant"): constants,
    ("", "If"): branch,
    ("", "Loop"): loop,
    ("", "Scan"): scan,
}
