"""Loop and Scan: written out where the turns are known at import, else run (`turns`).

Loop    for turn in range(limit), while going: going, carried, rows = body(turn, going, carried)
Scan    for each slice of the scanned inputs:  carried, rows = body(carried, slices)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir import prim_ops as p
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.analysis.struct_info import same_dim
from mlcnb.relax.expr import ShapeExpr, Tuple, tensor_info
from mlcnb.relax.expr import const as make_const
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.frontend.shared.limits import MAX_TURNS
from mlcnb.relax.frontend.shared.turns import size_tensor, slices_at, turns_of
from mlcnb.relax.operator import declaration, make_call
from mlcnb.relax.struct_info import ShapeStructInfo

Walk = Any  # an Importer, which imports this module
Place = Any  # a Frame of it


def loop(walk: Walk, node: Node, inputs: list[Any], place: Place) -> list[Any]:
    """Loop: a body of (turn, condition, carried) that gives (condition, carried, rows)."""
    body = node.require("body")
    limit, going = (inputs[i] if i < len(inputs) else None for i in range(2))
    carried = inputs[2:]

    def step(turn: Any, values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        inner = place.inside()
        _bind(node, body, [turn, make_const(True), *values], inner)
        condition, *made = walk.graph(body, inner)
        return condition, made[: len(values)], made[len(values) :]

    count = len(body.output) - 1 - len(carried)
    if count < 0:
        node.refuse(f"its body has {len(body.output)} outputs, for {len(carried)} carried values")
    carried, rows = turns_of(walk, node, step, carried, count, limit, going)
    return [*carried, *rows]


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
    return [_stacked(node, list(row)) for row in zip(*samples, strict=True)]


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
            last = _call(node, "relax.subtract", limit, _call(node, "relax.add", turn, last))
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
    rest = _call(node, "relax.zeros", ShapeExpr((left, *info.dims[1:])), dtype=str(info.dtype))
    both = _call(node, "relax.concat", Tuple((rows, rest)), axis=0)
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
        turned = _call(node, "relax.flip", x, axis=0) if back else x
        order = list(range(1, x.struct_info.ndim))
        order.insert(axis % x.struct_info.ndim, 0)
        moved = order != sorted(order)
        found.append(_call(node, "relax.permute_dims", turned, axes=order) if moved else turned)
    return found


def _axes(node: Node, name: str, tensors: list[Any]) -> list[int]:
    given = node.attr(name, (0,) * len(tensors))
    return [a % max(len(node.dims(x)), 1) for a, x in zip(given, tensors, strict=True)]


def _bind(node: Node, body: Any, values: list[Any], place: Place) -> None:
    if len(body.input) != len(values):
        node.refuse(f"its body takes {len(body.input)} inputs, {len(values)} are given")
    for proto, value in zip(body.input, values, strict=True):
        place.scope[proto.name] = value


def _call(node: Node, name: str, *args: Any, **attrs: Any) -> Any:
    return node.emit(make_call(declaration(name), *args, **attrs))


def _stacked(node: Node, rows: list[Any]) -> Any:
    return _call(node, "relax.stack", rows, axis=0)
