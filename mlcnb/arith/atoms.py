"""What a sum that was read quickly has for atoms, beside variables and parts: min, max, opaque."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from mlcnb.arith.sum import UNKNOWN, Bounds, Sum, is_index
from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p


class Extreme:
    """min(a, b) or max(a, b)."""

    __slots__ = ("a", "b", "hash", "is_min")

    def __init__(self, is_min: bool, a: Sum, b: Sum) -> None:
        self.is_min = is_min
        self.a = a
        self.b = b
        self.hash = hash((is_min, a.key, b.key))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Extreme)
            and self.is_min == other.is_min
            and self.a.is_same(other.a)
            and self.b.is_same(other.b)
        )

    def variables(self) -> set[e.Var]:
        """All variables inside."""
        return self.a.variables() | self.b.variables()

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """See `Sum.bounds`: of min(a, b), the larger of the lower ends may be unknown."""
        pairs = self.a.bounds(known), self.b.bounds(known)
        lows = [lo for lo, _ in pairs if lo is not None]
        highs = [hi for _, hi in pairs if hi is not None]
        if self.is_min:
            return (min(lows) if len(lows) == 2 else None), (min(highs) if highs else None)
        return (max(lows) if lows else None), (max(highs) if len(highs) == 2 else None)

    def expr(self, kind: str) -> e.PrimExpr:
        """As an expression."""
        build = p.minimum if self.is_min else p.maximum
        return build(self.a.expr(kind), self.b.expr(kind))


class Opaque:
    """An expression that is not looked into, told apart by structure.

    `inner` is what a cast casts, if that cannot wrap around; `factors` are those of a product.
    """

    __slots__ = ("factors", "inner", "key", "node")

    def __init__(
        self, node: e.PrimExpr, inner: Sum | None = None, factors: tuple[Sum, Sum] | None = None
    ) -> None:
        self.node = node
        self.inner = inner
        self.factors = factors
        self.key = structure_key(node)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.key == other.key

    def variables(self) -> set[e.Var]:
        """All variables inside."""
        return variables_of(self.node)

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """Bounds of a cast integer are those of what is cast, where its dtype holds these; of a
        product those that its factors make.
        """
        if self.factors is not None:
            return _product_bounds(*self.factors, known)
        if self.inner is None:
            return UNKNOWN
        kind, (low, high) = self.node.dtype, self.inner.bounds(known)
        fits = low is not None and high is not None
        fits = fits and kind.min_value <= low and high <= kind.max_value  # type: ignore[operator]
        return (low, high) if fits or is_index(kind) else (kind.min_value, kind.max_value)

    def expr(self, kind: str) -> e.PrimExpr:
        """The expression itself."""
        return self.node


def _product_bounds(a: Sum, b: Sum, known: Mapping[e.Var, Bounds]) -> Bounds:
    """Between which numbers a product lies: it is largest and smallest where both factors are."""
    (low, high), (first, last) = (_reach(x.bounds(known)) for x in (a, b))
    ends = [times(low, first), times(high, last)]
    if a.is_same(b):
        return (0 if low <= 0 <= high else _known(min(ends))), _known(max(ends))
    ends += [times(low, last), times(high, first)]
    return _known(min(ends)), _known(max(ends))


def _reach(bounds: Bounds) -> tuple[float, float]:
    """Bounds with infinities where they are unknown."""
    low, high = bounds
    return (-inf if low is None else low), (inf if high is None else high)


def _known(end: float) -> int | None:
    return None if end in (inf, -inf) else int(end)


def times(a: float, b: float) -> float:
    """a * b, where 0 times infinity is 0."""
    return 0 if a == 0 or b == 0 else a * b


def structure_key(n: Any) -> Any:
    """A hashable value, equal for expressions that are the same in structure."""
    if isinstance(n, e.Var):
        return n
    if isinstance(n, e.IntImm | e.FloatImm):
        return (type(n), n.value)
    if isinstance(n, tuple):
        return tuple(map(structure_key, n))
    if isinstance(n, e.PrimExpr):
        return (type(n), *(structure_key(getattr(n, name)) for name in n.child_fields))
    return n


def variables_of(n: Any) -> set[e.Var]:
    """The variables that occur in an expression (buffers are not looked into)."""
    found: set[e.Var] = set()
    _collect_variables(n, found)
    return found


def _collect_variables(n: Any, found: set[e.Var]) -> None:
    if isinstance(n, e.Var):
        found.add(n)
    elif isinstance(n, tuple):
        for item in n:
            _collect_variables(item, found)
    elif isinstance(n, e.PrimExpr):
        for name in n.child_fields:
            value = getattr(n, name)
            if isinstance(value, Node | tuple):
                _collect_variables(value, found)
