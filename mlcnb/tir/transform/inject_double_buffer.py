"""InjectDoubleBuffer: while one buffer is used, the next one is filled.

for i in range(16):                             B = T.alloc_buffer((2, 8))
    B = T.alloc_buffer((8,))                    fill B[0] for i = 0
    with T.block("fill"):                       for i in range(15):
        T.block_attr(                    ->         fill B[(i + 1) % 2] for i + 1
            {"double_buffer_scope": 0})             use B[i % 2]
        B[0:8] = A[i, 0:8]                      use B[1]
    use B

A pipeline of two stages: what fills the buffer, and all else. It runs where blocks and their
buffers still stand in the loop, earlier than in TVM, which works on flat memory.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, rewrite
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, For
from mlcnb.tir.transform.double_buffer_scope import double_scopes
from mlcnb.tir.transform.inject_software_pipeline import (
    DOUBLE,
    ORDER,
    STAGE,
    doubled,
    parts_of,
    pipelined,
)


def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """`func` with every buffer that is marked `double_buffer_scope` filled one iteration ahead.

    Raises:
        PassError: a marked buffer does not live in a loop, or cannot be filled ahead.
    """
    if not any(isinstance(n, Block) and DOUBLE in n.annotations for n in statements(func.body)):
        return func

    def rule(n: Node) -> Node | None:
        if not isinstance(n, For) or STAGE in n.annotations or ORDER in n.annotations:
            return None
        parts = parts_of(n)
        fills = [any(b in parts.buffers for b in doubled(x)) for x in parts.stmts]
        if not any(fills):
            return None
        stages = [0 if ahead else 1 for ahead in fills]
        first = sorted(range(len(fills)), key=lambda k: (stages[k], k))
        return pipelined(func, n, parts, stages, [first.index(k) for k in range(len(fills))])

    body = rewrite(func.body, rule)
    _check_all_done(func, body)
    return func.with_body(body)


def _check_all_done(func: PrimFunc, body: Any) -> None:
    pipelines = {
        x
        for n in statements(body)
        if isinstance(n, For) and STAGE in n.annotations
        for x in statements(n)
    }
    for n in statements(body):
        if isinstance(n, Block) and DOUBLE in n.annotations and n not in pipelines:
            buffer = n.writes[int(n.annotations[DOUBLE])].buffer
            raise PassError(
                f"InjectDoubleBuffer: {buffer.name}, which block {n.name_hint} writes, lives "
                "outside of the loops",
                where=n,
                root=func,
                hint="every iteration of a loop must write all that it reads of the buffer",
            )


class InjectDoubleBuffer(PrimFuncPass):
    """Fill buffers that are marked `double_buffer_scope` one iteration ahead."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `inject_double_buffer`; of plain memory, `double_scopes`."""
        return inject_double_buffer(double_scopes(func))
