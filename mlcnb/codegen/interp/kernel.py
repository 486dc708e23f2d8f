"""Kernels on a simulated GPU: every thread runs by itself, and what it touches is watched.

    global     one memory for all; shared: one for each block; warp: one for each warp;
    local      one for each thread. Shared, warp and local memory begin empty: reading what was not
               written is an error, and so is a data race, or a barrier that some threads miss.

Blocks run one after the other, threads of a block in turns, from one meeting to the next; an order
other than that of their numbers can be asked for (a seed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any

from mlcnb.codegen.interp.agents import Agent, ThreadBlock
from mlcnb.codegen.interp.copies import COPIES, OF_WARPS, WATCHERS, CopyCompiler
from mlcnb.codegen.interp.expressions import Closure, Frame
from mlcnb.codegen.interp.meeting import Arrival, Thread, run_threads, run_virtual, shuffled
from mlcnb.codegen.interp.memory import allocate
from mlcnb.codegen.interp.phases import at_end
from mlcnb.codegen.interp.statements import Code
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.core.node import Node, children
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis import kernels
from mlcnb.tir.analysis.bulk import BARRIERS, BULKS
from mlcnb.tir.buffer import Buffer

_AGENT = "the thread that runs"
_ORDER = "the order of blocks and threads"
_SHUFFLES = frozenset(f"tir.tvm_warp_shuffle{direction}" for direction in ("", "_up", "_down"))


class KernelCompiler(CopyCompiler):
    """Turns programs into closures whose kernels run on many threads."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.agent = self.slot(_AGENT)
        self.order = self.slot(_ORDER)
        #: slots of the virtual threads around the place that is compiled
        self.virtual: tuple[int, ...] = ()
        #: shuffles whose result is put into a slot before their statement runs
        self.exchanged: set[Node] = set()

    # launches

    def _attribute(self, x: s.AttrStmt) -> Code:
        if kernels.is_launch(x):
            return self.launch(x), False
        if x.attr_key == "reduce_scope" and self.watches:
            return self.reduction(x)
        return super()._attribute(x)

    def launch(self, x: s.AttrStmt) -> Closure:
        """All blocks of a kernel, one after the other."""
        launch = kernels.launch_of(x)
        tags = [*launch.grid, *launch.in_block]
        slots = [self.slot(launch.axes[tag].var) for tag in tags]
        outer, self.lanes = self.lanes, dict(zip(tags, slots, strict=True)).get(kernels.LANES)
        axes = [launch.axes[tag] for tag in tags]
        counted = [self.counted(a.var, a.dom.min, a.dom.extent, x) for a in axes]
        count = len(launch.grid)
        self.watches = True
        depth = len(self.loops)
        self.loops += [(launch.axes[t].var.name, q) for t, q in zip(tags, slots, strict=True)]
        run, waits = self.stmt(launch.body)
        del self.loops[depth:]
        self.watches, self.lanes = False, outer
        agent, order = self.agent, self.order

        def start(f: Frame) -> None:
            sizes = [len(n(f)) for n in counted]
            shuffle = _shuffler(f[order])
            elements: dict = {}
            for place in shuffle(_points(sizes[:count])):
                block = ThreadBlock({}, {}, elements)
                threads: dict[Agent, Frame] = {}
                for number, thread in enumerate(_points(sizes[count:])):
                    where = dict(zip(tags, (*place, *thread), strict=True))
                    mine = Agent(block, number, where)
                    frame = threads[mine] = list(f)
                    frame[agent] = mine
                    for slot, value in zip(slots, (*place, *thread), strict=True):
                        frame[slot] = value
                ordered = {a: threads[a] for a in shuffle(list(threads))}
                if waits:
                    run_threads({a: run(frame) for a, frame in ordered.items()})
                else:
                    for frame in ordered.values():
                        run(frame)
                block.check()
                at_end(block)

        return start

    def _loop(self, x: s.For) -> Code:
        if not self.watches or kernels.bound_axis(x) not in kernels.VIRTUAL_AXES:
            return super()._loop(x)
        slot = self.slot(x.loop_var)
        outer, self.virtual = self.virtual, (*self.virtual, slot)
        counted = self.counted(x.loop_var, x.min, x.extent, x)
        run, waits = self.inside(x.loop_var, x.body)
        self.virtual = outer
        name = x.loop_var.name

        def each(f: Frame) -> Iterator[Frame]:
            for i in counted(f):
                own = list(f)
                own[slot] = i
                yield own

        def plain(f: Frame) -> None:
            for own in each(f):
                run(own)

        def together(f: Frame) -> Iterator[Any]:
            threads: list[Thread] = [run(own) for own in each(f)]
            yield from run_virtual(threads, name, x)

        return (together if waits else plain), waits

    # memory

    def fresh_memory(self, owner: Any, scope: str) -> Callable[..., Any]:
        """Memory of a thread, of its warp or of its block."""
        if not self.watches or scope == "global":
            if self.watches:
                name = getattr(owner, "name", None) or owner.buffer_var.name
                raise UnsupportedOpError(
                    f"a kernel cannot allocate global memory for {name}",
                    hint="set_scope to shared or local, or let another kernel fill it",
                )
            return super().fresh_memory(owner, scope)
        agent, virtual = self.agent, self.virtual
        if scope not in (*kernels.SHARED_SCOPES, "warp"):
            return _own_memory(agent)
        of_warp = scope == "warp"

        def reuse(f: Frame, kind: Any, size: int) -> Any:
            me: Agent = f[agent]
            key = (id(owner), me.warp if of_warp else None, *(f[v] for v in virtual))
            pool = me.block.memory
            if key not in pool:
                pool[key] = allocate(kind, size)
            return pool[key]

        return reuse

    def watch(self, buffer: Buffer, what: str) -> Callable[..., None] | None:
        """Looks for races and for memory that nobody has written."""
        if not self.watches:
            return None
        scope = buffer.scope
        if scope != "global" and buffer.data not in self.own:
            raise ExecutionError(
                f"{buffer.name} is in {scope} memory, but is allocated outside of the kernel that "
                "uses it",
                where=self.site,
                hint="memory of threads and blocks ends with the kernel: compute_at or "
                "reverse_compute_at brings all uses into one",
            )
        reads, writes = WATCHERS.get(scope, _OWN)
        agent, slot, site = self.agent, self.view_slot(buffer), self.site

        def read(f: Frame, at: int, value: Any = None) -> None:
            reads(f[agent], f[slot], at, site)

        def write(f: Frame, at: int, value: Any = None) -> None:
            writes(f[agent], f[slot], at, site, value)

        def update(f: Frame, at: int, value: Any = None) -> None:
            (Agent.updates if scope in WATCHERS else Agent.updates_own)(f[agent], f[slot], at, site)

        return {"r": read, "w": write, "u": update}[what]

    # meetings

    def _evaluate(self, x: s.Evaluate) -> Code:
        call = x.value
        if self.watches and isinstance(call, e.Call) and call.op == "tir.tvm_storage_sync":
            scope = getattr(call.args[0], "value", "shared")
            arrival = Arrival(x, "barrier", of_warp=scope == "warp", is_barrier=True)

            def wait(f: Frame) -> Iterator[Any]:
                yield arrival

            return wait, True
        if self.watches and isinstance(call, e.Call) and call.op in OF_WARPS:
            return self.together(call), True
        if self.watches and isinstance(call, e.Call) and call.op in COPIES:
            return self.copies(call), False
        if self.watches and isinstance(call, e.Call) and call.op in BULKS:
            return self.bulk_copy(call), False
        if self.watches and isinstance(call, e.Call) and call.op in BARRIERS:
            return self.at_barrier(call)
        return self.with_exchange(x, lambda: super(KernelCompiler, self)._evaluate(x))

    def _stored(self, x: s.BufferStore) -> Code:
        return self.with_exchange(x, lambda: super(KernelCompiler, self)._stored(x))

    def with_exchange(self, x: Node, compiled: Callable[[], Code]) -> Code:
        """A statement whose shuffles are done first, one after the other."""
        calls = list(_shuffles_of(x)) if self.watches else []
        if not calls:
            return compiled()
        steps = [self.exchange(call) for call in calls]
        run, _ = compiled()

        def waiting(f: Frame) -> Iterator[Any]:
            for slot, arrive in steps:
                f[slot] = yield arrive(f)
            run(f)

        return waiting, True

    def _let(self, x: Any) -> Any:
        calls = list(_shuffles_of(x.value)) if isinstance(x, s.LetStmt) and self.watches else []
        if not calls:
            return super()._let(x)
        steps = [self.exchange(call) for call in calls]
        slot, value = self.slot(x.var), self.compile(x.value)
        run, waits = self.stmt(x.body)

        def waiting(f: Frame) -> Iterator[Any]:
            for place, arrive in steps:
                f[place] = yield arrive(f)
            f[slot] = value(f)
            pending: Any = run(f)
            if waits:
                yield from pending

        return waiting, True

    def exchange(self, call: e.Call) -> tuple[int, Callable[[Frame], Arrival]]:
        """Comes to a shuffle with a value; what it gets goes to the call's slot."""
        name = str(call.op).removeprefix("tir.")
        value, by, width = (self.compile(a) for a in call.args[1:4])
        settle = shuffled(name, call)
        self.exchanged.add(call)

        def arrive(f: Frame) -> Arrival:
            payload = (value(f), by(f), width(f))
            return Arrival(call, name, payload, of_warp=True, settle=settle)

        return self.slot(call), arrive

    def _call(self, x: e.Call) -> Closure:
        if x.op in _SHUFFLES:
            if x not in self.exchanged:
                raise UnsupportedOpError(f"{x.op} stands where only some threads come by")
            slot = self.slot(x)
            return lambda f: f[slot]
        if x.op == "tir.tvm_warp_activemask":
            return lambda f: 0xFFFFFFFF
        return super()._call(x)

    def reduction(self, x: s.AttrStmt) -> Code:
        """tvm_thread_allreduce: all threads of the block bring a part and take the result."""
        call: Any = x.body.value if isinstance(x.body, s.Evaluate) else None
        count = call.args[0].value
        values = [self.compile(v) for v in call.args[1 : 1 + count]]
        condition = self.compile(call.args[1 + count])
        results = call.args[2 + count : 2 + 2 * count]
        axes = [self.slot(v) for v in call.args[2 + 2 * count :]]
        others = [slot for _, slot in self.loops if slot not in axes]
        combine = self.combiner(x.node)
        places = [self.position(r, r.buffer, r.indices) for r in results]
        slots = [self.view_slot(r.buffer) for r in results]
        told = [self.recorder(r.buffer, "w") for r in results]

        def settle(agents: list[Agent], parts: list[Any]) -> list[Any]:
            groups: dict[Any, Any] = {}
            numbered = sorted(zip(agents, parts, strict=True), key=lambda a: a[0].number)
            for _, (f, key, part) in numbered:
                if part is not None:
                    groups[key] = part if key not in groups else combine(f, groups[key], part)
            return [groups.get(key) for _, key, _ in parts]

        def run(f: Frame) -> Iterator[Any]:
            part = [v(f) for v in values] if condition(f) else None
            key = tuple(f[slot] for slot in others)
            found = yield Arrival(call, "tvm_thread_allreduce", (f, key, part), settle=settle)
            if found is None:
                found = [start(f) for start in identity]
            for place, slot, tell, value in zip(places, slots, told, found, strict=True):
                at = place(f)
                if tell is not None:
                    tell(f, at, value)
                f[slot].write(at, value)

        identity = [self.compile(v) for v in x.node.identity_element]
        return run, True

    def combiner(self, reducer: s.CommReducer) -> Callable[[Frame, Any, Any], list]:
        """The reducer as a function of two lists of parts."""
        left, right = [self.slot(v) for v in reducer.lhs], [self.slot(v) for v in reducer.rhs]
        results = [self.compile(v) for v in reducer.result]

        def combine(f: Frame, one: Any, two: Any) -> list:
            for slot, value in zip((*left, *right), (*one, *two), strict=True):
                f[slot] = value
            return [r(f) for r in results]

        return combine


