"""Nodes that are structure, not operators: constants, branches and loops.

Constant      a constant                      If      the branch that is known to be taken, or
Loop, Scan    written out, turn by turn,              R.If of the two
              where the turns are known
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.analysis.struct_info import erase_to_well_defined, symbolic_vars
from mlcnb.relax.expr import BindingBlock, If, SeqExpr, Tuple, TupleGetItem
from mlcnb.relax.expr import const as make_const
from mlcnb.relax.frontend.onnx.fold import constant
from mlcnb.relax.frontend.onnx.limits import MAX_TURNS
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.infer import infer
from mlcnb.relax.operator import declaration, is_null, make_call
from mlcnb.relax.struct_info import ObjectStructInfo, TensorStructInfo

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
    if known is not None and known.dtype != object and known.size == 1:
        return walk.graph(graphs[0] if known.item() else graphs[1], place.inside())
    before = len(node.values.found_at_run_time)
    sequences = [_sequence(walk, graph, place.inside()) for graph in graphs]
    inside = node.values.found_at_run_time[before:]
    if len({len(names) for _, names in sequences}) > 1:
        node.refuse("the branches have different numbers of outputs")
    choice = If(_scalar(node, inputs[0]), sequences[0][0], sequences[1][0])
    if any(is_null(leaf) for _, names in sequences for leaf in names):
        node.unknown(inputs[0], "which branch makes a value that is optional is not known")
    if infer(choice) is None or isinstance(infer(choice), ObjectStructInfo):
        node.unknown(inputs[0], "which of two branches of different kinds is taken is not known")
    info = erase_to_well_defined(infer(choice), _others(infer(choice), inside))
    made = node.values.opened(node.values.bind(replace(choice, struct_info=info)))
    count = len(graphs[0].output)
    return [made] if count == 1 else [node.emit(TupleGetItem(made, i)) for i in range(count)]


def _others(info: Any, inside: list[Any]) -> list[Any]:
    """The symbols of a struct info but those that were met inside of branches."""
    return [v for v in symbolic_vars(info) if v not in set(inside)]


def _sequence(walk: Walk, graph: Any, place: Place) -> tuple[SeqExpr, list[Any]]:
    """A graph as a block of bindings of its own, and its results."""
    with walk.emitter.scope(False) as bindings:
        outputs = walk.graph(graph, place)
        body = outputs[0] if len(outputs) == 1 else Tuple(tuple(outputs))
    return SeqExpr((BindingBlock(tuple(bindings)),) if bindings else (), body), outputs


def _scalar(node: Node, condition: Any) -> Any:
    """A condition without dimensions."""
    info = condition.struct_info
    if isinstance(info, TensorStructInfo) and info.ndim > 0:
        return node.emit(make_call(declaration("relax.reshape"), condition, ()))
    return condition


def loop(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Loop: turns and condition are known at import, so that it is written out.

    A body has (turn, condition, carried values) as inputs, and (condition, carried values, rows of
    scanned outputs) as outputs.
    """
    body = node.require("body")
    limit, going = (inputs[i] if i < len(inputs) else None for i in range(2))
    carried = inputs[2:]
    turns = MAX_TURNS + 1 if limit is None else int(node.constant(limit, "the trip count").item())
    rows: list[list[Any]] = [[] for _ in body.output[1 + len(carried) :]]
    turn = 0
    while turn < turns and (going is None or node.constant(going, "the condition").item()):
        if turn == MAX_TURNS:
            node.refuse(f"a loop of more than {MAX_TURNS} turns")
        inner = place.inside()
        given = [make_const(np.int64(turn)), make_const(True) if going is None else going, *carried]
        _bind(node, body, given, inner)
        going, *made = walk.graph(body, inner)
        carried, scanned = made[: len(carried)], made[len(carried) :]
        for kept, value in zip(rows, scanned, strict=True):
            kept.append(value)
        turn += 1
    return [*carried, *(_stacked(node, r, 0) for r in rows)]


