"""Statements as CUDA C++."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from math import prod
from typing import Any

from mlcnb.codegen.cuda.emit import types
from mlcnb.codegen.cuda.emit.expr import Emitter
from mlcnb.codegen.cuda.emit.functions import FIRST_ASSERT
from mlcnb.codegen.cuda.emit.types import ctype
from mlcnb.codegen.cuda.emit.vector import Lanes, is_block, is_copy
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import SHARED_SCOPES
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.transform.split_host_device import aligned_bytes

#: iterations of a thread's loop that NVRTC may write out where there is one thread
WRITTEN_OUT = 16


class Writer(Emitter):
    """The body of a kernel, line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        #: of each line the statement that it was written for
        self.made: list[Any] = []
        self.current: Any = None
        self.depth = 1
        #: whether a block is one thread: what is not spread is long, and gains nothing by being
        #: written out, for which NVRTC takes minutes where loops fill arrays
        self.is_alone = False
        #: bytes of dynamic shared memory used so far
        self.dynamic = 0
        #: arrays that several parts of the kernel use in turn, declared once at its start: their
        #: variables, and of those met so far the declaration without its size, and the size
        self.repeated: set[e.Var] = set()
        self.arrays: dict[e.Var, tuple[str, int]] = {}

    def do(self, line: str) -> None:
        """One line at the present depth."""
        self.lines.append("  " * self.depth + line)
        self.made.append(self.current)

    @contextmanager
    def block(self, head: str) -> Any:
        """A head with braces around what follows."""
        self.do(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.do("}")

    def stmt(self, x: s.Stmt) -> None:
        """One statement.

        Raises:
            CodegenError: a statement that has no form in a kernel.
        """
        rule = _RULES.get(type(x))
        if rule is None:
            raise CodegenError(
                f"the cuda backend has no form for {type(x).__name__}",
                hint="lower the function first: mlcnb.tir.transform.lower(func)",
            )
        around, self.current = self.current, x
        rule(self, x)
        self.current = around


def _sequence(w: Writer, x: s.SeqStmt) -> None:
    for part in x.seq:
        w.stmt(part)


def _loop(w: Writer, x: s.For) -> None:
    if x.kind is s.ForKind.THREAD_BINDING:
        raise CodegenError(
            f"loop {x.loop_var.name} is bound to {x.thread_binding}",
            hint="run UnifyThreadBinding and InjectVirtualThread first",
        )
    w.analyzer.bind(x.loop_var, e.Range(x.min, x.extent))
    name, first = w.name(x.loop_var), w.expr(x.min)
    last = w.expr(w.analyzer.simplify(p.add(x.min, x.extent)))
    if x.kind is s.ForKind.UNROLLED:
        w.do("#pragma unroll")
    elif w.is_alone and (p.as_int(x.extent) or WRITTEN_OUT + 1) > WRITTEN_OUT:
        w.do("#pragma unroll 1")
    kind = ctype(x.loop_var.dtype)
    with w.block(f"for ({kind} {name} = {first}; {name} < {last}; ++{name})"):
        w.stmt(x.body)


def _while(w: Writer, x: s.While) -> None:
    with w.block(f"while ({w.expr(x.condition)})"):
        w.stmt(x.body)


def _branch(w: Writer, x: s.IfThenElse) -> None:
    with w.block(f"if ({w.expr(x.condition)})"), w.analyzer.constraint(x.condition):
        w.stmt(x.then_case)
    if x.else_case is not None:
        w.lines[-1] += " else {"
        w.depth += 1
        w.stmt(x.else_case)
        w.depth -= 1
        w.do("}")


def _let(w: Writer, x: s.LetStmt) -> None:
    lanes = x.value.dtype.fixed_lanes
    if lanes == 1:
        if x.value.dtype.is_handle:
            w.do(f"auto {w.name(x.var)} = {w.expr(x.value)};")
        else:
            w.do(f"const {ctype(x.var.dtype)} {w.name(x.var)} = {w.expr(x.value)};")
            if x.var.dtype in ("int32", "int64"):
                w.analyzer.bind(x.var, w.analyzer.const_bounds(x.value))
    else:
        w.helper("vec")
        name = w.name(x.var)
        w.do(f"vec<{ctype(x.value.dtype)}, {lanes}> {name};")
        _lanes(w, lanes, x.value, lambda lane, value: f"{name}[{lane}] = {value};")
    w.stmt(x.body)


def _check(w: Writer, x: s.AssertStmt) -> None:
    w.reports = True
    code = FIRST_ASSERT + len(w.messages)
    w.messages.append(x.message)
    with w.block(f"if (!({w.expr(x.condition)}))"):
        w.do(f"atomicExch(status, {code});")
        w.do("return;")
    w.stmt(x.body)


#: what stands before an array of a scope; a warp's is each thread's part of it
_DECLARED = {
    "local": "",
    "warp": "__align__(16) ",
    **dict.fromkeys(SHARED_SCOPES, "__shared__ __align__(16) "),
}


def _allocate(w: Writer, x: s.Allocate) -> None:
    scope = x.scope
    sizes = [p.as_int(n) for n in x.extents]
    kind, name = ctype(x.dtype), w.name(x.buffer_var)
    if None in sizes:
        raise CodegenError(
            f"{x.buffer_var.name} in {scope} memory has no fixed size",
            hint="split the loops so that a tile has a fixed size",
        )
    count = prod(sizes) * x.dtype.lanes  # type: ignore[arg-type]
    if scope == "shared.dyn":
        w.offsets[x.buffer_var] = w.dynamic
        w.do(f"{kind}* {name} = ({kind}*)(shared_memory + {w.dynamic});")
        w.dynamic += p.as_int(w.analyzer.simplify(aligned_bytes(x))) or 0
    elif scope in _DECLARED:
        declared = f"{_DECLARED[scope]}{kind} {name}"
        if x.buffer_var in w.repeated:
            _, known = w.arrays.get(x.buffer_var, (declared, 0))
            w.arrays[x.buffer_var] = declared, max(known, count)
        else:
            w.do(f"{declared}[{count}];")
    else:
        raise CodegenError(
            f"a kernel cannot allocate {scope} memory for {x.buffer_var.name}",
            hint="set_scope to shared or local, or let another kernel fill it",
        )
    w.stmt(x.body)


def _body(w: Writer, x: Any) -> None:
    w.stmt(x.body)


def _attribute(w: Writer, x: s.AttrStmt) -> None:
    if x.attr_key in ("thread_extent", "virtual_thread", "reduce_scope"):
        raise CodegenError(
            f"{x.attr_key} stands inside of a kernel",
            hint="lower the function first: mlcnb.tir.transform.lower(func)",
        )
    w.stmt(x.body)


def _evaluate(w: Writer, x: s.Evaluate) -> None:
    value = x.value
    if isinstance(value, e.IntImm):
        return
    if isinstance(value, e.Call) and value.op in ("tir.prefetch", "tir.assume"):
        return
    w.do(f"{w.expr(value)};")


def _store(w: Writer, x: s.BufferStore) -> None:
    lanes = x.indices[-1].dtype.fixed_lanes if x.indices else 1
    if lanes == 1:
        sign, value = _update(x)
        w.do(f"{w.element(x.buffer, x.indices)} {sign} {w.expr(value)};")
    elif is_copy(w, x):
        _copy(w, x)
    else:
        _store_vector(w, x, lanes)


def _update(x: s.BufferStore) -> tuple[str, e.PrimExpr]:
    """`+=` and what is added where an element is updated; `=` and the value for any other store."""
    value: Any = x.value
    sign = _UPDATES.get(type(value))
    if sign is None or not isinstance(value.a, BufferLoad) or x.buffer.dtype in types.NARROW:
        return "=", value
    same = value.a.buffer is x.buffer and structural_equal(value.a.indices, x.indices)
    return (sign, value.b) if same else ("=", value)


_UPDATES = {e.Add: "+=", e.Sub: "-=", e.Mul: "*="}


def _copy(w: Writer, x: s.BufferStore) -> None:
    kind = types.vector_type(x.value.dtype)
    if kind.startswith("vec"):
        w.helper("vec")
    value: Any = x.value
    target = _wide(w, kind, x.buffer, x.indices)
    w.do(f"{target} = {_wide(w, 'const ' + kind, value.buffer, value.indices)};")


def _wide(w: Writer, kind: str, buffer: Buffer, indices: tuple[e.PrimExpr, ...]) -> str:
    """Several elements at once, where the first one lies."""
    first: Any = indices[-1]
    return f"*({kind}*)({w.pointer(buffer)} + {w.expr(w.index(buffer, first.base))})"


def _store_vector(w: Writer, x: s.BufferStore, lanes: int) -> None:
    w.do("{")
    w.depth += 1
    held: dict[Any, e.Var] = {}
    for load in _vector_loads(w, x):
        if any(load is h for h in held):
            continue
        var = held[load] = e.Var(f"{load.buffer.data.name}_lanes", load.dtype)
        w.helper("vec")
        kind = f"vec<{ctype(load.dtype)}, {lanes}>"
        w.do(
            f"const {kind} {w.name(var)} = {_wide(w, 'const ' + kind, load.buffer, load.indices)};"
        )
    if is_block(w, x):
        w.helper("vec")
        kind, out = f"vec<{ctype(x.buffer.dtype)}, {lanes}>", w.name(x, "out")
        w.do(f"{kind} {out};")
        _lanes(w, lanes, x.value, lambda lane, value: f"{out}[{lane}] = {value};", held)
        w.do(f"{_wide(w, kind, x.buffer, x.indices)} = {out};")
    else:
        _scattered(w, x, lanes, held)
    w.depth -= 1
    w.do("}")


def _vector_loads(w: Writer, x: s.BufferStore) -> list[BufferLoad]:
    """Loads whose lanes lie side by side: one access each."""
    width = x.indices[-1].dtype.lanes
    return [
        n
        for n in walk(x.value)
        if isinstance(n, BufferLoad)
        and n.indices
        and n.indices[-1].dtype.lanes == width
        and is_block(w, n)
    ]


def _each_lane(w: Writer, lanes: int, parts: list[Any], emit: Callable[[e.PrimExpr], None]) -> None:
    """Emit for every lane: as a loop, or one by one where lanes are shuffled."""
    if any(isinstance(n, e.Shuffle) for part in parts for n in walk(part)):
        for lane in range(lanes):
            emit(p.const(lane))
        return
    var = e.Var("lane_", p.const(0).dtype)
    w.analyzer.bind(var, (0, lanes - 1))
    name = w.name(var, "lane")
    w.do("#pragma unroll")
    with w.block(f"for (int {name} = 0; {name} < {lanes}; ++{name})"):
        emit(var)


def _lanes(
    w: Writer,
    lanes: int,
    value: e.PrimExpr,
    line: Callable[[str, str], str],
    held: dict[Any, e.Var] | None = None,
) -> None:
    """Compute a vector into a variable, lane by lane."""

    def emit(lane: e.PrimExpr) -> None:
        w.do(line(w.expr(lane), w.expr(Lanes(lane, held or {}).of(value))))

    _each_lane(w, lanes, [value], emit)


def _scattered(w: Writer, x: s.BufferStore, lanes: int, held: dict[Any, e.Var]) -> None:
    """Store each lane by itself."""

    def emit(lane: e.PrimExpr) -> None:
        take = Lanes(lane, held).of
        indices = tuple(take(i) for i in x.indices)
        line = f"{w.element(x.buffer, indices)} = {w.expr(take(x.value))};"
        if x.predicate is None:
            w.do(line)
        else:
            w.do(f"if ({w.expr(take(x.predicate))}) {line}")

    _each_lane(w, lanes, [x.value, *x.indices], emit)


_RULES: dict[type, Callable[[Writer, Any], None]] = {
    s.SeqStmt: _sequence,
    s.For: _loop,
    s.While: _while,
    s.IfThenElse: _branch,
    s.LetStmt: _let,
    s.AssertStmt: _check,
    s.Allocate: _allocate,
    s.DeclBuffer: _body,
    s.AttrStmt: _attribute,
    s.BufferStore: _store,
    s.Evaluate: _evaluate,
}
