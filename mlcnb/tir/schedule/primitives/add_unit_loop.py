"""add_unit_loop: a loop of one iteration around a block or a loop.

with T.block("C"):     ->     for u in range(1):
                                  with T.block("C"):
"""

from __future__ import annotations

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, For, ForKind


@does(still=True)
def add_unit_loop(state: State, block_or_loop: Block | For) -> Change:
    """Wrap a block or a loop in a loop of extent 1 and give that loop."""
    inner = state.tree.place(block_or_loop)
    edit = state.edit()
    made = For(e.Var("u"), p.const(0), p.const(1), ForKind.SERIAL, inner)
    edit.put(inner, made)
    edit.became(block_or_loop, block_or_loop)
    return Change.of(edit, made)
