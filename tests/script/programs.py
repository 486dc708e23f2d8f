"""Random loop programs for hypothesis: any mix of statements and expressions that is well typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from mlcnb.core.node import FrozenDict
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, decl_buffer
from mlcnb.tir.function import PrimFunc

Draw = Callable[[Any], Any]
NAMES = st.sampled_from(["i", "j", "x", "A", "T", "lambda", "a b", "v_0", "é"])
_ARITHMETIC = [e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max, e.Div, e.Mod]
_FLOAT = [e.Add, e.Sub, e.Mul, e.Div, e.Min, e.Max]
_COMPARE = [e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE]
_BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]


class Maker:
    """Draws expressions and statements over the variables and buffers that are in scope."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.ints: list[Var] = []
        self.buffers: list[Buffer] = []

    def choose(self, options: list[Any]) -> Any:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def chance(self) -> bool:
        return self.draw(st.booleans())

    # expressions ---------------------------------------------------------------------------------

    def integer(self, depth: int, kind: str = "int32") -> PrimExpr:
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            known = [v for v in self.ints if v.dtype == kind]
            if known and self.chance():
                return self.choose(known)
            return p.const(self.draw(st.integers(-9, 9)), kind)
        form = self.draw(st.integers(0, 5))
        if form <= 1:
            return self.choose(_ARITHMETIC)(
                self.integer(depth - 1, kind), self.integer(depth - 1, kind)
            )
        if form == 2:
            args = (self.integer(depth - 1, kind), self.integer(depth - 1, kind))
            return e.Call(dtype(kind), f"tir.{self.choose(_BITS)}", args)
        if form == 3:
            other = "int64" if kind == "int32" else "int32"
            return e.Cast(dtype(kind), self.integer(depth - 1, other))
        if form == 4:
            values = (self.integer(depth - 1, kind), self.integer(depth - 1, kind))
            return e.Select(self.condition(depth - 1), *values)
        return e.Call(dtype(kind), "tir.bitwise_not", (self.integer(depth - 1, kind),))

    def floating(self, depth: int) -> PrimExpr:
        if depth == 0:
            value = self.draw(st.floats(width=32))
            return p.const(value, "float32")
        form = self.draw(st.integers(0, 4))
        if form == 0 and self.buffers:
            return self.load(depth - 1)
        if form == 1:
            args = (self.condition(depth - 1), self.floating(depth - 1), self.floating(depth - 1))
            return e.Call(dtype("float32"), "tir.if_then_else", args)
        if form == 2:
            name = self.choose(["exp", "sqrt", "tanh", "strange"])
            return e.Call(dtype("float32"), f"tir.{name}", (self.floating(depth - 1),))
        if form == 3:
            var = Var(self.draw(NAMES), dtype("int32"))
            value = self.integer(depth - 1)
            self.ints.append(var)
            body = self.floating(depth - 1)
            self.ints.remove(var)
            return e.Let(var, value, body)
        return self.choose(_FLOAT)(self.floating(depth - 1), self.floating(depth - 1))

    def condition(self, depth: int) -> PrimExpr:
        form = self.draw(st.integers(0, 4))
        if depth == 0 or form == 0:
            return self.choose(_COMPARE)(self.integer(0), self.integer(0))
        if form == 1:
            return e.Not(self.condition(depth - 1))
        if form == 2:
            return self.choose([e.And, e.Or])(self.condition(depth - 1), self.condition(depth - 1))
        return self.choose(_COMPARE)(self.integer(depth - 1), self.integer(depth - 1))

    def load(self, depth: int) -> BufferLoad:
        buffer = self.choose(self.buffers)
        return BufferLoad(buffer, tuple(self.integer(depth) for _ in buffer.shape))

    # statements ----------------------------------------------------------------------------------

    def stmt(self, depth: int) -> s.Stmt:
        if depth == 0:
            return self.store()
        form = self.draw(st.integers(0, 9))
        forms = [
            self.store, self.loop, self.loop, self.block, self.block, self.several, self.branch,
            self.let, self.memory, self.marked,
        ]  # fmt: skip
        return forms[form](depth - 1) if form else self.store()

    def store(self) -> s.Stmt:
        if not self.buffers:
            return s.Evaluate(self.integer(2))
        target = self.load(1)
        return s.BufferStore(target.buffer, self.floating(2), target.indices)

    def loop(self, depth: int) -> s.Stmt:
        var = Var(self.draw(NAMES), dtype("int32"))
        low, extent = p.const(self.draw(st.integers(0, 2))), self.integer(1)
        kind = self.choose(list(s.ForKind))
        thread = "threadIdx.x" if kind is s.ForKind.THREAD_BINDING else None
        marks = FrozenDict(key=(1, "x")) if self.chance() else FrozenDict()
        self.ints.append(var)
        body = self.stmt(depth)
        self.ints.remove(var)
        return s.For(var, low, extent, kind, body, thread, marks)

    def block(self, depth: int) -> s.Stmt:
        count = self.draw(st.integers(0, 2))
        values = tuple(self.integer(1) for _ in range(count))
        predicate = self.condition(1) if self.chance() else p.const(True)
        axes = tuple(self.axis() for _ in range(count))
        outer = list(self.ints)
        self.ints += [a.var for a in axes]
        regions = self.regions(), self.regions()
        allocated = (self.buffer(),) if self.chance() else ()
        self.buffers += allocated
        made = s.Block(
            axes, *regions, self.draw(st.sampled_from(["b", "", "a\"b"])),
            self.stmt(depth), self.store() if self.chance() else None, allocated,
            annotations=FrozenDict(key=1) if self.chance() else FrozenDict(),
        )  # fmt: skip
        self.ints = outer
        self.buffers = [b for b in self.buffers if b not in allocated]
        return s.BlockRealize(values, predicate, made)

    def axis(self) -> s.IterVar:
        low = self.draw(st.integers(0, 2))
        kind = self.choose([s.IterType.SPATIAL, s.IterType.REDUCE, s.IterType.OPAQUE])
        return s.IterVar(Range(p.const(low), self.integer(1)), Var(self.draw(NAMES)), kind)

    def regions(self) -> tuple[BufferRegion, ...]:
        if not self.buffers:
            return ()
        buffer = self.choose(self.buffers)
        one = p.const(1)
        region = tuple(
            Range(self.integer(1), one if self.chance() else self.integer(1)) for _ in buffer.shape
        )
        return (BufferRegion(buffer, region),)

    def buffer(self) -> Buffer:
        shape = [self.draw(st.integers(1, 9)) for _ in range(self.draw(st.integers(0, 2)))]
        scope = self.choose(["global", "shared"])
        return decl_buffer(shape, "float32", self.draw(NAMES), scope)

    def several(self, depth: int) -> s.Stmt:
        return s.seq(*(self.stmt(depth) for _ in range(self.draw(st.integers(2, 3)))))

    def branch(self, depth: int) -> s.Stmt:
        other = self.stmt(depth) if self.chance() else None
        return s.IfThenElse(self.condition(2), self.stmt(depth), other)

    def let(self, depth: int) -> s.Stmt:
        var = Var(self.draw(NAMES), dtype("int32"))
        value = self.integer(2)
        self.ints.append(var)
        body = self.stmt(depth)
        self.ints.remove(var)
        return s.LetStmt(var, value, body)

    def memory(self, depth: int) -> s.Stmt:
        buffer = self.buffer()
        self.buffers.append(buffer)
        body = self.stmt(depth)
        self.buffers.remove(buffer)
        inner = s.DeclBuffer(buffer, body)
        return s.Allocate(buffer.data, buffer.dtype, buffer.shape, p.const(True), inner)

    def marked(self, depth: int) -> s.Stmt:
        if self.chance():
            return s.AssertStmt(self.condition(1), self.draw(st.text(max_size=5)), self.stmt(depth))
        return s.AttrStmt(p.const(0), "key", self.integer(1), self.stmt(depth))


@st.composite
def prim_funcs(draw: Draw) -> PrimFunc:
    """A PrimFunc with up to two buffers and a few scalars."""
    maker = Maker(draw)
    params: list[Var] = []
    buffers = {}
    for _ in range(draw(st.integers(0, 2))):
        handle = Var(draw(NAMES), dtype("handle"))
        buffers[handle] = maker.buffer()
        params.append(handle)
    for kind in ("int32", "int64"):
        maker.ints.append(Var(draw(NAMES), dtype(kind)))
        params.append(maker.ints[-1])
    maker.buffers += buffers.values()
    attrs = FrozenDict(global_symbol="main") if draw(st.booleans()) else FrozenDict()
    body = maker.stmt(draw(st.integers(0, 4)))
    return PrimFunc(tuple(params), body, None, FrozenDict(buffers), attrs)
