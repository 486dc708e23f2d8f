"""Frames of functions and blocks: what is said of them while they are open, then the node."""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict
from mlcnb.ir import prim_ops as p
from mlcnb.ir.attrs import frozen
from mlcnb.ir.expr import Range, Var
from mlcnb.script.dialect import known_key
from mlcnb.script.ir_builder.builder import IRBuilder, Lines, find, lines
from mlcnb.script.ir_builder.ir import finish_function
from mlcnb.script.parser.tir_block import OpenBlock
from mlcnb.script.parser.tir_func import rooted
from mlcnb.script.ranges import make_range
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import IterType, IterVar


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
        named = self.name is not None and not self.private
        attrs = {"global_symbol": self.name} if named else {}
        attrs.update({known_key(k): v for k, v in self.attrs.items()})
        body = IRBuilder.current().named(rooted(self.out.finish(), self.alloc_buffers))
        buffers = FrozenDict(self.buffer_map)
        made = PrimFunc(tuple(self.params), body, self.ret_type, buffers, frozen(attrs))
        finish_function(made, self.name)


class BlockFrame(Lines, OpenBlock):
    """`with T.block("C"):`"""

    title = "block"

    def __init__(self, name: str) -> None:
        Lines.__init__(self)
        OpenBlock.__init__(self, name)

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

        def around() -> list[Buffer]:
            functions = (f for f in IRBuilder.current().frames if isinstance(f, PrimFuncFrame))
            return [b for f in functions for b in f.buffer_map.values()]

        lines("a block").add(self.realized(self.out.finish(), around))


class InitFrame(Lines):
    """`with T.init():`"""

    title = "T.init"

    def leave(self) -> None:
        """What the block starts with."""
        find(BlockFrame, "T.init").init = self.out.finish()
