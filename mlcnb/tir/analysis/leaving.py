"""Loops that end early: which `break` and `continue` belong to which loop.

for i in range(16):            the break leaves this loop
    for j in range(4):         and not this one
        C[i] = A[j]
    if C[i] > 3.0:
        T.break_loop()
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.functor import bodies

BREAK, CONTINUE = "tir.break_loop", "tir.continue_loop"


def leaving(n: Any) -> str | None:
    """The word of a statement that leaves a round of its loop, without "tir.", else None."""
    if isinstance(n, s.Evaluate) and isinstance(n.value, e.Call):
        if n.value.op in (BREAK, CONTINUE):
            return n.value.op.removeprefix("tir.")
    return None


def leaves(n: Any) -> bool:
    """True for a `break`, a `continue` or a `T.ret`: what follows may not run."""
    return isinstance(n, e.Call) and n.op in (BREAK, CONTINUE, "tir.ret")


def is_left_early(body: s.Stmt, words: tuple[str, ...] = ("break_loop", "continue_loop")) -> bool:
    """True if a loop with this body is left by one of these words: loops inside have their own."""
    if isinstance(body, s.For | s.While):
        return False
    return leaving(body) in words or any(is_left_early(x, words) for x in bodies(body))


def misplaced_exit(loop: s.For | s.While) -> str | None:
    """What is wrong with a `break` or `continue` of a loop: it holds a block, or runs out of order.

    A block runs as a whole, wherever a schedule puts it, so no loop around one may end early.
    """
    if not is_left_early(loop.body):
        return None
    name = f"loop {loop.loop_var.name}" if isinstance(loop, s.For) else "a while loop"
    if any(isinstance(n, s.BlockRealize) for n in walk(loop.body)):
        return f"{name} is left early and holds a block"
    in_order = isinstance(loop, s.While) or loop.kind in (s.ForKind.SERIAL, s.ForKind.UNROLLED)
    if not in_order and is_left_early(loop.body, ("break_loop",)):
        return f"{name} is {loop.kind.value}: `break` needs a serial loop"  # type: ignore[union-attr]
    return None
