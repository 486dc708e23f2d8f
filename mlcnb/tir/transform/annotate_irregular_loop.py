"""AnnotateIrregularLoop: loops that end early say so.

for i in range(10):                 for i in T.serial(10, annotations={"irregular_loop_mark": 1}):
    if A[i] > 5:            ->          if A[i] > 5:
        break                               break

What unrolls, cuts or simplifies loops then leaves them alone. A `while` has no annotations.
"""

from __future__ import annotations

from mlcnb.core.node import FrozenDict, Node, replace
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements
from mlcnb.tir.stmt import For

MARK = "irregular_loop_mark"


def annotate_irregular_loops(func: PrimFunc) -> PrimFunc:
    """`func` with a mark on each loop that a `break` or a `continue` of its own leaves."""
    return func.with_body(rewrite_statements(func.body, _marked))


def _marked(n: Node) -> Node | None:
    if not isinstance(n, For) or MARK in n.annotations or not is_left_early(n.body):
        return None
    return replace(n, annotations=FrozenDict({**n.annotations, MARK: 1}))


class AnnotateIrregularLoop(PrimFuncPass):
    """Mark loops that end early by `break` or `continue`."""

    work = staticmethod(annotate_irregular_loops)
