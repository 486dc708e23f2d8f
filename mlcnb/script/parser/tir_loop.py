"""Loops and branches of a loop program, and how a loop is left early.

for i, j in T.grid(4, 8):         two loops
for i in range(2, 16, 4):         for i in range(4), where the name i stands for 2 + i * 4
break, continue                   T.break_loop(), T.continue_loop()
"""

from __future__ import annotations

import ast
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.attrs import frozen
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.script import frames
from mlcnb.script.parser.body import Body
from mlcnb.script.parser.tir_bind import Bindings
from mlcnb.script.ranges import make_range
from mlcnb.tir import stmt as s
from mlcnb.tir.stmt import Stmt

_LOOPS = "a loop runs over range(…), T.grid(…), T.serial(…), T.parallel(…) …"


class LoopParser(Bindings):
    """Reads `for`, `while`, `if`, `break` and `continue`."""

    def lines(self, lines: list[ast.stmt]) -> Stmt:
        """Lines in the scope that is open, as one statement."""
        raise NotImplementedError

    def line(self, line: ast.stmt, out: Body) -> None:
        """One line."""
        raise NotImplementedError

    def body(self, lines: list[ast.stmt]) -> Stmt:
        """Lines in a scope of their own, as one statement."""
        with self.ev.scope.inner():
            return self.lines(lines)

    def for_(self, node: ast.For, out: Body) -> None:
        """`for i, j in T.grid(4, 8):`"""
        if node.orelse:
            raise self.ev.error(node.orelse[0], "a loop of a program has no `else`")
        found = self.ev.value(node.iter)
        if not isinstance(found, frames.Loops):
            hint = "T.unroll(3)" if isinstance(found, list | tuple | range) else None
            raise self.ev.error(node.iter, _LOOPS, hint)
        names, together = self._loop_names(node, len(found.loops))
        with self.ev.scope.inner(), self.inside_loop("for"):
            loops = [
                self._loop(loop, name, node) for loop, name in zip(found.loops, names, strict=True)
            ]
            for name, at in together.items():
                self.ev.scope.define(name, tuple(loops[n][0] for n in range(*at)))
            stmt = self.lines(node.body)
        for var, dom, loop in reversed(loops):
            marks = frozen(loop.annotations)
            where = self.ev.source.span(node)
            stmt = s.For(var, dom.min, dom.extent, loop.kind, stmt, loop.thread, marks, where)
        out.add(stmt)

    def _loop_names(
        self, node: ast.For, count: int
    ) -> tuple[list[str], dict[str, tuple[int, int]]]:
        """A name for each loop; and the names that stand for several of them, from and up to."""
        target = node.target
        targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        names: list[str] = []
        together: dict[str, tuple[int, int]] = {}
        for t in targets:
            is_all = t is target and count > 1
            if not is_all and not isinstance(t, ast.Starred):
                names.append(self.plain_name(t))
                continue
            name = self.plain_name(t.value if isinstance(t, ast.Starred) else t)
            several = max(count - len(targets) + 1, 0)
            together[name] = (len(names), len(names) + several)
            names += [f"{name}_{n}" for n in range(several)]
        if len(names) != count:
            raise self.ev.error(target, f"{count} loops need {count} names, not {len(targets)}")
        return names, together

    def _loop(self, loop: frames.Loop, name: str, node: ast.For) -> tuple[Var, Range, frames.Loop]:
        if loop.kind is s.ForKind.THREAD_BINDING and not loop.thread:
            hint = 'T.thread_binding(8, thread="threadIdx.x")'
            raise self.ev.error(node.iter, "which thread axis?", hint)
        start = loop.start if isinstance(loop.start, int) else self._bound(loop.start, node)
        stop = self._bound(loop.stop, node)
        with self.ev.blame(node.iter):
            dom = make_range(start, stop)
        if loop.step is not None and not p.is_const(self._bound(loop.step, node), 1):
            return self._stepped(loop, name, dom, node)
        var = Var(name, dom.extent.dtype)
        self.loops[var] = dom
        self.ev.scope.define(name, var)
        return var, dom, loop

    def _stepped(
        self, loop: frames.Loop, name: str, dom: Range, node: ast.For
    ) -> tuple[Var, Range, frames.Loop]:
        """A loop with a step counts its rounds; its name stands for the value in each."""
        step = p.as_int(loop.step)
        if not step:
            raise self.ev.error(node.iter, "the step of a loop is a constant that is not 0")
        distance = dom.extent if step > 0 else p.neg(dom.extent)
        count = p.ceildiv(distance, abs(step))
        var = Var(name, count.dtype)
        rounds = Range(p.const(0, count.dtype), count)
        self.loops[var] = rounds
        self.ev.scope.define(name, dom.min + var * step)
        return var, rounds, loop

    def _bound(self, value: Any, node: ast.For) -> PrimExpr:
        found = self.ev.as_expr(value, node.iter)
        if not found.dtype.is_integer:
            raise self.ev.error(
                node.iter, f"a bound of a loop is an integer, this is {found.dtype}", "T.int32(…)"
            )
        return found

    def while_(self, node: ast.While, out: Body) -> None:
        """`while condition:`"""
        if node.orelse:
            raise self.ev.error(node.orelse[0], "a loop of a program has no `else`")
        condition = self.condition(node.test)
        with self.inside_loop("while"):
            out.add(s.While(condition, self.body(node.body)))

    def condition(self, node: ast.expr) -> PrimExpr:
        """The condition of a `while`, an `if` or an `assert`: a bool."""
        return self.as_condition(self.ev.value(node), node)

    def as_condition(self, value: Any, node: ast.expr) -> PrimExpr:
        """A value as a condition."""
        found = self.ev.as_expr(value, node)
        if not found.dtype.is_bool:
            raise self.ev.error(
                node, f"a condition is bool, this is {found.dtype}", "compare it: x != 0"
            )
        if found.dtype.lanes != 1:
            raise self.ev.error(
                node, f"a condition is one bool, this is {found.dtype}", "T.Select, lane by lane"
            )
        return found

    def if_(self, node: ast.If, out: Body) -> None:
        """`if condition:`; a Python value is decided now."""
        test = self.ev.value(node.test)
        if isinstance(test, bool | int) or test is None:
            for line in node.body if test else node.orelse:
                self.line(line, out)
            return
        condition = self.as_condition(test, node.test)
        then = self.body(node.body)
        out.add(s.IfThenElse(condition, then, self.body(node.orelse) if node.orelse else None))

    def break_(self, node: ast.Break, out: Body) -> None:
        """`break`: the innermost loop ends."""
        self._leave(node, out, "break")

    def continue_(self, node: ast.Continue, out: Body) -> None:
        """`continue`: the next round of the innermost loop."""
        self._leave(node, out, "continue")

    def _leave(self, node: ast.stmt, out: Body, word: str) -> None:
        around = self.around[-1] if self.around else None
        if around is None:
            raise self.ev.error(node, f"`{word}` stands in no loop")
        if around == "block":
            name = self.blocks[-1].name
            raise self.ev.error(
                node, f"`{word}` would leave block {name!r}, which runs as a whole",
                "T.where(condition) keeps a block from running",
            )  # fmt: skip
        out.add(s.Evaluate(e.Call(dtype("handle"), f"tir.{word}_loop", ())))
