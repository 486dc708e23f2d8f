"""`@T.prim_func`: the signature, then the body; blocks without a root block get one."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.core.node import FrozenDict
from mlcnb.ir import prim_ops as p
from mlcnb.ir.attrs import frozen
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Var
from mlcnb.script.dialect import known_attrs
from mlcnb.script.frames import NewVar
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.symbols import declared_symbols, resolve_dims
from mlcnb.script.parser.tir_bind import renamed
from mlcnb.script.parser.tir_stmt import StmtParser
from mlcnb.script.tir.dtypes import dtype_of
from mlcnb.tir.analysis.structure import has_block
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, Stmt


class PrimFuncParser:
    """Reads one function definition.

    Args:
        ev: evaluates expressions in the scope around the function.
        node: its tree.
        private: leave out the attribute `global_symbol`.
        is_new: read `x: T.int32 = 0` as 0.27 does, as memory that may change.
    """

    def __init__(
        self, ev: Evaluator, node: ast.FunctionDef, private: bool, is_new: bool = False
    ) -> None:
        self.ev = ev
        self.node = node
        self.private = private
        self.is_new = is_new
        #: the dtype of what the body returns
        self.returned: DType | None = None
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        #: variables that the body declares, until it does
        self.symbols: dict[str, Var] = {}
        #: buffers allocated outside of any block: they belong to the root block
        self.root_buffers: list[Buffer] = []

    def parse(self) -> PrimFunc:
        """The function."""
        before, self.ev.int_dtype = self.ev.int_dtype, "int32"
        with self.ev.scope.inner():
            self.symbols = declared_symbols(self.ev, self.node)
            self.ev.scope.frames[-1].update(self.symbols)
            self._signature()
            stmts = StmtParser(self.ev, self)
            body = stmts.body(self.node.body)
        self.ev.int_dtype = before
        attrs = {} if self.private else {"global_symbol": self.node.name}
        attrs.update(self.attrs)
        return PrimFunc(
            tuple(self.params),
            rooted(body, self.root_buffers),
            self._ret_type(),
            FrozenDict(self.buffer_map),
            frozen(attrs),
        )

    def _signature(self) -> None:
        args = self.node.args
        for unusual in (args.vararg, args.kwarg, *args.kwonlyargs, *args.defaults):
            if unusual is not None:
                raise self.ev.error(unusual, "a function of TVMScript has plain parameters only")
        for arg in [*args.posonlyargs, *args.args]:
            with self.ev.blame(arg):
                self._param(arg)

    def _param(self, arg: ast.arg) -> None:
        if arg.annotation is None:
            hint = f'{arg.arg}: T.Buffer((128,), "float32") or {arg.arg}: T.int32'
            raise self.ev.error(arg, f"parameter {arg.arg!r} has no annotation", hint)
        found = self.ev.value(arg.annotation)
        if isinstance(found, Buffer):
            handle = Var(arg.arg, dtype("handle"))
            buffer = renamed(resolve_dims(self.ev, found, arg.annotation), arg.arg)
            self.buffer_map[handle] = buffer
            self.params.append(handle)
            self.ev.scope.define(arg.arg, buffer)
            return
        made = dtype_of(found)
        if made is None:
            raise self.ev.error(
                arg.annotation, "a parameter is a T.Buffer, a T.handle or a scalar such as T.int32"
            )
        var = made.make(arg.arg)
        self.params.append(var)
        self.ev.scope.define(arg.arg, var)

    def _ret_type(self) -> str | None:
        if self.node.returns is None:
            return None if self.returned is None else str(self.returned)
        found = self.ev.value(self.node.returns)
        made = dtype_of(found) if found is not None else NewVar(dtype("void"))
        if made is None:
            raise self.ev.error(self.node.returns, "the result is a scalar such as T.int32")
        return None if made.dtype == "void" else str(made.dtype)

    def note_result(self, kind: DType) -> None:
        """What a `return` of the body gives: the signature need not say it."""
        self.returned = self.returned or kind

    def set_attrs(self, attrs: Mapping[str, Any]) -> None:
        """`T.func_attr({…})`"""
        self.attrs.update(known_attrs(attrs))


def rooted(body: Stmt, buffers: Sequence[Buffer]) -> Stmt:
    """TVM's rule: blocks stand in a root block, unless the body is a block without axes.

    The buffers that were allocated outside of any block live in it.
    """
    is_root = isinstance(body, BlockRealize) and not body.block.iter_vars
    if is_root and not buffers:
        return body
    if not buffers and not has_block(body):
        return body
    root = Block((), (), (), "root", body, alloc_buffers=tuple(buffers))
    return BlockRealize((), p.const(True), root)
