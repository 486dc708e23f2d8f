"""The step of a reduction that a block is, and how it is written again on other buffers.

reduction_of(state, "rfactor", block)    the step (operator, values), what its buffers start from
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.reducers import Step, matched_step
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import State
from mlcnb.tir.stmt import Block, BufferStore, SeqStmt, Stmt


def reduction_of(state: State, name: str, block: Block) -> tuple[Step, tuple[e.PrimExpr, ...]]:
    """The update of a reduction block, and what each of its buffers starts from.

    Raises:
        ScheduleError: it is no associative operator, or a sum or product does not start from its
            identity.
    """
    step, init = matched_step(block.body), block.init
    inits = init.seq if isinstance(init, SeqStmt) else (init,)
    if step is None:
        raise state.refusal(f"{name}: {name_of(block)} combines by none of +, *, min, max", block)
    starts = [_start(store, inits) for store in step.stores]
    if len(inits) != len(starts) or any(x is None for x in starts):
        raise state.refusal(
            f"{name}: the init of {name_of(block)} is no store for each buffer that it updates",
            block,
        )
    for kind, store, start in zip(step.name.split(), step.stores, starts, strict=False):
        wanted = p.const(int(kind == "prod"), store.buffer.dtype)
        if kind in ("sum", "prod") and not structural_equal(start, wanted):
            raise state.refusal(
                f"{name}: {name_of(block)} starts from something else than the identity of "
                f"its {kind}",
                block,
            )
    return step, tuple(starts)  # type: ignore[arg-type]


def _start(store: BufferStore, inits: Sequence[Stmt | None]) -> e.PrimExpr | None:
    """What is stored first where a store writes."""
    own = [x for x in inits if isinstance(x, BufferStore) and x.buffer is store.buffer]
    same = len(own) == 1 and structural_equal(own[0].indices, store.indices)
    return own[0].value if same else None


def reading_in_order(block: Block, order: Sequence[Buffer]) -> Block:
    """The block with its reads in the order of these buffers."""
    ranks = {b: n for n, b in enumerate(order)}
    reads = sorted(block.reads, key=lambda r: ranks.get(r.buffer, len(ranks)))
    return replace(block, reads=tuple(reads))
