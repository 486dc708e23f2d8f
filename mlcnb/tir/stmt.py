"""Statements of TensorIR.

    Stmt  = SeqStmt | For | While | IfThenElse | LetStmt | AttrStmt | AssertStmt
          | BufferStore | Evaluate | BlockRealize(Block) | Allocate | DeclBuffer

A Block is a piece of computation with its own axes: what schedules move about. Allocate and
DeclBuffer appear when blocks have been lowered.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from mlcnb.core.errors import as_name
from mlcnb.core.node import EMPTY, FrozenDict, Node, binder, hidden, label, node
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr, Range, StringImm, Var
from mlcnb.ir.prim_ops import as_expr, const
from mlcnb.ir.span import Span
from mlcnb.tir.buffer import Buffer, BufferRegion, MatchBufferRegion


class Stmt(Node):
    """Base of all statements."""

    __slots__ = ()


class ForKind(Enum):
    """How a loop runs."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unroll"
    THREAD_BINDING = "thread_binding"

    @classmethod
    def _missing_(cls, value: object) -> ForKind | None:
        """TVM's numbers of the kinds."""
        return list(cls)[value] if isinstance(value, int) and 0 <= value < len(cls) else None


class IterType(Enum):
    """What an iteration variable does: spatial (data parallel), reduce, scan (ordered), opaque."""

    SPATIAL = "S"
    REDUCE = "R"
    SCAN = "scan"
    OPAQUE = "opaque"
    THREAD = "thread"

    @classmethod
    def _missing_(cls, value: object) -> IterType | None:
        """TVM's numbers of the kinds."""
        order = (cls.SPATIAL, cls.THREAD, cls.REDUCE, cls.SCAN, cls.OPAQUE)
        return order[value] if isinstance(value, int) and 0 <= value < len(order) else None


class _Operators:
    """The operators of PrimExpr, for what stands for one."""

    __slots__ = ()
    __add__, __radd__ = PrimExpr.__add__, PrimExpr.__radd__
    __sub__, __rsub__ = PrimExpr.__sub__, PrimExpr.__rsub__
    __mul__, __rmul__ = PrimExpr.__mul__, PrimExpr.__rmul__
    __floordiv__, __rfloordiv__ = PrimExpr.__floordiv__, PrimExpr.__rfloordiv__
    __mod__, __rmod__ = PrimExpr.__mod__, PrimExpr.__rmod__
    __lshift__, __rshift__ = PrimExpr.__lshift__, PrimExpr.__rshift__
    __lt__, __le__, __gt__, __ge__ = (
        PrimExpr.__lt__, PrimExpr.__le__, PrimExpr.__gt__, PrimExpr.__ge__
    )  # fmt: skip
    __neg__ = PrimExpr.__neg__
    astype = PrimExpr.astype
    equal = PrimExpr.equal


@node
class IterVar(_Operators, Node):
    """A variable with its domain: an axis of a block or tensor expression, a GPU thread index.

    In an expression it stands for its variable: `tx + 1`. The extent of `dom` may be symbolic;
    what is no IterType is refused with a ValueError.
    """

    dom: Range
    var: Var = binder()
    iter_type: IterType = IterType.SPATIAL
    thread_tag: str = ""

    #: TVM's names and numbers of the kinds, as in `IterVar.DataPar`
    DataPar: ClassVar = IterType.SPATIAL
    ThreadIndex: ClassVar = IterType.THREAD
    CommReduce: ClassVar = IterType.REDUCE
    Ordered: ClassVar = IterType.SCAN
    Opaque: ClassVar = IterType.OPAQUE

    def __post_init__(self) -> None:
        if type(self.iter_type) is not IterType:
            object.__setattr__(self, "iter_type", IterType(self.iter_type))
        if isinstance(self.dom, list | tuple):
            object.__setattr__(self, "dom", Range(self.dom[0], as_expr(self.dom[1]) - self.dom[0]))
        if isinstance(self.var, str):
            of = Var(self.var, "int32" if self.dom is None else self.dom.extent.dtype)
            object.__setattr__(self, "var", of)
        as_name(self.thread_tag, "the tag of a thread")

    def as_prim_expr(self) -> Var:
        """The variable that the axis stands for."""
        return self.var

    @property
    def dtype(self) -> DType:
        """The dtype of the variable."""
        return self.var.dtype


def _set_exprs(n: Node, *names: str) -> None:
    """Plain numbers in these fields become constants."""
    for name in names:
        value = getattr(n, name)
        if type(value) in _NUMBERS:
            object.__setattr__(n, name, as_expr(value))


def _set_tuples(n: Node, *names: str) -> None:
    """Lists in these fields become tuples."""
    for name in names:
        value = getattr(n, name)
        if type(value) is not tuple:
            object.__setattr__(n, name, tuple(value or ()))


def _set_table(n: Node, name: str) -> None:
    """A plain dict (or None) in this field becomes one that cannot be changed."""
    value = getattr(n, name)
    if type(value) is not FrozenDict:
        object.__setattr__(n, name, FrozenDict(value or {}))


_NUMBERS = frozenset([int, float, bool])


@node
class SeqStmt(Stmt):
    """Statements one after the other (two or more; use `seq` to build one flat)."""

    seq: tuple[Stmt, ...]

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __post_init__(self) -> None:
        _set_tuples(self, "seq")
        if any(isinstance(x, SeqStmt) for x in self.seq):
            flat = [y for x in self.seq for y in (x.seq if isinstance(x, SeqStmt) else (x,))]
            object.__setattr__(self, "seq", tuple(flat))


