"""Do all who store in an element store the same? Then it does not matter who comes first.

for i in T.parallel(8):
    for j in range(4):
        B[j] = A[j] * 2         every round stores A[j] * 2 in B[j]
    for j in range(4):
        C[i, j] = B[j] + i      no round reads an element before it has stored it itself

Of one store `decides` says what its value follows from. `filled_alike` finds memory whose elements
have one value from the first time on, whoever stores them and how often, and that every round reads
after it has stored it itself: rounds that do the work of others do not race.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.atoms import variables_of
from mlcnb.arith.isl import ask
from mlcnb.arith.presburger import Translator
from mlcnb.core.node import Node, visit, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.depend import order_of, same_shape
from mlcnb.tir.access.relation import Related, Relations
from mlcnb.tir.access.scope import Access
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.analysis.kernels import SHARED_SCOPES
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import substitute


def decides(node: Any) -> tuple[list[PrimExpr], bool]:
    """What the value of a store depends on, as integers; False: on more than that.

    Memory is taken to be as it was: who changes it meanwhile races with who reads it.
    """
    if isinstance(node, e.Call):
        return _decides_copied(node)
    if not isinstance(node, s.BufferStore):
        return [], True  # what threads combine is the same for all of them
    found: list[PrimExpr] = []
    unknown: list[Node] = []

    def enter(n: Node) -> bool:
        if _is_linear(n):
            found.append(n)  # type: ignore[arg-type]
            return False
        if isinstance(n, BufferLoad):
            found.extend(n.indices)
            unknown.extend([n] if n.buffer.scope not in ("global", *SHARED_SCOPES) else [])
            return False
        if isinstance(n, Var):
            (found if n.dtype.is_integer else unknown).append(n)
        elif isinstance(n, e.Call) and ("shuffle" in str(n.op) or "extern" in str(n.op)):
            unknown.append(n)
        return True

    visit(node.value, enter)
    return found, not unknown


def _is_linear(n: Node) -> bool:
    """True for an integer of which isl knows all: `t // 4` is the same for more than `t` is."""
    if not isinstance(n, PrimExpr) or isinstance(n, Var) or n.dtype not in ("int32", "int64"):
        return False
    text = Translator({v: v.name for v in variables_of(n)})
    text.value(n)
    return text.exact


def leaves_the_same(value: PrimExpr, *places: Mapping[Var, int]) -> bool:
    """True if a value that is stored is one number, whatever it follows from, at each place."""
    analyzer, found = Analyzer(), []
    for place in places:
        numbers = {v: p.const(n, v.dtype) for v, n in place.items()}
        found.append(analyzer.simplify(substitute(value, numbers)))
    literals = [x.value for x in found if isinstance(x, e.IntImm | e.FloatImm)]
    return len(literals) == len(found) and len({*literals}) == 1


def _decides_copied(n: e.Call) -> tuple[list[PrimExpr], bool]:
    """Of an asynchronous copy: how far its source lies from its target. Of others not known."""
    if n.op != "tir.ptx_cp_async":
        return [], False
    _, at, _, start, _, *holds = n.args
    return [start - at, *holds], True


def filled_alike(relations: Relations, loop: s.For) -> set[Var]:
    """The memory that rounds of a loop fill alike, by its pointer."""
    reading = relations.reading
    touched: dict[Var, list[Access]] = {}
    for access in reading.accesses:
        if loop in access.loops:
            touched.setdefault(reading.pointer(access.buffer.data), []).append(access)
    open_ones = {data for data, found in touched.items() if any(x.is_write for x in found)}
    found: set[Var] = set()
    while True:
        more = {
            data
            for data in open_ones
            if not open_ones & _sources(relations, touched[data])
            and _is_filled_alike(relations, touched[data], loop)
        }
        if not more:
            return found
        found |= more
        open_ones -= more


def _sources(relations: Relations, accesses: Sequence[Access]) -> set[Var]:
    """The memory that stored values are computed from."""
    loads = (n for x in accesses if x.is_write for n in walk(x.node) if isinstance(n, BufferLoad))
    return {relations.reading.pointer(n.buffer.data) for n in loads}


def _is_filled_alike(relations: Relations, accesses: Sequence[Access], loop: s.For) -> bool:
    first = accesses[0].buffer
    if not all(x.indices is not None and same_shape(x.buffer, first) for x in accesses):
        return False
    writes = [x for x in accesses if x.is_write]
    if not all(isinstance(x.node, s.BufferStore) and _has_one_value(relations, x, loop)
               for x in writes):  # fmt: skip
        return False
    stored = [relations.related(x) for x in writes]
    reads = [relations.related(x) for x in accesses if not x.is_write]
    return all(_are_apart(a, b) for a, b in combinations(stored, 2)) and all(
        _is_stored_before(stored, x, loop) for x in reads
    )


def _has_one_value(relations: Relations, store: Access, loop: s.For) -> bool:
    """True if what is stored follows from where, in one run of the loop."""
    parts, sure = decides(store.node)
    if not sure or has_effect(store.node.value):
        return False
    outside = [x.loop_var for x in store.loops[: store.loops.index(loop)] if isinstance(x, s.For)]
    if len(outside) < store.loops.index(loop):
        return False
    place, value = (
        relations.related(replace(store, indices=tuple(x)))
        for x in ((*outside, *store.indices), parts)  # type: ignore[misc]
    )
    return (
        ask(lambda: place.relation.reverse().apply_range(value.relation).is_single_valued()) is True
    )


def _are_apart(a: Related, b: Related) -> bool:
    """True if two stores never store the same element."""
    return ask(lambda: a.relation.range().is_disjoint(b.relation.range())) is True


def _is_stored_before(stored: Sequence[Related], read: Related, loop: s.For) -> bool:
    """True if a round has stored each element before it reads it, of those that are stored."""
    made = [(x, level) for x in stored if x.exact for level in _levels(x, read, loop)]

    def is_stored() -> bool:
        elements = reduce(lambda a, b: a.union(b), (x.relation.range() for x in stored))
        needed = read.relation.intersect_range(elements).wrap()
        for store, level in made:
            counts = len(store.loops), len(read.loops), store.common_loops(read)
            order = order_of(*counts, level).align_params(needed.get_space())
            needed = needed.subtract(order.range_product(store.relation).range())
        return bool(needed.is_empty())

    return ask(is_stored) is True


def _levels(store: Related, read: Related, loop: s.For) -> list[int | None]:
    """The loops in a round of which the store may be in an earlier iteration; None: in the same."""
    inner: list[int | None] = list(range(store.loops.index(loop) + 1, store.common_loops(read)))
    return [*inner, None] if store.is_before(read) else inner
