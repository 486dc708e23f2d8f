"""Statements as closures over frames.

A statement with a body is a generator of *steps*: it prepares the frame and yields each time the
body is to run. What waits at a barrier inside of thread loops becomes a generator itself, which
yields at each barrier: thread loops advance all threads to the barrier before any goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mlcnb.codegen.interp.accesses import AccessCompiler
from mlcnb.codegen.interp.expressions import Closure, Frame
from mlcnb.codegen.interp.leaving import rounds, waiting_rounds
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir import expr as e
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.leaving import is_left_early

#: a closure, and whether it is a generator that yields at barriers
Code = tuple[Closure, bool]
Steps = Callable[[Frame], Iterator[None]]
_SHARED = "shared memory of the running thread block"


class StatementCompiler(AccessCompiler):
    """Turns statements into closures over frames."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.thread_depth = 0
        self.shared = self.slot(_SHARED)

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
        tag = x.thread_binding or ""
        if x.kind is s.ForKind.THREAD_BINDING and not tag.startswith("blockIdx"):
            return self.threads(x.loop_var, x.min, x.extent, x.body)
        slot = self.slot(x.loop_var)
        first, extent = self.compile(x.min), self.compile(x.extent)

        def steps(f: Frame) -> Iterator[None]:
            start = first(f)
            for i in range(start, start + extent(f)):
                f[slot] = i
                yield

        return self.rounds(steps, x, self.inside(x.loop_var, x.body))

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

    def threads(self, var: Var, first: PrimExpr, extent: PrimExpr, body: s.Stmt) -> Code:
        """A loop over threads of a block: in order, but together from barrier to barrier."""
        outermost = self.thread_depth == 0
        begin, count, slot = self.compile(first), self.compile(extent), self.slot(var)
        self.thread_depth += 1
        run, waits = self.inside(var, body)
        self.thread_depth -= 1
        shared = self.shared

        def steps(f: Frame) -> Iterator[None]:
            if outermost:
                f[shared] = {}
            start = begin(f)
            for i in range(start, start + count(f)):
                f[slot] = i
                yield

        if not waits:
            return self.with_body(steps, (run, False))

        def together(f: Frame) -> Iterator[None]:
            threads = [run(list(f)) for _ in steps(f)]
            while True:
                waiting = sum(next(t, _ENDED) is not _ENDED for t in threads)
                if waiting == 0:
                    return
                if waiting != len(threads):
                    raise ExecutionError(
                        f"barrier: {waiting} of {len(threads)} threads of {var.name} wait at it, "
                        "the others have ended",
                        hint="a barrier must not stand under a condition that differs by thread",
                    )
                yield

        def drained(f: Frame) -> None:
            for _ in together(f):
                pass

        return (drained, False) if outermost else (together, True)

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
        if x.attr_key == "thread_extent" and isinstance(x.node, s.IterVar):
            kind = s.ForKind.THREAD_BINDING
            zero = e.IntImm(x.value.dtype, 0)
            return self._loop(s.For(x.node.var, zero, x.value, kind, x.body, x.node.thread_tag))
        return self.stmt(x.body)

    def _stored(self, x: s.BufferStore) -> Code:
        return self._store(x), False

    def _evaluate(self, x: s.Evaluate) -> Code:
        value = x.value
        is_barrier = isinstance(value, e.Call) and value.op == "tir.tvm_storage_sync"
        if is_barrier and self.thread_depth:
            return _wait, True
        return self.compile(value), False


_ENDED = object()


def _pass(f: Frame) -> None:
    """Nothing."""


def _wait(f: Frame) -> Iterator[None]:
    """A barrier."""
    yield


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
