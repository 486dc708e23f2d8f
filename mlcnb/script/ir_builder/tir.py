"""T: the words of loop programs, for the IRBuilder.

Words that are lines of a text are calls (`T.reads(A[v])`, `T.buffer_store(B, 1.0, [v])`); what has
lines of its own is a frame (`with T.grid(4, 8) as (i, j):`). Dtypes, expressions and intrinsics are
those of `mlcnb.script.tir`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.attrs import frozen
from mlcnb.ir.dtype import dtype
from mlcnb.script import frames as words
from mlcnb.script import tir as script
from mlcnb.script.dialect import known_key
from mlcnb.script.ir_builder.builder import F, Frame, IRBuilder, Lines, find, lines
from mlcnb.script.ir_builder.ir import finish_function
from mlcnb.script.parser.tir_bind import renamed
from mlcnb.script.parser.tir_block import OpenBlock, as_region
from mlcnb.script.parser.tir_func import rooted
from mlcnb.script.ranges import make_range
from mlcnb.script.tir import statements
from mlcnb.script.tir.dtypes import dtype_of
from mlcnb.script.tir.holding import declared, held
from mlcnb.script.words import Namespace
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer as BufferNode
from mlcnb.tir.buffer import MatchBufferRegion
from mlcnb.tir.function import PrimFunc


class PrimFuncFrame(Lines):
    """`with T.prim_func():`"""

    title = "function"

    def __init__(self, private: bool) -> None:
        super().__init__()
        self.private = private
        self.name: str | None = None
        self.params: list[e.Var] = []
        self.buffer_map: dict[e.Var, BufferNode] = {}
        self.attrs: dict[str, Any] = {}
        self.ret_type: str | None = None
        self.alloc_buffers: list[BufferNode] = []

    def leave(self) -> None:
        """The function; blocks get a root block, as in a text."""
        named = self.name is not None and not self.private
        attrs = {"global_symbol": self.name} if named else {}
        attrs.update({known_key(k): v for k, v in self.attrs.items()})
        body = IRBuilder.current().named(rooted(self.out.finish(), self.alloc_buffers))
        buffers = FrozenDict(self.buffer_map)
        made = PrimFunc(tuple(self.params), body, self.ret_type, buffers, frozen(attrs))
        finish_function(made, self.name)


def prim_func(private: bool = False, **_options: Any) -> PrimFuncFrame:
    """A function: `with T.prim_func():`"""
    return PrimFuncFrame(private)


def func_name(name: str) -> None:
    """The name of the function."""
    find(PrimFuncFrame, "T.func_name").name = name


def func_attr(attrs: dict[str, Any]) -> None:
    """Attributes of the function."""
    find(PrimFuncFrame, "T.func_attr").attrs.update(attrs)


def func_ret(kind: Any) -> None:
    """The dtype of what the function returns."""
    find(PrimFuncFrame, "T.func_ret").ret_type = str(getattr(kind, "dtype", kind))


def arg(name: str, kind: Any) -> Any:
    """A parameter: `A = T.arg("A", T.Buffer((8,), "float32"))`, `n = T.arg("n", T.int32)`."""
    func = find(PrimFuncFrame, "T.arg")
    if isinstance(kind, BufferNode):
        handle, buffer = e.Var(name, dtype("handle")), renamed(kind, name)
        func.params.append(handle)
        func.buffer_map[handle] = buffer
        return buffer
    made = dtype_of(kind)
    if made is None:
        raise MLCError(f"parameter {name}: a T.Buffer, a T.handle or a scalar such as T.int32")
    func.params.append(made.make(name))
    return func.params[-1]


# buffers

Buffer = statements.Buffer


def match_buffer(source: Any, shape: Any = None, *args: Any, **options: Any) -> BufferNode:
    """The buffer behind a handle parameter, or another view of a region (in a block)."""
    found: words.MatchBuffer = statements.match_buffer(source, shape, *args, **options)
    if isinstance(source, e.Var):
        find(PrimFuncFrame, "T.match_buffer").buffer_map[source] = found.buffer
    else:
        block = find(BlockFrame, "T.match_buffer")
        block.match_buffers.append(MatchBufferRegion(found.buffer, as_region(source)))
    return found.buffer


def alloc_buffer(shape: Any, *args: Any, **options: Any) -> BufferNode:
    """A buffer that lives in the block (or function) that is open."""
    buffer = statements.buffer_of(shape, *args, **options)
    owners = [f for f in IRBuilder.current().frames if isinstance(f, BlockFrame | PrimFuncFrame)]
    if not owners:
        raise MLCError("T.alloc_buffer stands in no function")
    owners[-1].alloc_buffers.append(buffer)
    return buffer


def buffer_store(
    buffer: BufferNode, value: Any, indices: Sequence[Any] | Any, predicate: Any = None
) -> None:
    """`buffer[indices] = value`; numbers take the dtype of the buffer."""
    given = indices if isinstance(indices, list | tuple) else (indices,)
    at = words.Sliced(buffer, tuple(given)).indices()
    lanes = max([i.dtype.lanes for i in at], default=1) * buffer.dtype.lanes
    kind = buffer.dtype.with_lanes(lanes)
    found = p.as_expr(value, kind.element)
    if found.dtype.lanes == 1 and lanes != 1:
        found = e.Broadcast(found, lanes)
    lines("T.buffer_store").add(s.BufferStore(buffer, p.cast(kind, found), at, predicate))


# loops and branches


class ForFrame(Lines):
    """`with T.serial(8) as i:`, `with T.grid(4, 8) as (i, j):`"""

    title = "loop"

    def __init__(self, loops: words.Loops) -> None:
        super().__init__()
        self.loops = []
        for loop in loops.loops:
            dom = make_range(p.as_expr(loop.start), p.as_expr(loop.stop))
            if loop.step is not None:
                raise MLCError("a loop of the IRBuilder has no step", hint="i * step in its body")
            self.loops.append((e.Var("v", dom.extent.dtype), dom, loop))
        variables = tuple(var for var, _, _ in self.loops)
        self.value = variables if len(variables) != 1 else variables[0]

    def leave(self) -> None:
        """The nest."""
        stmt = self.out.finish()
        for var, dom, loop in reversed(self.loops):
            marks = frozen(loop.annotations)
            stmt = s.For(var, dom.min, dom.extent, loop.kind, stmt, loop.thread, marks)
        lines("a loop").add(stmt)


def _framed(word: Callable[..., Any], opens: Callable[[Any], F]) -> Callable[..., F]:
    """A word of a text as one that opens a frame."""

    @wraps(word)
    def frame(*args: Any, **options: Any) -> F:
        return opens(word(*args, **options))

    return frame


grid = _framed(statements.grid, ForFrame)
serial = _framed(statements.serial, ForFrame)
parallel = _framed(statements.parallel, ForFrame)
vectorized = _framed(statements.vectorized, ForFrame)
unroll = _framed(statements.unroll, ForFrame)
thread_binding = _framed(statements.thread_binding, ForFrame)


class HoldFrame(Lines):
    """A statement with a body: `with T.While(c):`, `with T.LetStmt(x) as v:`, `with T.attr(…):`"""

    title = "statement"

    def __init__(self, wrap: Callable[[s.Stmt], s.Stmt], value: Any = None) -> None:
        super().__init__()
        self.wrap = wrap
        self.value = value

    def leave(self) -> None:
        """The statement around its body."""
        lines("a statement").add(self.wrap(self.out.finish()))


def While(condition: Any) -> HoldFrame:
    """`with T.While(condition):`"""
    test = p.as_expr(condition)
    return HoldFrame(lambda body: s.While(test, body))


def _held(said: words.Frame) -> HoldFrame:
    var, wrap = held(said, None, p.as_expr)
    return HoldFrame(wrap, var)


LetStmt = _framed(statements.LetStmt, _held)
allocate = _framed(statements.allocate, _held)
allocate_const = _framed(statements.allocate_const, _held)
Assert = _framed(statements.Assert, _held)
attr = _framed(statements.attr, _held)


def decl_buffer(*args: Any, **options: Any) -> HoldFrame:
    """A view of memory that `data` points to, or memory of its own: `with … as buffer:`"""
    found = statements.decl_buffer(*args, **options)
    return HoldFrame(declared(found.buffer, found.allocates), found.buffer)


def env_thread(tag: str, dtype: str = "int32") -> words.EnvThread:
    """An axis of a GPU, to be launched."""
    made: words.EnvThread = statements.env_thread(tag, dtype)
    made.var = e.Var(made.tag.replace(".", "_"), e.dtype(dtype))
    return made


def launch_thread(thread: str | words.EnvThread, extent: Any) -> HoldFrame:
    """`with T.launch_thread("threadIdx.x", 8) as tx:`, or of a `T.env_thread`."""
    kind = thread.var.dtype if isinstance(thread, words.EnvThread) else None
    return _held(words.LaunchThread(thread, p.as_expr(extent, kind)))


class IfFrame(Frame):
    """`with T.If(c): with T.Then(): …; with T.Else(): …`"""

    title = "T.If"

    def __init__(self, condition: Any) -> None:
        self.condition = p.as_expr(condition)
        self.then: s.Stmt | None = None
        self.otherwise: s.Stmt | None = None

    def leave(self) -> None:
        """Both branches."""
        if self.then is None:
            raise MLCError("T.If has no T.Then", hint="with T.Then():")
        lines("T.If").add(s.IfThenElse(self.condition, self.then, self.otherwise))


class BranchFrame(Lines):
    """`with T.Then():` or `with T.Else():`"""

    title = "branch"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def leave(self) -> None:
        """One branch."""
        setattr(find(IfFrame, f"T.{self.name}"), self.name, self.out.finish())


def If(condition: Any) -> IfFrame:
    """A branch: `with T.If(c):`, in it `with T.Then():` and perhaps `with T.Else():`"""
    return IfFrame(condition)


def Then() -> BranchFrame:
    """Where the condition of the T.If around holds."""
    return BranchFrame("then")


def Else() -> BranchFrame:
    """Where it does not hold."""
    return BranchFrame("otherwise")


def evaluate(value: Any) -> None:
    """A value for its effect."""
    lines("T.evaluate").add(s.Evaluate(p.as_expr(value)))


def ret(value: Any) -> None:
    """End the function with `value` as its result."""
    evaluate(script.ret(value))


# blocks


class BlockFrame(Lines, OpenBlock):
    """`with T.block("C"):`"""

    title = "block"

    def __init__(self, name: str) -> None:
        Lines.__init__(self)
        OpenBlock.__init__(self, name)

    def axis(self, kind: s.IterType, domain: Any, value: Any) -> e.Var:
        """An axis, and what it takes."""
        if not isinstance(domain, e.Range):
            pair = domain if isinstance(domain, tuple | list) else (0, domain)
            domain = make_range(*map(p.as_expr, pair))
        var = e.Var("v", domain.extent.dtype)
        self.iter_vars.append(s.IterVar(domain, var, kind))
        self.values.append(p.as_expr(value, var.dtype))
        return var

    def leave(self) -> None:
        """The block; regions that were not given are found in its body."""

        def around() -> list[BufferNode]:
            functions = (f for f in IRBuilder.current().frames if isinstance(f, PrimFuncFrame))
            return [b for f in functions for b in f.buffer_map.values()]

        lines("a block").add(self.realized(self.out.finish(), around))


class InitFrame(Lines):
    """`with T.init():`"""

    title = "T.init"

    def leave(self) -> None:
        """What the block starts with."""
        find(BlockFrame, "T.init").init = self.out.finish()


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """A block: `with T.block("C"):`"""
    return BlockFrame(name)


def init() -> InitFrame:
    """What starts a reduction: `with T.init():`"""
    return InitFrame()


def where(predicate: Any) -> None:
    """The block runs where the predicate holds."""
    find(BlockFrame, "T.where").predicate = p.as_expr(predicate)


def reads(*regions: Any) -> None:
    """The regions that the block reads."""
    found = find(BlockFrame, "T.reads")
    found.reads = tuple(map(as_region, statements.reads(*regions).regions))


def writes(*regions: Any) -> None:
    """The regions that the block writes."""
    found = find(BlockFrame, "T.writes")
    found.writes = tuple(map(as_region, statements.writes(*regions).regions))


def block_attr(attrs: dict[str, Any]) -> None:
    """Annotations of the block."""
    find(BlockFrame, "T.block_attr").annotations.update(attrs)


def _axis(kind: s.IterType) -> Callable[..., e.Var]:
    def axis(domain: Any, value: Any, dtype: str = "int32") -> e.Var:
        return find(BlockFrame, "an axis").axis(kind, domain, value)

    axis.__doc__ = f"An axis of the block, {kind.name.lower()}: domain (extent, or pair) and value."
    return axis


def _remap(kinds: str, values: Sequence[e.Var], dtype: str = "int32") -> Any:
    """Axes that each take a whole loop: `vi, vj = T.axis.remap("SR", [i, j])`."""
    made = [_remapped(kind, value) for kind, value in zip(kinds, values, strict=True)]
    return made if len(made) != 1 else made[0]


def _remapped(kind: str, value: e.Var) -> e.Var:
    loops = (f.loops for f in IRBuilder.current().frames if isinstance(f, ForFrame))
    dom = next((d for nest in loops for var, d, _ in nest if var is value), None)
    if dom is None or kind not in "SR":
        raise MLCError("T.axis.remap needs S or R and an open loop for each axis")
    return find(BlockFrame, "an axis").axis(s.IterType(kind), dom, value)


_AXES = {"spatial": "S", "reduce": "R", "scan": "scan", "opaque": "opaque", "S": "S", "R": "R"}
axis = Namespace("T.axis", {n: _axis(s.IterType(k)) for n, k in _AXES.items()} | {"remap": _remap})
sblock, sblock_attr, sblock_alloc_buffer = block, block_attr, alloc_buffer


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(script, name)
