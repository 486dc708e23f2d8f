"""Statements: loops, branches, allocations, and the loops whose chunks run on the thread pool."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.ahead import loop_body
from mlcnb.codegen.llvm.emit.expr import constant
from mlcnb.codegen.llvm.emit.index import bounds, exact, index, nonnegative
from mlcnb.codegen.llvm.emit.memory import store
from mlcnb.codegen.llvm.emit.status import FIRST_ASSERT
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import Node, children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.analysis.structure import LEAST, allocations, is_line, statements, work, work_of
from mlcnb.tir.buffer import Buffer

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: local memory of at most this many bytes lives on the stack
STACK_BYTES = 64 << 10
#: … and all of a function's together no more than these: a thread has some megabytes
ALL_STACK_BYTES = 1 << 20
#: statements after which a loop looks again whether it has to stop: some ten microseconds
POLL_WORK = 20_000
#: all of a parallel loop's rounds on this thread
_ALONE = """define internal i32 @mlcnb_alone(ptr %fn, ptr %ctx, i64 %n) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %run, label %none
run:
  %status = call i32 %fn(ptr %ctx, i64 0, i64 %n)
  ret i32 %status
none:
  ret i32 0
}"""
#: characters of a loop's name in the IR
_LONGEST = 100
#: a vector loop with more instructions than this is not unrolled
_LARGE = 24


def sequence(em: Emitter, x: s.SeqStmt) -> None:
    """One after the other."""
    for stmt in x.seq:
        em.stmt(stmt)


def loop(em: Emitter, x: s.For) -> None:
    """A loop of any kind; GPU threads do not exist here."""
    if x.kind is s.ForKind.THREAD_BINDING:
        raise _no_threads(x.loop_var.name, str(x.thread_binding))
    if x.kind is s.ForKind.PARALLEL and not em.in_parallel and p.as_int(x.extent) != 1:
        parallel(em, x)
        return
    if x.kind is s.ForKind.VECTORIZED:
        raise CodegenError("a vectorized loop is left", hint="run VectorizeLoop first")
    serial(em, x)


def serial(em: Emitter, x: s.For) -> None:
    """for i in range(min, min + extent)"""
    start, _, stop = bounds(em, x)
    if nonnegative(em, x.min):
        em.nonnegative.add(x.loop_var)
    polls = asks_to_stop(em, x.body)
    around = em.in_loop, em.innermost
    em.in_loop, em.innermost = True, x.loop_var

    def body() -> None:
        if polls:
            poll(em)
        loop_body(em, x.body)

    runs, leaves = at_least_once(x.extent), is_left_early(x.body)
    count_loop(em, x.loop_var, start, stop, body, runs, x, leaves)
    em.in_loop, em.innermost = around


def asks_to_stop(em: Emitter, body: s.Stmt) -> bool:
    """True if each round of a loop with this body looks whether somebody wants it to stop.

    The outermost loop does, and those inside whose rounds are long; the innermost never does.
    """
    if not any(isinstance(n, s.For | s.While) for n in statements(body)):
        return False
    outermost = not em.in_parallel and not em.in_loop
    return outermost or work(body, 1000) >= POLL_WORK


def poll(em: Emitter) -> None:
    """Leave the kernel where somebody asked for it: Ctrl-C sets the flag."""
    em.module.declare("mlcnb_cancel", "@mlcnb_cancel = external global i32")
    flag = em.f.emit("load atomic i32, ptr @mlcnb_cancel monotonic, align 4")
    em.stop_if(em.f.emit(f"icmp ne i32 {flag}, 0"), 1)


def at_least_once(extent: e.PrimExpr) -> bool:
    """True if the loop runs for certain."""
    return (p.as_int(extent) or 0) > 0


def count_loop(
    em: Emitter,
    var: e.Var,
    start: str,
    stop: str,
    body: Callable[[], None],
    runs: bool,
    loop: s.For | None = None,
    leaves: bool = False,
) -> None:
    """A counted loop, tested at its end (and at its start unless it `runs` for certain).

    loop: the loop of the program that it is, if it is one; leaves: `break` or `continue` is in it.
    """
    f = em.f
    head, done = f.label("loop"), f.label("end")
    if not runs:
        enter = f.emit(f"icmp slt i64 {start}, {stop}")
        f.do(f"br i1 {enter}, label %{head}, label %{done}")
    else:
        f.do(f"br label %{head}")
    before = f.block
    f.place(head)
    counter, following = f.name(f"{_plain(var.name)}."), f.name("next")
    f.lines.append("")  # the phi: its second edge is known when the body is done
    place = len(f.lines) - 1
    f.env[var] = (counter, True)
    if leaves:
        latch = f.label("latch")
        with em.exits(latch, done):
            body()
        f.do(f"br label %{latch}")
        f.place(latch)
    else:
        body()
    hint = unroll_hint(em, f.lines[place:], loop)
    f.do(f"{following} = add nsw i64 {counter}, 1")
    again = f.emit(f"icmp {'slt' if loop is None else em.goes_on} i64 {following}, {stop}")
    edges = f"[ {start}, %{before} ], [ {following}, %{f.block} ]"
    f.lines[place] = f.line(f"{counter} = phi i64 {edges}")
    f.do(f"br i1 {again}, label %{head}, label %{done}{hint}")
    f.place(done)


def unroll_hint(em: Emitter, body: list[str], loop: s.For | None) -> str:
    """What to put behind the branch that closes a loop; "" for nothing.

    Left to itself LLVM multiplies register tiles that fill the registers already: a third of the
    time to compile, and no gain at run time. A line made of others, once written out, is no vector.

    Args:
        em: the emission.
        body: the lines of the loop's body.
        loop: the loop; None for one that is not the program's own.
    """
    if loop is not None and loop.kind is s.ForKind.UNROLLED:
        return _mark(em, "llvm.loop.unroll.full")
    large = len(body) > _LARGE and any(" x " in line for line in body)
    stays = large or (loop is not None and is_line(loop))
    return _mark(em, "llvm.loop.unroll.disable") if stays else ""


def _mark(em: Emitter, name: str) -> str:
    """Metadata for one loop, each with an identity of its own."""
    number = em.module.metadata()
    em.module.declare(f"!{number}", f'!{number} = distinct !{{!{number}, !{{!"{name}"}}}}')
    return f", !llvm.loop !{number}"


def _plain(name: str) -> str:
    short = name[:_LONGEST]  # LLVM cuts long ones, and then two may be one
    return "".join(c if c.isalnum() and c.isascii() or c == "_" else "_" for c in short)


def parallel(em: Emitter, x: s.For) -> None:
    """The loop's body becomes a function of its own, whose chunks run on the thread pool."""
    if is_left_early(x.body, ("break_loop",)):
        raise CodegenError(
            f"parallel loop {x.loop_var.name} is left by `break`: its iterations run side by side",
            hint="make the loop serial",
        )
    captured = _captured(em, x)
    start, extent, _ = bounds(em, x)
    name, kinds = em.outline(x, captured)
    f = em.f
    context = f.alloca("i64", max(1, len(captured) + 1), align=16)
    f.do(f"store i64 {start}, ptr {context}")
    for slot, (var, kind) in enumerate(zip(captured, kinds, strict=True), start=1):
        where = f.emit(f"getelementptr i64, ptr {context}, i64 {slot}")
        f.do(f"store {kind} {f.env[var][0]}, ptr {where}")
    run = em.external("mlcnb_parallel_for", "i32", ("ptr", "ptr", "i64"))
    least = p.as_int(x.annotations.get(LEAST))
    if least is not None:
        em.module.declare("mlcnb_alone", _ALONE)
        small = f.emit(f"icmp slt i64 {index(em, work_of(x))}, {least}")
        run = f.emit(f"select i1 {small}, ptr @mlcnb_alone, ptr {run}")
    em.stop_with(f.emit(f"call i32 {run}(ptr @{name}, ptr {context}, i64 {extent})"))


