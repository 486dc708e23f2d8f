"""One block while its lines are read: axes, predicate, regions, buffers, init."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlcnb.core.node import replace, walk
from mlcnb.core.text import kind_of
from mlcnb.ir import prim_ops as p
from mlcnb.ir.attrs import frozen
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.span import Span
from mlcnb.script import build, frames
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.ranges import make_range
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from mlcnb.tir.stmt import Block, BlockRealize, IterType, IterVar, Stmt

_REMAP = {"S": IterType.SPATIAL, "R": IterType.REDUCE}


class OpenBlock:
    """What has been said of a block so far."""

    def __init__(self, name: str) -> None:
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

    def realized(
        self, body: Stmt, around: Callable[[], list[Buffer]], span: Span | None = None
    ) -> BlockRealize:
        """The block; regions that were not given are found in its body, of it and the buffers
        `around` it.
        """
        block = Block(
            tuple(self.iter_vars),
            self.reads or (),
            self.writes or (),
            self.name,
            body,
            self.init,
            tuple(self.alloc_buffers),
            tuple(self.match_buffers),
            frozen(self.annotations),
            span,
        )
        if self.reads is None or self.writes is None:
            reads, writes = detect_buffer_access(block, around())
            block = replace(
                block,
                reads=reads if self.reads is None else self.reads,
                writes=writes if self.writes is None else self.writes,
            )
        return BlockRealize(tuple(self.values), self.predicate, block)


class BlockParser(OpenBlock):
    """What the lines of a block have said so far."""

    def __init__(self, ev: Evaluator, name: str) -> None:
        super().__init__(name)
        self.ev = ev
        self.said: set[str] = set()

    def axis(self, name: str, value: frames.Axis, place: ast.expr) -> None:
        """`v = T.axis.spatial(dom, value)`"""
        with self.ev.blame(place):
            dom = self._domain(value.domain)
            bound = self.ev.as_expr(value.value, place)
        if not isinstance(value.value, PrimExpr):
            bound = build.cast(dom.extent.dtype, value.value)
        self._add(name, dom, value.kind, bound, place)

    def _domain(self, domain: Any) -> Range:
        if isinstance(domain, Range):
            return domain
        if isinstance(domain, tuple | list):
            return make_range(*domain)
        extent = build.as_expr(domain, self.ev.int_dtype)
        return Range(p.const(0, extent.dtype), extent)

    def _add(self, name: str, dom: Range, kind: IterType, value: PrimExpr, place: ast.expr) -> None:
        if any(axis.var.name == name for axis in self.iter_vars):
            raise self.ev.error(place, f"the block has an axis {name} already")
        var = Var(name, dom.extent.dtype)
        self.iter_vars.append(IterVar(dom, var, kind))
        self.values.append(value)
        self.ev.scope.define(name, var)

    def remap(
        self, names: list[str], value: frames.Remap, loops: dict[Var, Range], place: ast.expr
    ) -> None:
        """`vi, vj = T.axis.remap("SR", [i, j])`: each axis takes a whole loop."""
        if not len(names) == len(value.kinds) == len(value.values):
            raise self.ev.error(
                place,
                f"{len(names)} names, {len(value.kinds)} kinds, {len(value.values)} loops",
                "one kind and one loop for each name",
            )
        for name, letter, loop in zip(names, value.kinds, value.values, strict=True):
            if letter not in _REMAP:
                raise self.ev.error(place, f"axis kind {letter!r} is not S (spatial) or R (reduce)")
            dom = loops.get(loop) if isinstance(loop, Var) else None
            if dom is None:
                raise self.ev.error(
                    place, f"axis {name} is mapped to what is no loop", "T.axis.spatial(dom, value)"
                )
            self._add(name, dom, _REMAP[letter], loop, place)

    def note(self, value: Any, node: ast.stmt) -> None:
        """`T.where`, `T.reads`, `T.writes`, `T.block_attr`"""
        if isinstance(value, frames.Where):
            self._once("T.where", node)
            self.predicate = self._predicate(value.predicate, node)
        elif isinstance(value, frames.BlockAttr):
            for key, given in value.attrs.items():
                if self.annotations.setdefault(key, given) != given:
                    raise self.ev.error(node, f"the block has an attribute {key!r} already")
        else:
            self._once("T.writes" if value.writes else "T.reads", node)
            with self.ev.blame(node):
                found = tuple(as_region(r) for r in value.regions)
            if value.writes:
                self.writes = found
            else:
                self.reads = found

    def _once(self, word: str, node: ast.stmt) -> None:
        """A word that a block says at most once."""
        if word in self.said:
            raise self.ev.error(node, f"the block says {word} twice", "put both in one line")
        self.said.add(word)

    def _predicate(self, value: Any, node: ast.stmt) -> PrimExpr:
        found = self.ev.as_expr(value, node)
        axes = {axis.var for axis in self.iter_vars}
        for part in walk(found):
            if isinstance(part, Var) and part in axes:
                raise self.ev.error(
                    node,
                    f"T.where speaks of loops: {part.name} is an axis of the block",
                    "write the loop variables that the axes are bound to",
                )
        return found

    def match(self, buffer: Buffer, source: Any, place: ast.expr) -> None:
        """`B = T.match_buffer(A[0:4], (4,))`"""
        with self.ev.blame(place):
            self.match_buffers.append(MatchBufferRegion(buffer, as_region(source)))

    def set_init(self, init: Stmt, node: ast.stmt) -> None:
        """`with T.init():`"""
        if self.init is not None:
            raise self.ev.error(node, "a block has one T.init()")
        self.init = init

    def finish(self, body: Stmt, span: Span | None = None) -> BlockRealize:
        """The block; regions that were not given are found in its body."""

        def around() -> list[Buffer]:
            names = (value for frame in self.ev.scope.frames for value in frame.values())
            return [value for value in names if isinstance(value, Buffer)]

        return self.realized(body, around, span)


def as_region(value: Any) -> BufferRegion:
    """What stands in T.reads: `A[i, j]` is a point, `A[0:4]` a box, `A` all of it."""
    if isinstance(value, frames.Sliced):
        return value.as_region()
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, Buffer):
        return frames.Sliced(value, ()).as_region()
    if isinstance(value, BufferLoad):
        return BufferRegion(value.buffer, tuple(map(frames.point, value.indices)))
    raise TypeError(f"a region of a buffer is expected, this is {kind_of(value)}")
