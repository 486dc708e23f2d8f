"""Statements rebuilt with other expressions, loops or buffers, keeping track of where loops and
blocks went.

Rebuilder       one method for each kind of thing; override what changes
Guard           blocks get a condition more
Substitution    loop variables replaced by index expressions, and simplified
AxisSubstitution    the same for axes of a block, which the blocks inside see too
BufferSwap      accesses of one buffer turned into accesses of another
ViewSwap        the same for a buffer with the views of it
FreshCopy       the same statements with new loop variables and axes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.arith.reading import Context, simplified
from mlcnb.core.node import EMPTY, Node, identical, replace, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion


class Rebuilder:
    """Rebuilds a statement; `forward` receives old loop or block -> new one."""

    def __init__(self, forward: dict[s.Stmt, s.Stmt]) -> None:
        self.forward = forward

    def expr(self, x: e.PrimExpr) -> e.PrimExpr:
        """What an expression becomes."""
        return x

    def stmt(self, n: Any) -> Any:
        """What a statement becomes; the same object where nothing in it changes."""
        new = getattr(self, f"on_{type(n).__name__}", self.other)(n)
        if new is not n and isinstance(n, s.For | s.Block) and isinstance(new, s.For | s.Block):
            self.forward[n] = new
        return new

    def exprs(self, values: tuple[e.PrimExpr, ...]) -> tuple[e.PrimExpr, ...]:
        """A tuple of expressions."""
        return tuple(map(self.expr, values))

    def region(self, r: BufferRegion) -> BufferRegion:
        """The box of a buffer."""
        return replace(r, region=tuple(map(self.range, r.region)))

    def range(self, r: e.Range) -> e.Range:
        """One side of a box, or the domain of an axis."""
        return replace(r, min=self.expr(r.min), extent=self.expr(r.extent))

    def regions(self, given: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        """All boxes of a block's reads or writes."""
        return tuple(map(self.region, given))

    def on_Block(self, n: s.Block) -> Any:
        """A block."""
        return replace(
            n,
            reads=self.regions(n.reads),
            writes=self.regions(n.writes),
            body=self.stmt(n.body),
            init=None if n.init is None else self.stmt(n.init),
            match_buffers=self.matches(n.match_buffers),
        )

    def matches(self, given: tuple[MatchBufferRegion, ...]) -> tuple[MatchBufferRegion, ...]:
        """The sub-buffers of a block."""
        return tuple(replace(m, source=self.region(m.source)) for m in given)

    def on_SeqStmt(self, n: s.SeqStmt) -> Any:
        """A sequence."""
        new = tuple(map(self.stmt, n.seq))
        return n if identical(new, n.seq) else s.seq(*new)

    def other(self, n: Any) -> Any:
        """Any other statement: each expression and statement in its fields, but for the variables
        that it defines, and what an attribute is said of.
        """
        names = (x for x in n.child_fields if x not in n.binder_fields and x != "node")
        return replace(n, **{name: self._part(getattr(n, name)) for name in names})

    on_For = on_BlockRealize = on_BufferStore = other

    def _part(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._part, value))
        if isinstance(value, s.Stmt):
            return self.stmt(value)
        return self.expr(value) if isinstance(value, e.PrimExpr) else value


class Substitution(Rebuilder):
    """Variables replaced by index expressions (`context.values`), simplified under
    `context.bounds`.

    The body of a block with axes speaks of its axes only, so it is left alone.
    """

    def __init__(self, context: Context, forward: dict[s.Stmt, s.Stmt]) -> None:
        super().__init__(forward)
        self.context = context

    def expr(self, x: e.PrimExpr) -> e.PrimExpr:
        """Simplified only where one of the variables occurs: else the text stays as it was."""
        return simplified(x, self.context) if mentions(x, self.context.values) else x

    def on_Block(self, n: s.Block) -> Any:
        """Blocks without axes see the loops around them; of others, only the domains do."""
        if not n.iter_vars:
            return super().on_Block(n)
        axes = tuple(replace(v, dom=self.range(v.dom)) for v in n.iter_vars)
        return replace(n, iter_vars=axes)


class AxisSubstitution(Substitution):
    """Axes of a block replaced by index expressions: in its body, and in the blocks inside."""

    def on_Block(self, n: s.Block) -> Any:
        """The block is entered, axes or not."""
        axes = tuple(replace(v, dom=self.range(v.dom)) for v in n.iter_vars)
        return replace(Rebuilder.on_Block(self, n), iter_vars=axes)


class Guard(Rebuilder):
    """A condition added to the predicate of every block."""

    def __init__(self, condition: e.PrimExpr, forward: dict[s.Stmt, s.Stmt]) -> None:
        super().__init__(forward)
        self.condition = condition

    def on_BlockRealize(self, n: s.BlockRealize) -> Any:
        """Blocks inside the block are guarded with it."""
        return replace(n, predicate=p.logical_and(n.predicate, self.condition))


