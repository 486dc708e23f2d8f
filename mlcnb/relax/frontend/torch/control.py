"""Operators of PyTorch that take graphs: branches and loops; each is walked in its place.

cond(p, yes, no, [x])      R.If p of the two; sizes that only a run knows are asked for behind it
                           the branch itself, where p is known
while_loop(p, f, xs)       while p(xs): xs = f(xs)                 turn by turn, or a function
scan(f, init, xs)          a turn for each slice of xs             that calls itself (`turns_of`)
map(f, xs)                 a scan that carries nothing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.analysis.struct_info import erase_to_well_defined, symbolic_vars
from mlcnb.relax.expr import BindingBlock, Expr, If, SeqExpr, Tuple, TupleGetItem
from mlcnb.relax.frontend.shared.loop_values import size_tensor, slices_at
from mlcnb.relax.frontend.shared.turns import turns_of
from mlcnb.relax.frontend.torch.node import Node
from mlcnb.relax.frontend.torch.spell import check_result
from mlcnb.relax.infer import infer
from mlcnb.relax.operator import declaration, make_call

Walk = Any  # an Importer, which imports this module


def control(walk: Walk, node: Node) -> list[Any]:
    """What an operator that takes graphs gives: a value for each output."""
    found = CONTROL[str(node.fx.target)](walk, node)
    found = [node.learned(value, i) for i, value in enumerate(found)]
    for i, value in enumerate(found):
        check_result(node, value, i)
    return found


def branch(walk: Walk, node: Node) -> list[Any]:
    """cond: R.If, or the branch that is known to be taken."""
    predicate, *modules, operands = node.fx.args
    graphs = [walk.module_of(m).graph for m in modules]
    given, condition = walk.value(list(operands)), walk.value(predicate)
    known = condition if isinstance(condition, bool) else _known(node, condition)
    if known is not None:
        return walk.inside(graphs[0 if known else 1], given)
    before = len(node.values.found_at_run_time)
    yes, no = (_block(walk, g, given) for g in graphs)
    choice = If(_scalar(node, condition), yes, no)
    inside = set(node.values.found_at_run_time[before:])
    whole = infer(choice)
    info = erase_to_well_defined(whole, [v for v in symbolic_vars(whole) if v not in inside])
    made = node.values.opened(node.values.bind(replace(choice, struct_info=info)))
    return [node.emit(TupleGetItem(made, i)) for i in range(node.count())]


def while_loop(walk: Walk, node: Node) -> list[Any]:
    """while_loop: what is carried after the turn behind which the condition does not hold."""
    tests, body, carried, more = node.fx.args
    holds, turn = (walk.module_of(m).graph for m in (tests, body))
    given, extra = _tensors(walk, node, carried), walk.value(list(more))

    def step(_: Any, values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        made = walk.inside(turn, [*values, *extra])
        return walk.inside(holds, [*made, *extra])[0], made, []

    going = walk.inside(holds, [*given, *extra])[0]
    found, _ = turns_of(walk, node, step, given, 0, going=walk.as_expr(going))
    return found


def scan(walk: Walk, node: Node) -> list[Any]:
    """scan: what is carried in the end, and what the turns give, one after the other."""
    body, carried, scanned, more = node.fx.args
    return _slice_by_slice(walk, node, body, carried, scanned, more)


def map_(walk: Walk, node: Node) -> list[Any]:
    """map: what the function gives of each slice, one after the other."""
    body, scanned, more = node.fx.args
    return _slice_by_slice(walk, node, body, [], scanned, more)


def _slice_by_slice(
    walk: Walk, node: Node, body: Any, carried: Any, scanned: Any, more: Any
) -> list[Any]:
    """A turn for each slice along the first axis."""
    graph = walk.module_of(body).graph
    given, slices = _tensors(walk, node, carried), _tensors(walk, node, scanned)
    extra = walk.value(list(more))
    axes = [0] * len(slices)
    length = node.dims(slices[0])[0]

    def step(at: Any, values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        parts = slices_at(node, slices, axes, [at] * len(slices))
        made = walk.inside(graph, [*values, *parts, *extra])
        return None, made[: len(values)], made[len(values) :]

    limit = size_tensor(node, length)
    count = node.count() - len(given)
    found, rows = turns_of(walk, node, step, given, count, limit, length=length)
    return [*found, *rows]


def _tensors(walk: Walk, node: Node, given: Sequence[Any]) -> list[Any]:
    """What goes from turn to turn, or is taken apart; refused where one is no tensor."""
    found = walk.value(list(given))
    if not all(isinstance(x, Expr) for x in found):
        node.refuse("a number goes from turn to turn", "make it a tensor")
    return found


def _known(node: Node, condition: Any) -> bool | None:
    if isinstance(condition, PrimExpr):
        whole = as_int(condition)
        return None if whole is None else bool(whole)
    known = node.known(condition)
    return None if known is None or known.dtype == object else bool(known.item())


def _block(walk: Walk, graph: Any, given: list[Any]) -> SeqExpr:
    """A graph as a block of bindings of its own, whose result is a tuple."""
    with walk.emitter.scope(False) as bindings:
        results = [walk.as_expr(v) for v in walk.inside(graph, given)]
    return SeqExpr((BindingBlock(tuple(bindings)),) if bindings else (), Tuple(tuple(results)))


def _scalar(node: Node, condition: Any) -> Any:
    """A condition without dimensions."""
    if isinstance(condition, PrimExpr):
        return node.tensor(p.select(condition, p.const(1, "int64"), p.const(0, "int64")), "bool")
    if node.rank(condition) == 0:
        return condition
    return node.emit(make_call(declaration("relax.reshape"), condition, ()))


#: operator -> what it gives
CONTROL: dict[str, Callable[[Walk, Node], list[Any]]] = {
    "cond": branch,
    "while_loop": while_loop,
    "scan": scan,
    "map_impl": map_,
}
