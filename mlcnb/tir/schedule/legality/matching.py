"""Is this piece of program what an instruction computes? Two statements compared, tile against
whole.

    target   for i, j in T.grid(4, 4): B[v_i_o * 4 + i, j] = A[v_i_o * 4 + i, j]
    desc     for x, y in T.grid(4, 4): Q[x, y] = P[x, y]

    P is A[v_i_o * 4 :, 0 :], Q is B[v_i_o * 4 :, 0 :]

Axes are looked through to the loops that they are bound to; indices are compared from the corner of
the region that the target block touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.core.node import Node, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.edges import ends_of
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.schedule.record.handles import text_of


class Mismatch(Exception):
    """The two differ; the message says in what."""


@dataclass
class Matcher:
    """Compares; afterwards `regions` says what part of which buffer each buffer of `desc` is."""

    #: the regions of the target block: where tiles begin
    corners: dict[Buffer, BufferRegion]
    #: bounds of the variables around the target, and of its loops once they are seen
    known: dict[e.Var, Bounds] = field(default_factory=dict)
    regions: dict[Buffer, BufferRegion] = field(default_factory=dict)
    loops: set[e.Var] = field(default_factory=set)
    target: Context = field(default_factory=Context)
    desc: Context = field(default_factory=Context)

    def __post_init__(self) -> None:
        self.target = Context(self.known, {})
        self.desc = Context(self.known, {})

    def stmt(self, mine: s.Stmt, theirs: s.Stmt) -> None:
        """Compare two statements.

        Raises:
            Mismatch: they differ.
        """
        compare = _STMTS.get(type(theirs))
        if compare is None or type(mine) is not type(theirs):
            raise Mismatch(f"{type(mine).__name__} stands where {type(theirs).__name__} should")
        compare(self, mine, theirs)

    def loop(self, mine: s.For, theirs: s.For) -> None:
        """Loops over the same range; both variables stand for the same number."""
        self.same_number(mine.extent, theirs.extent, f"the extent of loop {mine.loop_var.name}")
        self.same_number(mine.min, theirs.min, f"the start of loop {mine.loop_var.name}")
        self.loops.add(mine.loop_var)
        self.known[mine.loop_var] = ends_of(mine)
        self._value(self.desc, theirs.loop_var, Sum(0, {mine.loop_var: 1}))
        self.stmt(mine.body, theirs.body)

    def realize(self, mine: s.BlockRealize, theirs: s.BlockRealize) -> None:
        """Blocks with no predicate, whose axes over loops of the tile are of the same kinds."""
        if not p.is_const(mine.predicate, 1):
            raise Mismatch("a predicate cuts through the tile")
        kinds: list[list[s.IterType]] = []
        for context, n in ((self.target, mine), (self.desc, theirs)):
            kinds.append([])
            for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
                found = of(value, context)
                self._value(context, axis.var, found)
                if found.uses(self.loops):
                    kinds[-1].append(axis.iter_type)
        if kinds[0] != kinds[1]:
            raise Mismatch(f"the axes of block {mine.block.name_hint} are of other kinds")
        if (mine.block.init is None) != (theirs.block.init is None):
            raise Mismatch(f"block {mine.block.name_hint} and its description differ in init")
        if mine.block.init is not None and theirs.block.init is not None:
            self.stmt(mine.block.init, theirs.block.init)
        self.stmt(mine.block.body, theirs.block.body)

    def store(self, mine: s.BufferStore, theirs: s.BufferStore) -> None:
        """Stores to the same place of the same value."""
        self.place(mine.buffer, mine.indices, theirs.buffer, theirs.indices)
        self.expr(mine.value, theirs.value)

    def sequence(self, mine: s.SeqStmt, theirs: s.SeqStmt) -> None:
        """The same number of statements, each the same."""
        if len(mine.seq) != len(theirs.seq):
            raise Mismatch(f"{len(mine.seq)} statements stand where {len(theirs.seq)} should")
        for one, other in zip(mine.seq, theirs.seq, strict=True):
            self.stmt(one, other)

    def expr(self, mine: Any, theirs: Any) -> None:
        """Compare two expressions, or what stands in their fields."""
        if isinstance(theirs, e.Var):
            self.same_number(mine, theirs, f"the value of {theirs.name}")
        elif isinstance(theirs, BufferLoad) and isinstance(mine, BufferLoad):
            self.place(mine.buffer, mine.indices, theirs.buffer, theirs.indices)
        elif isinstance(theirs, _ARITHMETIC) and self._equal_numbers(mine, theirs):
            pass
        elif isinstance(theirs, e.Mul) and isinstance(mine, e.Mul) and mine.dtype == theirs.dtype:
            self._factors(mine, theirs)
        elif isinstance(theirs, tuple) and isinstance(mine, tuple) and len(mine) == len(theirs):
            for one, other in zip(mine, theirs, strict=True):
                self.expr(one, other)
        elif isinstance(theirs, Node) and type(mine) is type(theirs):
            for name in theirs.child_fields:
                self.expr(getattr(mine, name), getattr(theirs, name))
        elif mine != theirs:
            raise Mismatch(f"{mine!r} stands where {theirs!r} should")

    def _factors(self, mine: e.Mul, theirs: e.Mul) -> None:
        """Two factors, in either order: their product is the same."""
        before = dict(self.regions)
        try:
            self.expr((mine.a, mine.b), (theirs.a, theirs.b))
        except Mismatch:
            first, self.regions = self.regions, before
            try:
                self.expr((mine.b, mine.a), (theirs.a, theirs.b))
            except Mismatch:
                self.regions = first
            else:
                return
            raise

    def _equal_numbers(self, mine: Any, theirs: e.PrimExpr) -> bool:
        """True for integers that are equal by arithmetic: `(v_o * 8 + v) % 8` and `v % 8`."""
        if not isinstance(mine, _ARITHMETIC) or mine.dtype != theirs.dtype or _reads(mine):
            return False
        is_number = theirs.dtype.is_int and not _reads(theirs)
        return is_number and self._same(of(mine, self.target), of(theirs, self.desc))

    def same_number(self, mine: e.PrimExpr, theirs: e.PrimExpr, what: str) -> None:
        """Compare two integers that may hold variables."""
        if not self._same(of(mine, self.target), of(theirs, self.desc)):
            raise Mismatch(f"{what} is {mine!r}, not {theirs!r}")

    def place(
        self,
        mine: Buffer,
        indices: Sequence[e.PrimExpr],
        theirs: Buffer,
        wanted: Sequence[e.PrimExpr],
    ) -> None:
        """The same element, counted from the corner of the region."""
        region = self._region(mine, theirs)
        skipped = len(indices) - len(wanted)
        for n, index in enumerate(indices):
            found = of(index, self.target).minus(of(region.region[n].min, self.target))
            expected = Sum(0) if n < skipped else of(wanted[n - skipped], self.desc)
            if not self._same(found, expected):
                at, there = (", ".join(map(text_of, x)) for x in (indices, wanted))
                raise Mismatch(
                    f"{mine.name}[{at}] stands where the description has {theirs.name}[{there}]"
                )

    def _same(self, found: Sum, expected: Sum) -> bool:
        """True if two sums are equal for all values of their variables."""
        return found.minus(expected).bounds(self.known) == (0, 0)

    def _region(self, mine: Buffer, theirs: Buffer) -> BufferRegion:
        if theirs in self.regions:
            if self.regions[theirs].buffer is not mine:
                raise Mismatch(f"{theirs.name} would be two buffers")
            return self.regions[theirs]
        region = self.corners.get(mine)
        skipped = mine.ndim - theirs.ndim
        if region is None or skipped < 0 or mine.dtype != theirs.dtype:
            raise Mismatch(f"{mine.name} does not fit {theirs.name}")
        ones = [p.as_int(r.extent) for r in region.region[:skipped]]
        sizes = [p.as_int(r.extent) for r in region.region[skipped:]]
        if any(x != 1 for x in ones) or sizes != [p.as_int(x) for x in theirs.shape]:
            raise Mismatch(f"the tile of {mine.name} has another shape than {theirs.name}")
        self.regions[theirs] = region
        return region

    def _value(self, context: Context, var: e.Var, value: Sum) -> None:
        context.values = {**context.values, var: value}


#: what integers are made of where they are computed from variables
_ARITHMETIC = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod)


def _reads(x: e.PrimExpr) -> bool:
    """True if a number depends on more than variables."""
    return any(isinstance(n, BufferLoad | e.Call | e.Cast) for n in walk(x))


_STMTS: dict[type, Any] = {
    s.For: Matcher.loop,
    s.BlockRealize: Matcher.realize,
    s.BufferStore: Matcher.store,
    s.SeqStmt: Matcher.sequence,
}
