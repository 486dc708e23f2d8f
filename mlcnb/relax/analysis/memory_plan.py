"""Static memory plan: where each intermediate tensor of a function lies in one arena.

    step 0  lv  = conv(x)      lv   [0, 0..1]      offset    0  ┌────┐
    step 1  lv1 = relu(lv)     lv1  [1, 1..2]      offset 4096  │lv1 │
    step 2  lv2 = add(lv1, x)  lv2  [2, 2..3]      offset    0  │lv, lv2 (one after the other)
    step 3  gv  = exp(lv2)     gv   is returned: memory of its own

A tensor lives from the step that makes it to its last use; two that live at the same time do not
overlap. Large tensors are placed first, each at the lowest place that is free for its life (greedy
by size, Pisarchyk and Lee 2020, arXiv 2001.03288). Views (reshape) lie where their tensor lies. An
elementwise result may take the place of an operand that ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import walk
from mlcnb.ir.expr import IntImm
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.memory import ALIGNMENT
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.struct_info import nbytes, substitute
from mlcnb.relax.analysis.variables import leaves, value_uses
from mlcnb.relax.expr import (
    Call,
    Constant,
    Function,
    Op,
    Tuple,
    TupleGetItem,
    Var,
)
from mlcnb.relax.infer import Functions
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, SeqStmt

#: operators whose result is their first operand, seen in another shape
VIEWS = frozenset(
    f"relax.{name}" for name in ("reshape", "expand_dims", "squeeze", "flatten", "memory.view")
)

#: kinds of a planned tensor
ARENA, OUTPUT, PARAM, CONSTANT, DYNAMIC = "arena", "output", "param", "constant", "dynamic"


@dataclass(slots=True, eq=False)
class PlannedTensor:
    """A tensor and where it lies.

    name: the variable's (with `.i` for a field of a tuple); kind: `arena`, `output` (returned: not
    in the arena), `param`, `constant`, or `dynamic` (size unknown: allocated at run time);
    nbytes: its size, aligned; first, last: the steps of its life; offset: in the arena, in bytes;
    shares: the tensor whose place it takes over.
    """

    name: str
    info: Any
    kind: str
    nbytes: int = 0
    first: int = 0
    last: int = 0
    offset: int = -1
    shares: PlannedTensor | None = None

    @property
    def root(self) -> PlannedTensor:
        """The tensor at the start of the chain of those whose place was taken over."""
        return self if self.shares is None else self.shares.root

    def lives_with(self, other: PlannedTensor) -> bool:
        """True where both hold values at the same time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(eq=False)
class MemoryPlan:
    """The tensors of a function, by variable, and the size of the arena.

    places: for each variable a PlannedTensor, or a tuple of such for a tuple; arena_bytes: size of
    the arena; total_bytes: what the tensors in it take together; steps: number of bindings.
    """

    places: dict[Var, Any] = field(default_factory=dict)
    tensors: list[PlannedTensor] = field(default_factory=list)
    arena_bytes: int = 0
    steps: int = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors of the arena, if none took another's place."""
        return sum(t.nbytes for t in self.tensors if t.kind == ARENA)

    def place(self, var: Var, index: int | None = None) -> PlannedTensor:
        """Where a variable lies, or a field of a tuple.

        Raises:
            PassError: the plan does not know it.
        """
        found = self.places.get(var)
        if found is not None and index is not None and isinstance(found, tuple):
            found = found[index]
        if not isinstance(found, PlannedTensor):
            raise PassError(f"the memory plan has no tensor {var.name_hint!r}")
        return found

    def alive(self, step: int) -> list[PlannedTensor]:
        """The tensors of the arena that hold a value at a step."""
        return [t for t in self.tensors if t.kind == ARENA and t.first <= step <= t.last]

    def __repr__(self) -> str:
        head = (
            f"arena of {self.arena_bytes:,} bytes for {self.total_bytes:,} bytes of "
            f"intermediate tensors, {self.steps} steps"
        )
        rows = [f"{'tensor':<24} {'kind':<8} {'bytes':>12} {'offset':>12}  life"]
        for t in self.tensors:
            where = f"{t.offset:,}" if t.offset >= 0 else "-"
            note = f"  in place of {t.shares.name}" if t.shares else ""
            life = f"{t.first}..{t.last}"
            rows.append(f"{t.name:<24} {t.kind:<8} {t.nbytes:>12,} {where:>12}  {life}{note}")
        return "\n".join([head, *rows])


