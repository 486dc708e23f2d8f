"""Instructions of a GPU on simulated threads: what warps do together, and asynchronous copies.

A copy arrives where its thread waits for its group, and not before; from where it is issued on its
element counts as written, so that who reads or writes it too early, or without a barrier after the
wait, races with it. A copy in bulk arrives where a phase of a barrier ends (`phases`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from mlcnb.codegen.interp.agents import Agent
from mlcnb.codegen.interp.blocks import WatchingCompiler
from mlcnb.codegen.interp.expressions import Closure, Frame
from mlcnb.codegen.interp.meeting import Arrival
from mlcnb.codegen.interp.memory import View, typed
from mlcnb.codegen.interp.phases import Carrier, Flight, barrier_of, create, init
from mlcnb.codegen.interp.statements import Code
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir import expr as e
from mlcnb.tir.analysis import bulk, kernels
from mlcnb.tir.analysis.wgmma import DEPTH, OPERANDS, SUMS, WARPGROUP, WGMMA, Product, place_c
from mlcnb.tir.buffer import Buffer, decl_buffer
from mlcnb.tir.transform.inject_ptx_async_copy import ASYNC_COPY, ASYNC_QUEUE

#: instructions that the threads of a warp do together
OF_WARPS = ("tir.ptx_mma", "tir.ptx_ldmatrix", WGMMA)
#: of asynchronous copies: one, a group, a wait
COPIES = (ASYNC_COPY, *ASYNC_QUEUE)
#: what an asynchronous copy writes before it has arrived
ANYTHING = float("nan")
#: what looks at reads and at writes of memory that several threads see
WATCHERS = {
    "global": (Agent.reads, Agent.writes),
    **dict.fromkeys((*kernels.SHARED_SCOPES, "warp"), (Agent.reads_shared, Agent.writes)),
}


class CopyCompiler(WatchingCompiler):
    """Adds what only threads do; `kernel` says on which."""

    #: the slot of the thread that runs
    agent: int

    def look(self, x: e.Call, argument: int) -> Callable[[Frame, Any, int], Any]:
        """Reads shared memory for a call; races are looked for."""
        data: Any = x.args[argument]
        if not self.watches or data.pointee is None or data.pointee[1] not in WATCHERS:
            return super().look(x, argument)
        buffer = decl_buffer((0,), str(x.dtype), data.name, data=data)
        (read, _), agent, site = WATCHERS[buffer.scope], self.agent, self.site

        def run(f: Frame, array: Any, place: int) -> Any:
            view, _ = _part(buffer, array, place, 1, site)
            read(f[agent], view, place, site)
            return view.read(place)

        return run

    def _warpgroup_product(self, x: e.Call) -> Closure:
        """`ptx_wgmma`: each thread's sums go up by products of what descriptors find."""
        if not self.watches:
            raise UnsupportedOpError("ptx_wgmma is done by four warps, and no thread is bound")
        made, agent = Product.of(x), self.agent
        sums, at = (self.compile(a) for a in x.args[SUMS : SUMS + 2])
        tiles = [self.compile(x.args[n]) for n in OPERANDS]
        begins = [self.compile(x.args[n + 1]) for n in OPERANDS]
        looks = [self.look(x, n) for n in OPERANDS]

        def run(f: Frame) -> int:
            registers, first, thread = sums(f), at(f), f[agent].number % WARPGROUP
            (a, b), (at_a, at_b), (x_at, y_at) = (
                [t(f) for t in tiles],
                [n(f) for n in begins],
                looks,
            )
            for number, own in product(range(made.count), range(made.own)):
                row, column = place_c(thread, own)
                registers[first + own] = float(registers[first + own]) + sum(
                    float(x_at(f, a, made.a.place(at_a, row, k, number)))
                    * float(y_at(f, b, made.b.place(at_b, column, k, number)))
                    for k in range(DEPTH)
                )
            return 0

        return run

    def together(self, x: e.Call) -> Callable[[Frame], Iterator[Any]]:
        """What a warp does together, when all its threads have come."""
        run = self.compile(x)
        name = str(x.op).removeprefix("tir.")

        def settle(agents: list[Agent], frames: list[Frame]) -> list[Any]:
            return [run(f) for f in frames]

        def arrive(f: Frame) -> Iterator[Any]:
            yield Arrival(x, name, f, of_warp=True, settle=settle)

        return arrive

    def copies(self, x: e.Call) -> Closure:
        """An asynchronous copy, a group of them, or a wait for some."""
        agent = self.agent
        if x.op == "tir.ptx_commit_group":
            return lambda f: f[agent].commit()
        if x.op == "tir.ptx_wait_group":
            number = self.compile(x.args[0])
            return lambda f: f[agent].wait(number(f))
        to, at, source, start, size, *holds = map(self.compile, x.args)
        pointers: list[Any] = [x.args[0], x.args[2]]
        made = [decl_buffer((0,), str(x.dtype), y.name, data=y) for y in pointers]
        (_, write), (read, _) = (WATCHERS[buffer.scope] for buffer in made)
        site = self.site

        def issue(f: Frame) -> None:
            me: Agent = f[agent]
            count = size(f) // x.dtype.nbytes
            there = here = _part(made[0], to(f), at(f), count, site)
            is_read = not holds or holds[0](f)
            if is_read:
                here = _part(made[1], source(f), start(f), count, site)
                for place in here[1]:
                    read(me, here[0], place, site)

            def arrive() -> None:
                values = [here[0].read(x) for x in here[1]] if is_read else [0] * count
                for place, value in zip(there[1], values, strict=True):
                    write(me, there[0], place, site, value)
                    there[0].write(place, value)

            for place in there[1]:  # from now on it may be written at any time
                write(me, there[0], place, site, ANYTHING)
            me.copies[-1].append(arrive)

        return issue

    def bulk_copy(self, x: e.Call) -> Closure:
        """A copy in bulk: elements, or a box of a matrix."""
        agent, site = self.agent, self.site
        to, at, source, number = (self.compile(x.args[n]) for n in (0, 1, 2, -1))
        pointers: list[Any] = [x.args[0], x.args[2]]
        made = [decl_buffer((0,), str(x.dtype), y.name, data=y) for y in pointers]
        read, _ = WATCHERS[made[1].scope]
        nbytes = bulk.bytes_of(x)
        count = nbytes // x.dtype.nbytes
        pairs, reach = self.brought(x)

        def issue(f: Frame) -> None:
            me: Agent = f[agent]
            first = at(f)
            there = _part(made[0], to(f), first, count, site)[0]
            here = _part(made[1], source(f), *reach(f), site)[0]
            taken = [*pairs(f, first)]
            for place, start in taken:
                if start is not None:
                    read(me, here, start, site)
                me.begins(there, place, site)

            def arrive(carrier: Carrier) -> None:
                for place, start in taken:
                    carrier.element(there, place).landed_by(carrier, site)
                    there.write(place, 0 if start is None else here.read(start))

            barrier_of(me, number(f), site).begin(Flight(nbytes, me, site, arrive))

        return issue

    def brought(self, x: e.Call) -> tuple[Callable[..., Any], Callable[[Frame], tuple[int, int]]]:
        """Of a copy in bulk where each element goes, and from where (None: a zero); and what it may
        read: the first element, and how many.
        """
        if x.op == bulk.BULK:
            start, count = self.compile(x.args[3]), bulk.bytes_of(x) // x.dtype.nbytes

            def linear(f: Frame, first: int) -> Iterator[tuple[int, int]]:
                begin = start(f)
                yield from ((first + n, begin + n) for n in range(count))

            return linear, lambda f: (start(f), count)
        made = bulk.Matrix.of(x)
        top, left = (self.compile(x.args[n]) for n in (5, 6))

        def box(f: Frame, first: int) -> Iterator[tuple[int, int | None]]:
            row, column = top(f), left(f)
            for i, j in product(range(made.rows), range(made.columns)):
                y, z = row + i, column + j
                inside = 0 <= y < made.height and 0 <= z < made.width
                yield made.place(first, i, j), y * made.width + z if inside else None

        return box, lambda f: (0, made.height * made.width)

    def at_barrier(self, x: e.Call) -> Code:
        """What a thread does with a barrier; a wait yields where the phase is not over."""
        agent, site = self.agent, self.site
        number, *more = (self.compile(n) for n in x.args)
        if x.op == bulk.CREATE:
            return (lambda f: create(f[agent].block, number(f))), False
        if x.op == bulk.INIT:
            return (lambda f: init(f[agent], number(f), more[0](f), site)), False
        if x.op != bulk.WAIT:

            def arrive(f: Frame) -> None:
                announced = more[0](f) if more else 0
                barrier_of(f[agent], number(f), site).arrive(f[agent], announced, site)

            return arrive, False
        parity = self.compile(bulk.parity_of(x))

        def wait(f: Frame) -> Iterator[Any]:
            found = barrier_of(f[agent], number(f), site)
            if found.is_over(parity(f)):
                found.passed_by(f[agent])
            else:
                yield Arrival(site, "ptx_wait_barrier", phase=(found, parity(f)))

        return wait, True


def _part(buffer: Buffer, array: Any, first: int, count: int, site: Any) -> tuple[View, range]:
    """Some elements of memory that is known by its pointer."""
    memory = typed(array, buffer.dtype)
    if not 0 <= first <= first + count <= len(memory):
        raise ExecutionError(
            f"out of bounds: {count} elements from {buffer.name}[{first}] on are copied, and there "
            f"are {len(memory)}",
            where=site,
        )
    return View(buffer, memory, (len(memory),)), range(first, first + count)
