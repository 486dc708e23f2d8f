"""Barriers with phases and copies in bulk, as loops and numbers in memory (`tir.analysis.bulk`).

T.ptx_arrive_barrier_expect_tx(b, 4096)    announced[b] += 4096; pending[b] -= 1
T.ptx_cp_async_bulk(…, b)                  a line of a list: from where to where; poison there
T.ptx_wait_barrier(b, parity)              the lists are done, if that ends the phase; it has ended

All threads come to a statement before any is at the next one, so who waits then waits for good:
that is an error, as are bytes that nobody announced, and copies that nobody waits for.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.bulk import (
    ARRIVE,
    BARRIERS,
    BOX,
    BULKS,
    CREATE,
    EXPECT,
    INIT,
    WAIT,
    Matrix,
    bytes_of,
    number_of,
    parity_of,
)
from mlcnb.tir.analysis.structure import allocations
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc

#: copies of one statement that may be on their way for one barrier
_MOST = 64
#: what is kept of a barrier
_NUMBERS = ("count", "pending", "announced", "brought", "phase")
CALLS = frozenset((*BARRIERS, *BULKS))
#: those that are done once for all threads of a block, if all come by
ONCE = (CREATE, WAIT)


class Phases:
    """The barriers of a kernel."""

    def __init__(self, body: s.Stmt, func: PrimFunc) -> None:
        #: elements behind pointers
        self.sizes = {x.data: reduce(p.multiply, x.shape, p.const(1)) for x in func.buffers}
        self.sizes |= {x.buffer_var: reduce(p.multiply, x.extents, p.const(1))
                       for x in allocations(body)}  # fmt: skip
        calls = [n for n in walk(body) if isinstance(n, e.Call) and n.op in CALLS]
        made = [p.as_int(n.args[0]) or 0 for n in calls if n.op == CREATE]
        self.size = max(made, default=0)
        self.numbers = {x: self.memory(x, max(1, self.size)) for x in _NUMBERS}
        #: of each copy how many are on their way for a barrier, where each begins, and from where
        self.lists = {id(n): [self.memory("used", max(1, self.size)), *self.list_of()]
                      for n in calls if n.op in BULKS}  # fmt: skip
        self.copies = [n for n in calls if n.op in BULKS]

    def memory(self, name: str, size: int) -> Buffer:
        """Numbers of a block of threads."""
        return decl_buffer((size,), "int32", name)

    def list_of(self) -> list[Buffer]:
        """Lines of a list for each barrier."""
        return [self.memory(x, max(1, self.size) * _MOST) for x in ("to", "row", "column")]

    @property
    def buffers(self) -> list[Buffer]:
        """All of the memory."""
        if not self.size:
            return []
        return [*self.numbers.values(), *(x for found in self.lists.values() for x in found)]

    # the calls

    def does(self, call: e.Call) -> s.Stmt:
        """What a thread does in a call."""
        return {CREATE: self.create, INIT: self.init, WAIT: self.wait}.get(
            str(call.op), self.arrive if call.op in (ARRIVE, EXPECT) else self.begin
        )(call)

    def create(self, call: e.Call) -> s.Stmt:
        """No barrier counts any thread yet, and nothing is on its way."""
        every = Var("barrier", p.const(0).dtype)
        begun = [
            self.numbers["count"],
            self.numbers["brought"],
            *(x[0] for x in self.lists.values()),
        ]
        return _loop(every, self.size, s.seq(*(_store(x, 0, every) for x in begun)))

    def init(self, call: e.Call) -> s.Stmt:
        """A barrier begins its first phase."""
        at = call.args[0]
        begun = {"count": call.args[1], "pending": call.args[1]}
        return s.seq(*(_store(x, begun.get(name, 0), at) for name, x in self.numbers.items()))

    def arrive(self, call: e.Call) -> s.Stmt:
        """One thread less is missing, and so many bytes more."""
        at = number_of(call)
        nbytes = call.args[1] if call.op == EXPECT else p.const(0)
        pending, announced = self.of("pending", at), self.of("announced", at)
        steps = [
            self.known(at),
            _check(pending > 0, f"more threads arrive at a barrier than it counts: {_text(call)}"),
            self.store("announced", announced + nbytes, at),
            self.store("pending", pending - 1, at),
            s.IfThenElse(p.all_of(p.equal(pending, 0), p.equal(announced, 0)), self.next(at)),
        ]
        return s.seq(*steps)

    def begin(self, call: e.Call) -> s.Stmt:
        """A copy is on its way; what it will write holds nothing."""
        at, nbytes = number_of(call), bytes_of(call)
        used, *lines = self.lists[id(call)]
        line = at * _MOST + BufferLoad(used, (at,))
        places = (
            call.args[1],
            *((call.args[5], call.args[6]) if call.op == BOX else (call.args[3], 0)),
        )
        free = self.of("announced", at) - self.of("brought", at)
        place, kind = Var("place", p.const(0).dtype), call.dtype
        nothing: Any = p.const(float("nan") if kind.is_float else kind.min_value, kind)
        to = self.behind(call.args[0], kind)
        return s.seq(
            self.known(at),
            _check(free >= nbytes, f"a copy brings bytes that were not announced: {_text(call)}"),
            _check(BufferLoad(used, (at,)) < _MOST, f"more than {_MOST} copies on their way"),
            *(_store(x, value, line) for x, value in zip(lines, places, strict=True)),
            _store(used, BufferLoad(used, (at,)) + 1, at),
            self.store("brought", self.of("brought", at) + nbytes, at),
            _loop(place, nbytes // kind.nbytes, _store(to, nothing, call.args[1] + place)),
        )

    def wait(self, call: e.Call) -> s.Stmt:
        """Copies arrive if that ends the phase; if it has not ended, it never does."""
        at, parity = number_of(call), p.floormod(parity_of(call), 2)
        waits = p.equal(self.of("phase", at), parity)
        brought, announced = self.of("brought", at), self.of("announced", at)
        ends = p.all_of(waits, p.equal(self.of("pending", at), 0), p.equal(brought, announced))
        landed = [
            *(self.land(n, at) for n in self.copies),
            self.store("announced", 0, at), self.store("brought", 0, at), self.next(at),
        ]  # fmt: skip
        early = f"waits for a phase that is over while bytes of the next one come: {_text(call)}"
        return s.seq(
            self.known(at),
            _check(p.logical_or(waits, p.equal(brought, 0)), early),
            s.IfThenElse(ends, s.seq(*landed)),
            _check(
                p.logical_not(waits),
                f"hang: the phase never ends, threads or announced bytes miss: {_text(call)}",
            ),
        )

    def land(self, call: e.Call, at: PrimExpr) -> s.Stmt:
        """What is on its way arrives."""
        used, *lines = self.lists[id(call)]
        number = Var("copy", p.const(0).dtype)
        to, row, column = (BufferLoad(x, (at * _MOST + number,)) for x in lines)
        there, here = (self.behind(x, call.dtype) for x in (call.args[0], call.args[2]))
        i, j = (Var(name, p.const(0).dtype) for name in ("i", "j"))
        if call.op == BOX:
            made = Matrix.of(call)
            y, z = row + i, column + j
            inside = p.all_of(y >= 0, y < made.height, z >= 0, z < made.width)
            wide = p.cast("int64", y) * made.width + p.cast("int64", z)
            value = p.if_then_else(inside, BufferLoad(here, (wide,)), p.const(0, call.dtype))
            body = _loop(j, made.columns, _store(there, value, made.place(to, i, j)))
            body = _loop(i, made.rows, body)
        else:
            value = BufferLoad(here, (row + i,))
            body = _loop(i, bytes_of(call) // call.dtype.nbytes, _store(there, value, to + i))
        return s.seq(_loop(number, BufferLoad(used, (at,)), body), _store(used, 0, at))

    def to_end(self, body: s.Stmt) -> s.Stmt:
        """What a block does, and at its end nothing is on its way."""
        if not self.size:
            return body
        every = Var("barrier", p.const(0).dtype)
        told = "a copy in bulk is still on its way when its block ends: wait for its barrier"
        landed = _check(p.equal(self.of("brought", every), 0), told)
        return s.seq(body, _loop(every, self.size, landed))

    # parts of them

    def of(self, name: str, at: Any) -> Any:
        """A number of a barrier."""
        return BufferLoad(self.numbers[name], (at,))

    def behind(self, data: Any, kind: Any) -> Buffer:
        """The memory of a pointer."""
        return decl_buffer((self.sizes.get(data, p.const(1)),), str(kind), data.name, data=data)

    def store(self, name: str, value: Any, at: Any) -> s.Stmt:
        """It becomes another one."""
        return _store(self.numbers[name], value, at)

    def known(self, at: Any) -> s.Stmt:
        """The barrier counts threads."""
        told = "a barrier is used before T.ptx_init_barrier_thread_count"
        return _check(self.of("count", at) > 0, told)

    def next(self, at: Any) -> s.Stmt:
        """The next phase begins."""
        flipped = self.store("phase", p.const(1) - self.of("phase", at), at)
        return s.seq(flipped, self.store("pending", self.of("count", at), at))


def _store(buffer: Buffer, value: Any, at: Any) -> s.Stmt:
    return s.BufferStore(buffer, p.cast(buffer.dtype, p.as_expr(value)), (at,))


def _loop(var: Var, extent: Any, body: s.Stmt) -> s.Stmt:
    return s.For(var, p.const(0), p.as_expr(extent), s.ForKind.SERIAL, body)


def _check(condition: PrimExpr, told: str) -> s.Stmt:
    return s.AssertStmt(condition, told, s.Evaluate(p.const(0)))


def _text(call: e.Call) -> str:
    """A call as it is told in a message."""
    return f"{str(call.op).removeprefix('tir.')} of barrier {number_of(call)}"