def plan_memory(
    func: Function,
    functions: Functions | None = None,
    dims: Mapping[PrimVar, int] | None = None,
    in_place: bool = True,
) -> MemoryPlan:
    """Where the tensors that a function binds lie.

    Args:
        func: a graph function, usually of call_tirs; what happens inside of branches is allocated
            at run time.
        functions: the loop functions, to see which are elementwise.
        dims: values of symbolic variables: the plan is for these shapes.
        in_place: let an elementwise result take the place of an operand that ends there.
    """
    lives = lifetimes(func, dims or {})
    plan = MemoryPlan(lives.places, lives.tensors, 0, lives.steps)
    if in_place:
        _share_places(func, functions or {}, plan)
    plan.arena_bytes = assign_offsets(t for t in plan.tensors if t.kind == ARENA)
    return plan


class Lifetimes:
    """First and last step of every tensor; views and tuples stand for what they hold."""

    def __init__(self, dims: Mapping[PrimVar, int]) -> None:
        self.dims = {v: IntImm(v.dtype, int(n)) for v, n in dims.items()}
        self.places: dict[Var, Any] = {}
        self.tensors: list[PlannedTensor] = []
        self.steps = 0

    def new(self, name: str, info: Any, kind: str, step: int) -> Any:
        """Places for a value that is made at a step."""
        if isinstance(info, TupleStructInfo):
            parts = enumerate(info.fields)
            return tuple(self.new(f"{name}.{i}", f, kind, step) for i, f in parts)
        if not isinstance(info, TensorStructInfo):
            return ()
        info = substitute(info, self.dims)
        size = nbytes(info)
        if size is None and kind == ARENA:
            kind = DYNAMIC
        tensor = PlannedTensor(name, info, kind, aligned(size or 0), step, step)
        self.tensors.append(tensor)
        return tensor

    def use(self, place: Any, step: int) -> None:
        """The value is read at a step."""
        for tensor in flat(place):
            tensor.last = max(tensor.last, step)

    def of(self, expr: Any) -> Any:
        """The places of a leaf."""
        if isinstance(expr, Tuple):
            return tuple(map(self.of, expr.fields))
        return self.places.get(expr, ()) if isinstance(expr, Var) else ()

    def value(self, var: Var, value: Any, step: int) -> Any:
        """The places of what is bound: those of a view's operand, or new ones."""
        if isinstance(value, TupleGetItem):
            whole = self.of(value.tuple_value)
            return whole[value.index] if whole else ()
        if isinstance(value, Var | Tuple | Constant):
            return self.of(value)
        if is_view(value) and isinstance(value.args[0], Var):
            return self.of(value.args[0])
        return self.new(var.name_hint, var.struct_info, ARENA, step)


def lifetimes(func: Function, dims: Mapping[PrimVar, int]) -> Lifetimes:
    """The tensors of a function with the steps of their lives; those returned are outputs."""
    lives = Lifetimes(dims)
    for param in func.params:
        lives.places[param] = lives.new(param.name_hint, param.struct_info, PARAM, 0)
    bindings = func.body.bindings
    for step, binding in enumerate(bindings):
        for leaf in value_uses(binding.value):
            lives.use(lives.of(leaf), step)
        lives.places[binding.var] = lives.value(binding.var, binding.value, step)
    for leaf in leaves(func.body.body):
        for tensor in flat(lives.of(leaf)):
            tensor.last = len(bindings)
            tensor.kind = OUTPUT if tensor.kind in (ARENA, DYNAMIC) else tensor.kind
    lives.steps = len(bindings)
    return lives


def is_view(value: Any) -> bool:
    """True for a call whose result is its first operand in another shape."""
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name in VIEWS


def flat(place: Any) -> Iterator[PlannedTensor]:
    """The tensors of a place, tuples opened."""
    if isinstance(place, PlannedTensor):
        yield place
    else:
        for part in place:
            yield from flat(part)


