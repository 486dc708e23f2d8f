"""SkipPadding: what padding adds to a sum is not added.

for kh in T.serial(3, annotations=              for kh in range(3):
        {"pragma_skip_padding": True}):             if 1 <= oh + kh:
    for ow, kw in T.grid(14, 3):                        for ow, kw in T.grid(14, 3):
        acc[ow] = acc[ow] +              ->                 if 1 <= ow + kw:
            T.if_then_else(                                     acc[ow] = acc[ow] + x[…] * w[kh, kw]
                1 <= oh + kh and 1 <= ow + kw,
                x[oh + kh, ow + kw], 0.0)
            * w[kh, kw]

So a window reads its image as it lies, and no copy with zeros around it is made. A test is done
before the loops that it does not depend on; `LoopPartition` keeps what is left to the edges.
Likewise for a maximum with the least number, which needs no annotation: it changes no result. A
sum may change: a weight that is not finite times a zero of the padding is NaN, and is not added
here. So that is done only below a loop whose schedule asks for it.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import DIVIDING
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.edges import conjuncts
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import unmarked
from mlcnb.tir.reducers import is_element
from mlcnb.tir.stmt import BufferStore, For, ForKind, IfThenElse, Stmt

#: the annotation of a loop below which sums skip their padding
PRAGMA = "pragma_skip_padding"


def skip_padding(func: PrimFunc) -> PrimFunc:
    """`func` with accumulations of padding turned into statements under a test."""
    return func.with_body(_Skipper().rewrite(func.body))


class _Skipper:
    """Tests that were made here are hoisted; others stay where they are."""

    def __init__(self) -> None:
        self.sums = False
        self.made: set[int] = set()
        self.keep: list[Stmt] = []

    def rewrite(self, body: Any) -> Any:
        return rewrite(body, self.visit, self.enter)

    def enter(self, n: Node) -> Node | None:
        """Below the annotation sums are looked at too; it is used up."""
        if self.sums or not isinstance(n, For) or PRAGMA not in n.annotations:
            return None
        self.sums = True
        made = self.rewrite(unmarked(n, PRAGMA))
        self.sums = False
        return made

    def visit(self, n: Node) -> Node | None:
        if isinstance(n, BufferStore):
            found = _guarded(n, self.sums)
            return None if found is None else self.test(*found)
        if isinstance(n, For) and id(n.body) in self.made:
            return self.hoist(n)
        return None

    def test(self, condition: e.PrimExpr, then: Stmt) -> Stmt:
        made = IfThenElse(condition, then, None, getattr(then, "span", None))
        self.made.add(id(made))
        self.keep.append(made)  # an id is that of one object only while the object lives
        return made

    def hoist(self, n: For) -> Stmt | None:
        """The parts of the test that do not use the loop's variable, before the loop."""
        body: Any = n.body
        if n.kind is ForKind.THREAD_BINDING:
            return None
        parts = list(conjuncts(body.condition))
        inside = [c for c in parts if any(x is n.loop_var for x in walk(c))]
        outside = [c for c in parts if not any(c is i for i in inside)]
        if not outside:
            return None
        then = self.test(p.all_of(*inside), body.then_case) if inside else body.then_case
        return self.test(p.all_of(*outside), replace(n, body=then))


def _guarded(store: BufferStore, sums: bool) -> tuple[e.PrimExpr, Stmt] | None:
    """(condition, store without it) of a store that keeps its element where a condition fails."""
    value = store.value
    kinds = (e.Add, e.Max) if sums else (e.Max,)
    if store.predicate is not None or not isinstance(value, kinds):
        return None
    for mine, other, again in ((value.a, value.b, True), (value.b, value.a, False)):
        if not is_element(mine, store):
            continue
        found = _factor(other) if isinstance(value, e.Add) else _conditional(other, -math.inf)
        if found is None or not _is_plain(found[0]):
            return None
        sides = (mine, found[1]) if again else (found[1], mine)
        return found[0], replace(store, value=replace(value, a=sides[0], b=sides[1]))
    return None


def _factor(x: e.PrimExpr) -> tuple[e.PrimExpr, e.PrimExpr] | None:
    """(condition, x where it holds) of a product that is zero where a condition fails."""
    if isinstance(x, e.Mul):
        for name in ("a", "b"):
            found = _factor(getattr(x, name))
            if found is not None:
                return found[0], replace(x, **{name: found[1]})
        return None
    return _conditional(x, 0.0)


def _conditional(x: e.PrimExpr, otherwise: float) -> tuple[e.PrimExpr, e.PrimExpr] | None:
    if not isinstance(x, e.Call) or x.op != "tir.if_then_else":
        return None
    condition, chosen, other = x.args
    if not isinstance(other, e.FloatImm) or other.value != otherwise:
        return None
    return condition, chosen


def _is_plain(condition: e.PrimExpr) -> bool:
    """True for a condition that may be asked anywhere: it reads nothing and divides by numbers."""
    return not has_effect(condition) and not any(
        isinstance(n, BufferLoad) or (isinstance(n, DIVIDING) and not isinstance(n.b, e.IntImm))
        for n in walk(condition)
    )


class SkipPadding(PrimFuncPass):
    """Do not add what padding adds to a sum; test for it before the loops it does not depend on."""

    work = staticmethod(skip_padding)