@node
class For(Stmt):
    """for loop_var in range(min, min + extent): body

    `thread_binding` names the GPU axis ("threadIdx.x") when kind is THREAD_BINDING.
    """

    loop_var: Var = binder()
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: str | None = None
    annotations: FrozenDict = EMPTY
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        if type(self.min) in _NUMBERS or type(self.extent) in _NUMBERS:
            for name in ("min", "extent"):
                object.__setattr__(self, name, as_expr(getattr(self, name), self.loop_var.dtype))
        if type(self.kind) is not ForKind:
            object.__setattr__(self, "kind", ForKind(self.kind))
        if isinstance(self.thread_binding, IterVar):
            object.__setattr__(self, "thread_binding", self.thread_binding.thread_tag)
        as_name(self.thread_binding or "", "the axis of a thread")
        _set_table(self, "annotations")


@node
class While(Stmt):
    """while condition: body"""

    condition: PrimExpr
    body: Stmt
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _set_exprs(self, "condition")


@node
class IfThenElse(Stmt):
    """if condition: then_case else: else_case"""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _set_exprs(self, "condition")


@node
class LetStmt(Stmt):
    """var = value, seen by body."""

    var: Var = binder()
    value: PrimExpr
    body: Stmt
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _set_exprs(self, "value")


@node
class AttrStmt(Stmt):
    """`body` marked with an attribute: key, value, and the node that it is about."""

    node: Any
    attr_key: str
    value: Any
    body: Stmt

    def __post_init__(self) -> None:
        as_name(self.attr_key, "the key of an attribute")


@node
class AssertStmt(Stmt):
    """Stop with `message` unless `condition` holds; then `body`."""

    condition: PrimExpr
    message: str
    body: Stmt
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _set_exprs(self, "condition")
        if isinstance(self.message, StringImm):
            object.__setattr__(self, "message", self.message.value)


@node
class BufferStore(Stmt):
    """buffer[indices] = value; `predicate` masks the lanes of a vector store."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        if type(self.value) in _NUMBERS:
            object.__setattr__(self, "value", as_expr(self.value, self.buffer.dtype))
        if type(self.indices) is not tuple or any(type(i) in _NUMBERS for i in self.indices):
            object.__setattr__(self, "indices", tuple(as_expr(i) for i in self.indices))


@node
class Evaluate(Stmt):
    """A call for its effect, or a constant for nothing at all."""

    value: PrimExpr
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _set_exprs(self, "value")


@node
class Allocate(Stmt):
    """Memory for `body`: `buffer_var` points to `extents` elements of `dtype`.

    data: the array of a constant (`mlcnb.tir.constants`); None for memory that the body fills.
    """

    buffer_var: Var = binder()
    dtype: DType
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: FrozenDict = EMPTY
    data: Any = None

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            object.__setattr__(self, "dtype", dtype(self.dtype))
        if type(self.extents) is not tuple or any(type(x) in _NUMBERS for x in self.extents):
            object.__setattr__(self, "extents", tuple(as_expr(x) for x in self.extents))
        if type(self.condition) in _NUMBERS:
            object.__setattr__(self, "condition", const(bool(self.condition)))
        _set_table(self, "annotations")

    @property
    def scope(self) -> str:
        """The memory that it lies in: "global" where the pointer says none."""
        return self.buffer_var.pointee[1] if self.buffer_var.pointee else "global"


@node
class DeclBuffer(Stmt):
    """`buffer` is a view of memory that its `data` points to, seen by body."""

    buffer: Buffer = binder()
    body: Stmt


@node
class Block(Stmt):
    """A piece of computation over its own axes `iter_vars`.

    reads, writes: the regions it touches for one value of its axes; init: what starts a reduction;
    alloc_buffers: buffers that live inside; match_buffers: sub-regions with names of their own.
    """

    iter_vars: tuple[IterVar, ...] = binder()
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str = label()
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = binder(default=())
    match_buffers: tuple[MatchBufferRegion, ...] = binder(default=())
    annotations: FrozenDict = EMPTY
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _set_tuples(self, "iter_vars", "reads", "writes", "alloc_buffers", "match_buffers")
        _set_table(self, "annotations")


@node
class BlockRealize(Stmt):
    """A block run where its axes take `iter_values`, if `predicate` holds."""

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block

    def __post_init__(self) -> None:
        if type(self.predicate) in _NUMBERS:
            object.__setattr__(self, "predicate", const(bool(self.predicate)))
        values = self.iter_values
        if type(values) is not tuple or any(type(v) in _NUMBERS for v in values):
            object.__setattr__(self, "iter_values", tuple(as_expr(v) for v in values))


@node
class CommReducer(Node):
    """An associative, commutative combination: lhs and rhs tuples of Vars, results, identities."""

    lhs: tuple[Var, ...] = binder()
    rhs: tuple[Var, ...] = binder()
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]


@node
class Reduce(PrimExpr):
    """A reduction in a tensor expression: never in a PrimFunc."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int = 0
    init: tuple[PrimExpr, ...] = ()

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The dtype of the reduced value."""
        return self.source[self.value_index].dtype


def seq(*stmts: Stmt | None) -> Stmt:
    """The statements as one, flat: a single one stays itself; None is left out."""
    flat = [y for x in stmts if x for y in (x.seq if isinstance(x, SeqStmt) else (x,))]
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def flattened(n: Node) -> Stmt | None:
    """A SeqStmt that holds SeqStmts as one flat SeqStmt; None for anything else: a rewrite rule."""
    if isinstance(n, SeqStmt) and any(isinstance(s, SeqStmt) for s in n.seq):
        return seq(*n.seq)
    return None
