"""Carried tensors that only grow: a turn puts something behind them, and nothing reads them.

    ys = Loop(n, true, ys0):                    rows = Loop(n, true):
        ys_out = Concat(ys_in, y, axis=0)   ->      a row: y
                                                ys = Concat(ys0, rows)

As rows they are written where they stay, and copied once in the end; carried, each turn would copy
all that is there, and how long it is would be another symbol in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.expr import ShapeExpr, Tuple
from mlcnb.relax.frontend.shared.loop_values import call_op


class Growth(NamedTuple):
    """A carried value that grows: its number, and along which axis."""

    number: int
    axis: int


class NotAlike(Exception):
    """Raised inside of a loop that is being written, where a row is not fixed."""


def grown(body: Any, carried: int, outer: Callable[[str], Any]) -> tuple[Any, list[Growth]]:
    """The GraphProto with what grows as rows, the last of its outputs; itself where nothing does.

    carried: how many of its values are carried: inputs from the third on, outputs from the second.
    outer: what a name stands for around the body.
    """
    own = {o for n in body.node for o in n.output} | {
        x.name for x in (*body.input, *body.initializer)
    }
    uses = [*_names(body), *(o.name for o in body.output)]
    found: dict[str, Growth] = {}
    for i in range(carried):
        before, after = body.input[2 + i].name, body.output[1 + i].name
        makers = [n for n in body.node if after in n.output and n.op_type == "Concat"]
        if not makers or makers[0].domain not in ("", "ai.onnx"):
            continue
        axis = [a.i for a in makers[0].attribute if a.name == "axis"]
        once = uses.count(before) == 1 and uses.count(after) == 1
        first, *pieces = makers[0].input
        known = all(name in own or is_fixed(outer(name)) for name in pieces)
        if once and axis and first == before and pieces and known:
            found[after] = Growth(i, axis[0])
    return (_with_rows(body, found) if found else body), [*found.values()]


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


def _names(graph: GraphProto) -> Iterator[str]:
    """What the nodes of a graph read, and those of the graphs in them."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _names(inner)
                yield from (o.name for o in inner.output)


def is_fixed(row: Any) -> bool:
    """True for a tensor whose dimensions are numbers: it is as large in every turn."""
    dims = getattr(row.struct_info, "dims", None)
    return bool(dims) and all(as_int(d) is not None for d in dims)


def longer(node: Any, start: Any, rows: Any, axis: int) -> Any:
    """`start`, and behind it along the axis all rows."""
    count, *row = rows.struct_info.dims
    axis %= len(row)
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(row) + 1)]
    turned = call_op(node, "relax.permute_dims", rows, axes=order) if axis else rows
    shape = [count * d if i == axis else d for i, d in enumerate(row)]
    flat = call_op(node, "relax.reshape", turned, ShapeExpr(tuple(shape)))
    return call_op(node, "relax.concat", Tuple((start, flat)), axis=axis)
