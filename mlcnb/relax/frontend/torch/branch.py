"""torch.cond as R.If: both branches are graphs, which are walked as blocks of their own.

cond(p, yes, no, [x])      R.If p of the two; sizes that only a run knows are asked for behind it
                           the branch itself, where p is known
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.expr import PrimExpr
from mlcnb.relax.analysis.struct_info import erase_to_well_defined, symbolic_vars
from mlcnb.relax.expr import BindingBlock, If, SeqExpr, Tuple, TupleGetItem
from mlcnb.relax.frontend.torch.node import Node
from mlcnb.relax.frontend.torch.spell import check_result
from mlcnb.relax.infer import infer
from mlcnb.relax.operator import declaration, make_call

Walk = Any  # an Importer, which imports this module


def branch(walk: Walk, node: Node) -> list[Any]:
    """What torch.cond gives: a value for each output."""
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
    found = [node.emit(TupleGetItem(made, i)) for i in range(node.count())]
    found = [node.learned(value, i) for i, value in enumerate(found)]
    for i, value in enumerate(found):
        check_result(node, value, i)
    return found


def _known(node: Node, condition: Any) -> bool | None:
    if isinstance(condition, PrimExpr):
        node.refuse("which branch is taken is computed from sizes", "export with fixed sizes")
    known = node.known(condition)
    return None if known is None or known.dtype == object else bool(known.item())


def _block(walk: Walk, graph: Any, given: list[Any]) -> SeqExpr:
    """A graph as a block of bindings of its own, whose result is a tuple."""
    with walk.emitter.scope(False) as bindings:
        results = [walk.as_expr(v) for v in walk.inside(graph, given)]
    return SeqExpr((BindingBlock(tuple(bindings)),) if bindings else (), Tuple(tuple(results)))


def _scalar(node: Node, condition: Any) -> Any:
    """A condition without dimensions."""
    if node.rank(condition) == 0:
        return condition
    return node.emit(make_call(declaration("relax.reshape"), condition, ()))
