"""What the words of TVMScript give to the parser: `T.grid(4, 8)` is a Loops, `T.reads(…)` a Reads …

The functions of the namespaces make these; the parser turns them into statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, dataclass_transform

from mlcnb.core.errors import MLCError
from mlcnb.core.node import node
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.script.ranges import make_range
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.stmt import ForKind, IterType


@dataclass_transform()
class Frame:
    """Base of what only a line of a program can be: it has no value of its own, but fields."""

    def __init_subclass__(cls) -> None:
        dataclass(cls)

    def __bool__(self) -> bool:
        raise MLCError(f"{type(self).__name__} stands in a program only")


def named_values(attrs: Any) -> dict[str, Any]:
    """The attributes of a function, block or module: names and values.

    Raises:
        MLCError: it is something else.
    """
    if isinstance(attrs, Mapping) and all(isinstance(name, str) for name in attrs):
        return dict(attrs)
    raise MLCError("attributes are a dict with names as keys", hint='{"key": 1}')


class NewVar(Frame):
    """`n = T.int64()`: a variable that gets its name from the assignment."""

    dtype: DType
    is_size: bool = False
    pointee: tuple[str, str] | None = None

    #: what a text may ask it for
    script_attributes = ("ty", "dtype")

    @property
    def ty(self) -> DType:
        """Its dtype, by the word of 0.27: `T.handle().ty`."""
        return self.dtype

    def make(self, name: str) -> e.Var:
        """The variable."""
        return (e.SizeVar if self.is_size else e.Var)(name, self.dtype, self.pointee)


@dataclass
class Loop:
    """One loop: bounds, kind, what else was said."""

    start: Any
    stop: Any
    kind: ForKind = ForKind.SERIAL
    thread: str | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    step: Any = None


class Loops(Frame):
    """`T.grid(…)`, `range(…)`, `T.parallel(…)`"""

    loops: list[Loop]


class BlockHead(Frame):
    """`with T.block("name"):`"""

    name: str = ""


class Axis(Frame):
    """`v = T.axis.spatial(dom, value)`"""

    kind: IterType
    domain: Any
    value: Any


class Remap(Frame):
    """`vi, vj = T.axis.remap("SR", [i, j])`"""

    kinds: str
    values: list[Any]


class Where(Frame):
    """`T.where(predicate)`"""

    predicate: Any


class Regions(Frame):
    """`T.reads(…)` or `T.writes(…)`"""

    writes: bool
    regions: tuple[Any, ...]


class BlockAttr(Frame):
    """`T.block_attr({…})`"""

    attrs: dict[str, Any]


class Init(Frame):
    """`with T.init():`"""


class AllocBuffer(Frame):
    """`C = T.alloc_buffer(shape)`"""

    buffer: Buffer


class MatchBuffer(Frame):
    """`A = T.match_buffer(handle or region, shape)`"""

    source: Any
    buffer: Buffer


class DeclareBuffer(Frame):
    """`B = T.decl_buffer(shape, data=v)`; with no data, memory is allocated too."""

    buffer: Buffer
    allocates: bool


class AllocateMemory(Frame):
    """`v = T.allocate(extents, dtype, scope)`"""

    extents: tuple[Any, ...]
    dtype: str
    scope: str
    condition: Any
    annotations: dict[str, Any]
    #: the elements of a constant
    data: Any = None


class LetValue(Frame):
    """`with T.LetStmt(value) as v:`, or with the variable that takes the value."""

    value: Any
    kind: Any = None
    var: Any = None


class Attr(Frame):
    """`T.attr(node, key, value)`"""

    node: Any
    key: str
    value: Any


class EnvThread(Frame):
    """`tx = T.env_thread("threadIdx.x")`; `var` is filled when it is named."""

    tag: str
    dtype: str = "int32"
    var: Any = None


class LaunchThread(Frame):
    """`tx = T.launch_thread("threadIdx.x", 8)`"""

    thread: Any
    extent: Any


class Asserted(Frame):
    """`with T.Assert(condition, message):`"""

    condition: Any
    message: Any


class Effect(Frame):
    """`T.evaluate(value)`"""

    value: Any


class VectorStore(Frame):
    """`A.vstore([i], value, predicate=p)`"""

    buffer: Buffer
    indices: tuple[Any, ...]
    value: Any
    predicate: Any


class Meta(Frame):
    """`T.meta_var(value)`: the value itself, not a variable of the program."""

    value: Any


def meta_var(value: Any) -> Meta:
    """A value that Python computes with; no variable of the program."""
    return Meta(value)


@dataclass
class Cell:
    """`x: T.int32 = 0` of 0.27: one element of memory that lines below may change."""

    buffer: Buffer

    def as_prim_expr(self) -> PrimExpr:
        """What it holds now."""
        return BufferLoad(self.buffer, (p.const(0),))


class FuncAttr(Frame):
    """`T.func_attr({…})`, `R.func_attr({…})`"""

    attrs: dict[str, Any]


@dataclass
class LetType:
    """`T.let[T.int32]`, the annotation of a let in the 0.27 spelling."""

    kind: Any


class DataflowHead(Frame):
    """`with R.dataflow():`"""


class Output(Frame):
    """`R.output(a, b)`"""

    values: tuple[Any, ...]


class Matched(Frame):
    """`R.match_cast(value, struct_info)`"""

    value: Any
    struct_info: Any


class FromTe(Frame):
    """`R.emit_te(func, *args)`"""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class ModuleAttrs(Frame):
    """`I.module_attrs({…})`"""

    attrs: dict[str, Any]


class GlobalInfos(Frame):
    """`I.module_global_infos({…})`"""

    infos: dict[str, Any]


@dataclass
class Sliced:
    """`A[0:4, j]`: a region in T.reads, a vector in an expression."""

    buffer: Buffer
    axes: tuple[Any, ...]

    def as_region(self) -> BufferRegion:
        """The region: a point where an index stands, the whole axis where none does."""
        return BufferRegion(self.buffer, tuple(map(self._range, range(self.buffer.ndim))))

    def _range(self, axis: int) -> e.Range:
        extent = self.buffer.shape[axis]
        index = self.axes[axis] if axis < len(self.axes) else slice(None)
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise MLCError("a region has no steps")
            start = 0 if index.start is None else index.start
            return make_range(start, extent if index.stop is None else index.stop)
        return point(index)

    def as_prim_expr(self) -> BufferLoad:
        """The vector load: each slice is a Ramp."""
        return BufferLoad(self.buffer, self.indices())

    def indices(self) -> tuple[PrimExpr, ...]:
        """Indices of a load or store."""
        if len(self.axes) != self.buffer.ndim:
            raise MLCError(self.mismatch())
        if any(isinstance(a, slice) for a in self.axes[:-1]):
            raise MLCError(
                f"only the last index of {self.buffer.name} may be a slice: a vector lies along it"
            )
        return tuple(map(self._index, self.axes))

    def mismatch(self) -> str:
        """The message for a wrong number of indices."""
        given = f"{len(self.axes)} {'index' if len(self.axes) == 1 else 'indices'}"
        return f"{self.buffer.name} has ndim {self.buffer.ndim}, it gets {given}"

    def _index(self, index: Any) -> PrimExpr:
        if not isinstance(index, slice):
            return index_expr(index)
        if index.start is None or index.stop is None:
            raise MLCError("a slice in an expression needs both ends", hint="A[0:4]")
        found = make_range(index.start, index.stop)
        step = 1 if index.step is None else p.as_int(index.step)
        count = p.as_int(found.extent)
        if step == 1 and e.vscale_factor(found.extent):
            return e.Ramp(found.min, p.const(1, found.min.dtype), found.extent)
        if count is None or step is None:
            raise MLCError("a vector has a constant number of lanes")
        return e.Ramp(found.min, p.const(step, found.min.dtype), -(-count // step))


def index_expr(index: Any) -> PrimExpr:
    """An index: an int is int32."""
    lift = getattr(index, "as_prim_expr", None)
    return lift() if lift is not None else p.as_expr(index)


def point(index: Any) -> e.Range:
    """The range of one index; a vector index is the range of its lanes."""
    if isinstance(index, e.Ramp):
        return e.Range(index.base, p.const(index.lanes, index.base.dtype))
    index = index_expr(index)
    return e.Range(index, p.const(1, index.dtype))


@node
class DimString(PrimExpr):
    """`"n * 2"` in a signature, until the parser has read it."""

    text: str
    kind: DType | None = None

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """What `kind` says, else int64, as all dimensions."""
        return self.kind or dtype("int64")
