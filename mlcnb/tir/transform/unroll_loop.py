"""UnrollLoop: an unrolled loop becomes its iterations, one after the other.

for i in T.unroll(2):                    ->     C[0] = A[0]
    C[i] = A[i]                                 C[1] = A[1]

A nest that would become many statements stays as it is, for the code generator to write out: it
does so thirty times faster, and the loops can be read.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies, rewrite_statements, substitute, taken
from mlcnb.tir.stmt import For, ForKind, Stmt, flattened, seq
from mlcnb.tir.transform.unroll_options import unroll_as_asked

#: a loop of more iterations than this stays a loop
MAX_EXTENT = 256
#: an unrolled loop that would become more statements than this is left to the code generator
MAX_STATEMENTS = 4


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """`func` with short loops of kind UNROLLED and constant extent written out."""
    return func.with_body(rewrite_statements(func.body, _unroll))


def _unroll(n: Node) -> Node | None:
    if not isinstance(n, For) or n.kind is not ForKind.UNROLLED:
        return flattened(n)
    start, extent = p.as_int(n.min), p.as_int(n.extent)
    if start is None or extent is None or not 0 < extent <= MAX_EXTENT:
        return replace(n, kind=ForKind.SERIAL)
    if is_left_early(n.body):
        return replace(n, kind=ForKind.SERIAL)
    if extent * _statements(n.body) > MAX_STATEMENTS:
        return None
    values = (p.const(start + i, n.loop_var.dtype) for i in range(extent))
    steps = (substitute(n.body, {n.loop_var: value}) for value in values)
    return seq(*(rewrite_statements(step, taken) for step in steps))


def _statements(n: Stmt) -> int:
    """How many statements do something, those of unrolled loops counted each time."""
    times = p.as_int(n.extent) if isinstance(n, For) and n.kind is ForKind.UNROLLED else 1
    return (times or 1) * (sum(map(_statements, bodies(n))) or 1)


class UnrollLoop(PrimFuncPass):
    """Write out loops of kind unroll, iteration by iteration.

    Which other ones, and how: `PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}})`;
    a loop of kind unroll is then written out whatever its size.
    """

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `unroll_loops`, and `unroll_as_asked` where the context has options."""
        if "tir.UnrollLoop" in ctx.config:
            return unroll_as_asked(func, ctx.get_config("tir.UnrollLoop"))
        return unroll_loops(func)
