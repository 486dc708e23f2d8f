"""Nodes that are structure, not operators: constants, branches and loops.

Constant    a constant
If          the branch that is known to be taken, or R.If of the two
Loop        for turn in range(limit), while going: going, carried, rows = body(turn, going, carried)
Scan        for each slice of the scanned inputs:  carried, rows = body(carried, slices)

Loops are written out where the turns are known at import, else run (`shared.turns`). What only
grows is rows there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.analysis.struct_info import erase_to_well_defined, same_dim, symbolic_vars
from mlcnb.relax.expr import BindingBlock, If, SeqExpr, ShapeExpr, Tuple, TupleGetItem, tensor_info
from mlcnb.relax.expr import const as make_const
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.frontend.onnx.protos import Growth, grown
from mlcnb.relax.frontend.shared.fold import constant
from mlcnb.relax.frontend.shared.limits import MAX_TURNS
from mlcnb.relax.frontend.shared.loop_values import call_op, scalar, size_tensor, slices_at
from mlcnb.relax.frontend.shared.turns import turns_of
from mlcnb.relax.infer import infer
from mlcnb.relax.operator import is_null
from mlcnb.relax.struct_info import ObjectStructInfo, ShapeStructInfo

Walk = Any  # an Importer, which imports this module
Place = Any  # a Frame of it


def loop(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Loop: a body of (turn, condition, carried) that gives (condition, carried, rows)."""
    body = node.require("body")
    count = len(body.output) - 1 - len(inputs[2:])
    if count < 0:
        node.refuse(
            f"its body has {len(body.output)} outputs, for {len(inputs[2:])} carried values"
        )
    key = (node.name, node.outputs)
    if _is_counted_by_a_run(node, inputs) and key not in walk.carried_whole:
        made, growths = grown(
            body, len(inputs) - 2, lambda name: _is_fixed(walk.find(name, place.scope, node))
        )
        if growths:
            origin = walk.emitter.origin
            try:
                return _growing(walk, node, inputs, place, made, growths)
            except _NotAlike:
                walk.emitter.origin = origin
                walk.carried_whole.add(key)
    carried, rows = _turns(walk, node, inputs[:2], inputs[2:], count, place, body)
    return [*carried, *rows]


def _is_counted_by_a_run(node: Node, inputs: list[Any]) -> bool:
    """True for a loop with a trip count that is not written out for it."""
    if len(inputs) < 3 or inputs[0] is None or len(node.require("body").input) != len(inputs):
        return False
    limit = node.known(inputs[0])
    return limit is None or limit.dtype == object or limit.item() > MAX_TURNS


def _growing(
    walk: Walk,
    node: Node,
    inputs: list[Any],
    place: Place,
    body: Any,
    growths: list[Growth],
) -> list[Any]:
    """A loop whose carried values grow by rows, the last of its body's outputs.

    Rows are written where they stay, and copied once in the end; carried, each turn would copy all
    that is there, and how long it is would be another symbol in each.
    """
    numbers = {g.number for g in growths}
    kept = [x for i, x in enumerate(inputs[2:]) if i not in numbers]
    count = len(body.output) - 1 - len(kept)
    with walk.emitter.scope(False) as bindings:
        carried, rows = _turns(walk, node, inputs[:2], kept, count, place, body, grows=len(growths))
    walk.emitter.bindings.extend(bindings)
    pairs = zip(growths, rows[count - len(growths) :], strict=True)
    grow = {g.number: _longer(node, inputs[2 + g.number], row, g.axis) for g, row in pairs}
    others = iter(carried)
    whole = [grow[i] if i in grow else next(others) for i in range(len(inputs) - 2)]
    return [*whole, *rows[: count - len(growths)]]


def _turns(
    walk: Walk,
    node: Node,
    bounds: list[Any],
    carried: list[Any],
    count: int,
    place: Place,
    body: Any,
    grows: int = 0,
) -> tuple[list[Any], list[Any]]:
    """What is carried in the end, and rows; the last `grows` of them have a known size."""
    limit, going = (bounds[i] if i < len(bounds) else None for i in range(2))

    def step(turn: Any, values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        inner = place.inside()
        _bind(node, body, [turn, make_const(True), *values], inner)
        condition, *made = walk.graph(body, inner)
        if not all(map(_is_fixed, made[len(made) - grows :])):
            raise _NotAlike
        return condition, made[: len(values)], made[len(values) :]

    return turns_of(walk, node, step, carried, count, limit, going)


def _is_fixed(row: Any) -> bool:
    """True for a tensor whose dimensions are numbers: it is as large in every turn."""
    dims = getattr(getattr(row, "struct_info", None), "dims", None) or ()
    return len(dims) > 0 and all(as_int(d) is not None for d in dims)


def _longer(node: Any, start: Any, rows: Any, axis: int) -> Any:
    """`start`, and behind it along the axis all rows."""
    count, *row = rows.struct_info.dims
    axis %= len(row)
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(row) + 1)]
    turned = call_op(node, "relax.permute_dims", rows, axes=order) if axis else rows
    shape = [count * d if i == axis else d for i, d in enumerate(row)]
    flat = call_op(node, "relax.reshape", turned, ShapeExpr(tuple(shape)))
    return call_op(node, "relax.concat", Tuple((start, flat)), axis=axis)


class _NotAlike(Exception):
    """Raised inside of a loop that is being written, where a row is not fixed."""


