"""Dependences: which accesses of a loop program touch one element, one of them writing it.

for i in range(1, 8):
    A[i] = A[i - 1] + B[i]       RAW of A, carried by loop i, distance (1), direction (<)

    RAW   read after write: the value flows      WAR   write after read      WAW   write after write

A dependence is carried by the outermost loop in which source and target differ; one in the same
iteration of all common loops is carried by none. Directions: `<` the target runs in a later
iteration, `=` in the same, `>` in an earlier one, `*` in any. Found by isl: exact where accesses
are linear; else too many are reported, never too few, and such a one is not `exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from itertools import product
from typing import Any

from mlcnb.arith import isl
from mlcnb.arith.isl import ask, first_point
from mlcnb.core.errors import MLCError
from mlcnb.core.groups import grouped
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.relation import Related, accesses_of
from mlcnb.tir.access.scope import Loop, loop_name
from mlcnb.tir.analysis.reduction import updated_by
from mlcnb.tir.analysis.solutions import iteration_of
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc

#: iteration of the loops around an access: name -> value
Iteration = dict[str, int]


class DepKind(IntEnum):
    """What kind of dependence, with TVM's numbers."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


@dataclass(frozen=True, slots=True, eq=False)
class LoopDependence:
    """`target` must stay after `source`.

    Args:
        kind: RAW, WAW or WAR.
        source: the access that comes first.
        target: the access that comes after it.
        loops: the loops around both, outermost first.
        carried_by: the outermost loop in which they differ; None for the same iteration.
        distance: for each loop how many iterations lie between them; None where that varies.
        direction: for each loop `<`, `=`, `>` or `*`.
        nearest: the lexicographically smallest distance.
        example: one iteration of the source and one of the target that touch the same element.
        is_reduction: both belong to one update `B = B + x`, whose steps may run in any order.
        exact: there are such iterations; False: there may be.
    """

    kind: DepKind
    source: Related
    target: Related
    loops: tuple[Loop, ...]
    carried_by: Loop | None
    distance: tuple[int | None, ...]
    direction: tuple[str, ...]
    nearest: tuple[int, ...]
    example: tuple[Iteration, Iteration]
    is_reduction: bool
    exact: bool
    relation: Any = field(repr=False)

    @property
    def buffer(self) -> Buffer:
        """The buffer that both touch."""
        return self.source.buffer

    def __str__(self) -> str:
        vector = ", ".join("*" if d is None else str(d) for d in self.distance)
        by = f"carried by loop {loop_name(self.carried_by)}" if self.carried_by else "not carried"
        ends = " -> ".join(map(place_of, (self.source, self.target)))
        words = [f"{self.kind.name} of {self.buffer.name}, {ends}: {by}"]
        words += [f"distance ({vector})", f"direction ({', '.join(self.direction)})"]
        words += ["a reduction"] * self.is_reduction + ["may be"] * (not self.exact)
        return ", ".join(words)

    __repr__ = __str__


def place_of(access: Related) -> str:
    """The block that an access stands in."""
    block = access.block
    return block.name_hint or "(unnamed)" if block is not None else "root"


def loop_dependences(func: PrimFunc, buffer: Buffer | None = None) -> list[LoopDependence]:
    """All dependences of a function, in the order of their sources; of one buffer if it is given.

    For two accesses there is one dependence for each loop that carries it.
    """
    found: list[LoopDependence] = []
    for source, target in _pairs(accesses_of(func), buffer):
        for level in _levels(source, target):
            made = _dependence(source, target, level)
            if made is not None:
                found.append(made)
    return found


def carried_dependences(func: PrimFunc, loop: Any) -> list[LoopDependence]:
    """The dependences that a loop carries: none means that its iterations may run in any order.

    Args:
        func: the function.
        loop: the loop, its variable, or the name of that.

    Raises:
        MLCError: there is no such loop.
    """
    known = {x for access in accesses_of(func) for x in access.loops}
    wanted = {
        x
        for x in known
        if x is loop or loop_name(x) == loop or (isinstance(x, s.For) and x.loop_var is loop)
    }
    if not wanted:
        names = ", ".join(sorted({loop_name(x) for x in known}))
        raise MLCError(f"no loop {_told(loop)} touches memory", hint=f"the loops are {names}")
    return [d for d in loop_dependences(func) if d.carried_by in wanted]


def _told(loop: Any) -> str:
    if isinstance(loop, s.For):
        return loop.loop_var.name
    return loop.name if isinstance(loop, e.Var) else str(loop)


def _pairs(
    accesses: list[Related], buffer: Buffer | None = None
) -> Iterator[tuple[Related, Related]]:
    """Relatedes of one memory, at least one of which writes; both orders."""
    wanted = (a for a in accesses if buffer is None or a.buffer.data is buffer.data)
    for group in grouped((a.buffer.data, a) for a in wanted).values():
        for source in group:
            for target in group:
                if source.is_write or target.is_write:
                    yield source, target


def _levels(source: Related, target: Related) -> Iterator[int | None]:
    """The loops that may carry a dependence, outermost first; None: the same iteration."""
    yield from range(source.common_loops(target))
    if source is not target and source.is_before(target):
        yield None


