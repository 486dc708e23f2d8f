"""Rounds of parallel loops that race, found without running them.

for i in T.parallel(8):
    B[0] = B[0] + A[i]        refused: round i = 1 reads B[0], which round i = 0 writes
    B[i] = B[i] + A[i]        rounds touch elements of their own
    B[I[i]] = A[i]            not known: the rounds run one after the other

Two rounds race where they touch one element and one of them writes it; rounds that store the same
by the same statement do not, as in the interpreter (`mlcnb.codegen.interp.parallel`), which finds
by running what this finds by asking. Three ask, each sure when it says yes: the look of the
indices, the rules of schedules, and isl.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.atoms import variables_of
from mlcnb.arith.isl import ask, first_point
from mlcnb.codegen.alike import decides, filled_alike, leaves_the_same
from mlcnb.codegen.interp.parallel import is_apart, stored_in
from mlcnb.codegen.interp.told import ROUNDS, race_error
from mlcnb.core.errors import DataRaceError, MLCError, WellFormedError
from mlcnb.core.node import replace, rewrite, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.depend import related, same_shape
from mlcnb.tir.access.relation import Related, Relations
from mlcnb.tir.analysis.carried import ORDERED
from mlcnb.tir.analysis.well_formed import verify_well_formed
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies, substitute
from mlcnb.tir.schedule.legality.dependence import why_marks_break
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.transform.plan_buffer_allocation import plan_buffer_allocation

#: accesses in a loop of which isl is asked, pair by pair
FEW = 24


def ordered(func: PrimFunc, bounds: str) -> PrimFunc:
    """The function as its rounds may run: parallel loops of which nothing is proved are serial.

    Args:
        func: a function in block form, or lowered to any stage.
        bounds: "prove" refuses what is not proved, "check" lets its rounds run in order, "trust"
            looks at nothing.

    Raises:
        DataRaceError: two rounds that touch one element, and the statements that do it.
        WellFormedError: with "prove", a loop that is not proved to be free of races.
    """
    loops = list(_parallel(func.body))
    if bounds == "trust" or not loops:
        return func
    planned = _planned(func)
    serial: dict[Any, Any] = {}
    for loop, its in zip(loops, _parallel(planned.body), strict=True):
        if is_apart(its) or _is_allowed(func, loop) or _is_proved(planned, its):
            continue
        if bounds == "prove":
            raise WellFormedError(
                f"rounds of the parallel loop {loop.loop_var.name} are not proved to touch "
                "elements of their own",
                where=loop,
                root=func,
                hint='make the loop serial, or compile with bounds="check": its rounds then run '
                "one after the other",
            )
        serial[loop] = replace(loop, kind=s.ForKind.SERIAL)
    return func.with_body(rewrite(func.body, lambda n: None, serial.get)) if serial else func


def _parallel(n: s.Stmt) -> Iterator[s.For]:
    """The parallel loops that threads share: those in no other one, of more than one round."""
    if isinstance(n, s.For) and n.kind is s.ForKind.PARALLEL and p.as_int(n.extent) != 1:
        yield n
        return
    for inner in bodies(n):
        yield from _parallel(inner)


def _planned(func: PrimFunc) -> PrimFunc:
    """The function with what each round fills before it reads in the round, as lowering has it."""
    try:
        return plan_buffer_allocation(func, (*ORDERED, s.ForKind.PARALLEL))
    except MLCError:
        return func


def _is_allowed(func: PrimFunc, loop: s.For) -> bool:
    """True if a schedule would allow the loop; it looks at blocks, and at what they say."""
    if not all(_in_blocks(x) for x in bodies(loop)):
        return False
    try:
        verify_well_formed(func)
        return why_marks_break(Tree(func), [loop]) is None
    except MLCError:
        return False


def _in_blocks(n: s.Stmt) -> bool:
    """True if all that a statement does to memory stands in blocks."""
    if isinstance(n, s.BlockRealize):
        return True
    if isinstance(n, s.BufferStore | s.Evaluate):
        return False
    return all(map(_in_blocks, bodies(n)))


def _is_proved(func: PrimFunc, loop: s.For) -> bool:
    """True if isl finds no two rounds that touch one element.

    Raises:
        DataRaceError: two rounds that race.
    """
    relations = Relations.of(func)
    stored = set(stored_in(loop)) - filled_alike(relations, loop)
    found = [
        relations.related(x)
        for x in relations.reading.accesses
        if loop in x.loops and relations.reading.pointer(x.buffer.data) in stored
    ]
    unknown = len(found) > FEW
    for source, target in product(found, found) if not unknown else ():
        if source.buffer.data is not target.buffer.data or not (source.is_write or target.is_write):
            continue
        if source.is_atomic and target.is_atomic:
            continue
        level = source.loops.index(loop)
        pairs = ask(lambda: related(source, target, level))  # noqa: B023
        if pairs is not None and ask(pairs.is_empty):
            continue
        race = None if pairs is None else _race(func, loop, source, target, pairs)
        if race is not None:
            raise race
        unknown = True
    return not unknown


def _race(
    func: PrimFunc, loop: s.For, source: Related, target: Related, pairs: Any
) -> DataRaceError | None:
    """The first two rounds that surely race; None if these may do the same."""
    point = first_point(pairs.wrap())
    if point is None or not (source.exact and target.exact) or source.indices is None:
        return None
    if not same_shape(source.buffer, target.buffer):
        return None
    count = len(source.loops)
    one, two = point.values[:count], point.values[count:]
    if not _differ(source, one, target, two, loop):
        return None
    where = (source, one), (target, two)
    rounds = [at[x.loops.index(loop)] for x, at in where]
    name = loop.loop_var.name
    events = [
        (f"round ({name} = {at})", {name: at}, x.is_write, x.stmt or loop)
        for (x, _), at in zip(where, rounds, strict=True)
    ]
    index = _numbers(source.indices, source, one) or ()
    error = race_error(source.buffer.name, index, source.buffer.scope, events, ROUNDS)
    error.root = func
    return error


def _differ(
    source: Related, one: Sequence[int], target: Related, two: Sequence[int], loop: s.For
) -> bool:
    """True unless what two accesses do to one element may be the same whoever comes first."""
    writes = [(x, at) for x, at in ((source, one), (target, two)) if x.is_write]
    parts, sure = decides(writes[0][0].node)
    if len(writes) == 2 and source.stmt is target.stmt:
        values = [_numbers(parts, x, at) for x, at in writes]
        if not sure or None in values or values[0] == values[1]:
            return False
        if not isinstance(source.node, s.BufferStore):
            return True
        stored = _outside(source.node.value, source)
        return not leaves_the_same(stored, *(_places(x, at) for x, at in writes))
    if len(writes) == 2:
        return True
    node = writes[0][0].node
    if not isinstance(node, s.BufferStore):
        return writes[0][0].is_atomic
    inside = {x.loop_var for x in writes[0][0].loops if isinstance(x, s.For)}
    varies = any(inside & variables_of(_outside(part, writes[0][0])) for part in parts)
    return varies or any(isinstance(n, BufferLoad) for n in walk(node.value))


def _outside(x: PrimExpr, access: Related) -> PrimExpr:
    """An expression without axes of blocks and names of lets."""
    for var, value in reversed(access.scope.values):
        x = substitute(x, {var: value})
    return x


def _numbers(
    parts: Sequence[PrimExpr], access: Related, at: Sequence[int]
) -> tuple[int, ...] | None:
    """The values of integers in an iteration of the loops around an access."""
    places = _places(access, at)
    if len(places) < len(access.loops):
        return None
    here = {v: p.const(n, v.dtype) for v, n in places.items()}
    analyzer = Analyzer()
    found = [
        p.as_int(analyzer.simplify(substitute(_outside(part, access), here))) for part in parts
    ]
    return None if None in found else tuple(x for x in found if x is not None)


def _places(access: Related, at: Sequence[int]) -> dict[Var, int]:
    """The variables of the loops around an access, in one iteration."""
    loops = [x for x in access.loops if isinstance(x, s.For)]
    return {x.loop_var: n for x, n in zip(loops, at, strict=False)}
