"""A reduction over nothing gives what it starts from: its `init` runs all the same.

for i in range(4):                              for i in range(4):
    for k in range(n):                              if n <= 0:
        with T.block("C"):              ->              C[i] = 0.0
            vi, vk = …                              for k in range(n):
            with T.init():                              with T.block("C"): …
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]

`init` belongs to the first step of the reduce axes, and where an extent is 0 there is none. What
was in memory would stay; a sum of nothing is 0. Loops that surely run are left alone, and so are
nests in which something stands beside the block.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.arith.atoms import variables_of
from mlcnb.core.node import Node, replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.stmt import BlockRealize, For, ForKind, IfThenElse, IterType, Stmt, seq


def init_of_empty(func: PrimFunc) -> PrimFunc:
    """`func` with what starts a reduction written where loops of the reduction may not run."""
    filled: dict[Node, Stmt] = {}
    seen: set[Node] = set()

    def look(n: Node) -> None:
        """A rule that changes nothing."""
        if isinstance(n, For):
            loops.append(n)

    loops: list[For] = []
    rewrite_statements(func.body, look)
    for loop in reversed(loops):  # the outer ones before the inner
        found = None if loop in seen else _nest(loop)
        if found is not None:
            seen.update(found[0])
            made = _filled(*found)
            filled.update({} if made is None else {loop: made})
    return func.with_body(rewrite_statements(func.body, filled.get)) if filled else func


def _nest(n: Node) -> tuple[list[For], BlockRealize] | None:
    """Loops with nothing in them but each other and, in the last one, a block with an init."""
    loops: list[For] = []
    while isinstance(n, For):
        loops.append(n)
        n = n.body
    if not loops or not isinstance(n, BlockRealize) or n.block.init is None:
        return None
    return loops, n


def _filled(loops: Sequence[For], realize: BlockRealize) -> Stmt | None:
    """The nest with its init before the first loop that may not run; None where all run."""
    block = realize.block
    pairs = list(zip(block.iter_vars, realize.iter_values, strict=True))
    spatial = [(v, value) for v, value in pairs if v.iter_type is not IterType.REDUCE]
    placing = variables_of(tuple(value for _, value in spatial))
    first = next((i for i, x in enumerate(loops) if _may_not_run(x, placing)), None)
    if first is None or block.init is None or block.match_buffers or block.alloc_buffers:
        return None
    inside = loops[first:]
    reducing = [x for x in inside if x.loop_var not in placing]
    if {x.loop_var for x in reducing} & variables_of(realize.predicate):
        return None
    if {x.loop_var for x in inside} & variables_of(tuple(x.extent for x in reducing)):
        return None
    if any(x.kind is ForKind.THREAD_BINDING for x in inside):
        return None
    empty = p.any_of(*(p.less_equal(x.extent, 0) for x in reducing))
    values = {v.var: value for v, value in spatial}
    start: Stmt = substitute(block.init, values)
    if not p.is_const(realize.predicate, 1):
        start = IfThenElse(realize.predicate, start)
    before = _in_loops([x for x in inside if x not in reducing], start)
    whole: Stmt = seq(IfThenElse(empty, before), inside[0])
    for loop in reversed(loops[:first]):
        whole = replace(loop, body=whole)
    return whole


def _may_not_run(loop: For, placing: set[e.Var]) -> bool:
    """True for a loop of the reduction alone whose extent is not known to be positive."""
    extent = p.as_int(loop.extent)
    return loop.loop_var not in placing and (extent is None or extent <= 0)


def _in_loops(loops: Sequence[For], body: Stmt) -> Stmt:
    """A statement in loops like these, with variables of their own."""
    fresh = {x.loop_var: e.Var(x.loop_var.name, x.loop_var.dtype) for x in loops}
    body = substitute(body, fresh)
    for x in reversed(loops):
        start, extent = substitute(x.min, fresh), substitute(x.extent, fresh)
        body = For(fresh[x.loop_var], start, extent, ForKind.SERIAL, body)
    return body