def scan(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Scan: one turn for each slice of its scanned inputs."""
    if node.opset < 9:
        return _batches(walk, node, inputs, place)
    return _scan(walk, node, inputs, place)


def _batches(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Scan of opset 8: a scan for each sample, of the first dimension of all inputs."""
    lengths, *given = inputs
    count = as_int(node.dims(given[0])[0]) if given else None
    if count is None or not 0 < count <= MAX_TURNS:
        node.refuse(f"the number of samples is not known, 0, or more than {MAX_TURNS}")
    axes, samples = [0] * len(given), []
    for number in range(count):
        at = [make_const(np.int64(number))] * len(given)
        turns = None if lengths is None else slices_at(node, [lengths], [0], at[:1])[0]
        samples.append(_scan(walk, node, slices_at(node, given, axes, at), place, turns))
    return [call_op(node, "relax.stack", list(row), axis=0) for row in zip(*samples, strict=True)]


def _scan(walk: Walk, node: Node, inputs: list[Any], place: Place, turns: Any = None) -> list[Any]:
    """One turn for each slice along the axes that are given; or so many turns, and rows of 0."""
    body, many = node.require("body"), node.require("num_scan_inputs")
    carried, scanned = inputs[: len(inputs) - many], inputs[len(inputs) - many :]
    if not 0 < many <= len(inputs) or not scanned:
        node.refuse(f"num_scan_inputs is {many}, of {len(inputs)} inputs")
    axes = _axes(node, "scan_input_axes", scanned)
    directions = node.attr("directions" if node.opset < 9 else "scan_input_directions")
    backwards = directions or (0,) * many
    length = whole = _length(node, scanned, axes)
    if turns is not None:
        if any(backwards):
            node.refuse("sequences of different lengths that are read from their end")
        length = _shorter(node, turns, whole)
    limit = size_tensor(node, length)

    def step(turn: Any, values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        last = make_const(np.int64(1))
        at = turn
        if any(backwards):
            last = call_op(node, "relax.subtract", limit, call_op(node, "relax.add", turn, last))
        slices = slices_at(node, scanned, axes, [last if back else at for back in backwards])
        inner = place.inside()
        _bind(node, body, [*values, *slices], inner)
        made = walk.graph(body, inner)
        return None, made[: len(values)], made[len(values) :]

    count = len(body.output) - len(carried)
    if count < 0:
        node.refuse(f"its body has {len(body.output)} outputs, for {len(carried)} states")
    carried, rows = turns_of(walk, node, step, carried, count, limit, length=length)
    if turns is not None:
        rows = [_filled(node, x, length, whole) for x in rows]
    return [*carried, *_placed(node, rows)]


def _shorter(node: Node, turns: Any, whole: Any) -> Any:
    """The length of one sequence as a size; that it is no longer than the whole is checked."""
    known = node.known(turns)
    if known is not None and known.dtype != object and isinstance(whole, int):
        if not 0 <= known.item() <= whole:
            node.refuse(f"a sequence of length {known.item()}, of {whole} slices")
        return int(known.item())
    (size,) = node.values.lengths(turns, 1)
    least = p.minimum(size, p.as_expr(whole))
    node.values.cast(ShapeExpr((size,)), ShapeStructInfo((least,), 1))
    return size


def _filled(node: Node, rows: Any, length: Any, whole: Any) -> Any:
    """Rows of one sequence, with zeros in place of those behind its end."""
    left = p.as_expr(whole) - length
    if as_int(left) == 0:
        return rows
    info = rows.struct_info
    rest = call_op(node, "relax.zeros", ShapeExpr((left, *info.dims[1:])), dtype=str(info.dtype))
    both = call_op(node, "relax.concat", Tuple((rows, rest)), axis=0)
    return node.values.cast(both, tensor_info((whole, *info.dims[1:]), info.dtype))


def _length(node: Node, scanned: list[Any], axes: list[int]) -> Any:
    """The length that all scanned inputs have, checked as the model runs where it is open."""
    lengths = [node.dims(x)[a] for x, a in zip(scanned, axes, strict=True)]
    for other in lengths[1:]:
        if same_dim(lengths[0], other):
            continue
        if isinstance(lengths[0], int) and isinstance(other, int):
            node.refuse(f"its scanned inputs have {lengths[0]} and {other} slices")
        checked = ShapeStructInfo((lengths[0],), 1)
        node.values.cast(ShapeExpr((other,)), checked)
    return lengths[0]


def _placed(node: Node, rows: list[Any]) -> list[Any]:
    """The scanned outputs of a Scan, along their axes and in their directions."""
    axes = node.attr("scan_output_axes", (0,) * len(rows))
    backwards = node.attr("scan_output_directions", (0,) * len(rows))
    found = []
    for x, axis, back in zip(rows, axes, backwards, strict=True):
        turned = call_op(node, "relax.flip", x, axis=0) if back else x
        order = list(range(1, x.struct_info.ndim))
        order.insert(axis % x.struct_info.ndim, 0)
        moved = order != sorted(order)
        found.append(call_op(node, "relax.permute_dims", turned, axes=order) if moved else turned)
    return found


def _axes(node: Node, name: str, tensors: list[Any]) -> list[int]:
    given = node.attr(name, (0,) * len(tensors))
    return [a % max(len(node.dims(x)), 1) for a, x in zip(given, tensors, strict=True)]


def _bind(node: Node, body: Any, values: list[Any], place: Place) -> None:
    if len(body.input) != len(values):
        node.refuse(f"its body takes {len(body.input)} inputs, {len(values)} are given")
    for proto, value in zip(body.input, values, strict=True):
        place.scope[proto.name] = value


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