def scan(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Scan: one turn for each slice of its scanned inputs, written out."""
    if node.opset < 9:
        return _batches(walk, node, inputs, place)
    return _scan(walk, node, inputs, place)


def _batches(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Scan of opset 8: a scan for each sample, of the first dimension of all inputs."""
    lengths, *given = inputs
    if lengths is not None:
        node.refuse("sequences of different lengths, in the form of opset 8")
    count = as_int(node.dims(given[0])[0]) if given else None
    if count is None or not 0 < count <= MAX_TURNS:
        node.refuse(f"the number of samples is not known, 0, or more than {MAX_TURNS}")
    samples = [
        _scan(walk, node, [_slice(node, x, 0, i) for x in given], place) for i in range(count)
    ]
    return [_stacked(node, list(row), 0) for row in zip(*samples, strict=True)]


def _scan(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """One turn for each slice along the axes that are given."""
    body, count = node.require("body"), node.require("num_scan_inputs")
    carried, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    if not 0 < count <= len(inputs) or not scanned:
        node.refuse(f"num_scan_inputs is {count}, of {len(inputs)} inputs")
    axes = _axes(node, "scan_input_axes", scanned)
    directions = node.attr("directions" if node.opset < 9 else "scan_input_directions")
    backwards = directions or (0,) * count
    turns = as_int(node.dims(scanned[0])[axes[0]])
    if turns is None or turns > MAX_TURNS:
        node.refuse(f"the number of turns is not known, or more than {MAX_TURNS}")
    rows: list[list[Any]] = [[] for _ in body.output[len(carried) :]]
    for turn in range(turns):
        at = [turns - 1 - turn if back else turn for back in backwards]
        slices = [_slice(node, x, a, i) for x, a, i in zip(scanned, axes, at, strict=True)]
        inner = place.inside()
        _bind(node, body, [*carried, *slices], inner)
        made = walk.graph(body, inner)
        carried = made[: len(carried)]
        for kept, value in zip(rows, made[len(carried) :], strict=True):
            kept.append(value)
    return [*carried, *_scanned(node, rows)]


def _scanned(node: Node, rows: list[list[Any]]) -> list[Any]:
    """The scanned outputs of a Scan, along their axes and in their directions."""
    axes = node.attr("scan_output_axes", (0,) * len(rows))
    backwards = node.attr("scan_output_directions", (0,) * len(rows))
    return [
        _stacked(node, r[::-1] if back else r, axis)
        for r, axis, back in zip(rows, axes, backwards, strict=True)
    ]


def _axes(node: Node, name: str, tensors: list[Any]) -> list[int]:
    given = node.attr(name, (0,) * len(tensors))
    return [a % max(len(node.dims(x)), 1) for a, x in zip(given, tensors, strict=True)]


def _bind(node: Node, body: Any, values: list[Any], place: Place) -> None:
    if len(body.input) != len(values):
        node.refuse(f"its body takes {len(body.input)} inputs, {len(values)} are given")
    for proto, value in zip(body.input, values, strict=True):
        place.scope[proto.name] = value


def _slice(node: Node, x: Any, axis: int, at: int) -> Any:
    take = declaration("relax.take")
    return node.emit(make_call(take, x, make_const(np.int64(at)), axis=axis, mode="fast"))


def _stacked(node: Node, rows: list[Any], axis: int) -> Any:
    if not rows:
        node.refuse("a loop without turns, whose scanned output has an unknown shape")
    return node.emit(make_call(declaration("relax.stack"), rows, axis=axis))


#: nodes that are structure, by domain and name
STRUCTURE: dict[tuple[str, str], Callable[[Walk, Node, list[Any], Place], list[Any]]] = {
    ("", "Constant"): constants,
    ("", "If"): branch,
    ("", "Loop"): loop,
    ("", "Scan"): scan,
}
