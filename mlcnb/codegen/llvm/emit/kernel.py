"""One kernel: from a lowered PrimFunc to the text of an LLVM module, and what its argv holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlcnb.codegen.kernel import Signature, result_of, signature_of
from mlcnb.codegen.llvm import math
from mlcnb.codegen.llvm.emit import calls, checks, expr, memory, small, stmt
from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.ahead import divides_by_sizes, loop_body
from mlcnb.codegen.llvm.emit.builder import Function, Module
from mlcnb.core.errors import CodegenError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.tir.analysis.kernels import AS_LOOPS
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.analysis.safety import CHECKED
from mlcnb.tir.analysis.wrapping import Ranges
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import For


@dataclass(frozen=True)
class KernelText:
    """The LLVM IR of one PrimFunc. `messages` are the texts of its assertions, by number."""

    name: str
    ir: str
    signature: Signature
    messages: tuple[str, ...]


def emit_kernel(
    func: PrimFunc,
    name: str,
    vector_bits: int = 512,
    features: frozenset[str] = frozenset(),
    tuning: str = "",
) -> KernelText:
    """LLVM IR of a lowered PrimFunc (flat buffers, no blocks), with entry `i32 @name(ptr argv)`.

    Args:
        func: the function after `mlcnb.tir.transform.lower`.
        name: the symbol to define.
        vector_bits: register width to prefer for vectors.
        features: of the CPU, LLVM's words, for what has an instruction on some only.
        tuning: the CPU that instructions are put in order for, where it is not the target's.

    Raises:
        CodegenError: something in it that this backend cannot do, with what to try.
    """
    return Emitter(func, name, vector_bits, features, tuning).kernel()


#: stands for the parameters that are known when the body is there
OWN = "ptr %own"


class Emitter:
    """The state of emission: the module, the function under construction, what is known."""

    def __init__(
        self, func: PrimFunc, name: str, vector_bits: int, features: frozenset[str], tuning: str
    ) -> None:
        self.func, self.name = func, name
        self.vector_bits, self.features, self.tuning = vector_bits, features, tuning
        self.module = Module()
        #: what is proved of indices holds, so that LLVM may rely on it
        self.never_wraps = CHECKED not in func.attrs
        self.nonnegative: set[e.Var] = set()
        self.divides_by_sizes = False
        #: how a loop of the program goes on: at "ne" LLVM need not find out where the last round is
        self.goes_on = "ne" if AS_LOOPS in func.attrs else "slt"
        #: the ends of what is computed
        self.ranges = Ranges(func)
        self.in_parallel = self.in_loop = False
        #: the variable of the innermost loop that is emitted
        self.innermost: e.Var | None = None
        self.workspace_bytes = 0
        #: where each allocation in the workspace begins
        self.workspaces: list[int] = []
        #: allocations inside of the parallel loop that is emitted -> what its chunk acquired
        self.scratch: dict[Any, str] = {}
        self.result = result_of(func)
        self.f: Function
        self.alias = "noalias " if func.attrs.get("tir.noalias") else ""

    def kernel(self) -> KernelText:
        """Emit the body, then the entry that unpacks argv for it."""
        plain = signature_of(self.func, 0)
        variables = [x.data if isinstance(x, Buffer) else x for x in plain.params]
        dims = list(plain.dims)
        self.nonnegative.update(dims)
        scalars = any(not v.dtype.is_handle for v in variables)
        self.divides_by_sizes = bool(dims or scalars) and divides_by_sizes(self.func.body)
        body = self.body(variables, dims)
        signature = signature_of(self.func, self.workspace_bytes)
        self.module.functions.append(body)
        self.module.functions.append(self.entry(variables, dims))
        tuning = f'"tune-cpu"="{self.tuning}" ' if self.tuning else ""
        widths = ("prefer-vector-width", "min-legal-vector-width")
        listed = " ".join(f'"{name}"="{self.vector_bits}"' for name in widths)
        self.module.functions.append(f"attributes #0 = {{ nounwind {tuning}{listed} }}\n")
        return KernelText(self.name, self.module.text(), signature, tuple(self.module.messages))

    def body(self, variables: list[e.Var], dims: list[e.Var]) -> str:
        """`@name.body(pointers, scalars, dims, result, workspaces)`: the program itself.

        Each allocation in the workspace is a pointer of its own, so that LLVM knows that they do
        not overlap.
        """
        listed, env = [], {}
        for i, var in enumerate(variables):
            listed.append(f"{self.param_type(var)} %arg{i}")
            env[var] = (f"%arg{i}", False)
        for i, dim in enumerate(dims):
            listed.append(f"i64 %dim{i}")
            env[dim] = (f"%dim{i}", True)
        if self.result is not None:
            listed.append("ptr noalias %result")
        before = ", ".join([*listed, OWN])
        self.f = self.function(f"define internal i32 @{self.name}.body({before}) alwaysinline #0")
        self.f.env.update(env)
        self.stmt(self.func.body)
        self.f.do("ret i32 0")
        own = [f"ptr noalias %workspace{n}" for n in range(len(self.workspaces))]
        self.f.header = self.f.header.replace(before, ", ".join([*listed, *own]))
        return self.f.text()

    def param_type(self, var: e.Var) -> str:
        """The parameter's type; buffers do not overlap where the function says so."""
        if var.dtype.is_handle:
            return f"ptr {self.alias}".strip()
        return t.scalar_type(var.dtype)

    def entry(self, variables: list[e.Var], dims: list[e.Var]) -> str:
        """`i32 @name(ptr argv)`: loads the slots and calls the body."""
        f = self.function(f"define i32 @{self.name}(ptr %argv) #0")
        args = []
        kinds = [t.scalar_type(v.dtype) for v in variables] + ["i64"] * len(dims)
        if self.workspace_bytes:
            kinds.append("ptr")
        if self.result is not None:
            kinds.append("ptr")
        scalars = dict(enumerate(v.dtype for v in variables))
        outer, self.f = self.f, f
        for slot, kind in enumerate(kinds):
            where = f.emit(f"getelementptr i64, ptr %argv, i64 {slot}")
            stored = t.memory_type(scalars[slot]) if slot in scalars else kind
            value = f.emit(f"load {stored}, ptr {where}")
            if stored != kind:
                value = memory.from_memory(self, value, scalars[slot])
            args.append(f"{kind} {value}")
        self.f = outer
        if self.workspace_bytes:
            whole = args.pop(len(variables) + len(dims))
            args += [
                f"ptr {f.emit(f'getelementptr i8, {whole}, i64 {start}', 'w')}"
                for start in self.workspaces
            ]
        status = f.emit(f"call i32 @{self.name}.body({', '.join(args)})")
        f.do(f"ret i32 {status}")
        return f.text()

    def outline(self, loop: For, captured: list[e.Var]) -> tuple[str, list[str]]:
        """The body of a parallel loop as `i32 @name.parN(ptr ctx, i64 begin, i64 end)`.

        Gives the symbol and the LLVM type of each captured variable, stored from slot 1 on; slot 0
        holds the loop's first value.
        """
        outer = self.f
        self.module.counter += 1
        name = f"{self.name}.par{self.module.counter}"
        kinds = ["i64" if outer.env[v][1] else self.type(v.dtype) for v in captured]
        self.module.functions.append(self.parallel_entry(name, kinds))
        listed = [
            f"{('ptr ' + self.alias).strip() if kind == 'ptr' else kind} %c{i}"
            for i, kind in enumerate(kinds)
        ]
        listed += ["i64 %first", "i64 %begin", "i64 %end"]
        header = f"define internal i32 @{name}.body({', '.join(listed)}) alwaysinline #0"
        self.f = self.function(header)
        for i, var in enumerate(captured):
            self.f.env[var] = (f"%c{i}", outer.env[var][1])
        self.in_parallel = True
        self.parallel_body(loop)
        self.in_parallel = False
        self.module.functions.append(self.f.text())
        self.f = outer
        return name, kinds

    def parallel_body(self, loop: For) -> None:
        """The chunk begin … end of a parallel loop, as a serial loop."""
        if stmt.nonnegative(self, loop.min):
            self.nonnegative.add(loop.loop_var)
        start = self.f.emit("add nsw i64 %first, %begin")
        stop = self.f.emit("add nsw i64 %first, %end")
        leaves = is_left_early(loop.body)
        polls = stmt.asks_to_stop(self, loop.body)
        before = len(self.f.cleanup)
        self.scratch = {x: stmt.acquire(self, x) for x in stmt.held_by_chunks(self, loop.body)}

        def body() -> None:
            if polls:
                stmt.poll(self)
            loop_body(self, loop.body)

        stmt.count_loop(self, loop.loop_var, start, stop, body, True, leaves=leaves)
        self.scratch = {}
        while len(self.f.cleanup) > before:
            self.f.do(self.f.cleanup.pop())
        self.f.do("ret i32 0")

    def parallel_entry(self, name: str, kinds: list[str]) -> str:
        """Unpacks the context of a parallel loop for its body."""
        f = self.function(f"define internal i32 @{name}(ptr %ctx, i64 %begin, i64 %end) #0")
        first = f.emit("load i64, ptr %ctx")
        args = []
        for slot, kind in enumerate(kinds, start=1):
            where = f.emit(f"getelementptr i64, ptr %ctx, i64 {slot}")
            args.append(f"{kind} {f.emit(f'load {kind}, ptr {where}')}")
        args += [f"i64 {first}", "i64 %begin", "i64 %end"]
        status = f.emit(f"call i32 @{name}.body({', '.join(args)})")
        f.do(f"ret i32 {status}")
        return f.text()

    def function(self, header: str) -> Function:
        """A new function of the module, still empty."""
        return Function(header)

    def stmt(self, x: Any) -> None:
        """Emit one statement."""
        rule = stmt.RULES.get(type(x))
        if rule is None:
            raise CodegenError(
                f"the llvm backend has no form for {type(x).__name__}",
                hint="lower the function first: mlcnb.tir.transform.lower(func)",
            )
        rule(self, x)

    def expr(self, x: Any) -> str:
        """Emit one expression; gives its operand."""
        rule = expr.RULES.get(type(x)) or _EXTRA.get(type(x))
        if rule is None:
            raise CodegenError(f"the llvm backend has no form for {type(x).__name__}")
        return rule(self, x)

    def type(self, kind: DType) -> str:
        """The register type of a dtype."""
        return t.register_type(kind)

    def pointer(self, data: e.Var) -> str:
        """The pointer operand of a buffer's data."""
        if data not in self.f.env:
            raise CodegenError(f"buffer {data.name!r} is used where it is not allocated")
        return self.f.env[data][0]

    def is_index(self, x: e.PrimExpr) -> bool:
        """True if the expression is integer arithmetic on loop variables: no loads, no calls."""
        if isinstance(x, e.IntImm):
            return x.dtype.is_integer
        if isinstance(x, e.Var):
            return x in self.f.env and self.f.env[x][1]
        if isinstance(x, e.Add | e.Sub | e.Mul | e.FloorDiv | e.FloorMod | e.Min | e.Max):
            return self.is_index(x.a) and self.is_index(x.b)
        return isinstance(x, e.Cast) and x.dtype.is_integer and self.is_index(x.value)

    def splat(self, value: str, kind: DType, lanes: int) -> str:
        """A register vector of `lanes` copies of a scalar operand."""
        return self.raw_splat(value, t.scalar_type(kind), lanes)

    def raw_splat(self, value: str, element: str, lanes: int) -> str:
        """As `splat`, for an LLVM element type."""
        if not value.startswith("%"):
            return t.splat(element, value, lanes)
        kind = f"<{lanes} x {element}>"
        one = self.f.emit(f"insertelement {kind} poison, {element} {value}, i64 0")
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.f.emit(f"shufflevector {kind} {one}, {kind} poison, {mask}")

    def rounded(self, value: str, kind: DType) -> str:
        """A float operand rounded to a dtype that is computed as float32: nearest, ties to even."""
        if kind.is_float and kind.bits <= 8:
            return small.rounded(self, value, kind)
        return small.rounded_bfloat(self, value, kind) if kind.element == "bfloat16" else value

    def intrinsic(self, name: str, result: str, args: tuple[str, ...]) -> str:
        """Declare an LLVM intrinsic."""
        return self.module.declare(name, f"declare {result} @{name}({', '.join(args)})")

    def external(self, name: str, result: str, args: tuple[str, ...]) -> str:
        """Declare a C function, or define one of our own helpers."""
        if name in _HELPERS:
            return self.module.declare(name, _HELPERS[name])
        return self.intrinsic(name, result, args)

    def has_math(self, name: str, kind: DType) -> bool:
        """True if we have our own form of a math function."""
        return _MATH_NAMES.get(name, name) in math.ARITY and kind.element in ("float32", "float64")

    def math(self, name: str, kind: DType) -> str:
        """Have our own math function defined in the module; gives its symbol."""
        name, element = _MATH_NAMES.get(name, name), str(kind.element)
        for line in math.declarations(name, element):
            self.module.declare(line, line)
        symbol = math.symbol(name, kind.lanes, element)
        fits = 32 * kind.lanes <= self.vector_bits
        features = self.features if fits else frozenset()
        self.module.declare(symbol, math.math_functions(name, kind.lanes, element, features))
        return symbol

    def any_lane(self, value: str, lanes: int) -> str:
        """One i1: whether any lane of a bool vector is true."""
        if lanes == 1:
            return value
        fn = self.intrinsic(f"llvm.vector.reduce.or.v{lanes}i1", "i1", (f"<{lanes} x i1>",))
        return self.f.emit(f"call i1 {fn}(<{lanes} x i1> {value})")

    @contextmanager
    def exits(self, following: str, end: str) -> Iterator[None]:
        """Inside, `continue` goes to block `following` and `break` to block `end`."""
        self.f.exits.append((following, end, len(self.f.cleanup)))
        yield
        self.f.exits.pop()

    def stop_if(
        self, condition: str, status: int, before: Callable[[], None] | None = None
    ) -> None:
        """Leave the kernel with `status` where `condition` holds, after `before` is done."""
        f = self.f
        stop, on = f.label("stop"), f.label("on")
        f.do(f"br i1 {condition}, label %{stop}, label %{on}, !prof !0")
        self.module.declare("!0", '!0 = !{!"branch_weights", i32 1, i32 1048575}')
        f.place(stop)
        if before is not None:
            before()
        for line in reversed(f.cleanup):
            f.do(line)
        f.do(f"ret i32 {status}")
        f.place(on)

    def stop_with(self, status: str) -> None:
        """Leave the kernel with the status `status` unless it is 0."""
        f = self.f
        bad = f.emit(f"icmp ne i32 {status}, 0")
        stop, on = f.label("stop"), f.label("on")
        f.do(f"br i1 {bad}, label %{stop}, label %{on}")
        f.place(stop)
        for line in reversed(f.cleanup):
            f.do(line)
        f.do(f"ret i32 {status}")
        f.place(on)

    def checked_index(self, x: e.Call) -> str:
        """The i64 operand of `check_index(index, extent)`, after its test."""
        return checks.checked_index(self, x)

    def workspace(self, size: int) -> str:
        """A pointer to `size` bytes of the kernel's workspace, 64-byte aligned."""
        self.workspaces.append(self.workspace_bytes)
        self.workspace_bytes += (size + 63) // 64 * 64
        return f"%workspace{len(self.workspaces) - 1}"


#: memory whose address is a multiple of 64; what malloc gave stands in the 8 bytes before it
_HELPERS = {
    "mlcnb_alloc": """
declare ptr @malloc(i64)
define internal noalias ptr @mlcnb_alloc(i64 %bytes) noinline {
  %size = add i64 %bytes, 72
  %raw = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %ok
fail:
  ret ptr null
ok:
  %number = ptrtoint ptr %raw to i64
  %past = add i64 %number, 71
  %start = and i64 %past, -64
  %result = inttoptr i64 %start to ptr
  %slot = getelementptr i8, ptr %result, i64 -8
  store ptr %raw, ptr %slot
  ret ptr %result
}""",
    "mlcnb_free": """
declare void @free(ptr)
define internal void @mlcnb_free(ptr %p) {
  %slot = getelementptr i8, ptr %p, i64 -8
  %raw = load ptr, ptr %slot
  call void @free(ptr %raw)
  ret void
}""",
}
_MATH_NAMES = {"power": "pow"}
_EXTRA: dict[type, Any] = {BufferLoad: memory.load, e.Call: calls.call}
