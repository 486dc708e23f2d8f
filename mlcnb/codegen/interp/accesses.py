"""Reads and writes of buffers as closures: checked against shapes, told to the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.codegen.interp import instructions
from mlcnb.codegen.interp.expressions import Closure, ExpressionCompiler, Frame
from mlcnb.codegen.interp.memory import View
from mlcnb.codegen.interp.numerics import binary
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.mma import FRAGMENTS, Form, neighbours
from mlcnb.tir.buffer import Buffer, BufferLoad

#: who is told of an access: `tell(frame, position, value written)`
Told = Callable[..., None] | None


class AccessCompiler(ExpressionCompiler):
    """Adds buffers to expressions. `record` is told of every access (see `run_prim_func`)."""

    def __init__(self, record: Any) -> None:
        super().__init__()
        self.record = record
        #: the slot of what is bound to threadIdx.x around the place that is compiled
        self.lanes: int | None = None
        #: (name, slot) of the loops around the place that is compiled
        self.loops: list[tuple[str, int]] = []
        #: buffers that are used but declared nowhere, by their pointer
        self.implicit: dict[Var, list[Buffer]] = {}
        self.declared: set[Buffer] = set()

    def view_slot(self, buffer: Buffer) -> int:
        """The slot of a buffer's view; one that nobody declared is declared where its memory is."""
        if buffer not in self.declared:
            self.declared.add(buffer)
            self.implicit.setdefault(buffer.data, []).append(buffer)
        return self.slot(buffer)

    def position(self, x: Any, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Closure:
        """The flat position of one element, checked against the buffer's shape."""
        slot = self.view_slot(buffer)
        closures = [self.compile(i) for i in indices]
        fail = self._failure(x, buffer)

        def run(f: Frame) -> int:
            view: View = f[slot]
            at = view.offset
            for closure, extent, stride in zip(closures, view.shape, view.strides, strict=True):
                i = closure(f)
                if not 0 <= i < extent:
                    fail(f, view, [c(f) for c in closures])
                at += i * stride
            return at

        return run

    def positions(self, x: Any, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Closure:
        """(flat position or None where an index is out of bounds, for each lane) of a vector.

        The check is left to the caller, who knows which lanes are masked.
        """
        slot = self.view_slot(buffer)
        lanes = max(i.dtype.lanes for i in indices)
        closures = [(self.compile(i), i.dtype.lanes) for i in indices]

        def run(f: Frame) -> list:
            view: View = f[slot]
            columns = [c(f) if n != 1 else [c(f)] * lanes for c, n in closures]
            found: list = []
            for point in zip(*columns, strict=True):
                inside = all(0 <= i < n for i, n in zip(point, view.shape, strict=True))
                at = sum(i * s for i, s in zip(point, view.strides, strict=True)) + view.offset
                found.append((at if inside else None, point))
            return found

        return run

    def _failure(self, x: Any, buffer: Buffer) -> Callable:
        loops = list(self.loops)
        verb = "read" if isinstance(x, BufferLoad) else "written"

        def fail(f: Frame, view: View, indices: Any) -> None:
            at = ", ".join(str(i) for i in indices)
            running = ", ".join(f"{name} = {f[slot]}" for name, slot in loops)
            place = f" at {running}" if running else ""
            raise ExecutionError(
                f"out of bounds: {buffer.name}[{at}] is {verb}, its shape is {view.shape}{place}",
                where=x,
            )

        return fail

    def recorder(self, buffer: Buffer, what: str) -> Callable[..., None] | None:
        """Tells whoever wants to know of an access: `tell(frame, position, value written)`."""
        watch = self.watch(buffer, what)
        if watch is not None and buffer.dtype.lanes != 1:
            watch = each_lane(watch, buffer.dtype.lanes)
        listeners = [x for x in (self.note(buffer, what), watch) if x]
        if len(listeners) < 2:
            return listeners[0] if listeners else None
        first, second = listeners

        def tell(f: Frame, at: int, value: Any = None) -> None:
            first(f, at, value)
            second(f, at, value)

        return tell

    def watch(self, buffer: Buffer, what: str) -> Callable[..., None] | None:
        """What else looks at accesses: in a program of one thread, nothing."""
        return None

    def note(self, buffer: Buffer, what: str) -> Callable[..., None] | None:
        """Tells the record of an access, if there is one."""
        if self.record is None:
            return None
        loops = list(self.loops)
        note = self.record if callable(self.record) else self.record.append

        def tell(f: Frame, at: int, value: Any = None) -> None:
            values = {name: f[slot] for name, slot in loops}
            access = (buffer.name, at, what, values)
            note(*access) if callable(self.record) else note(access)

        return tell

    def _load(self, x: BufferLoad) -> Closure:
        if any(i.dtype.lanes != 1 for i in x.indices):
            return self._load_vector(x)
        position, slot = self.position(x, x.buffer, x.indices), self.view_slot(x.buffer)
        tell = self.recorder(x.buffer, "r")
        lanes = x.buffer.dtype.lanes
        if lanes != 1:
            return self.load_wide(position, slot, lanes, tell)
        if tell is None:
            return lambda f: f[slot].read(position(f))

        def run(f: Frame) -> Any:
            at = position(f)
            tell(f, at)
            return f[slot].read(at)

        return run

    def load_wide(self, position: Closure, slot: int, lanes: int, tell: Told) -> Closure:
        """A buffer whose elements are vectors."""

        def run(f: Frame) -> list:
            at, read = position(f), f[slot].read
            if tell is not None:
                tell(f, at)
            return [read(at * lanes + lane) for lane in range(lanes)]

        return run

    def _load_vector(self, x: BufferLoad) -> Closure:
        positions, slot = self.positions(x, x.buffer, x.indices), self.view_slot(x.buffer)
        mask = None if x.predicate is None else self.compile(x.predicate)
        fail, tell = self._failure(x, x.buffer), self.recorder(x.buffer, "r")
        zero = 0.0 if x.dtype.is_float else 0

        def run(f: Frame) -> list:
            view = f[slot]
            found = positions(f)
            keep = [True] * len(found) if mask is None else mask(f)
            values = []
            for (at, point), kept in zip(found, keep, strict=True):
                if kept and at is None:
                    fail(f, view, point)
                if kept and tell is not None:
                    tell(f, at)
                values.append(view.read(at) if kept else zero)
            return values

        return run

    def address(self, x: e.Call) -> Closure:
        """A pointer is the flat array from the element on."""
        load: Any = x.args[0]
        slot, position = self.view_slot(load.buffer), self.position(load, load.buffer, load.indices)
        return lambda f: f[slot].array[position(f) :]

    def atomic(self, x: e.Call) -> Closure:
        """`atomic_add`: an element goes up by a number; what it was before."""
        load: Any = x.args[0].args[0] if isinstance(x.args[0], e.Call) else None
        if not isinstance(load, BufferLoad) or any(a.dtype.lanes != 1 for a in x.args[1:]):
            raise UnsupportedOpError("atomic_add needs T.address_of(B[i]) and a number")
        position, slot = self.position(load, load.buffer, load.indices), self.view_slot(load.buffer)
        value, tell = self.compile(x.args[1]), self.recorder(load.buffer, "u")
        add = binary(e.Add, load.buffer.dtype)

        def run(f: Frame) -> Any:
            term, at = value(f), position(f)
            if tell is not None:
                tell(f, at)
            old = f[slot].read(at)
            f[slot].write(at, add(old, term))
            return old

        return run

    def _store(self, x: s.BufferStore) -> Closure:
        if any(i.dtype.lanes != 1 for i in x.indices):
            return self._store_vector(x)
        position, slot = self.position(x, x.buffer, x.indices), self.view_slot(x.buffer)
        value, tell = self.compile(x.value), self.recorder(x.buffer, "w")
        lanes = x.buffer.dtype.lanes
        if lanes != 1:
            return self.store_wide(position, value, slot, lanes, tell)
        if tell is None:

            def run(f: Frame) -> None:
                stored = value(f)
                f[slot].write(position(f), stored)

            return run

        def run_and_tell(f: Frame) -> None:
            stored, at = value(f), position(f)
            tell(f, at, stored)
            f[slot].write(at, stored)

        return run_and_tell

    def store_wide(
        self, position: Closure, value: Closure, slot: int, lanes: int, tell: Told
    ) -> Closure:
        """Into a buffer whose elements are vectors."""

        def run(f: Frame) -> None:
            stored, at = value(f), position(f)
            if tell is not None:
                tell(f, at, stored)
            f[slot].array[at * lanes : (at + 1) * lanes] = stored

        return run

    def _store_vector(self, x: s.BufferStore) -> Closure:
        positions, slot = self.positions(x, x.buffer, x.indices), self.view_slot(x.buffer)
        value, wide = self.compile(x.value), x.value.dtype.lanes != 1
        mask = None if x.predicate is None else self.compile(x.predicate)
        fail, tell = self._failure(x, x.buffer), self.recorder(x.buffer, "w")

        def run(f: Frame) -> None:
            view, stored, found = f[slot], value(f), positions(f)
            values = stored if wide else [stored] * len(found)
            keep = [True] * len(found) if mask is None else mask(f)
            for (at, point), kept, item in zip(found, keep, values, strict=True):
                if not kept:
                    continue
                if at is None:
                    fail(f, view, point)
                if tell is not None:
                    tell(f, at, item)
                view.write(at, item)

        return run

    # what warps do together: a thread takes what others have, or rows that they name

    def _matrix_product(self, x: e.Call) -> Closure:
        """`ptx_mma`: shape, layouts and dtypes as texts, then (fragment, offset) of A, B, C."""
        form = Form.of(x)
        memory = [self.compile(x.args[n]) for n in FRAGMENTS]
        places = [self.compile(x.args[n + 1]) for n in FRAGMENTS]
        operand = Var("operand", dtype(form.given.dtype))
        slot, rounded = self.slot(operand), self.compile(form.taken(operand))
        lane = self.lane_slot(x)

        def run(f: Frame) -> int:
            def taken(value: Any) -> Any:
                f[slot] = value
                return rounded(f)

            zero, one = _as_lane(f, lane, 0), _as_lane(f, lane, 1)
            instructions.matrix_product(
                form,
                [m(f) for m in memory],
                [at(f) for at in places],
                [at(one) - at(zero) for at in places],
                f[lane],
                taken,
            )
            return 0

        return run

    def lane_slot(self, x: e.Call) -> int:
        """The slot of the lane of a warp.

        Raises:
            UnsupportedOpError: nothing is.
        """
        if self.lanes is None:
            raise UnsupportedOpError(
                f"{x.op} is done by a warp, and no loop is bound to threadIdx.x"
            )
        return self.lanes

    def _loaded_matrices(self, x: e.Call) -> Closure:
        """`ptx_ldmatrix`: what a thread takes of each matrix, of rows that other threads name."""
        taken = neighbours(x)
        turned, count = (self.compile(a) for a in x.args[:2])
        own, at, memory, row = (self.compile(a) for a in x.args[3:7])
        lane, look = self.lane_slot(x), self.look(x, 5)

        def run(f: Frame) -> int:
            registers, first, thread = own(f), at(f), f[lane]
            for n in range(taken * count(f)):
                line, place = thread // 4, thread % 4 * taken + n % taken
                if turned(f):
                    line, place = place, line
                begins = row(_as_lane(f, lane, n // taken * 8 + line))
                registers[first + n] = look(f, memory(f), begins + place)
            return 0

        return run

    def look(self, x: e.Call, argument: int) -> Callable[[Frame, Any, int], Any]:
        """Reads an element of an array, for a call that gets pointers."""

        def read(f: Frame, array: Any, place: int) -> Any:
            if not 0 <= place < len(array):
                raise ExecutionError(f"out of bounds: {x.op} reads element {place}", where=x)
            return array[place]

        return read


def each_lane(tell: Callable[..., None], lanes: int) -> Callable[..., None]:
    """Tells of an element that is a vector, lane by lane: other buffers may see its lanes."""

    def run(f: Frame, at: int, value: Any = None) -> None:
        for lane in range(lanes):
            tell(f, at * lanes + lane, None if value is None else value[lane])

    return run


def _as_lane(f: Frame, slot: int, lane: int) -> Frame:
    """The frame of another lane of the warp, for what differs by it only."""
    other = list(f)
    other[slot] = lane
    return other