_OWN = (Agent.reads_own, Agent.writes_own)


def _own_memory(agent: int) -> Callable[..., Any]:
    def fresh(f: Frame, kind: Any, size: int) -> Any:
        array = allocate(kind, size)
        begin = array.__array_interface__["data"][0]
        f[agent].written.difference_update(range(begin, begin + array.nbytes, array.itemsize))
        return array

    return fresh


def _points(sizes: list[int]) -> list[tuple[int, ...]]:
    """All points of a box given x first, x fastest."""
    return [p[::-1] for p in product(*(range(n) for n in reversed(sizes)))]


def _shuffler(seed: int | None) -> Callable[[list], list]:
    """Puts blocks and threads in the order of a seed; None: of their numbers."""
    if seed is None:
        return lambda items: items
    dice = Random(seed)

    def shuffle(items: list) -> list:
        dice.shuffle(items)
        return items

    return shuffle


def _shuffles_of(n: Node, lazily: bool = False) -> Iterator[e.Call]:
    """Shuffles in the expressions of a statement, inner ones first."""
    for i, child in enumerate(children(n)):
        late = isinstance(n, e.And | e.Or) and i == 1
        late = late or (isinstance(n, e.Call) and n.op == "tir.if_then_else" and i > 0)
        if not isinstance(child, s.Stmt):
            yield from _shuffles_of(child, lazily or late)
    if isinstance(n, e.Call) and n.op in _SHUFFLES:
        if lazily:
            raise UnsupportedOpError(
                f"{n.op} stands where only some threads come by",
                where=n,
                hint="give its value a name with T.LetStmt before the choice",
            )
        yield n
