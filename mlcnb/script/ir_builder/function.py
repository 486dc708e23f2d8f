"""Frames of functions and blocks: what is said of them while they are open, then the node."""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.attrs import frozen
from mlcnb.ir.expr import GlobalVar, PrimExpr, Range, Var
from mlcnb.script.dialect import known_key
from mlcnb.script.ir_builder.builder import IRBuilder, Lines, find, lines
from mlcnb.script.ir_builder.ir import ModuleFrame
from mlcnb.script.parser.tir_func import rooted
from mlcnb.script.ranges import make_range
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.buffer import Buffer, BufferRegion, MatchBufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, IterType, IterVar, Stmt


class PrimFuncFrame(Lines):
    """`with T.prim_func():`"""

    title = "function"

    def __init__(self, private: bool) -> None:
        super().__init__()
        self.private = private
        self.name: str | None = None
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.ret_type: str | None = None
        self.alloc_buffers: list[Buffer] = []

    def leave(self) -> None:
        """The function; blocks get a root block, as in a text."""
        builder = IRBuilder.current()
        named = self.name is not None and not self.private
        attrs = {"global_symbol": self.name} if named else {}
        attrs.update({known_key(k): v for k, v in self.attrs.items()})
        body = builder.named(rooted(self.out.finish(), self.alloc_buffers))
        buffers = FrozenDict(self.buffer_map)
        made = PrimFunc(tuple(self.params), body, self.ret_type, buffers, frozen(attrs))
        around = builder.frames[-1] if builder.frames else None
        if isinstance(around, ModuleFrame):
            around.functions[GlobalVar(self.name or "main")] = made
        else:
            builder.finish(made)


class BlockFrame(Lines):
    """`with T.block("C"):`"""

    title = "block"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.iter_vars: list[IterVar] = []
        self.values: list[PrimExpr] = []
        self.predicate: PrimExpr = p.const(True)
        self.reads: tuple[BufferRegion, ...] | None = None
        self.writes: tuple[BufferRegion, ...] | None = None
        self.annotations: dict[str, Any] = {}
        self.init: Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[MatchBufferRegion] = []

    def axis(self, kind: IterType, domain: Any, value: Any) -> Var:
        """An axis, and what it takes."""
        if not isinstance(domain, Range):
            pair = domain if isinstance(domain, tuple | list) else (0, domain)
            domain = make_range(*map(p.as_expr, pair))
        var = Var("v", domain.extent.dtype)
        self.iter_vars.append(IterVar(domain, var, kind))
        self.values.append(p.as_expr(value, var.dtype))
        return var

    def leave(self) -> None:
        """The block; regions that were not given are found in its body."""
        made = Block(
            tuple(self.iter_vars),
            self.reads or (),
            self.writes or (),
            self.name,
            self.out.finish(),
            self.init,
            tuple(self.alloc_buffers),
            tuple(self.match_buffers),
            frozen(self.annotations),
        )
        if self.reads is None or self.writes is None:
            functions = [f for f in IRBuilder.current().frames if isinstance(f, PrimFuncFrame)]
            known = [b for f in functions for b in f.buffer_map.values()]
            reads, writes = detect_buffer_access(made, known)
            made = replace(
                made,
                reads=reads if self.reads is None else self.reads,
                writes=writes if self.writes is None else self.writes,
            )
        lines("a block").add(BlockRealize(tuple(self.values), self.predicate, made))


class InitFrame(Lines):
    """`with T.init():`"""

    title = "T.init"

    def leave(self) -> None:
        """What the block starts with."""
        find(BlockFrame, "T.init").init = self.out.finish()
