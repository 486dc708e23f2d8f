"""verify_well_formed: the rules that every loop program keeps.

A variable is defined where it is used, and not a second time there (loops side by side may share
one); a buffer is declared and indexed with as many integers as it has dimensions; operands have one
dtype, conditions are bool; a block has a value for each axis and uses outer loops only through its
axes; each axis stays in its domain and each access in the regions that its blocks say (`domains`);
a thread axis is one that GPUs have, of one extent within a kernel; what ends a loop early stands in
that loop, and in no block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.core.errors import WellFormedError
from mlcnb.core.node import Node, children
from mlcnb.core.recursion import roomy
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.folding import COMPARISONS, DIVISIONS, SUMS, TRUNCATED
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.domains import refuse_false_domains
from mlcnb.tir.analysis.leaving import misplaced_exit
from mlcnb.tir.analysis.variables import match_defines
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, ProducerLoad
from mlcnb.tir.constants import refuse_stores_to_constants
from mlcnb.tir.function import PrimFunc


@roomy
def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """True if a function, or every loop function of a module, keeps the rules.

    Raises:
        WellFormedError: it does not, and `assert_mode` is True.
    """
    functions = obj.functions.values() if isinstance(obj, IRModule) else [obj]
    try:
        for func in functions:
            if isinstance(func, PrimFunc):
                checker = _Checker(func)
                checker.function()
                refuse_false_domains(func, checker.fail)
                refuse_stores_to_constants(func)
    except WellFormedError:
        if assert_mode:
            raise
        return False
    return True


#: the axes of threads that a GPU has, and virtual ones
THREAD_AXES = (
    *(f"{part}.{axis}" for part in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"),
    "vthread",
)


class _Checker:
    """Walks a function with the variables and buffers that are defined at each place."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.defined: set[Var] = set()
        self.buffers: set[Buffer] = set()
        #: loop variables that a block around here hides
        self.hidden: set[Var] = set()
        self.loops: set[Var] = set()
        #: thread axis -> the loop around here that is bound to it
        self.threads: dict[str, s.For] = {}
        self.block: s.Block | None = None

    def fail(self, message: str, where: Any, hint: str | None = None) -> None:
        raise WellFormedError(message, where=where, root=self.func, hint=hint)

    def function(self) -> None:
        for param in self.func.params:
            self.define(param, self.func)
        params = set(self.func.params)
        for param in self.func.buffer_map:
            if param not in params:
                self.fail(f"buffer_map has {param.name}, which is no parameter", self.func)
        for buffer in self.func.buffers:
            self.match(buffer)
        for buffer in self.func.buffers:
            self.declare(buffer)
        self.visit(self.func.body)

    # what is defined

    def define(self, var: Var, where: Any) -> None:
        if var in self.defined or var in self.hidden:
            self.fail(f"variable {var.name} is defined twice", where)
        self.defined.add(var)

    def match(self, buffer: Buffer) -> None:
        """What matching a buffer binds; a second buffer may share what the first has bound."""
        for var in match_defines(buffer):
            if var not in self.defined:
                self.define(var, buffer)

    def declare(self, buffer: Buffer) -> None:
        """A buffer from here on; its shape must be known."""
        parts = [*buffer.shape, *buffer.strides, buffer.data]
        if buffer.elem_offset is not None:
            parts.append(buffer.elem_offset)
        for part in parts:
            self.visit(part)
        self.buffers.add(buffer)

    def scoped(self, variables: Iterable[Var], body: Iterable[Any], where: Any) -> None:
        added = list(variables)
        for var in added:
            self.define(var, where)
        for part in body:
            if part is not None:
                self.visit(part)
        self.defined.difference_update(added)

    # walking

    def visit(self, n: Any) -> None:
        handler = _HANDLERS.get(type(n))
        if handler is not None:
            handler(self, n)
            return
        for child in children(n):
            self.visit(child)

    def var(self, n: Var) -> None:
        if n in self.hidden and n not in self.defined:
            assert self.block is not None
            self.fail(
                f"block {self.block.name_hint} uses loop variable {n.name}, which is not its axis",
                n,
                "give the block an axis that is bound to the loop",
            )
        if n not in self.defined:
            self.fail(f"variable {n.name} is used but not defined", n)

    def loop(self, n: s.For) -> None:
        self.visit(n.min)
        self.visit(n.extent)
        self.require_index(n.min, n, "the start of a loop")
        self.require_index(n.extent, n, "the extent of a loop")
        for part in (n.min, n.extent):
            self.require(
                part.dtype == n.loop_var.dtype,
                n,
                f"loop {n.loop_var.name} is {n.loop_var.dtype}, its range {part.dtype}",
            )
        around = self.threads
        if n.kind is s.ForKind.THREAD_BINDING:
            self.threads = {**around, self.thread_axis(n): n}
        self.loops.add(n.loop_var)
        self.scoped([n.loop_var], [self.leavable(n)], n)
        self.loops.discard(n.loop_var)
        self.threads = around

    def thread_axis(self, n: s.For) -> str:
        """The thread axis that a loop is bound to; a loop in another one of it has its extent."""
        name, axis = n.loop_var.name, n.thread_binding
        if not axis:
            self.fail(f"loop {name} is bound to no thread axis", n)
        if axis not in THREAD_AXES:
            self.fail(
                f"loop {name} is bound to {axis!r}, which is no thread axis",
                n,
                f"one of {', '.join(THREAD_AXES)}",
            )
        outer = self.threads.get(str(axis))
        extents = [p.as_int(x.extent) for x in (outer, n) if x is not None]
        if outer is not None and None not in extents and len(set(extents)) > 1:
            self.fail(
                f"loop {name} of extent {extents[1]} is bound to {axis}, as is loop "
                f"{outer.loop_var.name} of extent {extents[0]} around it",
                n,
                "threads that share work have one number",
            )
        return str(axis)

    def while_loop(self, n: s.While) -> None:
        self.condition(n.condition, n)
        self.visit(self.leavable(n))

    def leavable(self, n: s.For | s.While) -> s.Stmt:
        """The body of a loop, which may be left early."""
        wrong = misplaced_exit(n)
        if wrong is not None:
            self.fail(wrong, n, "T.where(condition) keeps a block from running")
        return n.body

    def evaluate(self, n: s.Evaluate) -> None:
        self.visit(n.value)
        if isinstance(n.value, e.Call) and n.value.op == "tir.ret" and n.value.args:
            returned, said = n.value.args[0].dtype, self.func.ret_type
            fits = said is None or returned == said
            self.require(fits, n, f"{returned} is returned, the signature says {said}")

    def let(self, n: Any) -> None:
        self.visit(n.value)
        self.require(n.var.dtype == n.value.dtype, n, f"{n.var.name} is bound to another dtype")
        self.scoped([n.var], [n.body], n)

    def allocate(self, n: s.Allocate) -> None:
        for part in (*n.extents, n.condition):
            self.visit(part)
        self.scoped([n.buffer_var], [n.body], n)

    def declaration(self, n: s.DeclBuffer) -> None:
        self.declare(n.buffer)
        self.visit(n.body)

    def attribute(self, n: s.AttrStmt) -> None:
        if isinstance(n.value, Node):
            self.visit(n.value)
        if isinstance(n.node, s.IterVar):
            if n.node.var in self.defined:
                self.visit(n.body)
            else:
                self.scoped([n.node.var], [n.body], n)
            return
        self.visit(n.body)

    def realize(self, n: s.BlockRealize) -> None:
        block = n.block
        if len(n.iter_values) != len(block.iter_vars):
            self.fail(
                f"block {block.name_hint} has {len(block.iter_vars)} axes and "
                f"{len(n.iter_values)} values for them",
                n,
            )
        for value in n.iter_values:
            self.visit(value)
            self.require_index(value, n, f"an axis of block {block.name_hint}")
        self.condition(n.predicate, n)
        self.inside_block(block)

    def inside_block(self, block: s.Block) -> None:
        for axis in block.iter_vars:
            self.visit(axis.dom.min)
            self.visit(axis.dom.extent)
        outer, hidden, removed = self.block, set(self.hidden), set()
        if block.iter_vars:
            removed = self.loops & self.defined
            self.hidden |= removed
            self.defined -= removed
        self.block = block
        axes = [axis.var for axis in block.iter_vars]
        data = [b.data for b in block.alloc_buffers]
        for var in (*axes, *data):
            self.define(var, block)
        for buffer in block.alloc_buffers:
            self.declare(buffer)
        for match in block.match_buffers:
            self.visit(match.source)
            self.match(match.buffer)
            self.declare(match.buffer)
        for part in (*block.reads, *block.writes, block.init, block.body):
            if part is not None:
                self.visit(part)
        self.buffers.difference_update(block.alloc_buffers)
        self.buffers.difference_update(match.buffer for match in block.match_buffers)
        self.defined.difference_update([*axes, *data])
        self.defined |= removed
        self.block, self.hidden = outer, hidden

    def known(self, buffer: Buffer, where: Any) -> None:
        """A buffer is declared, or is another view of memory that is."""
        if buffer in self.buffers:
            return
        if buffer.data not in self.defined:
            self.fail(
                f"buffer {buffer.name} is used but not declared",
                where,
                "allocate it in a block, or make it a parameter",
            )
        self.declare(buffer)

    def indices(self, n: Any) -> None:
        self.known(n.buffer, n)
        if len(n.indices) != n.buffer.ndim:
            self.fail(
                f"buffer {n.buffer.name} has {n.buffer.ndim} dimensions and is indexed with "
                f"{len(n.indices)}",
                n,
            )
        for index in n.indices:
            self.visit(index)
            self.require_index(index, n, f"an index of {n.buffer.name}")

    def load(self, n: BufferLoad) -> None:
        self.indices(n)
        if n.predicate is not None:
            self.condition(n.predicate, n)

    def store(self, n: s.BufferStore) -> None:
        self.indices(n)
        self.visit(n.value)
        if n.predicate is not None:
            self.condition(n.predicate, n)
        lanes = max([i.dtype.lanes for i in n.indices], default=1) * n.buffer.dtype.lanes
        expected = n.buffer.dtype.with_lanes(lanes)
        if n.value.dtype != expected:
            self.fail(f"a {n.value.dtype} is stored to {n.buffer.name}, which takes {expected}", n)

    def region(self, n: BufferRegion) -> None:
        self.known(n.buffer, n)
        if len(n.region) != n.buffer.ndim:
            self.fail(
                f"a region of {n.buffer.name} has {len(n.region)} ranges for "
                f"{n.buffer.ndim} dimensions",
                n,
            )
        for bounds in n.region:
            self.visit(bounds)

    # dtypes

    def require(self, holds: bool, where: Any, message: str) -> None:
        if not holds:
            self.fail(message, where)

    def require_index(self, x: PrimExpr, where: Any, what: str) -> None:
        self.require(x.dtype.is_integer, where, f"{what} is {x.dtype}, not an integer")

    def require_bool(self, x: PrimExpr, where: Any) -> None:
        self.require(x.dtype.is_bool, where, f"a condition is {x.dtype}, not bool")

    def condition(self, x: PrimExpr, where: Any) -> None:
        self.visit(x)
        self.require_bool(x, where)

    def operands(self, n: Any) -> None:
        self.visit(n.a)
        self.visit(n.b)
        if n.a.dtype != n.b.dtype:
            self.fail(f"{type(n).__name__} of {n.a.dtype} and {n.b.dtype}", n)

    def logical(self, n: Any) -> None:
        self.operands(n)
        self.require_bool(n.a, n)

    def negation(self, n: e.Not) -> None:
        self.condition(n.a, n)

    def select(self, n: e.Select) -> None:
        self.conditional(n)
        if n.true_value.dtype != n.false_value.dtype:
            self.fail(f"Select between {n.true_value.dtype} and {n.false_value.dtype}", n)

    def conditional(self, n: Any) -> None:
        self.condition(n.condition, n)
        for part in children(n):
            if part is not n.condition:
                self.visit(part)

    def sequence(self, n: s.SeqStmt) -> None:
        self.require(len(n.seq) > 0, n, "a sequence of no statements")
        for part in n.seq:
            self.visit(part)

    def foreign(self, n: Any) -> None:
        self.fail(f"{type(n).__name__} has no place in a PrimFunc", n)


_HANDLERS: dict[type, Any] = {
    Var: _Checker.var,
    e.SizeVar: _Checker.var,
    s.For: _Checker.loop,
    s.LetStmt: _Checker.let,
    e.Let: _Checker.let,
    s.Allocate: _Checker.allocate,
    s.DeclBuffer: _Checker.declaration,
    s.AttrStmt: _Checker.attribute,
    s.BlockRealize: _Checker.realize,
    s.BufferStore: _Checker.store,
    s.SeqStmt: _Checker.sequence,
    s.IfThenElse: _Checker.conditional,
    s.While: _Checker.while_loop,
    s.Evaluate: _Checker.evaluate,
    s.AssertStmt: _Checker.conditional,
    s.Reduce: _Checker.foreign,
    ProducerLoad: _Checker.foreign,
    BufferLoad: _Checker.load,
    BufferRegion: _Checker.region,
    e.And: _Checker.logical,
    e.Or: _Checker.logical,
    e.Not: _Checker.negation,
    e.Select: _Checker.select,
    **dict.fromkeys((*SUMS, *DIVISIONS, *TRUNCATED, *COMPARISONS), _Checker.operands),
}
