"""HoistExpression: what is the same for every iteration is tested, or computed, before the loop.

for i in range(4):                              for i in range(4):
    for j in range(8):                              if i < 3:
        if i < 3 and j < n:              ->             for j in range(8):
            B[i, j] = A[i, j]                               if j < n:
                                                                B[i, j] = A[i, j]

Only tests that neither read memory nor might divide by zero, for a loop of no iterations does not
do its tests; and none from among several statements, which would have to be written twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Flag
from functools import partial
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.node import Node, map_children, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import DIVIDING
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bound, is_nothing, refold, taken
from mlcnb.tir.stmt import AttrStmt, For, IfThenElse, LetStmt, SeqStmt, Stmt


class HoistedConditionals(Flag):
    """Which tests move: of statements, of `if_then_else`, parts of `and`, those of thread axes."""

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    BooleanExpression = 4
    UsingBlockVar = 8
    All = 15


class HoistedLetBindings(Flag):
    """Which bindings move: those that a test needs, statements, expressions."""

    Never = 0
    RequiredByConditional = 1
    LetStmt = 2
    LetExpr = 4
    All = 7


@dataclass(frozen=True)
class Hoisting:
    """What is to be moved."""

    tests: HoistedConditionals = HoistedConditionals.All
    lets: HoistedLetBindings = HoistedLetBindings.All


def hoist_expressions(func: PrimFunc, hoisting: Hoisting) -> PrimFunc:
    """`func` with tests and bindings moved out of the loops whose variables they do not use."""
    return func.with_body(_Hoister(hoisting).visit(func.body))


class _Hoister:
    def __init__(self, hoisting: Hoisting) -> None:
        self.hoisting = hoisting
        self.axes: set[e.Var] = set()

    def visit(self, n: Any) -> Any:
        """The statement, with what can leave its loops outside of them: outer loops first."""
        if isinstance(n, e.PrimExpr) or not isinstance(n, Node):
            return n
        axis = _axis_of(n)
        if axis is None:
            return map_children(n, self.visit)
        moved = self.moved(n, axis)
        if moved is not None:
            return moved
        is_thread = bound_axis(n) is not None
        if is_thread:
            self.axes.add(axis)
        made = map_children(n, self.visit)
        self.axes.discard(axis)
        return made

    def moved(self, loop: Any, axis: e.Var) -> Stmt | None:
        """A binding or a test that leaves the loop, around it; None where all stays."""
        is_thread = bound_axis(loop) is not None
        if is_thread and not self.takes(HoistedConditionals.UsingBlockVar):
            return None
        inside = {axis}
        tests = list(self.tests(loop.body, inside))
        for let in _lets(loop.body):
            if self.leaves(let.value, inside) and self.wanted(let, loop, tests):
                rest = rewrite(loop, partial(_without, let))
                if isinstance(let, e.Let):
                    return LetStmt(let.var, let.value, self.visit(rest))
                return replace(let, body=self.visit(rest))
            inside.add(let.var)
        for test in self.tests(loop.body, {axis}):
            if self.leaves(test, inside | _defined(loop.body)):
                return self.split(loop, test)
        return None

    def split(self, loop: Any, test: e.PrimExpr) -> Stmt:
        """The loop where the test holds, and where it does not."""
        then = self.visit(assumed(loop, test, True))
        other = assumed(loop, test, False)
        return IfThenElse(test, then, None if _is_nothing(other) else self.visit(other))

    def takes(self, what: HoistedConditionals) -> bool:
        """Whether such tests are moved."""
        return bool(self.hoisting.tests & what)

    def leaves(self, x: e.PrimExpr, inside: set[e.Var]) -> bool:
        """True for what is the same without the variables of `inside`, and safe to compute."""
        used = {n for n in walk(x) if isinstance(n, e.Var)}
        if used & inside or isinstance(x, e.IntImm | e.FloatImm):
            return False
        if used & self.axes and not self.takes(HoistedConditionals.UsingBlockVar):
            return False
        return not has_effect(x) and not any(
            isinstance(n, BufferLoad) or may_stop(n) for n in walk(x)
        )

    def wanted(self, let: LetStmt | e.Let, loop: Any, tests: Sequence[e.PrimExpr]) -> bool:
        """Whether such a binding is moved: by its kind, or because a test needs it."""
        kind = HoistedLetBindings.LetExpr if isinstance(let, e.Let) else HoistedLetBindings.LetStmt
        if self.hoisting.lets & kind:
            return True
        if not self.hoisting.lets & HoistedLetBindings.RequiredByConditional:
            return False
        return any(n is let.var for test in tests for n in walk(test))

    def tests(self, n: Any, inside: set[e.Var]) -> Iterator[e.PrimExpr]:
        """The tests in a loop, in order; not those among several statements."""
        if isinstance(n, SeqStmt):
            return
        if isinstance(n, IfThenElse):
            if self.takes(HoistedConditionals.IfElseStmt):
                yield from self.parts(n.condition)
        elif isinstance(n, e.Call) and n.op == "tir.if_then_else":
            if self.takes(HoistedConditionals.IfElseExpr):
                yield from self.parts(n.args[0])
        below = [x for x in n.walked_of(n) if isinstance(x, Node)] if isinstance(n, Node) else []
        if isinstance(n, e.Call):
            below = list(n.args)
        for child in below:
            yield from self.tests(child, inside)

    def parts(self, condition: e.PrimExpr) -> Iterator[e.PrimExpr]:
        """The parts of an `and`, where they move one by one, and the whole."""
        if isinstance(condition, e.And) and self.takes(HoistedConditionals.BooleanExpression):
            yield from self.parts(condition.a)
            yield from self.parts(condition.b)
        yield condition


def _is_nothing(n: Stmt) -> bool:
    """True if nothing is left of a program, not even for the threads that it launches."""
    while isinstance(n, AttrStmt) and bound_axis(n) is not None:
        n = n.body
    return is_nothing(n)


def _without(let: Node, n: Node) -> Node | None:
    return n.body if n is let else None  # type: ignore[attr-defined]


def _axis_of(n: Node) -> e.Var | None:
    """The variable of a loop or a launch."""
    if isinstance(n, For):
        return n.loop_var
    if isinstance(n, AttrStmt) and bound_axis(n) is not None:
        return n.node.var
    return None


def _lets(n: Stmt) -> list[Any]:
    """The bindings in a loop, in order; not those among several statements."""
    found: list[Any] = []

    def enter(x: Any) -> None:
        if isinstance(x, SeqStmt):
            return
        if isinstance(x, LetStmt | e.Let):
            found.append(x)
        for child in x.walked_of(x):
            for part in child if isinstance(child, tuple) else (child,):
                if isinstance(part, Node):
                    enter(part)

    enter(n)
    return found


def _defined(n: Stmt) -> set[e.Var]:
    """The variables that are defined somewhere in a loop."""
    return {var for x in walk(n) for var in (*bound(x), _axis_of(x)) if var is not None}


def may_stop(n: Node) -> bool:
    """True for a division of integers by what may be zero."""
    if not isinstance(n, DIVIDING) or n.dtype.is_float:
        return False
    return not (isinstance(n.b, e.IntImm) and n.b.value != 0)


def assumed(loop: Stmt, test: e.PrimExpr, held: bool) -> Stmt:
    """A program in which a test is known to hold, or not to."""
    analyzer = Analyzer()
    fact = test if held else p.logical_not(test)

    def decide(condition: e.PrimExpr) -> e.PrimExpr:
        if structural_equal(condition, test):
            return p.const(held)
        if isinstance(condition, e.And | e.Or | e.Not):
            rebuilt = map_children(condition, decide)
            return _folded(rebuilt)
        if isinstance(condition, e.Var) or has_effect(condition):
            return condition
        with analyzer.constraint(fact):
            found = analyzer.simplify(condition)
        return found if isinstance(found, e.IntImm) else condition

    def rule(n: Node) -> Node | None:
        if isinstance(n, IfThenElse):
            made = replace(n, condition=decide(n.condition))
            return taken(made) or made
        if isinstance(n, e.Call) and n.op == "tir.if_then_else":
            return p.if_then_else(decide(n.args[0]), *n.args[1:])
        if isinstance(n, Stmt):
            return taken(n)
        return refold(n)

    return rewrite(loop, rule)


def _folded(n: Any) -> e.PrimExpr:
    if isinstance(n, e.Not):
        return p.logical_not(n.a)
    return (p.logical_and if isinstance(n, e.And) else p.logical_or)(n.a, n.b)


class HoistExpression(PrimFuncPass):
    """Move tests and bindings that do not depend on a loop out of it.

    Which ones: `PassContext(config={"tir.HoistExpression": {"hoisted_conditionals": …,
    "hoisted_let_bindings": …}})`, the values of the two flags.
    """

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `hoist_expressions`."""
        options = ctx.get_config("tir.HoistExpression")
        tests = HoistedConditionals(int(_value(options["hoisted_conditionals"])))
        lets = HoistedLetBindings(int(_value(options["hoisted_let_bindings"])))
        return hoist_expressions(func, Hoisting(tests, lets))


def _value(given: Any) -> Any:
    return given.value if isinstance(given, Flag) else given
