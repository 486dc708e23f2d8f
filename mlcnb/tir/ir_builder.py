"""ir_builder: a program written by calls, in the order in which it runs. TVM's `tir.ir_builder`.

ib = tir.ir_builder.create()
A = ib.pointer("float32", name="A")             # a parameter; ib.allocate(...), ib.buffer_ptr(B)
with ib.for_range(0, n, name="i") as i:         for i in range(n):
    with ib.if_scope(i < 8):            ->          if i < 8:
        A[i] = A[i] + 1                                 A[i] = A[i] + 1
tir.PrimFunc([A, n], ib.get())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.dtype import dtype as as_dtype
from mlcnb.ir.expr import PrimExpr, StringImm, Var
from mlcnb.tir import op
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.functor import NOTHING
from mlcnb.tir.stmt import Stmt

__all__ = ["BufferVar", "IRBuilder", "create"]

#: a statement, or what makes one of the statements that follow it
Part = Stmt | Callable[[Stmt], Stmt]

_KINDS = {
    "serial": s.ForKind.SERIAL,
    "parallel": s.ForKind.PARALLEL,
    "vectorize": s.ForKind.VECTORIZED,
    "vectorized": s.ForKind.VECTORIZED,
    "unroll": s.ForKind.UNROLLED,
    "unrolled": s.ForKind.UNROLLED,
}


class BufferVar:
    """A buffer that is read and written as an array: `A[i] = A[i] + 1`."""

    def __init__(self, builder: IRBuilder, buffer: Buffer, content_type: str) -> None:
        self._builder = builder
        self._buffer = buffer
        self._content_type = content_type

    @property
    def dtype(self) -> DType:
        """The dtype of an element."""
        return as_dtype(self._content_type)

    def asobject(self) -> Buffer:
        """The buffer."""
        return self._buffer

    def as_prim_expr(self) -> Var:
        """The pointer: what a call such as `call_packed(A)` is given."""
        return self._buffer.data

    #: no end would stop it: any number is an index
    __iter__ = None

    def __getitem__(self, index: Any) -> BufferLoad:
        return BufferLoad(self._buffer, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        value = p.as_expr(value, self.dtype.element)
        indices = self._indices(index)
        stored = BufferLoad(self._buffer, indices).dtype
        if value.dtype != stored:
            raise MLCError(
                f"{self._buffer.name} holds {stored}, and is given a {value.dtype}",
                hint="cast it: value.astype(…)",
            )
        self._builder.emit(s.BufferStore(self._buffer, value, indices))

    def _indices(self, index: Any) -> tuple[PrimExpr, ...]:
        """One index for each dimension; a single one counts the elements in order."""
        given = index if isinstance(index, tuple | list) else (index,)
        made = tuple(p.as_expr(i.var if isinstance(i, s.IterVar) else i) for i in given)
        shape = self._buffer.shape
        if len(made) == 1 and len(shape) > 1:
            return _unravelled(made[0], shape)
        if len(made) != max(len(shape), 1):
            raise MLCError(
                f"{self._buffer.name} has {len(shape)} dimensions, and is given {len(made)} indices"
            )
        return made


def _unravelled(index: PrimExpr, shape: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """The place of element number `index` in a shape."""
    indices: list[PrimExpr] = []
    for extent in reversed(shape[1:]):
        indices.append(index % extent)
        index = index // extent
    return (index, *reversed(indices))


class IRBuilder:
    """Collects statements; `get()` gives them as one. Made by `create()`."""

    def __init__(self) -> None:
        self._scopes: list[list[Part]] = [[]]
        self._count = 0

    def emit(self, stmt: Any) -> None:
        """Add a statement, a call for its effect, or a function of the statements that follow."""
        if isinstance(stmt, PrimExpr):
            stmt = s.Evaluate(stmt)
        if not isinstance(stmt, Stmt) and not callable(stmt):
            raise MLCError(f"emit takes a statement or a call, not {type(stmt).__name__}")
        self._scopes[-1].append(stmt)

    def _body(self) -> Stmt:
        """The statements of the innermost scope as one."""
        body: Stmt | None = None
        for part in reversed(self._scopes.pop()):
            if isinstance(part, Stmt):
                body = s.seq(part, body)
            else:
                body = part(body or NOTHING)
        return body or NOTHING

    def get(self) -> Stmt:
        """The program so far.

        Raises:
            MLCError: a `with` block is still open.
        """
        if len(self._scopes) != 1:
            raise MLCError(f"ir_builder: {len(self._scopes) - 1} scopes are still open")
        body = self._body()
        self._scopes = [[]]
        return body

    @contextmanager
    def _scope(self, value: Any, close: Callable[[Stmt], Part]) -> Iterator[Any]:
        self._scopes.append([])
        yield value
        self.emit(close(self._body()))

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """Mark all that follows in this scope with an attribute: `T.attr(node, key, value)`."""
        if isinstance(node, Buffer | BufferVar):
            node = node.data if isinstance(node, Buffer) else node.as_prim_expr()
        if isinstance(node, str):
            node = StringImm(node)
        if isinstance(node, s.IterVar) and attr_key == "thread_extent":
            self._launch(node, p.as_expr(value))
            return
        made = value if isinstance(value, str | int) else p.as_expr(value)
        self.emit(lambda body: s.AttrStmt(node, attr_key, made, body))

    def _launch(self, axis: s.IterVar, extent: PrimExpr) -> None:
        """The axis runs from 0 to its extent: what `T.launch_thread` makes."""
        dom = e.Range(p.const(0, axis.var.dtype), p.cast(axis.var.dtype, extent))
        made = s.IterVar(dom, axis.var, s.IterType.THREAD, axis.thread_tag)
        self.emit(lambda body: s.AttrStmt(made, "thread_extent", extent, body))

    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str | None = None, kind: str = "serial"
    ) -> Any:
        """`with ib.for_range(0, n) as i:` a loop; kind: serial, parallel, vectorize, unroll."""
        if kind not in _KINDS:
            raise MLCError(f"for_range: no kind {kind!r}", hint=f"one of {', '.join(_KINDS)}")
        low, high = p.match_dtypes(begin, end)
        extent = high if p.is_const(low, 0) else high - low
        numbered = name if self._count == 0 or name != "i" else f"{name}{self._count}"
        self._count += 1
        var = Var(numbered, as_dtype(dtype) if dtype else extent.dtype)
        low, extent = p.cast(var.dtype, low), p.cast(var.dtype, extent)
        return self._scope(var, lambda body: s.For(var, low, extent, _KINDS[kind], body))

    def while_loop(self, condition: Any) -> Any:
        """`with ib.while_loop(i[0] < 8):` repeated while it holds."""
        return self._scope(None, lambda body: s.While(p.as_expr(condition), body))

    def if_scope(self, cond: Any) -> Any:
        """`with ib.if_scope(i < 8):` only where it holds."""
        return self._scope(None, lambda body: s.IfThenElse(p.as_expr(cond), body, None))

    def else_scope(self) -> Any:
        """`with ib.else_scope():` what runs where the `if_scope` just before did not.

        Raises:
            MLCError: there is none just before.
        """
        parts = self._scopes[-1]
        before = parts[-1] if parts else None
        if not isinstance(before, s.IfThenElse) or before.else_case is not None:
            raise MLCError("else_scope stands after an if_scope", hint="no statement in between")
        parts.pop()
        return self._scope(
            None, lambda body: s.IfThenElse(before.condition, before.then_case, body)
        )

    def new_scope(self) -> Any:
        """`with ib.new_scope():` attributes and allocations inside end with it."""
        return self._scope(None, lambda body: body)

    def let(self, var_name: str | Var, value: Any) -> Var:
        """A variable for a value, seen by all that follows in this scope."""
        made = p.as_expr(value)
        var = Var(var_name, made.dtype) if isinstance(var_name, str) else var_name
        self.emit(lambda body: s.LetStmt(var, made, body))
        return var

    def allocate(
        self,
        dtype: str,
        shape: Any,
        name: str = "buf",
        axis_separators: Sequence[int] = (),
        scope: str = "",
    ) -> BufferVar:
        """Memory for all that follows in this scope."""
        dims = shape if isinstance(shape, tuple | list) else (shape,)
        buffer = decl_buffer(
            dims, dtype, name, scope or "global", axis_separators=tuple(axis_separators or ())
        )
        truth = p.const(True)
        self.emit(lambda x: s.Allocate(buffer.data, buffer.dtype, buffer.shape, truth, x))
        return BufferVar(self, buffer, dtype)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """Memory that is given from outside, as a parameter."""
        return BufferVar(
            self, decl_buffer((1,), content_type, name, scope or "global"), content_type
        )

    def buffer_ptr(self, buf: Buffer, shape: Any = None) -> BufferVar:
        """A buffer, to be read and written as an array."""
        return BufferVar(self, buf, str(buf.dtype))

    def likely(self, expr: Any) -> PrimExpr:
        """A condition that holds most of the time."""
        return op.likely(expr)


def create() -> IRBuilder:
    """A new builder, with nothing in it."""
    return IRBuilder()
