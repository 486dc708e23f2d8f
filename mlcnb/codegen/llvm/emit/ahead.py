"""Divisions by sizes that only a run knows, done once before the loops that use them.

for y_x in …:                           for y_x in …:
    for c in …:                             q = y_x // w
        … A[y_x // w, y_x % w, c]   ->      for c in …:
                                                … A[q, y_x - q * w, c]

LLVM leaves such a division where it stands, behind the test of its divisor, and it takes as long as
some twenty multiply-adds. Here it is done where its last variable becomes known; what is divided by
zero there stops the kernel only where the program divides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.codegen.llvm.emit.index import DIVISIONS, division_key, index, nonnegative
from mlcnb.core.node import walk
from mlcnb.core.shared import distinct
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.functor import bound

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter


def divides_by_sizes(body: s.Stmt) -> bool:
    """Whether anything in it is divided by what is no constant."""
    return any(isinstance(n, DIVISIONS) and not isinstance(n.b, e.IntImm) for n in distinct(body))


def loop_body(em: Emitter, body: s.Stmt) -> None:
    """Emit the body of a loop; what can be is divided first, for as long as that takes."""
    f, before = em.f, em.f.divided
    if em.divides_by_sizes:
        f.divided = dict(before)
        inside = {v for n in walk(body) for v in bound(n)}
        f.is_ahead = True
        for x in walk(body):  # the parts of an expression come before it
            if isinstance(x, DIVISIONS) and _is_ready(em, x, inside):
                found = division_key(x)
                f.divided[found] = f.divided.get(found) or index(em, x)
        f.is_ahead = False
    em.stmt(body)
    f.divided = before


def _is_ready(em: Emitter, x: e.FloorDiv | e.FloorMod, inside: set[e.Var]) -> bool:
    """Whether all of a division is known, and nothing but zero can stop it."""
    if isinstance(x.b, e.IntImm) or division_key(x) is None:
        return False
    parts = list(walk(x))
    known = all(
        v in em.f.env and em.f.env[v][1] and v not in inside for v in parts if isinstance(v, e.Var)
    )
    return known and all(_fits(em, n) for n in parts if isinstance(n, DIVISIONS))


def _fits(em: Emitter, x: e.FloorDiv | e.FloorMod) -> bool:
    """Whether a division has a result but by zero: the least number by -1 has none."""
    by_number = isinstance(x.b, e.IntImm) and x.b.value != -1
    return by_number or x.dtype.bits < 64 or isinstance(x.a, e.FloorMod) or nonnegative(em, x.a)
