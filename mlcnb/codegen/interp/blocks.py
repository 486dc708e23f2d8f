"""Memory that a program makes, and blocks, as closures over frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mlcnb.codegen.interp.expressions import Closure, Frame
from mlcnb.codegen.interp.memory import View, allocate, size_of, typed
from mlcnb.codegen.interp.statements import Code, StatementCompiler
from mlcnb.core.errors import ExecutionError
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, MatchBufferRegion


class BlockCompiler(StatementCompiler):
    """The whole compiler: statements with allocations, declarations and blocks."""

    def _allocation(self, x: s.Allocate) -> Code:
        slot, kind = self.slot(x.buffer_var), x.dtype
        extents = [self.compile(n) for n in x.extents]
        body = self.stmt(x.body)
        declare = self.declare_implicit(x.buffer_var)
        fresh = self.fresh_memory(x, x.scope)
        held = None if x.data is None else x.data.reshape(-1)

        def steps(f: Frame) -> Iterator[None]:
            size = size_of([n(f) for n in extents])
            f[slot] = fresh(f, kind, size) if held is None else held
            declare(f)
            yield

        return self.with_body(steps, body)

    def fresh_memory(self, owner: Any, scope: str) -> Callable[..., Any]:
        """Memory for one run of the owner."""
        return lambda f, kind, size: allocate(kind, size)

    def declare_implicit(self, data: Var) -> Closure:
        """Makes the views of buffers over `data` that no statement declares."""
        makers = [(self.slot(b), self.view_of(b)) for b in self.implicit.pop(data, [])]

        def run(f: Frame) -> None:
            for slot, make in makers:
                f[slot] = make(f)

        return run

    def view_of(self, buffer: Buffer) -> Callable[[Frame], View]:
        """Makes a buffer's view of the memory its pointer holds."""
        data = self.slot(buffer.data)
        shape = [self.unwrapped(n) for n in buffer.shape]
        strides = [self.compile(n) for n in buffer.strides]
        offset = self.compile(buffer.elem_offset) if buffer.elem_offset is not None else _zero

        def make(f: Frame) -> View:
            array = typed(f[data], buffer.dtype)
            steps = [n(f) for n in strides] if strides else None
            return View(buffer, array, [n(f) for n in shape], steps, offset(f))

        return make

    def _declaration(self, x: s.DeclBuffer) -> Code:
        self.declared.add(x.buffer)
        slot, make = self.slot(x.buffer), self.view_of(x.buffer)

        def steps(f: Frame) -> Iterator[None]:
            f[slot] = make(f)
            yield

        return self.with_body(steps, self.stmt(x.body))

    # blocks

    def _realize(self, x: s.BlockRealize) -> Code:
        block = x.block
        values = [self.compile(v) for v in x.iter_values]
        axes = [self._axis(axis) for axis in block.iter_vars]
        predicate = self.compile(x.predicate)
        prepare = self.memory_of(block)
        starts = self.starts(block)
        init = _pass if block.init is None else self.stmt(block.init)[0]
        has_init = block.init is not None
        body = self.stmt(block.body)
        views = [self.declare_implicit(data) for data in self._pointers(block)]

        def steps(f: Frame) -> Iterator[None]:
            found = [v(f) for v in values]
            if not predicate(f):
                return
            for (slot, low, extent, axis), value in zip(axes, found, strict=True):
                f[slot] = value
                if not low(f) <= value < low(f) + extent(f):
                    self._outside_domain(x, axis, value)
            for step in prepare:
                step(f)
            for view in views:
                view(f)
            if has_init and starts(f):
                init(f)
            yield

        return self.with_body(steps, body)

    def _axis(self, axis: s.IterVar) -> tuple[int, Closure, Closure, s.IterVar]:
        low, extent = self.unwrapped(axis.dom.min), self.unwrapped(axis.dom.extent)
        return self.slot(axis.var), low, extent, axis

    def _outside_domain(self, x: s.BlockRealize, axis: s.IterVar, value: int) -> None:
        raise ExecutionError(
            f"block {x.block.name_hint}: its axis {axis.var.name} takes the value {value}, outside "
            "of its domain",
            where=x.block,
        )

    def starts(self, block: s.Block) -> Closure:
        """True at the first step of the reduce axes, where `init` runs."""
        first = [
            (self.slot(axis.var), self.compile(axis.dom.min))
            for axis in block.iter_vars
            if axis.iter_type is s.IterType.REDUCE
        ]
        return lambda f: all(f[slot] == low(f) for slot, low in first)

    def _pointers(self, block: s.Block) -> list[Var]:
        matched = [m.buffer.data for m in block.match_buffers]
        return [*(b.data for b in block.alloc_buffers), *matched]

    def memory_of(self, block: s.Block) -> list[Closure]:
        """What makes the buffers that live in a block, in order."""
        steps = [self._allocated(buffer) for buffer in block.alloc_buffers]
        return steps + [self.matched(match) for match in block.match_buffers]

    def _allocated(self, buffer: Buffer) -> Closure:
        self.declared.add(buffer)
        data, slot, view = self.slot(buffer.data), self.slot(buffer), self.view_of(buffer)
        shape = [self.unwrapped(n) for n in buffer.shape]
        strides = [self.compile(n) for n in buffer.strides]
        fresh = self.fresh_memory(buffer, buffer.scope)

        def run(f: Frame) -> None:
            sizes = [n(f) for n in shape]
            reach = [(n - 1) * step(f) for n, step in zip(sizes, strides, strict=False)]
            size = sum(reach) + 1 if strides and sizes else size_of(sizes)
            f[data] = fresh(f, buffer.dtype, size)
            f[slot] = view(f)

        return run

    def matched(self, match: MatchBufferRegion) -> Closure:
        """A view of a region of another buffer; strides and offset that are variables are bound."""
        buffer, source = match.buffer, match.source
        self.declared.add(buffer)
        outer, slot = self.view_slot(source.buffer), self.slot(buffer)
        data = self.slot(buffer.data)
        starts = [self._range_of(r) for r in source.region]
        bind_shape = [self._binder(n, "a dimension", buffer) for n in buffer.shape]
        bind_strides = [self._binder(n, "a stride", buffer) for n in buffer.strides]
        offset = buffer.elem_offset
        bind_offset = None if offset is None else self._binder(offset, "elem_offset", buffer)

        def run(f: Frame) -> None:
            view: View = f[outer]
            box = [(low(f), extent(f)) for low, extent in starts]
            at = view.offset
            for (low, extent), room, step in zip(box, view.shape, view.strides, strict=True):
                if low < 0 or low + extent > room:
                    self._region_outside(match, box, view)
                at += low * step
            kept = len(box) - len(bind_shape)
            sizes = [extent for _, extent in box[kept:]]
            steps = view.strides[kept:]
            for bind, size in zip(bind_shape, sizes, strict=True):
                bind(f, size)
            for bind, step in zip(bind_strides, steps, strict=True) if bind_strides else ():
                bind(f, step)
            if bind_offset is not None and isinstance(offset, Var):
                bind_offset(f, at)
            f[data] = view.array
            f[slot] = View(buffer, view.array, sizes, steps, at)

        return run

    def _range_of(self, bounds: Range) -> tuple[Closure, Closure]:
        return self.compile(bounds.min), self.compile(bounds.extent)

    def _binder(self, dim: PrimExpr, what: str, view: Buffer) -> Callable[[Frame, int], None]:
        """Gives a variable its value; anything else must have it already."""
        if isinstance(dim, Var):
            slot, kind = self.slot(dim), dim.dtype
            where = f"{dim.name}, {what} of {view.name}"

            def bind(f: Frame, value: int) -> None:
                if not kind.holds(value):
                    room = kind.max_value + 1
                    raise ExecutionError(f"{where}: index {value} is outside of 0..{room}")
                f[slot] = value

            return bind
        closure = self.compile(dim)

        def check(f: Frame, value: int) -> None:
            if closure(f) != value:
                raise ExecutionError(f"match_buffer: {value} does not fit {closure(f)}", where=dim)

        return check

    def _region_outside(self, match: MatchBufferRegion, box: list, view: View) -> None:
        region = ", ".join(f"{low}:{low + extent}" for low, extent in box)
        raise ExecutionError(
            f"out of bounds: match_buffer {match.buffer.name} takes "
            f"{view.buffer.name}[{region}], its shape is {view.shape}",
            where=match,
        )


def _pass(f: Frame) -> None:
    """Nothing."""


def _zero(f: Frame) -> int:
    return 0


class WatchingCompiler(BlockCompiler):
    """Notes what is watched for races: where several agents run (a kernel, a parallel loop); not
    what memory each makes there for itself.
    """

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        #: agents run the place that is compiled
        self.watches = False
        #: the statement that is compiled
        self.site: Any = None
        #: pointers to memory that is allocated where agents run
        self.own: set[Var] = set()

    def stmt(self, x: s.Stmt) -> Code:
        """The closure of a statement."""
        outer, self.site = self.site, x
        code = super().stmt(x)
        self.site = outer
        return code

    def _allocation(self, x: s.Allocate) -> Code:
        if self.watches and x.data is None:
            self.own.add(x.buffer_var)
        return super()._allocation(x)

    def _allocated(self, buffer: Buffer) -> Closure:
        if self.watches:
            self.own.add(buffer.data)
        return super()._allocated(buffer)

    def matched(self, match: MatchBufferRegion) -> Closure:
        """A view of a region of another buffer."""
        if match.source.buffer.data in self.own:
            self.own.add(match.buffer.data)
        return super().matched(match)
