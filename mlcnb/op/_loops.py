"""Statements for what no tensor expression can say: a scan, a sort, a loop with an end of its own.

te.extern(shape, [x], lambda ins, outs: nest(outs[0].shape, lambda *i: store(outs[0], i, …)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Var
from mlcnb.op._dims import ints
from mlcnb.tir.analysis.access import complete_regions
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, LetStmt, Stmt, seq


def loop(name: str, extent: Any, body: Callable[[Var], Stmt], kind: DType | None = None) -> Stmt:
    """for name in range(extent): body(name)"""
    extent = p.as_expr(extent)
    var = Var(name, kind or extent.dtype)
    return For(var, p.const(0, var.dtype), p.fitted(var.dtype, extent), ForKind.SERIAL, body(var))


def nest(extents: Sequence[Any], body: Callable[..., Stmt], kind: DType | None = None) -> Stmt:
    """One loop for each extent, i0 outermost; `body` gets their variables."""

    def level(found: tuple[Var, ...]) -> Stmt:
        if len(found) == len(extents):
            return body(*found)
        return loop(f"i{len(found)}", extents[len(found)], lambda v: level((*found, v)), kind)

    return level(())


#: an index along an axis -> the whole index
Place = Callable[[Any], tuple[Any, ...]]


def rows(shape: Sequence[Any], axis: int, body: Callable[[Place], Stmt], kind: DType) -> Stmt:
    """body(place) for each row along an axis."""

    def row(*others: Var) -> Stmt:
        return body(lambda k: (*others[:axis], k, *others[axis:]))

    return nest([*shape[:axis], *shape[axis + 1 :]], row, kind)


def let(body: Callable[..., Stmt], **values: Any) -> Stmt:
    """name = value for each keyword, then body(*variables)."""
    found = {name: p.as_expr(value) for name, value in values.items()}
    variables = [Var(name, value.dtype) for name, value in found.items()]
    made = body(*variables)
    for var, value in zip(reversed(variables), reversed(found.values()), strict=True):
        made = LetStmt(var, value, made)
    return made


def store(buffer: Buffer, index: Sequence[Any], value: Any) -> BufferStore:
    """buffer[index] = value"""
    kind = buffer.dtype
    return BufferStore(buffer, p.cast(kind, p.as_expr(value, kind)), tuple(map(p.as_expr, index)))


def scratch(name: str, kind: DType | str, *shape: Any) -> Buffer:
    """A buffer of the statement's own; without a shape, of one element."""
    return decl_buffer(shape or (1,), str(kind), name)


def with_scratch(buffers: Sequence[Buffer], *stmts: Stmt, name: str = "scratch") -> Stmt:
    """The statements in a block in which the buffers live."""
    block = Block((), (), (), name, seq(*stmts), alloc_buffers=tuple(buffers))
    return BlockRealize((), p.const(True), complete_regions(block))


def index_dtype(*buffers: Buffer) -> DType:
    """int32 for loops over static shapes, int64 where a dimension is symbolic."""
    static = all(ints(b.shape) is not None for b in buffers)
    return dtype("int32" if static else "int64")


def load(buffer: Buffer, *index: Any) -> BufferLoad:
    """buffer[index]"""
    return BufferLoad(buffer, tuple(map(p.as_expr, index)))


def held(buffer: Buffer) -> BufferLoad:
    """The value of a scratch buffer of one element."""
    return load(buffer, 0)


def hold(buffer: Buffer, value: Any) -> BufferStore:
    """Store into a scratch buffer of one element."""
    return store(buffer, [0], value)
