"""What a reading is made of: accesses, and what stands around them.

for i in range(8):                  InLoop i
    if i > 0:                         Under i > 0
        with T.block("B"):              InBlock B
            ...

A scope knows its own thing and the scope outside; places in one body share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.functor import bodies

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
    def conditions(self) -> list[PrimExpr]:
        """What holds here, outermost first."""
        held = (x for x in self.around() if isinstance(x, Under))
        return [x.condition if x.holds else p.logical_not(x.condition) for x in held]

    @property
    def values(self) -> list[tuple[Var, PrimExpr]]:
        """What the variables of `let`s and the axes of blocks stand for, outermost first."""
        found: list[tuple[Var, PrimExpr]] = []
        for x in self.around():
            if isinstance(x, Named):
                found.append((x.var, x.value))
            elif isinstance(x, InBlock):
                axes = (axis.var for axis in x.node.block.iter_vars)
                found += zip(axes, x.node.iter_values, strict=True)
        return found

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


def parts(n: s.Stmt, scope: Scope = ROOT) -> Iterator[tuple[s.Stmt, Scope]]:
    """The statements that stand in a statement, in order, each with what is around it.

    Of a block they are its init, which runs where reductions start, and its body. An attribute
    that launches threads, or virtual ones, is a loop over them, once for each axis.

    Args:
        n: the statement.
        scope: what stands around it.
    """
    match n:
        case s.For():
            yield n.body, scope.loop(n, n.loop_var, Range(n.min, n.extent))
        case s.While():
            yield n.body, scope.loop(n, None, None)
        case s.IfThenElse():
            yield n.then_case, scope.under(n, n.condition)
            if n.else_case is not None:
                yield n.else_case, scope.under(n, n.condition, False)
        case s.AssertStmt():
            yield n.body, scope.under(n, n.condition)
        case s.LetStmt():
            yield n.body, scope.named(n.var, n.value)
        case s.BlockRealize(block=block):
            if not p.is_const(n.predicate, 1):
                scope = scope.under(n, n.predicate)
            if block.init is not None:
                starts = scope.block(n, True)
                for axis in block.iter_vars:
                    if axis.iter_type is s.IterType.REDUCE:
                        starts = starts.under(block, p.equal(axis.var, axis.dom.min))
                yield block.init, starts
            yield block.body, scope.block(n, False)
        case s.AttrStmt(s.IterVar(var=var), "thread_extent" | "virtual_thread", extent, body) if (
            not any(var is variable_of(x) for x in scope.loops)
        ):
            yield body, scope.loop(n, var, Range(p.const(0, extent.dtype), extent))
        case _:
            yield from ((x, scope) for x in bodies(n))


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
        is_atomic: it is an update that no other one comes in between.
    """

    buffer: Buffer
    node: Any
    indices: Indices | None
    is_write: bool
    scope: Scope
    path: tuple[int, ...]
    stmt: s.Stmt | None
    is_atomic: bool = field(default=False, kw_only=True)

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
