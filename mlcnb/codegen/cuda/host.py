"""The host's part of a program: memory between kernels, and their launches, one after the other.

    program = HostProgram(host, kernels)            after SplitHostDevice
    program.run(values, machine)                    values: what parameters stand for

A machine allocates memory and launches kernels: a GPU, or a test's.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import prod
from typing import Any, Protocol

from mlcnb.codegen.interp.expressions import ExpressionCompiler, Frame
from mlcnb.core.errors import CodegenError, ExecutionError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import BLOCK_AXES, IN_BLOCK_AXES, bound_axis
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies
from mlcnb.tir.transform.split_host_device import DYNAMIC_SHARED, LAUNCH_PARAMS

#: of anything in a launch
LARGEST = 2**31 - 1
Run = Callable[[Frame, Any], None]


class Machine(Protocol):
    """What runs kernels."""

    def allocate(self, kind: DType, size: int) -> Any:
        """Global memory of `size` elements."""

    def launch(
        self, name: str, args: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared: int
    ) -> None:
        """Start a kernel; grid and block are (x, y, z), shared the bytes of dynamic memory."""


def why_unbound(func: PrimFunc) -> tuple[str, s.Stmt] | None:
    """What runs on no thread of a GPU: the sentence, and the block or statement."""
    found: list[tuple[str, s.Stmt]] = []

    def visit(n: Any, block: s.Block | None) -> None:
        if found or bound_axis(n) is not None:
            return
        if isinstance(n, s.BufferStore):
            what = f"block {block.name_hint}" if block else f"the store to {n.buffer.name}"
            found.append((f"{what} is not bound to threads", block or n))
        for x in bodies(n):
            visit(x, n if isinstance(n, s.Block) and n.iter_vars else block)

    visit(func.body, None)
    return found[0] if found else None


class HostProgram(ExpressionCompiler):
    """The host function as closures."""

    def __init__(self, host: PrimFunc, kernels: Mapping[str, PrimFunc]) -> None:
        super().__init__()
        self.host = host
        self.device = kernels
        self.body = self.stmt(host.body)

    def run(self, values: Mapping[Var, Any], machine: Machine) -> None:
        """Run with arrays for the pointers of buffers, and numbers."""
        frame: Frame = [None] * len(self.slots)
        for var, value in values.items():
            if var in self.slots:
                frame[self.slots[var]] = value
        self.body(frame, machine)

    def stmt(self, x: s.Stmt) -> Run:
        """The closure of a statement.

        Raises:
            CodegenError: it is work for a kernel, or has no form on the host.
        """
        rule = _RULES.get(type(x))
        if rule is None:
            raise CodegenError(
                f"{type(x).__name__} runs on the host, outside of any kernel",
                where=x,
                root=self.host,
                hint="bind the loops around it to blockIdx and threadIdx",
            )
        return rule(self, x)


def _sequence(h: HostProgram, x: s.SeqStmt) -> Run:
    parts = [h.stmt(part) for part in x.seq]

    def run(f: Frame, machine: Any) -> None:
        for part in parts:
            part(f, machine)

    return run


def _loop(h: HostProgram, x: s.For) -> Run:
    slot, counted = h.slot(x.loop_var), h.counted(x.loop_var, x.min, x.extent, x)
    body = h.stmt(x.body)

    def run(f: Frame, machine: Any) -> None:
        for i in counted(f):
            f[slot] = i
            body(f, machine)

    return run


def _branch(h: HostProgram, x: s.IfThenElse) -> Run:
    condition, yes = h.compile(x.condition), h.stmt(x.then_case)
    no = None if x.else_case is None else h.stmt(x.else_case)

    def run(f: Frame, machine: Any) -> None:
        if condition(f):
            yes(f, machine)
        elif no is not None:
            no(f, machine)

    return run


def _let(h: HostProgram, x: s.LetStmt) -> Run:
    slot, value, body = h.slot(x.var), h.compile(x.value), h.stmt(x.body)

    def run(f: Frame, machine: Any) -> None:
        f[slot] = value(f)
        body(f, machine)

    return run


def _check(h: HostProgram, x: s.AssertStmt) -> Run:
    condition, body = h.compile(x.condition), h.stmt(x.body)

    def run(f: Frame, machine: Any) -> None:
        if not condition(f):
            raise ExecutionError(f"assertion failed: {x.message}", where=x, root=h.host)
        body(f, machine)

    return run


def refuse_between_kernels(
    x: s.Allocate, host: PrimFunc, lasting: Container[str] = ("global",)
) -> None:
    """Refuse memory of threads and blocks that is allocated around kernels: it ends with each."""
    scope = x.scope
    if scope not in lasting:
        raise CodegenError(
            f"{x.buffer_var.name} is in {scope} memory, but several kernels use it",
            where=x,
            root=host,
            hint="compute_at or reverse_compute_at brings all its uses into one kernel",
        )


def _allocate(h: HostProgram, x: s.Allocate) -> Run:
    refuse_between_kernels(x, h.host)
    if x.data is not None:
        raise CodegenError(
            f"{x.buffer_var.name} is a constant in the function",
            where=x,
            root=h.host,
            hint="pass the constant as a buffer",
        )
    slot, extents = h.slot(x.buffer_var), [h.unwrapped(n) for n in x.extents]
    body, kind = h.stmt(x.body), x.dtype

    def run(f: Frame, machine: Any) -> None:
        f[slot] = machine.allocate(kind.element, prod(n(f) for n in extents) * kind.lanes)
        body(f, machine)
        f[slot] = None

    return run


def _body(h: HostProgram, x: Any) -> Run:
    return h.stmt(x.body)


def _evaluate(h: HostProgram, x: s.Evaluate) -> Run:
    call = x.value
    if isinstance(call, e.IntImm):
        return lambda f, machine: None
    name = getattr(call.args[0], "value", None) if isinstance(call, e.Call) and call.args else None
    if not isinstance(name, str) or name not in h.device:
        raise CodegenError(
            "a call runs on the host, outside of any kernel", where=x, root=h.host,
            hint="bind the loops around it to blockIdx and threadIdx",
        )  # fmt: skip
    kernel = h.device[name]
    assert isinstance(call, e.Call)
    count, tags = len(kernel.params), list(kernel.attrs[LAUNCH_PARAMS])
    args = [h.compile(a) for a in call.args[1 : count + 1]]
    asked = [h.unwrapped(a) for a in call.args[count + 1 :]]

    def run(f: Frame, machine: Any) -> None:
        given = [a(f) for a in args]
        sizes = dict(zip(tags, (n(f) for n in asked), strict=True))
        for tag, size in sizes.items():
            if size > LARGEST:
                raise ExecutionError(
                    f"{name}: {tag} is {size}, and a GPU launches {LARGEST} at most",
                    where=x,
                    root=h.host,
                )
        grid = [int(sizes.get(tag, 1)) for tag in BLOCK_AXES]
        block = [int(sizes.get(tag, 1)) for tag in IN_BLOCK_AXES]
        if 0 not in grid and 0 not in block:
            shared = int(sizes.get(DYNAMIC_SHARED, 0))
            machine.launch(name, given, grid, block, shared)

    return run


_RULES: dict[type, Callable[[HostProgram, Any], Run]] = {
    s.SeqStmt: _sequence,
    s.For: _loop,
    s.IfThenElse: _branch,
    s.LetStmt: _let,
    s.AssertStmt: _check,
    s.Allocate: _allocate,
    s.DeclBuffer: _body,
    s.AttrStmt: _body,
    s.Evaluate: _evaluate,
}