def aligned(count: int) -> int:
    """`count` rounded up to the alignment."""
    return (count + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def assign_offsets(tensors: Iterable[PlannedTensor]) -> int:
    """Give each tensor an offset such that none overlaps another that lives with it.

    Tensors with `shares` set take the offset of the one that they share with. Returns the bytes
    that all need together.
    """
    items = list(tensors)
    clusters: dict[int, list[PlannedTensor]] = {}
    for t in items:
        clusters.setdefault(id(t.root), []).append(t)
    placed: list[PlannedTensor] = []
    end = 0
    for members in sorted(clusters.values(), key=_size_then_start):
        whole = _hull(members)
        near = sorted((p for p in placed if p.lives_with(whole)), key=lambda p: p.offset)
        whole.offset = _lowest_gap(near, whole.nbytes)
        for t in members:
            t.offset = whole.offset
        placed.append(whole)
        end = max(end, whole.offset + whole.nbytes)
    return end


def _size_then_start(members: list[PlannedTensor]) -> tuple[int, int]:
    return (-max(t.nbytes for t in members), min(t.first for t in members))


def _hull(members: list[PlannedTensor]) -> PlannedTensor:
    """One tensor that covers the lives of several in one place."""
    first, last = min(t.first for t in members), max(t.last for t in members)
    size = max(t.nbytes for t in members)
    return PlannedTensor(members[0].name, None, ARENA, size, first, last)


def _lowest_gap(near: list[PlannedTensor], size: int) -> int:
    """The lowest offset where `size` bytes are free between the placed ones."""
    offset = 0
    for p in near:
        if p.offset - offset >= size:
            break
        offset = max(offset, p.offset + p.nbytes)
    return offset


def _share_places(func: Function, functions: Functions, plan: MemoryPlan) -> None:
    """Let elementwise results take over the place of an operand that is read there last."""
    for step, binding in enumerate(func.body.bindings):
        result = plan.places.get(binding.var)
        if not isinstance(result, PlannedTensor) or result.kind != ARENA or result.first != step:
            continue
        place = _place_to_take(binding.value, functions, result, step, plan)
        if place is not None:
            result.shares = place
            place.last = step - 1


def _place_to_take(
    call: Any, functions: Functions, result: PlannedTensor, step: int, plan: MemoryPlan
) -> PlannedTensor | None:
    """The place of an operand that ends at this step and is read where the result is written."""
    if not isinstance(call, Call) or getattr(call.op, "name", "") != "relax.call_tir":
        return None
    func = functions.get(call.args[0])  # type: ignore[call-overload]
    arguments: Any = call.args[1]
    for index, arg in enumerate(arguments.fields):
        place = plan.places.get(arg) if isinstance(arg, Var) else None
        if isinstance(place, PlannedTensor) and _ends_there(place, result, step):
            only = _only_operand(place, call, index, plan)
            if only and isinstance(func, PrimFunc) and reads_where_it_writes(func, index):
                return place
    return None


def _ends_there(place: PlannedTensor, result: PlannedTensor, step: int) -> bool:
    fits = place.kind == ARENA and place.last == step and place.nbytes == result.nbytes
    return fits and place is not result


def _only_operand(place: PlannedTensor, call: Any, index: int, plan: MemoryPlan) -> bool:
    """True where no other operand lies in the same place."""
    others = [a for i, a in enumerate(call.args[1].fields) if i != index]
    return all(plan.places.get(o) is not place for o in others if isinstance(o, Var))


def reads_where_it_writes(func: PrimFunc, index: int) -> bool:
    """True if `func` is one block that reads parameter `index` only at the element that it writes.

    Such a function gives the same result when the operand and the result are the same memory.
    """
    buffers = func.buffers
    source, target = buffers[index], buffers[-1]
    if source.dtype != target.dtype or _has_several_nests(func):
        return False
    nodes = list(walk(func.body))
    stores = [n for n in nodes if isinstance(n, BufferStore)]
    blocks = [n for n in nodes if isinstance(n, Block) and n.iter_vars]
    if len(stores) != 1 or len(blocks) != 1 or stores[0].buffer is not target:
        return False
    loads = [n for n in nodes if isinstance(n, BufferLoad) and n.buffer is source]
    return bool(loads) and all(structural_equal(n.indices, stores[0].indices) for n in loads)


def _has_several_nests(func: PrimFunc) -> bool:
    root = func.body.block.body if isinstance(func.body, BlockRealize) else func.body
    return isinstance(root, SeqStmt)