def mentions(x: Any, variables: Mapping[Any, Any]) -> bool:
    """True if one of the variables occurs in the expression."""
    if isinstance(x, e.Var):
        return x in variables
    if isinstance(x, e.IntImm | e.FloatImm):
        return False
    if isinstance(x, tuple):
        return any(mentions(item, variables) for item in x)
    if isinstance(x, e.PrimExpr):
        return any(mentions(getattr(x, name), variables) for name in x.child_fields)
    return False


def rewrite_values(x: Any, rule: Callable[[Node], Node | None]) -> Any:
    """`rewrite` that leaves buffers as they are: only what is computed changes."""
    return rewrite(x, rule, enter=lambda n: n if isinstance(n, Buffer) else None)


#: given the old indices, the new ones
IndexRule = Callable[[tuple[e.PrimExpr, ...]], tuple[e.PrimExpr, ...]]


class BufferSwap(Rebuilder):
    """Loads, stores and boxes of `old` become those of `new`, with indices passed through `rule`.

    `box` gives the new box of an old one; without it boxes keep their ranges.
    """

    def __init__(
        self,
        swaps: Mapping[Buffer, Buffer],
        forward: dict[s.Stmt, s.Stmt],
        rule: IndexRule | None = None,
        box: Callable[[BufferRegion, Buffer], BufferRegion] | None = None,
    ) -> None:
        super().__init__(forward)
        self.swaps = swaps
        self.rule = rule
        self.box = box
        self._data = {old.data: new.data for old, new in swaps.items()}

    def expr(self, x: e.PrimExpr) -> e.PrimExpr:
        """Loads and pointers anywhere in an expression."""
        if not x.walked_fields:  # a number or a variable, as most indices are
            return self._swap(x) or x  # type: ignore[return-value]
        return rewrite_values(x, self._swap)

    def _swap(self, n: Node) -> Node | None:
        if isinstance(n, BufferLoad) and n.buffer in self.swaps:
            return replace(n, buffer=self.swaps[n.buffer], indices=self._indices(n.indices))
        if isinstance(n, e.Var):
            return self._data.get(n)
        return None

    def _indices(self, indices: tuple[e.PrimExpr, ...]) -> tuple[e.PrimExpr, ...]:
        return indices if self.rule is None else self.rule(indices)

    def region(self, r: BufferRegion) -> BufferRegion:
        """A box of the old buffer is one of the new; where a box lies may be read from one too."""
        r = super().region(r)
        new = self.swaps.get(r.buffer)
        if new is None:
            return r
        return BufferRegion(new, r.region) if self.box is None else self.box(r, new)

    def on_BufferStore(self, n: s.BufferStore) -> Any:
        """A store."""
        new = super().on_BufferStore(n)
        if n.buffer in self.swaps:
            indices = self._indices(new.indices)
            new = replace(new, buffer=self.swaps[n.buffer], indices=indices)
        return new


class ViewSwap(BufferSwap):
    """Buffers and views of them become others; boxes and indices stay."""

    def matches(self, given: tuple[MatchBufferRegion, ...]) -> tuple[MatchBufferRegion, ...]:
        """The views of a block."""
        made = super().matches(given)
        return tuple(replace(m, buffer=self.swaps.get(m.buffer, m.buffer)) for m in made)


class FreshCopy(Rebuilder):
    """The same statements with loop variables and axes of their own."""

    def __init__(self, forward: dict[s.Stmt, s.Stmt], values: Mapping[Any, Any] = EMPTY) -> None:
        super().__init__(forward)
        self.values: dict[e.Var, Any] = dict(values)

    def expr(self, x: e.PrimExpr) -> e.PrimExpr:
        """Variables replaced as they stand."""
        if isinstance(x, e.Var):
            return self.values.get(x, x)
        return rewrite_values(x, self._fresh)

    def _fresh(self, n: Node) -> Node | None:
        return self.values.get(n) if isinstance(n, e.Var) else None

    def renew(self, var: e.Var, name: str | None = None) -> e.Var:
        """A variable of the same kind, put in the place of `var` from here on."""
        fresh = type(var)(name or var.name, var.dtype)
        self.values[var] = fresh
        return fresh

    def on_For(self, n: s.For) -> Any:
        """A loop with a variable of its own."""
        fresh = self.renew(n.loop_var)
        return replace(super().on_For(n), loop_var=fresh)

    def on_Block(self, n: s.Block) -> Any:
        """A block with axes of its own."""
        axes = tuple(replace(v, var=self.renew(v.var), dom=self.range(v.dom)) for v in n.iter_vars)
        return replace(super().on_Block(n), iter_vars=axes)
