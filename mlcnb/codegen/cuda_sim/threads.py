"""The threads of a GPU as loops of a CPU, split wherever threads wait for each other.

bx = T.launch_thread("blockIdx.x", 4)            for bx in T.parallel(4):
tx = T.launch_thread("threadIdx.x", 64)              r = T.allocate([64], "float32")
r = T.allocate([1], "float32", "local")              s = T.allocate([64], "float32")
s = T.allocate([64], "float32", "shared")     ->     for tx in range(64):
r[0] = A[bx * 64 + tx]                                   r[tx] = A[bx * 64 + tx]
s[tx] = r[0]                                             s[tx] = r[tx]
T.tvm_storage_sync("shared")                         for tx in range(64):
B[bx * 64 + tx] = s[63 - tx] + r[0]                      B[bx * 64 + tx] = s[63 - tx] + r[tx]

What is the same for all threads of a block, a loop, a branch or a variable, stays outside of the
loops over threads, so that these are innermost and LLVM makes vectors of them; a condition that
differs goes inward. What a thread has for itself gets a place for each of them. Threads that
exchange values (`registers`) do so through memory: all write, then all read. Loops that a GPU's
compiler writes out stay loops, and vectors of one thread are loops too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlcnb.codegen.cuda.host import refuse_between_kernels
from mlcnb.codegen.cuda_sim.phases import CALLS, ONCE, Phases
from mlcnb.codegen.cuda_sim.registers import (
    ACTIVE,
    BARRIER,
    INSTRUCTIONS,
    Own,
    active,
    is_collective,
    is_shuffle,
    is_taken_whole,
    lane_of,
    lanes_to_loops,
    refuse_barrier,
    refuse_chosen,
    source,
)
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import Node, map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import AS_LOOPS, SHARED_SCOPES, Launch, is_launch, launch_of
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.analysis.mma import WARP
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.renew import renew_defs
from mlcnb.tir.transform.simplify import simplify_stmt


def threads_to_loops(func: PrimFunc) -> PrimFunc:
    """`func`, lowered for a GPU, as a function for a CPU: each of its kernels as loops.

    Raises:
        CodegenError: the number of threads is not known, some of them would wait at a barrier that
            others do not come by, or kernels would share memory of threads.
    """

    def visit(n: Any) -> Any:
        if is_launch(n):
            return _Kernel(func, launch_of(n)).loops()
        if isinstance(n, s.Allocate):
            refuse_between_kernels(n, func, LASTING)
        return map_children(n, visit) if isinstance(n, s.Stmt) else n

    made = simplify_stmt(renew_defs(func.with_body(visit(lanes_to_loops(func.body)))))
    return made.with_attr(AS_LOOPS, True)


@dataclass(frozen=True)
class _Each:
    """A statement that each thread runs by itself; `loops`: whether it holds any."""

    body: s.Stmt
    loops: bool


#: memory that outlives a kernel here, where it is the CPU's; registers are those of its threads
LASTING = ("global", "warp", *SHARED_SCOPES)
#: what a kernel is made of: done by each thread, or around what they do
_Piece = _Each | s.Stmt
#: between pieces: all threads have done what stands before it
_MET = s.Evaluate(p.const(0))
_Guards = tuple[PrimExpr, ...]


class _Kernel:
    """One launch on its way."""

    def __init__(self, func: PrimFunc, launch: Launch) -> None:
        self.func = func
        self.launch = launch
        self.axes = [(x.var, self.known(x)) for x in launch.in_block.values()]
        self.threads = prod(n for _, n in self.axes)
        #: the number of a thread in its block, x fastest
        self.thread: PrimExpr = p.const(0)
        for var, extent in reversed(self.axes):
            self.thread = p.add(p.multiply(self.thread, extent), p.cast("int32", var))
        self.own: dict[Var, Own] = {}
        #: views of it, and what stands for them
        self.views: dict[Buffer, tuple[Buffer, Own]] = {}
        #: variables that differ between threads, and those of them that memory holds
        self.differing: set[Var] = {var for var, _ in self.axes}
        self.held: dict[Var, BufferLoad] = {}
        #: memory for what threads exchange, and for variables
        self.scratch: list[Buffer] = []
        self.phases = Phases(launch.body, func)

    def known(self, axis: s.IterVar) -> int:
        """The number of threads of an axis."""
        extent = p.as_int(axis.dom.extent)
        if extent is None:
            raise self.refusal(
                f"{axis.thread_tag} has no fixed number of threads",
                axis,
                "split the loop by a number, and bind the inner loop",
            )
        return extent

    def refusal(self, message: str, where: Node, hint: str = "") -> CodegenError:
        return CodegenError(message, where=where, root=self.func, hint=hint or None)

    def loops(self) -> s.Stmt:
        """The kernel as loops over its blocks."""
        body = self.phases.to_end(self.joined(self.pieces(self.launch.body, ())))
        for buffer in (*self.scratch, *self.phases.buffers):
            body = s.DeclBuffer(buffer, body)
            body = s.Allocate(buffer.data, buffer.dtype, buffer.shape, p.const(True), body)
        for axis in self.launch.grid.values():
            body = _counted(axis.var, axis.dom.extent, s.ForKind.PARALLEL, body)
        return body

    # pieces and their loops

    def joined(self, pieces: Sequence[_Piece]) -> s.Stmt:
        """Pieces one after the other; what each thread does without a loop goes together."""
        done: list[s.Stmt] = []
        run: list[s.Stmt] = []
        for piece in (*pieces, None):
            if isinstance(piece, _Each) and not piece.loops:
                run.append(piece.body)
                continue
            if run:
                done.append(self.over_threads(s.seq(*run)))
                run = []
            if isinstance(piece, _Each):
                done.append(self.over_threads(piece.body))
            elif piece is not None and piece is not _MET:
                done.append(piece)
        return s.seq(*done) if done else s.Evaluate(p.const(0))

    def over_threads(self, body: s.Stmt) -> s.Stmt:
        for var, extent in self.axes:
            body = _counted(var, p.const(extent), s.ForKind.SERIAL, body)
        return body

    def each(self, n: s.Stmt, guards: _Guards) -> list[_Piece]:
        """What every thread does for which the guards hold."""
        body = self.rewritten(n)
        for guard in reversed(guards):
            body = s.IfThenElse(guard, body)
        return [_Each(body, any(isinstance(x, s.For | s.While) for x in walk(n)))]

    def pieces(self, n: s.Stmt, guards: _Guards) -> list[_Piece]:
        """A statement as pieces."""
        rule = _RULES.get(type(n))
        if rule is None:
            raise self.refusal(
                f"a kernel for a GPU has no {type(n).__name__}",
                n,
                "lower the function first: mlcnb.tir.transform.lower(func)",
            )
        return rule(self, n, guards)  # type: ignore[no-any-return]

    # what differs between threads

    def is_same(self, n: Node) -> bool:
        """True if an expression is the same for all threads of a block."""
        return not any(
            x in self.differing
            if isinstance(x, Var)
            else isinstance(x, BufferLoad) and x.buffer.data in self.own or is_shuffle(x)
            for x in walk(n)
        )

    def kept(self, value: PrimExpr, name: str, guards: _Guards) -> tuple[list[_Piece], PrimExpr]:
        """A value that each thread computes now, and what reads it later."""
        buffer = decl_buffer((self.threads,), str(value.dtype), name)
        self.scratch.append(buffer)
        before, value = self.exchanged(value, guards)
        store = s.BufferStore(buffer, value, (self.thread,))
        return [*before, *self.each(store, guards)], BufferLoad(buffer, (self.thread,))

    def exchanged(self, n: Any, guards: _Guards) -> tuple[list[_Piece], Any]:
        """A statement or expression without shuffles, and what goes before it."""
        before: list[_Piece] = []

        def visit(x: Any) -> Any:
            refuse_chosen(x, self.func)
            new = map_children(x, visit)
            if not is_shuffle(new):
                return new
            made, seen = self.kept(new.args[1], "lanes", guards)
            before.extend((*made, _MET))
            return replace(seen, indices=(source(new, self.thread, self.threads),))

        return before, visit(n)

    # memory

    def rewritten(self, n: Any) -> Any:
        """A statement or expression over the memory and variables of the loops."""
        if isinstance(n, Var):
            return self.held.get(n, n)
        if isinstance(n, Buffer):
            return self.seen(n)[0] if n.data in self.own else n
        if isinstance(n, e.Call) and n.op == ACTIVE:
            return active(n, self.threads)
        new = map_children(n, self.rewritten)
        if isinstance(n, BufferLoad | s.BufferStore) and n.buffer.data in self.own:
            place = self.seen(n.buffer)[1].place
            return replace(new, indices=(place(new.indices[0]),))
        if isinstance(n, e.Call) and n.op == "tir.tvm_access_ptr":
            own = self.own.get(n.args[1])  # type: ignore[call-overload]
            if own is not None:
                kind, _, offset, *rest = new.args
                return replace(new, args=(kind, own.data, own.place(offset), *rest))
        return new

    def seen(self, buffer: Buffer) -> tuple[Buffer, Own]:
        """What stands for a view of memory that a thread has for itself."""
        if buffer not in self.views:
            self.views[buffer] = self.own[buffer.data].seen_as(buffer)
        return self.views[buffer]

    def allocate(self, n: s.Allocate, guards: _Guards) -> list[_Piece]:
        scope = n.scope
        if scope in SHARED_SCOPES or n.data is not None:
            return [replace(n, body=self.joined(self.pieces(n.body, guards)))]
        if scope not in ("local", "warp"):
            raise self.refusal(
                f"a kernel cannot allocate {scope} memory for {n.buffer_var.name}",
                n,
                "set_scope to shared or local, or let another kernel fill it",
            )
        sizes = [p.as_int(x) for x in n.extents]
        if None in sizes:
            what = f"{n.buffer_var.name} in {scope} memory has no fixed size"
            raise self.refusal(what, n, "split the loops so that a tile has a fixed size")
        size = prod(sizes)  # type: ignore[arg-type]
        data = Var(n.buffer_var.name, n.buffer_var.dtype, (str(n.dtype), "global"))
        copies, number, apart = self.threads, self.thread, is_taken_whole(n)
        if scope == "warp":
            copies, number, apart = -(-copies // WARP), p.floordiv(number, WARP), True
        # a body that stands twice (a loop whose last step is peeled) allocates twice
        self.views = {b: view for b, view in self.views.items() if b.data is not n.buffer_var}
        self.own[n.buffer_var] = Own(data, n.dtype, copies, number, size, apart)
        body = self.joined(self.pieces(n.body, guards))
        return [s.Allocate(data, n.dtype, (p.const(copies * size),), p.const(True), body)]


def _counted(var: Var, extent: PrimExpr, kind: s.ForKind, body: s.Stmt) -> s.Stmt:
    return s.For(var, p.const(0, var.dtype), p.cast(var.dtype, extent), kind, body)


def _sequence(k: _Kernel, n: s.SeqStmt, guards: _Guards) -> list[_Piece]:
    return [piece for part in n.seq for piece in k.pieces(part, guards)]


def _loop(k: _Kernel, n: s.For, guards: _Guards) -> list[_Piece]:
    if n.kind is s.ForKind.THREAD_BINDING:
        bound = f"loop {n.loop_var.name} is bound to {n.thread_binding}"
        raise k.refusal(bound, n, "run UnifyThreadBinding and InjectVirtualThread first")
    bounds = (n.min, n.extent)
    read = any(isinstance(x, BufferLoad) for b in bounds for x in walk(b))
    if all(map(k.is_same, bounds)) and not (guards and read) and not is_left_early(n.body):
        inner = k.joined(k.pieces(n.body, guards))
        return [replace(n, min=k.rewritten(n.min), extent=k.rewritten(n.extent),
                        kind=s.ForKind.SERIAL, body=inner)]  # fmt: skip
    return _alone(k, n, guards, f"loop {n.loop_var.name}")


def _while(k: _Kernel, n: s.While, guards: _Guards) -> list[_Piece]:
    if k.is_same(n.condition) and not guards and not is_left_early(n.body):
        inner = k.joined(k.pieces(n.body, guards))
        return [replace(n, condition=k.rewritten(n.condition), body=inner)]
    return _alone(k, n, guards, "a while loop")


def _alone(k: _Kernel, n: s.Stmt, guards: _Guards, what: str) -> list[_Piece]:
    """Each thread runs a loop by itself, for another number of rounds than others."""
    together: Any = next((x for x in walk(n) if is_collective(x)), None)
    if together is not None:
        raise k.refusal(
            f"threads meet ({together.op.removeprefix('tir.')}) in {what}, which differs by thread",
            n,
            "a barrier must not stand in a loop that differs by thread",
        )
    return k.each(n, guards)


def _branch(k: _Kernel, n: s.IfThenElse, guards: _Guards) -> list[_Piece]:
    reads = any(isinstance(x, BufferLoad) for x in walk(n.condition))
    if k.is_same(n.condition) and not (guards and reads):
        parts = [k.joined(k.pieces(x, guards)) if x is not None else None
                 for x in (n.then_case, n.else_case)]  # fmt: skip
        return [replace(n, condition=k.rewritten(n.condition),
                        then_case=parts[0], else_case=parts[1])]  # fmt: skip
    if not any(_divides(x) for x in walk(n)):
        return k.each(n, guards)
    before: list[_Piece] = []
    condition = n.condition
    if reads or any(is_shuffle(x) for x in walk(condition)):
        before, condition = k.kept(condition, "holds", guards)
    else:
        condition = k.rewritten(condition)
    made = [*before, *k.pieces(n.then_case, (*guards, condition))]
    if n.else_case is not None:
        made += k.pieces(n.else_case, (*guards, p.logical_not(condition)))
    return made


def _divides(n: Node) -> bool:
    """True if what holds it is better, or must be, taken apart."""
    return isinstance(n, s.For | s.While | s.Allocate) or is_collective(n)


def _let(k: _Kernel, n: s.LetStmt, guards: _Guards) -> list[_Piece]:
    reads = any(isinstance(x, BufferLoad) for x in walk(n.value))
    if k.is_same(n.value) and not (guards and reads):
        return [replace(n, value=k.rewritten(n.value), body=k.joined(k.pieces(n.body, guards)))]
    if not any(_divides(x) for x in walk(n)):
        k.differing.add(n.var)
        return k.each(n, guards)
    if n.var.dtype.is_handle:
        raise k.refusal(f"pointer {n.var.name} differs by thread", n)
    before, value = k.kept(n.value, n.var.name, guards)
    k.differing.add(n.var)
    k.held[n.var] = value  # type: ignore[assignment]
    return [*before, *k.pieces(n.body, guards)]


def _check(k: _Kernel, n: s.AssertStmt, guards: _Guards) -> list[_Piece]:
    here = replace(n, body=s.Evaluate(p.const(0)))
    return [*k.each(here, guards), *k.pieces(n.body, guards)]


def _attribute(k: _Kernel, n: s.AttrStmt, guards: _Guards) -> list[_Piece]:
    if n.attr_key in ("thread_extent", "virtual_thread", "reduce_scope"):
        raise k.refusal(
            f"{n.attr_key} stands inside of a kernel",
            n,
            "lower the function first: mlcnb.tir.transform.lower(func)",
        )
    return k.pieces(n.body, guards)


def _declare(k: _Kernel, n: s.DeclBuffer, guards: _Guards) -> list[_Piece]:
    return [s.DeclBuffer(k.rewritten(n.buffer), k.joined(k.pieces(n.body, guards)))]


def _step(k: _Kernel, n: s.BufferStore | s.Evaluate, guards: _Guards) -> list[_Piece]:
    call = n.value if isinstance(n, s.Evaluate) else None
    if call is not None and not isinstance(call, e.Call):
        return []
    if call is not None and call.op == BARRIER:
        refuse_barrier(call, bool(guards), k.func)
        return [_MET]
    if call is not None and call.op in INSTRUCTIONS:
        does = INSTRUCTIONS[call.op]
        return [_MET, *k.each(does(call, k.thread, lane_of(call, k.launch, k.func)), guards), _MET]
    if call is not None and call.op in CALLS:
        made, once = k.phases.does(call), call.op in ONCE and not guards and k.is_same(call)
        return [_MET, *([k.rewritten(made)] if once else k.each(made, guards)), _MET]
    before, n = k.exchanged(n, guards)
    return [*before, *k.each(n, guards)]


_RULES: dict[type, Callable[[_Kernel, Any, _Guards], list[_Piece]]] = {
    s.SeqStmt: _sequence,
    s.For: _loop,
    s.While: _while,
    s.IfThenElse: _branch,
    s.LetStmt: _let,
    s.AssertStmt: _check,
    s.Allocate: _Kernel.allocate,
    s.DeclBuffer: _declare,
    s.AttrStmt: _attribute,
    s.BufferStore: _step,
    s.Evaluate: _step,
}
