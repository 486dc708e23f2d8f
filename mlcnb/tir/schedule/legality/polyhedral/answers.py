"""The questions that schedules ask, each with a bound on the work.

    why_not_equal(before, after)       None: proved equal; else why that could not be shown
    carried_by(func, loop, private)    None: proved independent; else two iterations that conflict

Dataflow is kept for the last few functions: a step starts from the program that the last one ended
with.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from mlcnb.arith.isl import Undecided, within
from mlcnb.arith.presburger import NotAffine
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.polyhedral.carried import Conflict, conflict
from mlcnb.tir.schedule.legality.polyhedral.difference import Difference, difference
from mlcnb.tir.schedule.legality.polyhedral.equal import compare
from mlcnb.tir.schedule.legality.polyhedral.flow import Flow
from mlcnb.tir.schedule.legality.polyhedral.instances import repeats_differ
from mlcnb.tir.schedule.legality.polyhedral.parts import around, changed
from mlcnb.tir.schedule.legality.polyhedral.program import Part

#: functions whose dataflow is kept, in each thread
KEPT = 4
_local = threading.local()


def flow_of(func: PrimFunc) -> Flow:
    """The dataflow of a function.

    Raises:
        NotAffine: it is not affine.
    """
    if not hasattr(_local, "known"):
        _local.known = OrderedDict()
    known: OrderedDict[PrimFunc, Flow | NotAffine] = _local.known
    if func not in known:
        try:
            known[func] = Flow(Part.whole(func))
        except NotAffine as error:
            known[func] = error
        while len(known) > KEPT:
            known.popitem(last=False)
    known.move_to_end(func)
    found = known[func]
    if isinstance(found, NotAffine):
        raise found
    return found


def why_not_equal(before: PrimFunc, after: PrimFunc, operations: int) -> str | None:
    """None if two functions surely compute the same from the same inputs; else the reason.

    The part that a step changed is looked at alone first: if that computes the same, so does all.
    """
    parts = changed(before, after)
    if parts is None:
        return None
    if parts[0].around and _why(Flow, *parts, operations) is None:
        return None
    whole = Part.whole(before), Part.whole(after)
    return _why(lambda part: flow_of(part.func), *whole, operations)


def why_not_the_same_steps(before: PrimFunc, after: PrimFunc, operations: int) -> str | None:
    """As `why_not_equal`; and each instance of a block computes one thing, if it runs twice too."""
    try:
        with within(operations):
            found = repeats_differ(flow_of(after))
    except Undecided as error:
        return str(error)
    if found is not None:
        return f"{found.label()} would run repeatedly and compute different values"
    return why_not_equal(before, after, operations)


def _why(flow: Callable[[Part], Flow], before: Part, after: Part, operations: int) -> str | None:
    try:
        with within(operations):
            compare(flow(before), flow(after))
    except Undecided as error:
        return str(error)
    return None


def carried_by(
    func: PrimFunc, loop: s.For, private: bool, operations: int, threads: bool = False
) -> Conflict | None:
    """Two iterations of a loop that must stay in order; None if there surely are none.

    threads: whether they are threads of a block, for which shared memory is one.

    Raises:
        Undecided: the function is not affine, or it would take too long.
    """
    with within(operations):
        return conflict(Flow(around(func, loop)), loop, private, threads)


def first_difference(before: PrimFunc, after: PrimFunc, operations: int) -> Difference | None:
    """The first read that sees another write in `after`; None where there is none, or it is not
    found.
    """
    try:
        with within(operations):
            return difference(flow_of(before), flow_of(after))
    except Undecided:
        return None
