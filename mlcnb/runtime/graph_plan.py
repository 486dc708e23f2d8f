"""Where everything is while a graph function runs: each tensor has its place, each call its slots.

For each set of sizes met at run time the function is planned once (`graph_call` runs the plan):

    inputs, outputs     addresses patched in for each call
    constants           addresses of their arrays
    everything else     one arena, where tensors whose lives do not overlap share bytes, and the
                        workspace of a call lies where no tensor is at that time

A straight function is kernels one after the other. Branches and functions that call themselves in
the end run natively too, where all sizes are known beforehand (`whole`): a branch is a jump,

    if c: r = f(x)           0  jump to 3 unless c        r, p: places; a turn that gives its p to
    else: r = g(x)           1  r = f(x)                  another one's copies both at once
                             2  jump to 4
    def loop(p):             3  r = g(x)
        if more(p): loop(f(p))
        else: p              4  p = x;  5  m = more(p);  6  jump to 9 unless m
    y = loop(x)              7  t = f(p), p = t;  8  jump to 5;  9  y = p

Other calls of functions, and sizes that depend on data, are left to the virtual machine, which runs
stretches between them natively (`runtime.stretches`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.core.node import FrozenDict
from mlcnb.ir.memory import aligned
from mlcnb.ir.span import Span
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.memory_lives import OUTPUT, PARAM, PlannedTensor, flat
from mlcnb.relax.analysis.memory_lives import aligned as rounded_up
from mlcnb.relax.analysis.memory_plan import MemoryPlan, plan_memory
from mlcnb.relax.analysis.variables import free_vars, uses
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.runtime.kernel_call import checked_number
from mlcnb.runtime.shapes import Dims, check_sizes, evaluate, literal, match_shapes, shape_of
from mlcnb.runtime.whole import Scope, is_put


@dataclass(eq=False)
class Storage:
    """A piece of memory.

    kind: "arena", "input", "output" or "constant"; size in bytes; offset: in the arena; number:
    which input, output or constant.
    """

    kind: str
    size: int
    offset: int = 0
    number: int = -1


@dataclass(frozen=True)
class Place:
    """A tensor: its storage, shape and dtype (a reshape is another Place on the same storage)."""

    storage: Storage
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass
class KernelCall:
    """One call: the kernel's name, its arguments (places and numbers), its binding's name.

    kernel: or JUMP (a condition, or 0, and the call to go to where it does not hold), COPY (to,
    from, bytes), or PUT (to, from, bytes, how many such parts there are, which one); workspace:
    where in the arena it has its own memory while it runs; origin: such as a node of the model.
    """

    kernel: str
    binding: str
    args: list[Any]
    dims: Dims = field(default_factory=dict)
    workspace: int = 0
    origin: Span | None = None


#: calls that no kernel makes
JUMP, COPY, PUT = OWN = "mlcnb.jump", "mlcnb.copy", "mlcnb.put"


@dataclass
class Layout:
    """What planning finds: calls in order, where everything is, and how large the arena is.

    workspace_bytes: the most that a call needs of the arena for itself.
    """

    memory: MemoryPlan
    calls: list[KernelCall] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    result: Any = None
    arena_bytes: int = 0
    workspace_bytes: int = 0


def plan(
    function: rx.Function,
    kernels: Mapping[str, Any],
    dims: Dims,
    functions: Mapping[Any, Any] | None = None,
) -> Layout:
    """Lay out a function that runs whole, for some sizes; `functions` are those of the module."""
    return _Planner(function, kernels, dims, functions or {}).layout()


class Tail(NamedTuple):
    """A function that runs: what calls it, where its parameters are, where it begins."""

    op: Any
    params: tuple[Any, ...]
    top: int


class _Planner:
    """Follows a function binding by binding: what is where, and which calls are made.

    A branch, or a function that is called, has a planner of its own, which goes on with the same
    calls; its tensors lie behind those of the planner around it, `outer`, from `base` on.
    """

    def __init__(
        self,
        function: rx.Function,
        kernels: Mapping[str, Any],
        dims: Dims,
        functions: Mapping[Any, Any],
        outer: _Planner | None = None,
    ) -> None:
        self.function = function
        self.kernels = kernels
        self.dims = dims
        self.functions = functions
        self.outer = outer
        self.memory = plan_memory(function, functions, dims)
        self.out: Layout = outer.out if outer else Layout(memory=self.memory)
        self.base: int = outer.end if outer else 0
        #: where what it is not told beforehand is put
        self.end: int = self.base + self.memory.arena_bytes
        self.grow(self.end)
        self.storages: dict[int, Storage] = {}
        self.counts = {"input": 0, "output": 0}
        self.constants: dict[int, Storage] = outer.constants if outer else {}
        self.values: dict[rx.Var, Any] = dict(outer.values) if outer else {}
        self.scope: Scope = outer.scope if outer else Scope(functions)
        self.step = 0

    def layout(self) -> Layout:
        """Every call with its arguments, and the form of the result."""
        for param in self.function.params:
            self.values[param] = self.place(self.memory.places[param], param.struct_info)
        self.bindings(None)
        self.out.result = self.value(self.function.body.body, None)
        return self.out

    def bindings(self, tail: Tail | None) -> None:
        """Follow all bindings; tail: the function that they end, if any."""
        body = self.function.body
        for step, binding in enumerate(body.bindings):
            self.step = step
            is_last = step == len(body.bindings) - 1 and binding.var is body.body
            self.binding(binding, tail if is_last else None)

    def binding(self, binding: Any, tail: Tail | None) -> None:
        """Follow one binding."""
        value = binding.value
        if isinstance(binding, rx.MatchCast):
            check_sizes(binding, self.dims)
        if isinstance(value, rx.Function):
            self.scope.local[binding.var] = value
            return
        function = self.scope.called(value)
        if function is None and not isinstance(value, rx.If):
            self.values[binding.var] = self.value(value, binding.var)
            return
        places = self.memory.places[binding.var]
        made = self.values[binding.var] = self.place(places, binding.var.struct_info)
        if function is None:
            self.branches(value, made, tail)
        elif tail is not None and value.op is tail.op:
            self.turn(value, tail)
        else:
            self.call(value, function, made)

    def branches(self, x: rx.If, made: Any, tail: Tail | None) -> None:
        """The two branches, and the jumps around them."""
        to_else = self.jump(self.value(x.cond, None))
        self.inside(x.true_branch, made, tail)
        to_end = self.jump(0)
        to_else.args[1] = len(self.out.calls)
        self.inside(x.false_branch, made, tail)
        to_end.args[1] = len(self.out.calls)

    def call(self, x: rx.Call, function: rx.Function, made: Any) -> None:
        """A function: its arguments are copied to where its parameters are, then it runs."""
        params = []
        for param, arg in zip(function.params, x.args, strict=True):
            given = self.value(arg, None)
            place = self.allocated(param.struct_info) if x.op in uses(function) else given
            self.copy(given, place)
            self.values[param] = place
            params.append(place)
        self.inside(function.body, made, Tail(x.op, tuple(params), len(self.out.calls)))

    def turn(self, x: rx.Call, tail: Tail) -> None:
        """The function again: all new values of its parameters are there before one is written."""
        given = [p for arg in x.args for p in places_in(self.value(arg, None))]
        wanted = list(places_in(tail.params))
        moved = [(a, b) for a, b in zip(given, wanted, strict=True) if a.storage is not b.storage]
        written = {id(b.storage) for _, b in moved}
        for number, (a, b) in enumerate(moved):
            if id(a.storage) in written:
                aside = Place(self.arena(a.nbytes), a.shape, a.dtype)
                self.copy(a, aside)
                moved[number] = aside, b
        for a, b in moved:
            self.copy(a, b)
        self.jump(0).args[1] = tail.top

    def inside(self, seq: Any, made: Any, tail: Tail | None) -> None:
        """A sequence whose result goes to `made`; a tensor of it is made there where it can be."""
        body = seq if isinstance(seq, rx.SeqExpr) else rx.SeqExpr((), seq)
        params = tuple(v for v in free_vars(body) if v in self.values)
        function = rx.Function(params, body, body.body.struct_info, True, FrozenDict())
        planner = _Planner(function, self.kernels, self.dims, self.functions, self)
        planner.adopt(body.body, made)
        planner.bindings(tail)
        planner.copy(planner.value(body.body, None), made)

    def adopt(self, result: Any, made: Any) -> None:
        """Let tensors that are the result be made in places that are given."""
        if isinstance(result, rx.Tuple):
            for field_, place in zip(result.fields, made, strict=True):
                self.adopt(field_, place)
        elif isinstance(result, rx.Var) and result in self.memory.places:
            planned = flat(self.memory.places[result])
            for tensor, place in zip(planned, places_in(made), strict=False):
                if tensor.kind == OUTPUT:
                    self.storages.setdefault(id(tensor), place.storage)

    def jump(self, condition: Any) -> KernelCall:
        """A jump, where a condition does not hold; where to is filled in later."""
        self.out.calls.append(KernelCall(JUMP, "a jump", [condition, 0]))
        return self.out.calls[-1]

    def copy(self, source: Any, target: Any) -> None:
        """Copy tensors, but those that lie there already."""
        for a, b in zip(places_in(source), places_in(target), strict=True):
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                raise ExecutionError(f"a tensor of shape {a.shape} goes where {b.shape} is wanted")
            if a.storage is not b.storage and a.nbytes:
                self.out.calls.append(KernelCall(COPY, "a copy", [b, a, a.nbytes]))

    def allocated(self, info: Any) -> Any:
        """Places behind everything else for a value of this struct info."""
        if isinstance(info, TupleStructInfo):
            return tuple(map(self.allocated, info.fields))
        shape, kind = shape_of(info, self.dims), info.dtype.numpy
        return Place(self.arena(math.prod(shape) * kind.itemsize), shape, kind)

    def arena(self, size: int) -> Storage:
        """Memory behind everything else."""
        start, self.end = self.end, self.end + rounded_up(size)
        self.grow(self.end)
        return Storage("arena", rounded_up(size), start)

    def grow(self, end: int) -> None:
        """The arena goes so far at least."""
        self.out.arena_bytes = max(self.out.arena_bytes, end)

    def place(self, planned: Any, info: Any) -> Any:
        """The Place of a planned tensor, seen as `info` says; tuples field by field."""
        if isinstance(info, TupleStructInfo):
            return tuple(map(self.place, planned, info.fields))
        return Place(self.storage(planned), shape_of(info, self.dims), info.dtype.numpy)

    def storage(self, planned: PlannedTensor) -> Storage:
        """The memory of a planned tensor: numbered where it comes from or goes to the caller."""
        if id(planned) not in self.storages:
            kind = {PARAM: "input", OUTPUT: "output"}.get(planned.kind, "arena")
            if kind == "output" and self.outer is not None:
                found = self.arena(planned.nbytes)
            elif kind == "arena":
                found = Storage(kind, planned.nbytes, self.base + planned.offset)
            else:
                found = Storage(kind, planned.nbytes, planned.offset, self.counts[kind])
                self.counts[kind] += 1
            self.storages[id(planned)] = found
        return self.storages[id(planned)]

    def value(self, x: Any, var: rx.Var | None) -> Any:
        """The Place (or tuple, or sizes) of an expression."""
        if isinstance(x, rx.Var):
            return self.values[x]
        if isinstance(x, rx.Constant):
            return self.constant(x)
        if isinstance(x, rx.Tuple):
            return tuple(self.value(f, None) for f in x.fields)
        if isinstance(x, rx.TupleGetItem):
            return self.value(x.tuple_value, None)[x.index]
        if isinstance(x, rx.ShapeExpr):
            return tuple(evaluate(d, self.dims) for d in x.values)
        if isinstance(x, rx.PrimValue | rx.StringImm | rx.DataTypeImm):
            return literal(x, self.dims)
        assert var is not None
        if x.op.name == "relax.reshape":
            source = self.value(x.args[0], None)
            return Place(source.storage, shape_of(var.struct_info, self.dims), source.dtype)  # type: ignore[arg-type]
        return self.put(x, var) if is_put(x) else self.kernel_call(x, var)

    def put(self, x: rx.Call, var: rx.Var) -> Place:
        """A row into a room, which is written over where it is memory of the plan's own."""
        room, row, turn = (self.value(a, None) for a in x.args[1:])
        if room.shape[1:] != row.shape or room.dtype != row.dtype or turn.dtype != np.int64:
            raise ExecutionError(f"a row of shape {row.shape} is put into a room {room.shape}")
        given = room.storage.kind in ("input", "constant")
        place = Place(self.arena(room.nbytes), room.shape, room.dtype) if given else room
        self.copy(room, place)
        args = [place, row, row.nbytes, room.shape[0], turn]
        self.out.calls.append(KernelCall(PUT, var.name_hint, args, origin=x.span))
        return place

    def constant(self, x: rx.Constant) -> Place:
        """A constant where it is, or a copy that is aligned."""
        key = id(x.data)
        if key not in self.constants:
            data = aligned(x.data)
            number = len(self.out.constants)
            self.constants[key] = Storage("constant", data.nbytes, number=number)
            self.out.constants.append(data)
        return Place(self.constants[key], x.data.shape, x.data.dtype)

    def kernel_call(self, x: rx.Call, var: rx.Var) -> Any:
        """Note a call_tir, unless its result is there already; the result lies where it was planned
        to.
        """
        args = self.value(x.args[1], None)
        args = list(args) if isinstance(args, tuple) else [args]
        made = self.place(self.memory.places[var], x.sinfo_args[0])
        if var in self.memory.joined:
            return made
        results = list(made) if isinstance(made, tuple) else [made]
        scalars = list(self.value(x.args[2], None)) if len(x.args) > 2 else []
        kernel = x.args[0].name_hint  # type: ignore[attr-defined]
        call = KernelCall(kernel, var.name_hint, [*args, *results, *scalars], origin=x.span)
        self.out.calls.append(call)
        call.dims = self.kernel_dims(kernel, call)
        call.workspace = self.workspace(self.kernels[kernel].signature.workspace)
        return made

    def workspace(self, size: int) -> int:
        """Where the call of this step has so many bytes for itself."""
        if size == 0:
            return 0
        offset = self.base + self.memory.free_at(self.step, size)
        if offset + size > self.base + self.memory.arena_bytes:
            offset = self.end
        self.grow(offset + size)
        self.out.workspace_bytes = max(self.out.workspace_bytes, size)
        return offset

    def kernel_dims(self, kernel: str, call: KernelCall) -> Dims:
        """The sizes of the kernel's own symbolic variables, checked against all its arguments."""
        dims: Dims = {}
        shapes: list[Any] = []
        params = self.kernels[kernel].signature.params
        for param, arg in zip(params, call.args, strict=True):
            what = f"{call.binding}: {param.name}"
            if not isinstance(arg, Place):
                dims[param] = checked_number(kernel, param, arg)
            elif arg.dtype != param.dtype.numpy:
                raise RuntimeInputError(f"{what}: expected dtype {param.dtype}, got {arg.dtype}")
            else:
                shapes.append((arg.shape, param.shape, what))
        match_shapes(shapes, dims)
        return dims


def places_in(found: Any) -> Iterator[Place]:
    """The places of a value, tuples opened."""
    if isinstance(found, Place):
        yield found
    for part in found if isinstance(found, tuple) else ():
        yield from places_in(part)
