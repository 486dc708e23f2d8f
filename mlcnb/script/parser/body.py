"""A body under construction: statements in order, and statements that hold all that follows.

x: T.int32 = n + 1      ->  LetStmt(x, n + 1, SeqStmt(a, b))
a
b
"""

from __future__ import annotations

from collections.abc import Callable

from mlcnb.ir import prim_ops as p
from mlcnb.tir.stmt import Evaluate, Stmt, seq

Hold = Callable[[Stmt], Stmt]


class Body:
    """Statements of one block of lines."""

    def __init__(self) -> None:
        #: what is written so far since the last holder
        self.stmts: list[Stmt] = []
        self.held: list[tuple[list[Stmt], Hold]] = []

    def add(self, stmt: Stmt) -> None:
        """One more statement."""
        self.stmts.append(stmt)

    def hold(self, wrap: Hold) -> None:
        """What follows becomes the body of the statement that `wrap` makes."""
        self.held.append((self.stmts, wrap))
        self.stmts = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written so far."""
        return not self.stmts and not self.held

    def finish(self) -> Stmt:
        """All of it as one statement; nothing at all is `T.evaluate(0)`."""
        body = self.stmts
        for before, wrap in reversed(self.held):
            body = [*before, wrap(_one(body))]
        return _one(body)


def _one(stmts: list[Stmt]) -> Stmt:
    return seq(*stmts) if stmts else Evaluate(p.const(0))
