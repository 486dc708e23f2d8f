"""A PrimFunc as statements over sets of integer points: where each runs, when, what it touches.

    for i, k in T.grid(4, 6):                    S0  { [i, k] : 0 <= i < 4, 0 <= k < 6, k = 0 }
        with T.block("B"): ...                       runs at (0, i, 0, k, 0), writes B[i]
            with T.init(): B[v] = 0       ->     S1  { [i, k] : 0 <= i < 4, 0 <= k < 6 }
            B[v] = B[v] + A[v, r]                    runs at (0, i, 0, k, 1), writes B[i]

Loops run in the order of the program; whether one may run in parallel is another question
(`carried`). A buffer that lives inside a loop is another one in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mlcnb.arith import isl
from mlcnb.arith.presburger import NotAffine
from mlcnb.core import display
from mlcnb.core.node import Node, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import ROOT, InBlock, InLoop, Named, Placed, Scope, Under
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.reducers import Reducer, matched_update
from mlcnb.tir.schedule.legality.polyhedral.writing import Names, condition, fresh, index


@dataclass(frozen=True)
class Place:
    """A scope in isl's text: loops around, names, conditions, and the block with its axes.

    outside: how many of the loops are around the block, not in it.
    """

    loops: tuple[s.For, ...]
    dims: tuple[str, ...]
    names: Names
    conditions: tuple[str, ...]
    block: s.Block | None = None
    axes: tuple[str, ...] = ()
    outside: int = 0

    @property
    def instance(self) -> tuple[str, ...]:
        """What tells one run of a statement in an instance of the block: its axes, loops inside."""
        return (*self.axes, *self.dims[self.outside :])

    def where(self, *conditions: str) -> Place:
        """The same place, where conditions hold too."""
        return replace(self, conditions=(*self.conditions, *conditions))


@dataclass(eq=False)
class Statement:
    """One store, for all iterations of the loops around it.

    place: what it stands in; path: where among the statements of each loop; is_init: it stands in
    the block's init.
    """

    program: Program
    name: str
    place: Place
    path: tuple[int, ...]
    store: s.BufferStore
    is_init: bool

    @property
    def block(self) -> s.Block | None:
        """The block that it stands in."""
        return self.place.block

    @cached_property
    def domain(self) -> Any:
        """The iterations that run it."""
        return self.program.set(f"{self.space} : {' and '.join(self.place.conditions) or 'true'}")

    @property
    def space(self) -> str:
        """`S0[i, k]`"""
        return f"{self.name}[{', '.join(self.place.dims)}]"

    def map(self, to: str) -> Any:
        """A map from its iterations: `to` is isl text over its loops."""
        return self.program.map(f"{self.space} -> {to}").intersect_domain(self.domain)

    def cases(self, test: e.PrimExpr, first: Any, second: Any) -> tuple[Any, Any, Any] | None:
        """The iterations for which an affine test holds, and both values; None for other tests."""
        try:
            text = condition(test, self.place.names)
        except NotAffine:
            return None
        holds = self.program.set(f"{self.space} : {text}").intersect(self.domain)
        return holds, first, second

    def choice(self, x: Any) -> tuple[Any, Any, Any] | None:
        """The cases of an `if_then_else`; None for anything else."""
        is_one = isinstance(x, e.Call) and x.op == "tir.if_then_else"
        return self.cases(*x.args) if is_one else None

    @cached_property
    def time(self) -> Any:
        """When its iterations run: a map to vectors in lexicographic order."""
        first, *rest = map(str, self.path)
        inner = (x for pair in zip(self.place.dims, rest, strict=True) for x in pair)
        times = ("1", first, *inner)
        return self.map(f"[{', '.join((*times, *['0'] * (self.program.depth - len(times))))}]")

    @cached_property
    def written(self) -> Any:
        """The elements that its iterations write."""
        return self.element(self.store.buffer, self.store.indices)

    def element(self, buffer: Buffer, indices: Sequence[e.PrimExpr]) -> Any:
        """The elements of a buffer that its iterations touch at these indices."""
        memory = self.program.memory(buffer)
        texts = [index(i, self.place.names) for i in indices]
        return self.map(memory.text(texts, self.place.names))

    @cached_property
    def update(self) -> tuple[Reducer, e.PrimExpr] | None:
        """The reducer and the new value, where the store is `X[i] = X[i] op value`."""
        return matched_update(self.store)

    @cached_property
    def loads(self) -> list[tuple[BufferLoad, Any]]:
        """Its loads, each with the iterations that make it (as far as conditions are affine)."""
        return list(_loads(self.store.value, self, self.domain))

    def label(self) -> str:
        """How messages name it."""
        if self.block is None or not self.block.iter_vars:
            return f"the store to {self.store.buffer.name}"
        init = "the init of " if self.is_init else ""
        return f"{init}block {self.block.name_hint}"


def _loads(x: Any, statement: Statement, where: Any) -> Iterator[tuple[BufferLoad, Any]]:
    if isinstance(x, BufferLoad):
        yield x, where
        return
    found = statement.choice(x)
    if found is not None:
        taken, first, second = found
        yield from _loads(first, statement, where.intersect(taken))
        yield from _loads(second, statement, where.subtract(taken))
        return
    for name in getattr(x, "child_fields", ()):
        value = getattr(x, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Node):
                yield from _loads(item, statement, where)


@dataclass(frozen=True)
class Memory:
    """Where a buffer's elements are: a space of points.

    outer: the loops that it lives inside; base: for a view, the buffer and where in it.
    """

    name: str
    outer: tuple[str, ...] = ()
    is_parameter: bool = False
    base: tuple[Memory, tuple[str, ...]] | None = None

    def text(self, indices: Sequence[str], names: Names) -> str:
        """The element at these indices, as isl text."""
        if self.base is None:
            return f"{self.name}[{', '.join((*self.outer, *indices))}]"
        memory, starts = self.base
        kept = len(starts) - len(indices)
        moved = [f"({a} + {b})" for a, b in zip(starts[kept:], indices, strict=True)]
        return memory.text([*starts[:kept], *moved], names)


@dataclass(frozen=True)
class Part:
    """A statement of a function, with what stands around it.

    Loops around it are parameters, for it runs once for each of their iterations; so are buffers
    that live around it, except `own`: buffers that nothing else uses.
    """

    func: PrimFunc
    body: s.Stmt
    around: tuple[s.Stmt, ...] = ()
    own: frozenset[Buffer] = frozenset()

    @staticmethod
    def whole(func: PrimFunc) -> Part:
        """All of a function."""
        return Part(func, func.body)


class Program:
    """All statements of a function, or of a part of it, in order.

    Raises:
        NotAffine: a loop bound, an index or a condition is not affine, or a statement is none that
            is understood.
    """

    def __init__(self, part: Part) -> None:
        self.func = part.func
        self.statements: list[Statement] = []
        self.memories: dict[e.Var, Memory] = {}
        self.buffers: dict[str, Buffer] = {}
        self.names = Names()
        self.loops_around: dict[e.Var, str] = {}
        self._prefix = ""
        self._places = {ROOT: self._surroundings(part, self._declare())}
        parameters = self.names.parameters.values()
        self._prefix = f"[{', '.join(parameters)}] -> " if parameters else ""
        for placed in Reading(part.body, self.func.buffers).statements:
            self._place(placed)
        self.depth = max((2 * len(x.path) for x in self.statements), default=0)

    # -- isl ------------------------------------------------------------

    def set(self, text: str) -> Any:
        """A set from isl text without braces."""
        return isl.read_set(f"{self._prefix}{{ {text} }}")

    def map(self, text: str) -> Any:
        """A map from isl text without braces."""
        return isl.read_map(f"{self._prefix}{{ {text} }}")

    def by_name(self, name: str) -> Statement:
        """The statement of that name."""
        return self.statements[int(name[1:])]

    # -- what the signature says ------------------------------------------------------------

    def _declare(self) -> Place:
        """The parameters of the function."""
        sizes: list[str] = []
        for v in self.func.params:
            if v not in self.func.buffer_map and v.dtype.is_int:
                self.names.declare(v)
        for buffer in self.func.buffers:
            self._parameter(buffer)
            for extent in buffer.shape:
                found = [x for x in walk(extent) if isinstance(x, e.Var)]
                sizes += [f"{self.names.declare(x)} >= 0" for x in found]
        return Place((), (), self.names, tuple(dict.fromkeys(sizes)))

    def _parameter(self, buffer: Buffer) -> None:
        if buffer.data in self.memories:
            raise NotAffine(f"two parameters share the memory of {buffer.name}")
        self._remember(buffer, Memory(f"P{len(self.memories)}", is_parameter=True))

    def _surroundings(self, part: Part, place: Place) -> Place:
        """What stands around a part: loops as parameters, axes of blocks, buffers."""
        for n in part.around:
            if isinstance(n, s.For):
                low, extent = index(n.min, place.names), index(n.extent, place.names)
                v = self.loops_around[n.loop_var] = self.names.declare(n.loop_var)
                place = place.where(f"{low} <= {v} < {low} + {extent}")
            elif isinstance(n, s.BlockRealize):
                if not p.is_const(n.predicate, 1):
                    place = place.where(condition(n.predicate, place.names))
                place = self._block(n, place)
                for buffer in n.block.alloc_buffers:
                    if buffer not in part.own:
                        self._parameter(buffer)
        for n in part.around:
            if isinstance(n, s.BlockRealize):
                for buffer in n.block.alloc_buffers:
                    if buffer in part.own:
                        self._allocate(buffer, place)
        return place

    def _remember(self, buffer: Buffer, memory: Memory) -> None:
        if buffer.strides:
            raise NotAffine(f"{buffer.name} has strides of its own: elements may share memory")
        self.memories[buffer.data] = memory
        self.buffers[memory.name] = buffer

    def memory(self, buffer: Buffer) -> Memory:
        """Where a buffer's elements are."""
        found = self.memories.get(buffer.data)
        if found is None:
            raise NotAffine(f"{buffer.name} is declared nowhere")
        known = self.buffers.get(found.name) if found.base is None else buffer
        if known is not buffer:
            raise NotAffine(f"{buffer.name} is another view of the memory of {known.name}")  # type: ignore
        return found

    # -- statements and what stands around them ------------------------------------------------

    def _place(self, placed: Placed) -> None:
        match placed.stmt:
            case s.BlockRealize() as n:
                for buffer in n.block.alloc_buffers:
                    self._allocate(buffer, self._at(placed.scope))
            case s.BufferStore() as n:
                self._store(n, placed)
            case s.Evaluate(value) if p.as_int(value) is not None:
                return
            case n:
                raise NotAffine(f"{_what(n)} is not looked into")

    def _at(self, scope: Scope) -> Place:
        found = self._places.get(scope)
        if found is None:
            assert scope.outer is not None
            found = self._places[scope] = self._inside(scope, self._at(scope.outer))
        return found

    def _inside(self, scope: Scope, place: Place) -> Place:
        match scope:
            case InLoop(node=s.For() as n):
                return self._loop(n, place)
            case Under(node=s.BlockRealize() | s.IfThenElse() | s.Block()):
                holds = condition(scope.condition, place.names)
                return place.where(holds if scope.holds else f"not {holds}")
            case Named(var=var, value=value):
                return replace(place, names=place.names.inner({var: index(value, place.names)}))
            case InBlock(node=n):
                return self._block(n, place)
        raise NotAffine(f"{_what(scope.node)} is not looked into")  # type: ignore[attr-defined]

    def _loop(self, n: s.For, place: Place) -> Place:
        dim = fresh(n.loop_var.name, (*place.dims, *self.names.parameters.values()))
        low, extent = index(n.min, place.names), index(n.extent, place.names)
        return replace(
            place,
            loops=(*place.loops, n),
            dims=(*place.dims, dim),
            names=place.names.inner({n.loop_var: dim}),
            conditions=(*place.conditions, f"{low} <= {dim} < {low} + {extent}"),
        )

    def _block(self, n: s.BlockRealize, place: Place) -> Place:
        """The place inside a block."""
        block = n.block
        values = [index(v, place.names) for v in n.iter_values]
        names = place.names.inner({a.var: v for a, v in zip(block.iter_vars, values, strict=True)})
        inner = replace(
            place,
            names=names,
            block=block,
            axes=(*place.axes, *values),
            outside=len(place.dims),
        )
        for match in block.match_buffers:
            self._view(match, inner)
        return inner

    def _allocate(self, buffer: Buffer, place: Place) -> None:
        if buffer.data in self.memories:
            raise NotAffine(f"{buffer.name} is allocated in two places")
        self._remember(buffer, Memory(f"M{len(self.memories)}", place.dims))

    def _view(self, match: Any, place: Place) -> None:
        source = self.memory(match.source.buffer)
        starts = tuple(index(r.min, place.names) for r in match.source.region)
        self.memories[match.buffer.data] = Memory(match.buffer.name, base=(source, starts))

    def _store(self, n: s.BufferStore, placed: Placed) -> None:
        if n.predicate is not None:
            raise NotAffine(f"the store to {n.buffer.name} has a mask")
        place, name = self._at(placed.scope), f"S{len(self.statements)}"
        made = Statement(self, name, place, placed.path, n, placed.scope.is_init)
        self.statements.append(made)


def _what(n: s.Stmt) -> str:
    return display.text(n).strip().splitlines()[0][:60]
