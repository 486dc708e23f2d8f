"""The questions that schedules ask, each with a bound on the work.

    why_not_equal(before, after)       None: proved equal; else why that could not be shown
    carried_by(func, loop, private)    None: proved independent; else two iterations that conflict

Dataflow is kept for the last few functions: a step starts from the program that the last one ended
with. Only the part that a step changed is asked about: fewer loops make the sets small.

    for i, j in T.grid(8, 8):               for i, j in T.grid(8, 8):
        for k in range(16):         ->          for k_0, k_1 in T.grid(4, 4):

Here the loops k are the part, for any i and j: if the parts compute the same, the functions do.

Two programs with the same blocks differ at the first read that sees another write; instances of a
block are told apart by the values of its axes, which most steps leave alone. Reads that a reduction
makes of its own result do not count.

    before   block B at v = 3 reads C[2], written by block C at v = 2
    after    ... it reads C[2] before block C at v = 2 writes it
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.isl import Undecided, image, smallest, target_name, within
from mlcnb.arith.presburger import NotAffine
from mlcnb.core.node import rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING
from mlcnb.tir.schedule.legality.polyhedral.carried import Conflict, Event, conflict
from mlcnb.tir.schedule.legality.polyhedral.equal import compare
from mlcnb.tir.schedule.legality.polyhedral.flow import Flow, Source
from mlcnb.tir.schedule.legality.polyhedral.instances import axes_of, repeats_differ
from mlcnb.tir.schedule.legality.polyhedral.program import Part, Statement

#: functions whose dataflow is kept, in each thread
KEPT = 4
#: answers about the same steps that are kept, in each thread
ALIKE = 16
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


def are_the_same_steps(before: PrimFunc, after: PrimFunc, operations: int) -> bool:
    """Whether `why_not_the_same_steps` finds nothing.

    It does not matter to values in which memory they lie: programs that differ in that alone are
    asked about once (what is legal at a block is tried in every scope).
    """
    if not hasattr(_local, "alike"):
        _local.alike = []
    plain = _in_one_memory(after)
    for func, other, bound, answer in _local.alike:
        if func is before and bound == operations and structural_equal(other, plain):
            return bool(answer)
    answer = why_not_the_same_steps(before, after, operations) is None
    _local.alike = [(before, plain, operations, answer), *_local.alike[: ALIKE - 1]]
    return answer


def _in_one_memory(func: PrimFunc) -> PrimFunc:
    """The function with what it allocates in global memory."""
    given = {b.data for b in func.buffers} | set(func.params)
    pointers: dict[e.Var, e.Var] = {}

    def rule(n: Any) -> Any:
        if not isinstance(n, e.Var) or n.pointee is None or n in given:
            return None
        return pointers.setdefault(n, e.Var(n.name, n.dtype, (n.pointee[0], "global")))

    return func.with_body(rewrite(func.body, rule))


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


@dataclass(frozen=True)
class Difference:
    """A write and the read that should see it, and what the read would see."""

    first: Event
    second: Event
    change: str


def difference(before: Flow, after: Flow) -> Difference | None:
    """The first read of `before` (in program order) that sees another write in `after`."""
    theirs = {_key(x): x for x in after.program.statements}
    for x in before.program.statements:
        y = theirs.get(_key(x))
        if y is None or x.block is None or len(x.loads) != len(y.loads):
            continue
        for (load, where), (other, _) in zip(x.loads, y.loads, strict=True):
            if load.buffer.name != other.buffer.name or _is_own(x, load):
                continue
            found = _compared(before, after, x, y, load, other, where)
            if found is not None:
                return found
    return None


def _key(x: Statement) -> tuple[Any, ...]:
    name = x.block.name_hint if x.block is not None else ""
    return name, x.is_init, len(x.place.axes), x.store.buffer.name


def _is_own(x: Statement, load: Any) -> bool:
    return x.update is not None and load.buffer is x.store.buffer


def _named(sources: list[Source], reader: Statement) -> Iterator[tuple[str, Source, Any]]:
    """Sources as maps from the reader's axes to the writer's axes."""
    for source in sources:
        if source.writer is None:
            yield "", source, axes_of(reader).reverse().apply_range(source.map)
        else:
            name = "/".join(map(str, _key(source.writer)))
            to = source.map.apply_range(axes_of(source.writer))
            yield name, source, axes_of(reader).reverse().apply_range(to)


def _compared(
    before: Flow, after: Flow, x: Statement, y: Statement, load: Any, other: Any, where: Any
) -> Difference | None:
    seen = list(_named(after.sources(y, other), y))
    for name, source, expected in _named(before.sources(x, load), x):
        if source.writer is None:
            continue
        missing = expected.intersect_domain(where.apply(axes_of(x)))
        for other_name, _, found in seen:
            if other_name == name:
                missing = missing.subtract(found)
        if missing.is_empty():
            continue
        pair = smallest(missing)
        instance = image(axes_of(x).reverse(), pair.parameters, pair.first)
        element = x.element(load.buffer, load.indices)
        at = image(element, pair.parameters, instance)[-len(load.buffer.shape) or None :]
        name = before.program.buffers.get(target_name(element), load.buffer).name
        write = Event(source.writer.label(), _at(source.writer, pair.second), True, name, at)
        read = Event(x.label(), _at(x, pair.first), False, name, at)
        point = ", ".join(map(str, pair.first))
        instead = _instead(after, seen, point)
        return Difference(write, read, f"after the step, {x.label()} would see {instead} there")
    return None


def _at(x: Statement, axes: tuple[int, ...]) -> dict[str, int]:
    """The values of the block's own axes."""
    names = [v.var.name for v in x.block.iter_vars] if x.block is not None else []
    return dict(zip(names, axes[len(axes) - len(names) :], strict=True))


