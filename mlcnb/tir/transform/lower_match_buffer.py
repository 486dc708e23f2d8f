"""LowerMatchBuffer: another name for a region becomes the buffer that the region is of.

with T.block("b"):                                       with T.block("b"):
    X = T.match_buffer(A[i * 2:i * 2 + 2, 0:8],   ->         ... A[i * 2 + y, x] ...
                       (2, 8), strides=[s, 1])               ... s is 64, the stride of A ...
    ... X[y, x] ...

Variables in the shape, strides and offset of the match get the values that the region has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, map_children, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import refold
from mlcnb.tir.index_check import fitted
from mlcnb.tir.stmt import Block, BufferStore, For
from mlcnb.tir.transform.flatten_buffer import offset_of, strides_of


def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """`func` without match_buffers: their uses are uses of the buffers that they are regions of.

    Raises:
        PassError: a region does not fit the shape, strides, offset or dtype of its match.
    """
    if not any(isinstance(n, Block) and n.match_buffers for n in statements(func.body)):
        return func
    return func.with_body(_Lowerer(func).visit(func.body))


class _Lowerer:
    """Rewrites from the outside in: a region of a match is a region of what that one matches."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.analyzer = Analyzer()
        self.sources: dict[Buffer, BufferRegion] = {}
        self.values: dict[Var, PrimExpr] = {}

    def visit(self, n: Any) -> Any:
        """The node with matches replaced."""
        if isinstance(n, Var):
            return self.values.get(n, n)
        if isinstance(n, For):
            self.analyzer.bind(n.loop_var, Range(n.min, n.extent))
        if isinstance(n, Block):
            return self.block(n)
        if isinstance(n, Buffer):
            return n
        new = map_children(n, self.visit)
        if isinstance(new, BufferLoad | BufferStore) and new.buffer in self.sources:
            return self.access(new)
        if isinstance(new, BufferRegion) and new.buffer in self.sources:
            return self.region(new)
        folded = None if new is n else refold(new)
        return new if folded is None else folded

    def block(self, n: Block) -> Block:
        """A block: its matches become known, and are gone."""
        for axis in n.iter_vars if n.match_buffers else ():
            self.analyzer.bind(axis.var, axis.dom)
        for match in n.match_buffers:
            self.match(match)
        bare = replace(n, match_buffers=()) if n.match_buffers else n
        return map_children(bare, self.visit)

    def access(self, n: Any) -> Any:
        """A load or store of a match."""
        source = self.sources[n.buffer]
        starts = [side.min for side in source.region]
        return replace(n, buffer=source.buffer, indices=_behind(starts, n.indices))

    def region(self, n: BufferRegion) -> BufferRegion:
        """A region of a match."""
        source = self.sources[n.buffer]
        starts = _behind([s.min for s in source.region], [s.min for s in n.region])
        whole = [s.extent for s in source.region[: len(starts) - len(n.region)]]
        extents = [*whole, *(s.extent for s in n.region)]
        sides = tuple(Range(a, b) for a, b in zip(starts, extents, strict=True))
        return BufferRegion(source.buffer, sides)

    def match(self, match: MatchBufferRegion) -> None:
        """Note what a match stands for, and the values of its variables."""
        source: BufferRegion = self.visit(match.source)
        inner, outer = match.buffer, source.buffer
        lead = outer.ndim - inner.ndim
        if lead < 0 or any(p.as_int(side.extent) != 1 for side in source.region[:lead]):
            raise self.misfit(match, f"has {inner.ndim} dimensions")
        if inner.dtype != outer.dtype:
            raise self.misfit(match, f"is {inner.dtype}, {outer.name} is {outer.dtype}")
        self.sources[inner] = source
        self.values[inner.data] = outer.data
        for axis, (want, side) in enumerate(zip(inner.shape, source.region[lead:], strict=True)):
            self.bind(match, f"dimension {axis}", want, side.extent, _wide(side.extent))
        wide = replace(
            outer,
            shape=tuple(map(_wide, outer.shape)),
            strides=tuple(map(_wide, outer.strides)),
            elem_offset=None if outer.elem_offset is None else _wide(outer.elem_offset),
        )
        steps, wide_steps = strides_of(outer)[lead:], strides_of(wide)[lead:]
        for axis, want in enumerate(inner.strides):
            self.bind(match, f"stride {axis}", want, steps[axis], wide_steps[axis])
        starts = tuple(side.min for side in source.region)
        offset = offset_of(outer, starts)
        if inner.elem_offset is not None:
            wide_offset = offset_of(wide, tuple(map(_wide, starts)))
            self.bind(match, "elem_offset", inner.elem_offset, offset, wide_offset)
        if inner.offset_factor > 1 and not self.divides(offset, inner.offset_factor):
            raise self.misfit(match, f"wants an offset that is a multiple of {inner.offset_factor}")

    def divides(self, offset: PrimExpr, factor: int) -> bool:
        """True if an offset is surely a multiple of `factor`."""
        return self.analyzer.can_prove_equal(p.floormod(offset, factor), 0)

    def bind(
        self, match: MatchBufferRegion, what: str, want: PrimExpr, found: PrimExpr, wide: PrimExpr
    ) -> None:
        """A free variable takes the value; anything else must equal it.

        `wide` is the value again, computed in 64 bits: it may not fit into the variable.
        """
        if isinstance(want, Var) and want not in self.values:
            self.values[want] = self.value(match, what, want, found, wide)
            return
        known = self.visit(want)
        if not self.analyzer.can_prove_equal(known, found):
            shown = self.analyzer.simplify(found)
            raise self.misfit(match, f"wants {what} to be {known}, the region's is {shown}")

    def value(
        self, match: MatchBufferRegion, what: str, want: Var, found: PrimExpr, wide: PrimExpr
    ) -> PrimExpr:
        """What a variable of a match stands for, in its dtype."""
        bounds = self.analyzer.const_bounds(wide)
        if all(map(want.dtype.holds, bounds)):
            fits = all(map(found.dtype.holds, bounds))  # else it wraps around before it is wide
            return p.cast(want.dtype, self.analyzer.simplify(found if fits else wide))
        where = f"{want.name}, {what} of {match.buffer.name}"
        value = fitted(want.dtype, self.analyzer.simplify(wide), where, bounds)
        if value is None:
            raise self.misfit(match, f"has the {what} {wide}, which {want.dtype} cannot hold")
        return value

    def misfit(self, match: MatchBufferRegion, why: str) -> PassError:
        """What to raise for a match that does not fit its region."""
        return PassError(
            f"LowerMatchBuffer: {match.buffer.name}, a region of {match.source.buffer.name}, {why}",
            where=match.buffer,
            root=self.func,
            hint="use variables for strides and elem_offset, and offset_factor=1",
        )


