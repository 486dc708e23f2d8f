"""Indices of a thread's own memory, as simply as the ranges of loops and threads allow.

(i * 16 + tx) // 4 % 4       with tx of 0 to 3: i % 4, which is of use to who asks for its part
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir.expr import FloorDiv, FloorMod, Range
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad


def plain_indices(body: s.Stmt) -> s.Stmt:
    """A statement with simplified indices of local buffers that are found by divisions."""
    analyzer = Analyzer()
    for n in walk(body):
        if isinstance(n, s.For):
            analyzer.bind(n.loop_var, Range(n.min, n.extent))

    accesses = [n for n in walk(body) if isinstance(n, BufferLoad | s.BufferStore)]
    wanted = {n.buffer for n in accesses if n.buffer.scope == "local" and _divides(n)}

    def rule(n: Node) -> Node | None:
        if isinstance(n, BufferLoad | s.BufferStore) and n.buffer in wanted:
            return replace(n, indices=tuple(map(analyzer.simplify, n.indices)))
        return None

    return rewrite(body, rule, enter=lambda n: n if isinstance(n, Buffer) else None)


def _divides(n: Any) -> bool:
    return any(isinstance(x, FloorDiv | FloorMod) for i in n.indices for x in walk(i))