def _captured(em: Emitter, x: s.For) -> list[e.Var]:
    """Variables of the enclosing function that the body uses, in order of first use."""
    found: dict[e.Var, None] = {}

    def visit(n: Node) -> None:
        if isinstance(n, e.Var):
            if n in em.f.env:
                found.setdefault(n)
            return
        if isinstance(n, Buffer):
            visit(n.data)
            return
        for child in children(n):
            visit(child)

    visit(x.body)
    return list(found)


def branch(em: Emitter, x: s.IfThenElse) -> None:
    """if / else"""
    f = em.f
    then, done = f.label("if"), f.label("fi")
    otherwise = f.label("else") if x.else_case is not None else done
    f.do(f"br i1 {em.expr(x.condition)}, label %{then}, label %{otherwise}")
    f.place(then)
    em.stmt(x.then_case)
    f.do(f"br label %{done}")
    if x.else_case is not None:
        f.place(otherwise)
        em.stmt(x.else_case)
        f.do(f"br label %{done}")
    f.place(done)


def while_loop(em: Emitter, x: s.While) -> None:
    """while condition"""
    f = em.f
    head, body, done = f.label("while"), f.label("do"), f.label("done")
    f.do(f"br label %{head}")
    f.place(head)
    f.do(f"br i1 {em.expr(x.condition)}, label %{body}, label %{done}")
    f.place(body)
    with em.exits(head, done):
        em.stmt(x.body)
    f.do(f"br label %{head}")
    f.place(done)


def let(em: Emitter, x: s.LetStmt) -> None:
    """A variable for a value; integers are kept as indices."""
    d = x.var.dtype
    if d.is_integer and d.lanes == 1 and em.is_index(x.value):
        em.f.env[x.var] = (exact(em, x.value), True)
        em.ranges.bind(x.var, x.value)
        if nonnegative(em, x.value):
            em.nonnegative.add(x.var)
    else:
        em.f.env[x.var] = (em.expr(x.value), False)
    em.stmt(x.body)


