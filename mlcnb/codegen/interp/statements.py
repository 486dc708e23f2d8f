"""Statements as closures over frames.

A statement with a body is a generator of *steps*: it prepares the frame and yields each time the
body is to run. What waits for other threads (see `kernel`) becomes a generator itself, which yields
where it waits. Loops over threads are loops here: that is what a program in block form means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mlcnb.codegen.interp.accesses import AccessCompiler
from mlcnb.codegen.interp.expressions import Closure, Frame
from mlcnb.codegen.interp.leaving import rounds, waiting_rounds
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import LANES, bound_axis
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.transform.inject_ptx_async_copy import ASYNC_QUEUE

#: a closure, and whether it is a generator that yields where it waits for other threads
Code = tuple[Closure, bool]
Steps = Callable[[Frame], Iterator[None]]


class StatementCompiler(AccessCompiler):
    """Turns statements into closures over frames."""

    def stmt(self, x: s.Stmt) -> Code:
        """The closure of a statement."""
        handler = _COMPILE.get(type(x))
        if handler is None:
            raise UnsupportedOpError(f"the interpreter cannot run {type(x).__name__}")
        return getattr(self, handler)(x)

    def with_body(self, steps: Steps, body: Code) -> Code:
        """Run the body at each step."""
        run, waits = body

        def plain(f: Frame) -> None:
            for _ in steps(f):
                run(f)

        def waiting(f: Frame) -> Iterator[None]:
            for _ in steps(f):
                yield from run(f)

        return (waiting if waits else plain), waits

    def _sequence(self, x: s.SeqStmt) -> Code:
        codes = [self.stmt(part) for part in x.seq]
        if not any(waits for _, waits in codes):
            runs = [run for run, _ in codes]

            def plain(f: Frame) -> None:
                for run in runs:
                    run(f)

            return plain, False

        def waiting(f: Frame) -> Iterator[None]:
            for run, waits in codes:
                if waits:
                    yield from run(f)
                else:
                    run(f)

        return waiting, True

    # control

    def _loop(self, x: s.For) -> Code:
        slot = self.slot(x.loop_var)
        counted = self.counted(x.loop_var, x.min, x.extent, x)

        def steps(f: Frame) -> Iterator[None]:
            for i in counted(f):
                f[slot] = i
                yield

        outer = self.lanes
        if bound_axis(x) == LANES:
            self.lanes = slot
        body = self.inside(x.loop_var, x.body)
        self.lanes = outer
        return self.rounds(steps, x, body)

    def rounds(self, steps: Steps, loop: s.For | s.While, body: Code) -> Code:
        """Run the body of a loop at each step; it may leave the loop early."""
        if not is_left_early(loop.body):
            return self.with_body(steps, body)
        run, waits = body
        return (waiting_rounds if waits else rounds)(steps, run), waits

    def inside(self, var: Var, body: s.Stmt) -> Code:
        """The body of a loop: accesses in it know the loop's variable."""
        self.loops.append((var.name, self.slot(var)))
        code = self.stmt(body)
        self.loops.pop()
        return code

    def _while_loop(self, x: s.While) -> Code:
        condition = self.compile(x.condition)

        def steps(f: Frame) -> Iterator[None]:
            while condition(f):
                yield

        return self.rounds(steps, x, self.stmt(x.body))

    def _branch(self, x: s.IfThenElse) -> Code:
        condition = self.compile(x.condition)
        yes = self.stmt(x.then_case)
        no = self.stmt(x.else_case) if x.else_case is not None else (_pass, False)
        if not (yes[1] or no[1]):
            then, otherwise = yes[0], no[0]

            def plain(f: Frame) -> None:
                (then if condition(f) else otherwise)(f)

            return plain, False

        def waiting(f: Frame) -> Iterator[None]:
            run, waits = yes if condition(f) else no
            pending: Any = run(f)
            if waits:
                yield from pending

        return waiting, True

    def _let(self, x: Any) -> Any:
        if isinstance(x, e.Let):
            return super()._let(x)
        slot, value = self.slot(x.var), self.compile(x.value)

        def steps(f: Frame) -> Iterator[None]:
            f[slot] = value(f)
            yield

        return self.with_body(steps, self.stmt(x.body))

    def _check(self, x: s.AssertStmt) -> Code:
        condition = self.compile(x.condition)

        def steps(f: Frame) -> Iterator[None]:
            if not condition(f):
                raise ExecutionError(f"assertion failed: {x.message}", where=x)
            yield

        return self.with_body(steps, self.stmt(x.body))

    def _attribute(self, x: s.AttrStmt) -> Code:
        return self.stmt(x.body)

    def _stored(self, x: s.BufferStore) -> Code:
        return self._store(x), False

    def _evaluate(self, x: s.Evaluate) -> Code:
        if isinstance(x.value, e.Call) and x.value.op in ASYNC_QUEUE:
            return _pass, False  # of loops one after the other, whose copies are stores
        return self.compile(x.value), False


def _pass(f: Frame) -> None:
    """Nothing."""


_COMPILE: dict[type, str] = {
    s.SeqStmt: "_sequence",
    s.For: "_loop",
    s.While: "_while_loop",
    s.IfThenElse: "_branch",
    s.LetStmt: "_let",
    s.AttrStmt: "_attribute",
    s.AssertStmt: "_check",
    s.BufferStore: "_stored",
    s.Evaluate: "_evaluate",
    s.Allocate: "_allocation",
    s.DeclBuffer: "_declaration",
    s.BlockRealize: "_realize",
}
