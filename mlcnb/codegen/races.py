"""Races and missing barriers of a function on threads, found without running it.

    found = races(func)
    found[0].index, found[0].threads      (0,), ({"threadIdx.x": 0}, {"threadIdx.x": 1})
    found[0].proved                       True: they do race; False: it is not proved that not
    found[0].interleaving                 an order in which the two go wrong, step by step

Two accesses of one element by different threads, one of them a write, race unless a barrier stands
between them; threads of different blocks wait for nothing. Decided exactly (isl) where indices and
conditions are linear in threads and loops; elsewhere a race that is not excluded is told as such.
Asynchronous copies that are used before their thread has waited for them are told too (`arrivals`).
Atomic updates (`tir.atomic_add`) do not race with each other, but with all else. What phases of
barriers (`mbarrier`) order does not race, if that is proved (`mlcnb.tir.access.phases`); where they
may order it, no race is proved.
Threads that do the same statement and store the same value do not race, as in the interpreter
(`mlcnb.codegen.interp.agents`), which finds by running what this finds by asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from mlcnb.arith.isl import library
from mlcnb.codegen.alike import decides, leaves_the_same
from mlcnb.codegen.arrivals import Arrivals
from mlcnb.codegen.interp.launching import on_racing_threads, on_threads, runs_on_threads
from mlcnb.codegen.interp.told import race_error, remedy, text_of
from mlcnb.core import display
from mlcnb.core.errors import DataRaceError, PassError
from mlcnb.core.node import Node, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.script.printer import document
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import Access, Under
from mlcnb.tir.access.threads import Meeting, Pending
from mlcnb.tir.analysis.bulk import CREATE
from mlcnb.tir.analysis.kernels import SHARED_SCOPES, Launch, kernels_in, launch_of
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.inject_virtual_thread import inject_virtual_thread
from mlcnb.tir.transform.thread_sync import Planner, Waiting, is_call

#: what to do about threads that race in one statement, where no barrier helps
_OF_ONE_STATEMENT = (
    "no barrier orders threads within one statement: give each thread an element of its own, or "
    "write a reduction block whose loop is bound to the threads"
)
#: and about a copy that is used before it has certainly arrived
_OF_A_COPY = (
    "wait for it first: T.ptx_wait_group(n) leaves the last n groups on their way, so take a "
    "smaller n, and a barrier after it"
)
#: a thread's axes in words -> its number there
Axes = dict[str, int]


@dataclass(frozen=True, eq=False)
class Step:
    """What one thread does to the element: `who` 0 or 1, the statement, its line in the program."""

    who: int
    verb: str
    site: s.Stmt
    line: int


@dataclass(frozen=True, eq=False, repr=False)
class Race(display.Shown):
    """Two threads at one element, and nothing that orders them.

    Attributes:
        program: the function as its threads run it, which the lines are of.
        buffer, scope: the name of what they touch, "shared" or "global".
        index: the element; () where that is not known.
        threads: the two, by axis.
        loops: of each the values of the loops around its statement.
        accesses: of each "read" or "write", and the statement.
        proved: they do meet, for some sizes; False: it is not proved that they do not.
        same_block: a barrier could order them; threads of different blocks it cannot.
        late: the first is an asynchronous copy that has not certainly arrived.
    """

    program: PrimFunc = field(repr=False)
    buffer: str
    scope: str
    index: tuple[int, ...]
    threads: tuple[Axes, Axes]
    loops: tuple[Axes, Axes]
    accesses: tuple[tuple[str, s.Stmt], tuple[str, s.Stmt]]
    proved: bool
    same_block: bool
    late: bool = False

    @property
    def element(self) -> str:
        """`B[0]`, or `B[?]` where the element is not known."""
        return f"{self.buffer}[{', '.join(map(str, self.index)) or '?'}]"

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self.late:
            return _OF_A_COPY
        if not self.proved:
            return "an index or a condition is read from memory, or is not linear: run it by interp"
        if self.kind == "race" and self.same_block and self.scope in SHARED_SCOPES:
            return _OF_ONE_STATEMENT
        return remedy(self.scope, self.same_block)

    @property
    def kind(self) -> str:
        """`missing wait` for a copy, `missing barrier` where one would order the two, or `race`."""
        if self.late:
            return "missing wait"
        is_order = self.scope in SHARED_SCOPES and self.accesses[0][1] is not self.accesses[1][1]
        return "missing barrier" if self.same_block and is_order else "race"

    @cached_property
    def lines(self) -> tuple[int, int]:
        """The lines of the two statements in the text of `program`, from 1; 0: not printed."""
        page = document(self.program, header=False)
        found = [page.spans_of(site) for _, site in self.accesses]
        one, two = (spans[0].line if spans else 0 for spans in found)
        return one, two

    @property
    def interleaving(self) -> list[Step]:
        """An order of what the two threads do in which one of them does not see the other.

        An update that both make (`B[0] = B[0] + x`): both read before either writes. Else: the one
        that should come second comes first.
        """
        (verb, site), (other, second) = self.accesses
        one, two = self.lines
        if site is second and {verb, other} == {"read", "write"}:
            order = [(0, "read", site), (1, "read", site), (0, "write", site), (1, "write", site)]
            return [Step(who, what, at, one) for who, what, at in order]
        return [Step(1, other, second, two), Step(0, verb, site, one)]

    def error(self) -> DataRaceError:
        """What the interpreter would raise."""
        who = [f"thread ({', '.join(f'{k} = {v}' for k, v in t.items())})" for t in self.threads]
        events = [
            (name, axes, verb == "write", site)
            for name, axes, (verb, site) in zip(who, self.threads, self.accesses, strict=True)
        ]
        error = race_error(self.buffer, self.index, self.scope, events, self.hint)
        error.root = self.program
        return error

    def to_data(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "kind": self.kind, "proved": self.proved, "element": self.element,
            "scope": self.scope, "same_block": self.same_block, "hint": self.hint,
            "threads": list(self.threads), "loops": list(self.loops), "lines": list(self.lines),
            "accesses": [[verb, text_of(site)] for verb, site in self.accesses],
            "interleaving": [[x.who, x.verb, x.line] for x in self.interleaving],
        }  # fmt: skip


_known: WeakKeyDictionary[PrimFunc, tuple[Race, ...]] = WeakKeyDictionary()


def races(func: PrimFunc) -> tuple[Race, ...]:
    """The races of a function that is bound to threads, in block form or lowered to any stage.

    In block form barriers for shared memory stand where ThreadSync puts them; else where they are
    written. Each pair of statements is told once, with the first two threads that meet.

    Raises:
        PassError: its threads cannot run it (a barrier would have to stand where not all come by),
            or copies in bulk are not proved to be ordered by their barriers.
        MissingDependencyError: islpy is not installed.
    """
    library()
    if func not in _known:
        program = _as_threads(func)
        found = [r for kernel in kernels_in(program.body) for r in _Finder(program, kernel).races()]
        _known[func] = tuple(found)
    return _known[func]


def refuse_races(program: PrimFunc, copies: bool = False) -> None:
    """Refuse a function, as ThreadSync left it, whose threads are proved to race.

    copies: its asynchronous ones are looked at too; those of a pipeline that was made by annotation
    wait for what they need.

    Raises:
        DataRaceError: the two threads, the statements and the element.
    """
    for kernel in kernels_in(program.body):
        for race in _Finder(program, kernel, True, copies).races():
            if race.proved:
                raise race.error()


def _as_threads(func: PrimFunc) -> PrimFunc:
    """The function with its launches, its barriers, and without virtual threads."""
    if runs_on_threads(func):
        return inject_virtual_thread(on_threads(func))
    found = on_racing_threads(func, (inject_virtual_thread,))
    if found is None:
        raise PassError(
            "races: the function has no form that threads could run", root=func,
            hint="mlcnb.tir.transform.lower(func) says why",
        )  # fmt: skip
    return found


class _Finder(Planner):
    """Walks a kernel as ThreadSync does, and notes conflicts where that puts barriers.

    is_synced: it has, so that only what it does not look at is asked for: global memory, and single
    statements. copies: asynchronous ones are looked at too.
    """

    def __init__(
        self, func: PrimFunc, kernel: s.Stmt, is_synced: bool = False, copies: bool = True
    ) -> None:
        super().__init__(func, kernel, "shared")
        self.is_synced, self.copies = is_synced, copies
        self.answers: dict[Any, Meeting | None] = {}
        self.launch: Launch = launch_of(kernel)
        self.has_phases = any(is_call(n, CREATE) for n in statements(self.launch.body))
        self.tags = {axis.var: tag for tag, axis in self.launch.axes.items()}
        self.noted: dict[Any, Race] = {}

    def races(self) -> list[Race]:
        """All races of the kernel."""
        self.ordered.refuse(self.func)
        self.scan(self.launch.body, ())
        if self.copies:
            Arrivals(self.func, self.kernel, self.look_late).told()
        if self.launch.grid:
            self.across()
        return list(self.noted.values())

    def in_scope(self, access: Access) -> bool:
        """True for memory that several threads see, and that no phases of barriers order."""
        if access.buffer.data in self.ordered.memory:
            return False
        return access.buffer.scope in ("global", *SHARED_SCOPES)

    # where ThreadSync asks for a barrier

    def leaf(self, n: s.Stmt, parts: Iterable[Node], pending: Waiting) -> Waiting:
        """One statement: against what is pending, and its own accesses against each other."""
        found = tuple(a for part in parts for a in self.accesses(part))
        self.against(pending, found)
        self.among(found)
        return pending + found

    def is_wait(self, n: s.Stmt) -> bool:
        """A wait for copies of one's own orders no threads: the barrier after it does."""
        return False

    def meet(self, n: s.Stmt, found: Waiting, pending: Waiting) -> Waiting:
        """No barrier is asked for ahead of a loop: what is in it is looked at there."""
        return pending

    def asked_again(self, n: s.While, earlier: Waiting, asked: Waiting) -> None:
        """A `while` asks after a round, with no barrier in between."""
        self.against(earlier, asked)

    def against(self, pending: Waiting, found: Waiting) -> None:
        """Conflicts of a statement with what is pending are races."""
        for first in pending:
            for second in found:
                self.look(first, second)

    def together(self, n: s.Stmt, pending: Waiting) -> Waiting:
        """A statement that threads run differently: each at its own pace."""
        found = self.accesses(n)
        self.against(pending, found)
        outside = len(self.scope.loops)
        inner = [next(iter(a.access.loops[outside:]), None) for a in found]
        self.among([Pending(a.access, x, any_time=True) for a, x in zip(found, inner, strict=True)])
        return (*pending, *found)

    def among(self, found: Sequence[Pending]) -> None:
        """Accesses that different threads make in any order."""
        for n, first in enumerate(found):
            for second in found[n:]:
                self.look(first, second)

    def across(self) -> None:
        """Threads of different blocks, which nothing orders."""
        reading = Reading(self.launch.body, self.func.buffers)
        found = [
            Pending(a, a.loops[0] if a.loops else None, any_time=True)
            for a in reading.accesses
            if a.buffer.scope == "global"
        ]
        written = {x.access.buffer.data for x in found if x.access.is_write}
        found = [x for x in found if x.access.buffer.data in written]
        for n, first in enumerate(found):
            for second in found[n:]:
                self.look(first, second, across=True)

    # two accesses

    def look(self, first: Pending, second: Pending, across: bool = False) -> None:
        """Note a race of two accesses if there is one."""
        a, b = first.access, second.access
        if a.buffer.data is not b.buffer.data or not (a.is_write or b.is_write):
            return
        if a.is_atomic and b.is_atomic:
            return
        if self.is_synced and a.buffer.scope != "global" and a.stmt is not b.stmt:
            return
        key = frozenset([a.stmt, b.stmt]), a.buffer.data, across
        known = self.noted.get(key)
        if known is not None and known.proved:
            return
        asked = first, second, across
        if asked not in self.answers:
            self.answers[asked] = self.meeting(first, second, across)
        found = self.answers[asked]
        if found is not None and (known is None or found.exact):
            self.noted[key] = self.race(a, b, found, across)

    def look_late(self, first: Pending, second: Pending) -> None:
        """Note a copy that another thread is proved to use too early."""
        a, b = first.access, second.access
        key = frozenset([a.stmt, b.stmt]), a.buffer.data, False
        if a.buffer.data is not b.buffer.data or key in self.noted:
            return
        found = self.meeting(first, second, False)
        if found is not None and found.exact:
            self.noted[key] = changed(self.race(a, b, found, False), late=True)

    def meeting(self, first: Pending, second: Pending, across: bool) -> Meeting | None:
        """Two threads at one element, unless what they do there is the same."""
        a, b = first.access, second.access
        if a.is_write and not b.is_write and first.carried is None and self.is_alike(a, across):
            return None  # the thread that reads it has written the same there before
        differing: list[PrimExpr] | None = None
        sure = True
        if a.is_write and b.is_write and a.node is b.node:
            differing, sure = decides(a.node)
            if sure and not differing:
                return None
            differing = differing if sure else None
        if a.indices is None or b.indices is None or a.buffer is not b.buffer:
            return Meeting((), ({}, {}), False)
        found = self.threads.meeting(first, second, across, differing)
        if found is None:
            return None
        if differing and isinstance(a.node, s.BufferStore):
            sure = sure and not leaves_the_same(a.node.value, *found.sides)
        if found.exact and sure and not self.may_be_ordered(first, second, across):
            return found
        return Meeting((), ({}, {}), False)

    def may_be_ordered(self, first: Pending, second: Pending, across: bool) -> bool:
        """True if phases of barriers may stand between two accesses of a block."""
        in_turn = first.access.stmt is not second.access.stmt or first.carried is not None
        return self.has_phases and in_turn and not across

    def is_alike(self, a: Access, across: bool) -> bool:
        """True if all threads of a block (or of all blocks) write the same to the same element."""
        conditions = [x.condition for x in a.scope.around() if isinstance(x, Under)]
        values = [a.node.value] if isinstance(a.node, s.BufferStore) else []
        parts: list[Node] = [*(a.indices or ()), *conditions, *values]
        grid = {axis.var for axis in self.launch.grid.values()} if across else set()
        return not self.varies(*parts) and not any(x in grid for n in parts for x in walk(n))

    def race(self, a: Access, b: Access, found: Meeting, across: bool) -> Race:
        """What is told of two accesses."""
        threads, loops = [], []
        for access, values in zip((a, b), found.sides, strict=True):
            threads.append({tag: values[v] for v, tag in self.tags.items() if v in values})
            inner = [x.loop_var for x in access.loops if isinstance(x, s.For)]
            loops.append({v.name: values[v] for v in inner if v in values})
        one, two = (
            ("write" if x.is_write else "read", x.stmt or s.Evaluate(p.const(0))) for x in (a, b)
        )
        return Race(
            self.func, a.buffer.name, a.buffer.scope, found.index, (threads[0], threads[1]),
            (loops[0], loops[1]), (one, two), found.exact, not across,
        )  # fmt: skip