def allocate(em: Emitter, x: s.Allocate) -> None:
    """Memory: the stack if small, else the kernel's workspace, else the heap."""
    if x in em.scratch:
        _bind(em, x, em.scratch[x])
        return
    if x.data is not None:
        _bind(em, x, constant(em, x.data.tobytes()))
        return
    sizes = [p.as_int(extent) for extent in x.extents]
    element = t.memory_type(x.dtype)
    if None not in sizes:
        count = math.prod(sizes)  # type: ignore[arg-type]
        used = sum(em.f.on_stack.values())
        if count * x.dtype.nbytes <= min(STACK_BYTES, ALL_STACK_BYTES - used):
            em.f.on_stack[x.buffer_var] = count * x.dtype.nbytes
            _bind(em, x, em.f.alloca(element, max(1, count)))
            return
        if not em.in_parallel:
            _bind(em, x, em.workspace(count * x.dtype.nbytes))
            return
    _heap(em, x)


def _bind(em: Emitter, x: s.Allocate, pointer: str) -> None:
    em.f.env[x.buffer_var] = (pointer, False)
    em.stmt(x.body)


def _heap(em: Emitter, x: s.Allocate) -> None:
    f = em.f
    _bind(em, x, acquire(em, x))
    f.do(f.cleanup.pop())


def held_by_chunks(em: Emitter, body: s.Stmt) -> list[s.Allocate]:
    """What the rounds of a parallel loop need from the heap, of known sizes: once for a chunk."""

    def is_held(x: s.Allocate) -> bool:
        sizes = [p.as_int(extent) for extent in x.extents]
        if None not in sizes:
            return math.prod(sizes) * x.dtype.nbytes > STACK_BYTES  # type: ignore[arg-type]
        parts = (n for extent in x.extents for n in walk(extent) if isinstance(n, e.Var))
        return all(n in em.f.env for n in parts) and all(nonnegative(em, d) for d in x.extents)

    return [x for x in allocations(body) if x.data is None and is_held(x)]


def acquire(em: Emitter, x: s.Allocate) -> str:
    """Memory from the heap; the last of `cleanup` gives it back."""
    f = em.f
    total = _bytes(em, x)
    allocate = em.external("mlcnb_alloc", "ptr", ("i64",))
    pointer = f.emit(f"call ptr {allocate}(i64 {total})")
    em.stop_if(f.emit(f"icmp eq ptr {pointer}, null"), 4)
    free = em.external("mlcnb_free", "void", ("ptr",))
    f.cleanup.append(f"call void {free}(ptr {pointer})")
    return pointer


def _factors(x: e.PrimExpr) -> list[e.PrimExpr]:
    return [*_factors(x.a), *_factors(x.b)] if isinstance(x, e.Mul) else [x]


def _bytes(em: Emitter, x: s.Allocate) -> str:
    """How large an allocation is; what no memory can hold is not asked for."""
    factors = [factor for extent in x.extents for factor in _factors(extent)]
    open_sizes = [factor for factor in factors if p.as_int(factor) is None]
    total = x.dtype.nbytes * math.prod(n for n in map(p.as_int, factors) if n is not None)
    if total >= 2**62:
        raise CodegenError(
            f"{x.buffer_var.name} needs {total} bytes, more than any memory has",
            hint="make the buffer smaller",
        )
    made, kinds = str(total), ("i64", "i64")
    if not open_sizes:
        return made
    fn = em.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", kinds)
    for size in open_sizes:
        both = em.f.emit(f"call {{ i64, i1 }} {fn}(i64 {made}, i64 {index(em, size)})")
        em.stop_if(em.f.emit(f"extractvalue {{ i64, i1 }} {both}, 1"), 4)
        made = em.f.emit(f"extractvalue {{ i64, i1 }} {both}, 0")
    return made


def declare(em: Emitter, x: s.DeclBuffer) -> None:
    """A view: nothing to do but its body."""
    em.stmt(x.body)


def evaluate(em: Emitter, x: s.Evaluate) -> None:
    """A call for its effect."""
    if not isinstance(x.value, e.IntImm):
        em.expr(x.value)


def attribute(em: Emitter, x: s.AttrStmt) -> None:
    """Marks are for passes and people; GPU launches do not exist here."""
    if x.attr_key in ("thread_extent", "virtual_thread"):
        raise _no_threads(x.node.var.name, x.node.thread_tag)
    em.stmt(x.body)


def _no_threads(name: str, axis: str) -> CodegenError:
    return CodegenError(
        f"{name} is bound to {axis}, which a CPU does not have",
        hint="schedule without bind, or compile for a GPU target",
    )


def check(em: Emitter, x: s.AssertStmt) -> None:
    """Stop with the assertion's number unless it holds."""
    code = FIRST_ASSERT + len(em.module.messages)
    em.module.messages.append(x.message)
    fails = em.f.emit(f"xor i1 {em.expr(x.condition)}, true")
    em.stop_if(fails, code)
    em.stmt(x.body)


RULES: dict[type, Callable[[Any, Any], None]] = {
    s.SeqStmt: sequence,
    s.For: loop,
    s.While: while_loop,
    s.IfThenElse: branch,
    s.LetStmt: let,
    s.AttrStmt: attribute,
    s.AssertStmt: check,
    s.BufferStore: store,
    s.Evaluate: evaluate,
    s.Allocate: allocate,
    s.DeclBuffer: declare,
}