def _behind(starts: Sequence[PrimExpr], indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """Indices in a region as indices of the whole buffer."""
    lead = len(starts) - len(indices)
    moved = [_plus(a, i) for a, i in zip(starts[lead:], indices, strict=True)]
    return (*starts[:lead], *moved)


def _wide(x: PrimExpr) -> PrimExpr:
    """In 64 bits: 4 * 65536 * 65536 is no int32."""
    return p.cast("int64", x)


def _plus(start: PrimExpr, index: PrimExpr) -> PrimExpr:
    if isinstance(index, e.Ramp):
        return e.Ramp(_plus(start, index.base), index.stride, index.lanes)
    return start + (_in_dtype(index, start.dtype) if index.dtype.lanes != 1 else index)


def _in_dtype(index: PrimExpr, kind: DType) -> PrimExpr:
    """A vector of indices with its numbers in another dtype, if it is made of numbers alone.

    A cast around it would hide from FlattenBuffer that the indices follow each other.
    """
    leaves = [n for n in walk(index) if isinstance(n, Var | BufferLoad | e.Call | e.Cast)]
    if leaves or index.dtype.element == kind.element:
        return index

    def renewed(n: Node) -> Node | None:
        return e.IntImm(kind.element, n.value) if isinstance(n, e.IntImm) else None

    return rewrite(index, renewed)  # type: ignore[return-value]


class LowerMatchBuffer(PrimFuncPass):
    """Replace the names that match_buffer gives to regions by the buffers themselves."""

    work = staticmethod(lower_match_buffer)
