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
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion, decl_buffer
from mlcnb.tir.function import PrimFunc

Draw = Callable[[Any], Any]
KINDS = st.sampled_from(
    "float32 float64 float16 bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1fn int4 int8 int16 "
    "int32 int64 uint8 uint16 uint32 uint64 bool".split()
)
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
        #: True where `break` and `continue` have a loop, with no block in between
        self.in_loop = False
        self.returns = False

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
        form = self.draw(st.integers(0, 5))
        if form == 5:
            kind = self.draw(KINDS)
            return e.Cast(dtype("float32"), self.number(depth - 1, kind))
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

    def number(self, depth: int, kind: str) -> PrimExpr:
        """A number of any dtype: a constant, a cast, an operation, an element."""
        form = self.draw(st.integers(0, 4))
        known = [b for b in self.buffers if b.dtype == kind]
        if form == 0 and known:
            return self.element(self.choose(known), 1)
        if depth == 0 or form <= 1:
            return p.const(self.draw(st.integers(0, 1)), kind)
        if form == 2 and kind != "bool":
            both = [self.number(depth - 1, kind) for _ in "ab"]
            return self.choose([e.Add, e.Mul, e.Min, e.Max])(*both)
        if form == 3:
            return e.Cast(dtype(kind), self.integer(depth - 1))
        both = [self.number(depth - 1, kind) for _ in "ab"]
        return e.Select(self.condition(depth - 1), *both)

    def vector(self, lanes: int, kind: str) -> PrimExpr:
        """A vector of any dtype."""
        form = self.draw(st.integers(0, 3))
        known = [b for b in self.buffers if b.dtype == kind and b.shape]
        if form == 0 and known:
            buffer = self.choose(known)
            at = [self.integer(1) for _ in buffer.shape[1:]]
            return BufferLoad(buffer, (*at, self.ramp(lanes)), self.mask(lanes))
        if form == 1:
            both = (self.vector(lanes, kind), e.Broadcast(self.number(1, kind), lanes))
            return both[0] if kind == "bool" else e.Add(*both)
        if form == 2:
            half = e.Broadcast(self.number(1, kind), lanes)
            picks = tuple(p.const(self.draw(st.integers(0, 2 * lanes - 1))) for _ in range(lanes))
            return e.Shuffle((half, e.Broadcast(self.number(0, kind), lanes)), picks)
        return e.Broadcast(self.number(1, kind), lanes)

    def ramp(self, lanes: int) -> PrimExpr:
        return e.Ramp(self.integer(1), p.const(self.draw(st.sampled_from([1, 2, -1]))), lanes)

    def mask(self, lanes: int) -> PrimExpr | None:
        if self.chance():
            return None
        return e.LT(self.ramp(lanes), e.Broadcast(self.integer(1), lanes))

    def element(self, buffer: Buffer, depth: int) -> BufferLoad:
        return BufferLoad(buffer, tuple(self.integer(depth) for _ in buffer.shape))

    def condition(self, depth: int) -> PrimExpr:
        form = self.draw(st.integers(0, 4))
        if depth == 0 or form == 0:
            return self.choose(_COMPARE)(self.integer(0), self.integer(0))
        if form == 1:
            return e.Not(self.condition(depth - 1))
        if form == 2:
            return self.choose([e.And, e.Or])(self.condition(depth - 1), self.condition(depth - 1))
        return self.choose(_COMPARE)(self.integer(depth - 1), self.integer(depth - 1))

    def load(self, depth: int) -> PrimExpr:
        loaded = self.element(self.choose(self.buffers), depth)
        return loaded if loaded.dtype == "float32" else e.Cast(dtype("float32"), loaded)

    # statements ----------------------------------------------------------------------------------

    def stmt(self, depth: int) -> s.Stmt:
        if depth == 0:
            return self.store()
        forms = [
            self.loop, self.loop, self.block, self.block, self.several, self.branch, self.let,
            self.memory, self.marked, self.while_loop, self.view, self.launched,
        ]  # fmt: skip
        form = self.draw(st.integers(-2, len(forms) - 1))
        if form < 0:
            return self.store() if form == -1 else self.leave()
        return forms[form](depth - 1)

    def store(self) -> s.Stmt:
        if not self.buffers:
            return s.Evaluate(self.integer(2))
        target = self.element(self.choose(self.buffers), 1)
        kind = str(target.buffer.dtype)
        if target.indices and self.draw(st.integers(0, 2)) == 0:
            lanes = self.draw(st.sampled_from([2, 4]))
            indices = (*target.indices[:-1], self.ramp(lanes))
            value = self.vector(lanes, kind)
            return s.BufferStore(target.buffer, value, indices, self.mask(lanes))
        value = self.floating(2) if kind == "float32" else self.number(2, kind)
        return s.BufferStore(target.buffer, value, target.indices)

    def leave(self) -> s.Stmt:
        """The end of a loop or of the function, a barrier, a call."""
        forms = [
            e.Call(dtype("int32"), "tir.ret", (self.integer(1),)),
            e.Call(dtype("int32"), "tir.tvm_storage_sync", (e.StringImm("shared"),)),
            e.Call(dtype("int32"), "tir.call_extern", (e.StringImm('f"'), self.integer(1))),
        ]
        if self.in_loop:
            forms += [e.Call(dtype("handle"), f"tir.{w}_loop", ()) for w in ("break", "continue")]
        made = self.choose(forms)
        self.returns = self.returns or made is forms[0]
        return s.Evaluate(made)

    def inside(self, in_loop: bool, depth: int) -> s.Stmt:
        before, self.in_loop = self.in_loop, in_loop
        made = self.stmt(depth)
        self.in_loop = before
        return made

    def while_loop(self, depth: int) -> s.Stmt:
        return s.While(self.condition(1), self.inside(True, depth))

    def launched(self, depth: int) -> s.Stmt:
        var = Var(self.draw(NAMES), dtype("int32"))
        extent = p.const(4)
        self.ints.append(var)
        body = self.inside(False, depth)
        self.ints.remove(var)
        axis = s.IterVar(Range(p.const(0), extent), var, s.IterType.THREAD, "threadIdx.x")
        return s.AttrStmt(axis, "thread_extent", extent, body)

    def view(self, depth: int) -> s.Stmt:
        """Another buffer over memory that there is."""
        if not self.buffers:
            return self.stmt(depth)
        base = self.choose(self.buffers)
        strides = (p.const(self.draw(st.integers(1, 9))), p.const(1)) if self.chance() else ()
        offset = self.integer(1) if self.chance() else None
        kind = self.draw(KINDS)
        made = decl_buffer(
            (2, 3), kind, self.draw(NAMES), data=base.data, strides=strides, elem_offset=offset,
            data_alignment=self.draw(st.sampled_from([64, 16])), offset_factor=self.draw(
                st.sampled_from([0, 4])
            ),
        )  # fmt: skip
        self.buffers.append(made)
        body = self.stmt(depth)
        self.buffers.remove(made)
        return s.DeclBuffer(made, body)

    def loop(self, depth: int) -> s.Stmt:
        var = Var(self.draw(NAMES), dtype("int32"))
        low, extent = p.const(self.draw(st.integers(0, 2))), self.integer(1)
        kind = self.choose(list(s.ForKind))
        thread = "threadIdx.x" if kind is s.ForKind.THREAD_BINDING else None
        marks = FrozenDict(key=(1, "x")) if self.chance() else FrozenDict()
        self.ints.append(var)
        body = self.inside(True, depth)
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
        matched = self.matched() if self.chance() else ()
        allocated = (self.buffer(),) if self.chance() else ()
        self.buffers += [*allocated, *(m.buffer for m in matched)]
        made = s.Block(
            axes, *regions, self.draw(st.sampled_from(["b", "", "a\"b"])),
            self.inside(False, depth), self.store() if self.chance() else None, allocated, matched,
            FrozenDict(key=1) if self.chance() else FrozenDict(),
        )  # fmt: skip
        self.ints = outer
        inside = [*allocated, *(m.buffer for m in matched)]
        self.buffers = [b for b in self.buffers if b not in inside]
        return s.BlockRealize(values, predicate, made)

    def matched(self) -> tuple[MatchBufferRegion, ...]:
        """A region under a name of its own."""
        known = [b for b in self.buffers if len(b.shape) == 2]
        if not known:
            return ()
        source = self.choose(known)
        region = tuple(Range(self.integer(1), p.const(2)) for _ in source.shape)
        strides = (Var("s"), p.const(1)) if self.chance() else ()
        made = decl_buffer((2, 2), source.dtype, self.draw(NAMES), source.scope, strides=strides)
        return (MatchBufferRegion(made, BufferRegion(source, region)),)

    def axis(self) -> s.IterVar:
        low = self.draw(st.integers(0, 2))
        kind = self.choose(
            [s.IterType.SPATIAL, s.IterType.REDUCE, s.IterType.OPAQUE, s.IterType.SCAN]
        )
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
        kind = "float32" if self.chance() else self.draw(KINDS)
        return decl_buffer(shape, kind, self.draw(NAMES), scope)

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
    result = "int32" if maker.returns else None
    return PrimFunc(tuple(params), body, result, FrozenDict(buffers), attrs)