def _instead(after: Flow, seen: list[tuple[str, Source, Any]], point: str) -> str:
    for _, source, found in seen:
        here = found.intersect_domain(after.program.set(f"[{point}]"))
        if here.is_empty():
            continue
        if source.writer is None:
            return "what was there before the call" if source.memory[0] == "P" else "no value yet"
        axes = smallest(here).second
        told = ", ".join(f"{k} = {v}" for k, v in _at(source.writer, axes).items())
        return f"what {source.writer.label()} wrote at {told}"
    return "no value yet"


def changed(before: PrimFunc, after: PrimFunc) -> tuple[Part, Part] | None:
    """The smallest parts in which two functions differ; None where they are the same."""
    x: s.Stmt = before.body
    y: s.Stmt = after.body
    if x is y:
        return None
    outer: list[s.Stmt] = []
    others: list[s.Stmt] = []
    while True:
        if _differ_in_marks(x, y):
            return None
        inner = _descend(x, y)
        if inner is None:
            break
        if isinstance(x, s.For | s.BlockRealize):
            outer.append(x)
            others.append(y)
        x, y = inner
    common = _allocated(outer) & _allocated(others)
    old = Part(before, x, tuple(outer), _allocated(outer) - common)
    new = Part(after, y, tuple(others), _allocated(others) - common)
    return old, new


def around(func: PrimFunc, loop: s.For) -> Part:
    """A loop as a part; buffers that only it uses are its own."""
    path = _path(func.body, loop) or []
    within = _used(loop)
    elsewhere = [n for n in path if isinstance(n, s.BlockRealize)]
    outer = tuple(n for n in path if isinstance(n, s.For | s.BlockRealize))
    own = {b for n in elsewhere for b in n.block.alloc_buffers if b in within}
    outside = _used(func.body, besides=loop)
    return Part(func, loop, outer, frozenset(own - outside))


def _descend(x: s.Stmt, y: s.Stmt) -> tuple[s.Stmt, s.Stmt] | None:
    """The statements inside both that differ, if all else is the same."""
    if isinstance(x, s.For) and isinstance(y, s.For):
        return (x.body, y.body) if _same_range(x, y) else None
    if isinstance(x, s.BlockRealize) and isinstance(y, s.BlockRealize):
        return (x.block.body, y.block.body) if _same_header(x, y) else None
    if isinstance(x, s.SeqStmt) or isinstance(y, s.SeqStmt):
        return _without_ends(x, y)
    return None


def _differ_in_marks(x: s.Stmt, y: s.Stmt) -> bool:
    """True for loops or blocks that hold the very same statements."""
    if isinstance(x, s.For) and isinstance(y, s.For):
        return x.body is y.body and _same_range(x, y)
    if isinstance(x, s.BlockRealize) and isinstance(y, s.BlockRealize):
        return x.block.body is y.block.body and _same_header(x, y)
    return False


def _same_range(x: s.For, y: s.For) -> bool:
    return x.loop_var is y.loop_var and _same(x.min, y.min) and _same(x.extent, y.extent)


def _same(a: e.PrimExpr, b: e.PrimExpr) -> bool:
    return a is b or (p.as_int(a) is not None and p.as_int(a) == p.as_int(b))


def _same_header(x: s.BlockRealize, y: s.BlockRealize) -> bool:
    a, b = x.block, y.block
    axes = zip(a.iter_vars, b.iter_vars, strict=False)
    values = zip(x.iter_values, y.iter_values, strict=False)
    return (
        len(a.iter_vars) == len(b.iter_vars)
        and all(v is w for v, w in axes)
        and all(_same(v, w) for v, w in values)
        and _same(x.predicate, y.predicate)
        and a.init is b.init
        and a.match_buffers == b.match_buffers
    )


def _without_ends(x: s.Stmt, y: s.Stmt) -> tuple[s.Stmt, s.Stmt] | None:
    """Two sequences without what they begin and end with in common; None where that is nothing."""
    xs = x.seq if isinstance(x, s.SeqStmt) else (x,)
    ys = y.seq if isinstance(y, s.SeqStmt) else (y,)
    shorter = min(len(xs), len(ys))
    first = next((n for n in range(shorter) if xs[n] is not ys[n]), shorter)
    rest = shorter - first
    last = next((n for n in range(rest) if xs[-1 - n] is not ys[-1 - n]), rest)
    if first + last == 0:
        return None
    return _joined(xs[first : len(xs) - last]), _joined(ys[first : len(ys) - last])


def _joined(items: tuple[s.Stmt, ...]) -> s.Stmt:
    return s.seq(*items) if items else NOTHING


def _allocated(around: list[s.Stmt]) -> frozenset[Buffer]:
    return frozenset(
        b for n in around if isinstance(n, s.BlockRealize) for b in n.block.alloc_buffers
    )


def _path(n: s.Stmt, target: s.Stmt) -> list[s.Stmt] | None:
    """The statements from `n` down to what `target` stands in."""
    from mlcnb.tir.schedule.record.tree import sub_stmts

    if n is target:
        return []
    for child in sub_stmts(n):
        found = _path(child, target)
        if found is not None:
            return [n, *found]
    return None


def _used(n: s.Stmt, besides: s.Stmt | None = None) -> set[Buffer]:
    """The buffers that stores and loads in a statement touch, those inside `besides` left out."""
    skipped = set(walk(besides)) if besides is not None else set()
    return {
        x.buffer for x in walk(n) if isinstance(x, s.BufferStore | BufferLoad) and x not in skipped
    }