def _dependence(source: Related, target: Related, level: int | None) -> LoopDependence | None:
    relation = ask(lambda: related(source, target, level))
    if relation is not None and ask(relation.is_empty):
        return None
    count = source.common_loops(target)
    loops = source.loops[:count]
    comparable = same_shape(source.buffer, target.buffer)
    spans = [(-1, 1)] * count if relation is None else _spans(relation, count)
    return LoopDependence(
        kind_of(source, target),
        source,
        target,
        loops,
        None if level is None else loops[level],
        tuple(low if low == high else None for low, high in spans),
        tuple(_direction(low, high) for low, high in spans),
        () if relation is None else _nearest(relation, count),
        ({}, {}) if relation is None else example_of(relation, source, target),
        updated_by(source, target),
        relation is not None and source.exact and target.exact and comparable,
        relation,
    )


def related(source: Related, target: Related, level: int | None) -> Any:
    """The pairs of iterations that touch one element, the source's first by that loop."""
    if same_shape(source.buffer, target.buffer):
        pairs = source.relation.apply_range(target.relation.reverse())
    else:  # two views of one memory: nothing is known
        pairs = isl.all_pairs(source.domain, target.domain)
    order = order_of(len(source.loops), len(target.loops), source.common_loops(target), level)
    return pairs.intersect(order.align_params(pairs.get_space()))


def has_none(source: Related, target: Related, level: int | None) -> bool:
    """True if there are no such pairs."""
    return related(source, target, level).is_empty()


def never_meet(accesses: Sequence[Related], loop: s.For) -> bool:
    """True if no two iterations of a loop around some accesses of one memory touch one element."""
    if any(loop not in access.loops for access in accesses):
        return False
    pairs = product(accesses, accesses)
    return all(ask(partial(has_none, a, b, a.loops.index(loop))) is True for a, b in pairs)


def same_shape(a: Buffer, b: Buffer) -> bool:
    """True if equal indices of two views of one memory are the same element."""
    if a is b:
        return not _may_overlap(a)
    layouts = [(x.shape, x.strides, (x.elem_offset,)) for x in (a, b)]
    return all(map(_same_numbers, *layouts)) and a.dtype == b.dtype


def _may_overlap(buffer: Buffer) -> bool:
    """True if strides, all of them numbers, may give two indices one element."""
    steps = [p.as_int(x) for x in buffer.strides]
    sizes = [p.as_int(x) for x in buffer.shape]
    reach = 0
    for step, size in sorted(zip(steps, sizes, strict=False), key=lambda x: x[0] or 0):
        if step == 0 and size != 1:
            return True
        if step is None or size is None:
            return False
        if size > 1 and step <= reach:
            return True
        reach += step * (size - 1)
    return False


def _same_numbers(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(
        x is y or (isinstance(x, e.IntImm) and isinstance(y, e.IntImm) and x.value == y.value)
        for x, y in zip(a, b, strict=True)
    )


def order_of(
    sources: int, targets: int, common: int, level: int | None, free: Collection[int] = ()
) -> Any:
    """{ [i0, i1] -> [j0, j1] : i0 = j0 and i1 < j1 } for level 1; loops in `free` may differ."""
    last = common if level is None else level
    conditions = [f"i{n} = j{n}" for n in range(last) if n not in free]
    conditions += [f"i{level} < j{level}"] if level is not None else []
    first = ", ".join(f"i{n}" for n in range(sources))
    second = ", ".join(f"j{n}" for n in range(targets))
    text = f"{{ [{first}] -> [{second}] : {' and '.join(conditions) or '0 = 0'} }}"
    return isl.read_map(text)


def kind_of(source: Related, target: Related) -> DepKind:
    """The kind of a dependence between two accesses."""
    if source.is_write:
        return DepKind.WAW if target.is_write else DepKind.RAW
    return DepKind.WAR


def _spans(relation: Any, count: int) -> list[tuple[int | None, int | None]]:
    """Smallest and largest distance in each loop; None where there is no end."""
    deltas = ask(lambda: isl.distances(relation, count))
    if deltas is None:
        return [(None, None)] * count
    ends = (partial(deltas.dim_min_val, n) for n in range(count))
    others = (partial(deltas.dim_max_val, n) for n in range(count))
    return [(_number(low), _number(high)) for low, high in zip(ends, others, strict=True)]


def _number(question: Callable[[], Any]) -> int | None:
    value = ask(question)
    return int(value.to_python()) if value is not None and value.is_int() else None


def _direction(low: int | None, high: int | None) -> str:
    if low is not None and low > 0:
        return "<"
    if high is not None and high < 0:
        return ">"
    return "=" if low == high == 0 else "*"


def _nearest(relation: Any, count: int) -> tuple[int, ...]:
    deltas = ask(lambda: isl.distances(relation, count))
    point = None if deltas is None else first_point(deltas)
    return () if point is None else point.values


def example_of(relation: Any, source: Related, target: Related) -> tuple[Iteration, Iteration]:
    """The first pair of iterations, by the source's loops and then the target's."""
    point = first_point(relation.wrap())
    values = () if point is None else point.values
    count = len(source.loops)
    return iteration_of(source.loops, values[:count]), iteration_of(target.loops, values[count:])
