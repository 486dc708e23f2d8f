"""CommonSubexprElimTIR: what is computed twice is computed once, and kept.

B[i * 4 + j] = A[i * 4 + j] + 1          ->      cse_v1 = i * 4 + j
                                                 B[cse_v1] = A[cse_v1] + 1

An expression is kept at the outermost place where all of its variables are known and below which it
stands twice; the largest ones first. What reads memory, calls, or might divide by zero is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.core.node import Node, children, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.folding import DIVIDING
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bound, map_bodies

#: what an expression that is kept may be made of
_PLAIN = (
    *(Var, e.SizeVar, e.IntImm, e.FloatImm, e.Cast, e.Add, e.Sub, e.Mul, e.Min, e.Max, e.Not),
    *(e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or, e.Select),
)
#: in their bodies no more variables are known than before them
_OPEN = (s.SeqStmt, s.Allocate, s.DeclBuffer, s.BlockRealize)


def eliminate_common_subexpr(func: PrimFunc) -> PrimFunc:
    """`func` with expressions that stand more than once computed once."""
    return func.with_body(_Eliminator().scope(func.body))


class _Eliminator:
    def __init__(self) -> None:
        self.kept = 0
        self.keys: dict[int, Any] = {}
        self.alive: list[Node] = []

    def scope(self, body: s.Stmt) -> s.Stmt:
        """A body: what stands in it twice is kept at its start; then the bodies inside."""
        while True:
            found = self.largest(body)
            if found is None:
                return self.inner(body)
            self.kept += 1
            var = Var(f"cse_v{self.kept}", found.dtype)
            key = self.key(found)
            body = s.LetStmt(var, found, self.replaced(body, key, var))

    def inner(self, n: s.Stmt) -> s.Stmt:
        """The bodies below a statement."""
        return map_bodies(n, self.inner if isinstance(n, _OPEN) else self.scope)

    def largest(self, body: s.Stmt) -> PrimExpr | None:
        """The largest expression that stands twice and uses only what is known before `body`."""
        counts: dict[Any, int] = {}
        sizes: dict[Any, tuple[int, PrimExpr]] = {}
        for x, size in self.expressions(body, set()):
            key = self.key(x)
            counts[key] = counts.get(key, 0) + 1
            sizes.setdefault(key, (size, x))
        twice = [sizes[key] for key, count in counts.items() if count > 1]
        return max(twice, key=lambda pair: pair[0])[1] if twice else None

    def expressions(self, n: Node, inside: set[Var]) -> Iterator[tuple[PrimExpr, int]]:
        """The expressions that could be kept before `n`, each place once, with their sizes."""
        if isinstance(n, PrimExpr):
            size = _size(n, inside)
            if size > 1:
                yield n, size
        inside = inside.union(bound(n))
        if isinstance(n, s.AttrStmt) and isinstance(n.node, s.IterVar):  # threads are launched
            inside = inside | {n.node.var}
        for child in children(n):
            if not isinstance(child, Buffer):
                yield from self.expressions(child, inside)

    def replaced(self, n: s.Stmt, key: Any, var: Var) -> s.Stmt:
        """The statement with the variable in all places of the expression."""

        def enter(x: Node) -> Node | None:
            if isinstance(x, Buffer):
                return x
            return var if isinstance(x, PrimExpr) and self.key(x) == key else None

        return rewrite(n, lambda _: None, enter=enter)

    def key(self, x: Any) -> Any:
        """Equal for expressions of one form over the same variables."""
        if isinstance(x, tuple):
            return tuple(map(self.key, x))
        if isinstance(x, Var) or not isinstance(x, Node):
            return id(x) if isinstance(x, Var) else x
        found = self.keys.get(id(x))
        if found is None:
            self.alive.append(x)
            parts = (getattr(x, name) for name in x.child_fields)
            inside = (
                tuple(map(self.key, v)) if isinstance(v, tuple) else self.key(v) for v in parts
            )
            found = self.keys[id(x)] = (type(x), *inside)
        return found


def _size(x: PrimExpr, bound: set[Var]) -> int:
    """The number of nodes of an expression that may be kept; 0 for one that may not."""
    if isinstance(x, Var):
        return 0 if x in bound or x.dtype.is_handle else 1
    if isinstance(x, DIVIDING):
        by_number = isinstance(x.b, e.IntImm) and x.b.value != 0
        if not by_number and not x.dtype.is_float:
            return 0
    elif not isinstance(x, _PLAIN):
        return 0
    total = 1
    for part in children(x):
        size = _size(part, bound) if isinstance(part, PrimExpr) else 0
        if size == 0:
            return 0
        total += size
    return total


class CommonSubexprElimTIR(PrimFuncPass):
    """Compute expressions that stand more than once in a statement only once.

    enable_cse_tir: if False, nothing is done. identify_equiv_terms: TVM then takes `x * 2` for
    `x + x`; here only what is written alike counts as the same.
    """

    enable_cse_tir: bool = True
    identify_equiv_terms: bool = False

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `eliminate_common_subexpr`."""
        return eliminate_common_subexpr(func) if self.enable_cse_tir else func
