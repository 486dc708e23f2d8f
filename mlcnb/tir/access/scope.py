"""What a reading is made of: accesses, and what stands around them.

for i in range(8):                  InLoop i
    if i > 0:                         Under i > 0
        with T.block("B"):              InBlock B
            ...

A scope knows its own thing and the scope outside; places in one body share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer

#: a loop, a `while` (which counts from 0), or the attribute that launches threads
Loop = s.For | s.While | s.AttrStmt
Indices = tuple[PrimExpr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A place in a program: what stands around it, and what stands around that (`outer`).

    loops, blocks: those around it, outermost first.
    """

    outer: Scope | None
    loops: tuple[Loop, ...]
    blocks: tuple[s.Block, ...]

    def around(self) -> list[Scope]:
        """It and the scopes around it, outermost first."""
        found: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            found.append(scope)
            scope = scope.outer
        return found[::-1]

    @property
    def is_init(self) -> bool:
        """True in the init of the innermost block."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope, InBlock):
            scope = scope.outer
        return scope is not None and scope.in_init

    def loop(self, n: Loop, var: Var | None, domain: Range | None) -> Scope:
        """Inside a loop that stands here."""
        return InLoop(self, (*self.loops, n), self.blocks, n, var, domain)

    def under(self, node: Any, condition: PrimExpr, holds: bool = True) -> Scope:
        """Where a condition holds, or does not."""
        return Under(self, self.loops, self.blocks, node, condition, holds)

    def named(self, var: Var, value: PrimExpr) -> Scope:
        """Inside a `let`."""
        return Named(self, self.loops, self.blocks, var, value)

    def block(self, n: s.BlockRealize, is_init: bool) -> Scope:
        """Inside a block, or its init."""
        return InBlock(self, self.loops, (*self.blocks, n.block), n, is_init)


@dataclass(frozen=True, slots=True, eq=False)
class InLoop(Scope):
    """Inside a loop: its variable runs over a range; a `while` has neither."""

    node: Loop
    var: Var | None
    domain: Range | None


@dataclass(frozen=True, slots=True, eq=False)
class Under(Scope):
    """Where a condition holds, or does not.

    node: what asks: a branch, an assertion, `and`, `or`, a block by its predicate or its init.
    """

    node: Any
    condition: PrimExpr
    holds: bool


@dataclass(frozen=True, slots=True, eq=False)
class Named(Scope):
    """Inside a `let`."""

    var: Var
    value: PrimExpr


@dataclass(frozen=True, slots=True, eq=False)
class InBlock(Scope):
    """Inside a block, or its init: its axes are what they are bound to.

    Its predicate stands around it.
    """

    node: s.BlockRealize
    in_init: bool


#: where nothing is around
ROOT = Scope(None, (), ())


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One read or write of a buffer.

    Args:
        buffer: the buffer, outside of `match_buffer`.
        node: the load or store; a call or pointer that may touch any element.
        indices: the element, or lanes of a vector; None for any element.
        is_write: whether it writes.
        scope: what stands around it.
        path: its place among the statements outside of the loops, and in each loop.
        stmt: the statement that it is a part of.
    """

    buffer: Buffer
    node: Any
    indices: Indices | None
    is_write: bool
    scope: Scope
    path: tuple[int, ...]
    stmt: s.Stmt | None

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around it, outermost first."""
        return self.scope.loops

    @property
    def blocks(self) -> tuple[s.Block, ...]:
        """The blocks around it, outermost first."""
        return self.scope.blocks

    @property
    def block(self) -> s.Block | None:
        """The innermost block around it."""
        return self.scope.blocks[-1] if self.scope.blocks else None

    @property
    def is_masked(self) -> bool:
        """True if some lanes may be left out."""
        return getattr(self.node, "predicate", None) is not None

    def common_loops(self, other: Access) -> int:
        """How many of the loops around both are the same."""
        count = 0
        for a, b, x, y in zip(self.loops, other.loops, self.path, other.path, strict=False):
            if a is not b or x != y:
                break
            count += 1
        return count

    def is_before(self, other: Access) -> bool:
        """True if it comes first in one iteration of the common loops."""
        return self.path[self.common_loops(other) :] < other.path[self.common_loops(other) :]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A statement that is no loop, branch or let, where it stands.

    first: how many accesses of the program come before it.
    """

    stmt: s.Stmt
    scope: Scope
    path: tuple[int, ...]
    first: int


def variable_of(loop: Loop) -> Var | None:
    """The variable of a loop; a `while` has none."""
    if isinstance(loop, s.For):
        return loop.loop_var
    return loop.node.var if isinstance(loop, s.AttrStmt) else None


def loop_name(loop: Loop) -> str:
    """How a loop is called: by its variable."""
    var = variable_of(loop)
    return "while" if var is None else var.name
