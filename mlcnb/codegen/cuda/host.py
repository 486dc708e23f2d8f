"""The host's part of a program: memory between kernels, and their launches, one after the other.

    program = HostProgram(host, kernels)            after SplitHostDevice
    program.run(values, machine)                    values: what parameters stand for

A machine allocates memory and launches kernels: a GPU, or a test's.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NoReturn, Protocol

from mlcnb.codegen.interp.expressions import Closure, Frame
from mlcnb.codegen.interp.statements import Code, StatementCompiler
from mlcnb.core.errors import CodegenError, ExecutionError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import BLOCK_AXES, IN_BLOCK_AXES, bound_axis
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies
from mlcnb.tir.transform.split_host_device import DYNAMIC_SHARED, LAUNCH_PARAMS

#: of anything in a launch
LARGEST = 2**31 - 1


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


#: statements that run on the host
_ON_HOST = (
    *(s.SeqStmt, s.For, s.IfThenElse, s.LetStmt, s.AssertStmt),
    *(s.Allocate, s.DeclBuffer, s.AttrStmt, s.Evaluate),
)


class HostProgram(StatementCompiler):
    """The host function as closures: the statements of the reference, over memory of a machine."""

    def __init__(self, host: PrimFunc, kernels: Mapping[str, PrimFunc]) -> None:
        super().__init__(record=None)
        self.host = host
        self.device = kernels
        self.machine = self.slot("machine")
        self.body, _ = self.stmt(host.body)

    def run(self, values: Mapping[Var, Any], machine: Machine) -> None:
        """Run with arrays for the pointers of buffers, and numbers."""
        frame: Frame = [None] * len(self.slots)
        frame[self.machine] = machine
        for var, value in values.items():
            if var in self.slots:
                frame[self.slots[var]] = value
        try:
            self.body(frame)
        except ExecutionError as error:
            error.root = error.root or self.host
            raise

    def stmt(self, x: s.Stmt) -> Code:
        """The closure of a statement.

        Raises:
            CodegenError: it is work for a kernel, or has no form on the host.
        """
        if not isinstance(x, _ON_HOST):
            self.refuse(f"{type(x).__name__} runs", x)
        return super().stmt(x)

    def compile(self, x: e.PrimExpr) -> Closure:
        """The closure of an expression.

        Raises:
            CodegenError: it reads memory of the device.
        """
        if isinstance(x, BufferLoad):
            hint = "read it in a kernel, or pass the number as a parameter"
            self.refuse(f"{x.buffer.name} is read", x, hint)
        return super().compile(x)

    def refuse(
        self,
        what: str,
        where: Any,
        hint: str = "bind the loops around it to blockIdx and threadIdx",
    ) -> NoReturn:
        """Raise what is said of work that no kernel does."""
        raise CodegenError(
            f"{what} on the host, outside of any kernel",
            where=where,
            root=self.host,
            hint=hint,
        )

    def _declaration(self, x: s.DeclBuffer) -> Code:
        return self.stmt(x.body)

    def _allocation(self, x: s.Allocate) -> Code:
        refuse_between_kernels(x, self.host)
        if x.data is not None:
            raise CodegenError(
                f"{x.buffer_var.name} is a constant in the function",
                where=x,
                root=self.host,
                hint="pass the constant as a buffer",
            )
        slot, extents = self.slot(x.buffer_var), [self.unwrapped(n) for n in x.extents]
        kind, at = x.dtype, self.machine

        def steps(f: Frame) -> Iterator[None]:
            f[slot] = f[at].allocate(kind.element, prod(n(f) for n in extents) * kind.lanes)
            yield
            f[slot] = None

        return self.with_body(steps, self.stmt(x.body))

    def _evaluate(self, x: s.Evaluate) -> Code:
        call = x.value
        if isinstance(call, e.IntImm):
            return (lambda f: None), False
        name = call.args[0] if isinstance(call, e.Call) and call.args else None
        name = getattr(name, "value", None)
        if not isinstance(name, str) or name not in self.device:
            self.refuse("a call runs", x)
        kernel = self.device[name]
        assert isinstance(call, e.Call)
        count, tags = len(kernel.params), list(kernel.attrs[LAUNCH_PARAMS])
        args = [self.compile(a) for a in call.args[1 : count + 1]]
        asked = [self.unwrapped(a) for a in call.args[count + 1 :]]
        at = self.machine

        def run(f: Frame) -> None:
            given = [a(f) for a in args]
            sizes = dict(zip(tags, (n(f) for n in asked), strict=True))
            for tag, size in sizes.items():
                if size > LARGEST:
                    raise ExecutionError(
                        f"{name}: {tag} is {size}, and a GPU launches {LARGEST} at most", where=x
                    )
            grid = [int(sizes.get(tag, 1)) for tag in BLOCK_AXES]
            block = [int(sizes.get(tag, 1)) for tag in IN_BLOCK_AXES]
            if 0 not in grid and 0 not in block:
                f[at].launch(name, given, grid, block, int(sizes.get(DYNAMIC_SHARED, 0)))

        return run, False
