"""Static memory plan: where each intermediate tensor of a function lies in one arena.

    step 0  lv  = conv(x)      lv   [0, 0..1]      offset    0  ┌────┐
    step 1  lv1 = relu(lv)     lv1  [1, 1..2]      offset 4096  │lv1 │
    step 2  lv2 = add(lv1, x)  lv2  [2, 2..3]      offset    0  │lv, lv2 (one after the other)
    step 3  gv  = exp(lv2)     gv   is returned: memory of its own

A tensor lives from the step that makes it to its last use; two that live at the same time do not
overlap. Large tensors are placed first, each at the lowest place that is free for its life (greedy
by size, Pisarchyk and Lee 2020, arXiv 2001.03288). Views (reshape) lie where their tensor lies. An
elementwise result may take the place of an operand that ends there, and the operands of a
concatenation are made where they lie in its result:

    lv1 = relu(lv)                  lv ends there: lv1 is written over it, element by element
    lv4 = concat(lv2, lv3)          lv2 and lv3 are made inside of lv4: nothing is left to copy
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.memory import ALIGNMENT
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.calls import callee_of
from mlcnb.relax.analysis.memory_lives import ARENA, PlannedTensor, aligned, lifetimes
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Function, Var
from mlcnb.relax.infer import Functions
from mlcnb.tir.analysis import OpPatternKind
from mlcnb.tir.analysis.joining import joined_at
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, SeqStmt


@dataclass(eq=False)
class MemoryPlan:
    """The tensors of a function, by variable, and the size of the arena.

    places: for each variable a PlannedTensor, or a tuple of such for a tuple; arena_bytes: size of
    the arena; total_bytes: what the tensors in it take together; steps: number of bindings; joined:
    the results of concatenations whose operands are made inside of them, which copy nothing.

    A tensor whose shape is not known is in `places` with kind `dynamic`, and never in the arena: it
    is not refused.
    """

    places: dict[Var, Any] = field(default_factory=dict)
    tensors: list[PlannedTensor] = field(default_factory=list)
    arena_bytes: int = 0
    steps: int = 0
    joined: set[Var] = field(default_factory=set)

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors of the arena, if none lay where another one does."""
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

    def free_at(self, step: int, size: int) -> int:
        """The lowest offset of `size` bytes that no tensor needs at a step; may be the end."""
        near = sorted(self.alive(step), key=lambda t: t.offset)
        return lowest_gap(near, aligned(size))

    def __repr__(self) -> str:
        head = (
            f"arena of {self.arena_bytes:,} bytes for {self.total_bytes:,} bytes of "
            f"intermediate tensors, {self.steps} steps"
        )
        rows = [f"{'tensor':<24} {'kind':<8} {'bytes':>12} {'offset':>12}  life"]
        for t in self.tensors:
            where = f"{t.offset:,}" if t.offset >= 0 else "-"
            note = f"  in place of {t.shares.name}" if t.shares else ""
            note = f"  inside of {t.inside.name}" if t.inside else note
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

    Nothing is refused: a tensor whose shape is not known is planned as `dynamic`.

    Args:
        func: a graph function, usually of call_tirs; what happens inside of branches is allocated
            at run time.
        functions: the loop functions, to see which are elementwise.
        dims: values of symbolic variables: the plan is for these shapes.
        in_place: let an elementwise result take the place of an operand that ends there, and let
            the operands of a concatenation be made inside of its result.
    """
    lives = lifetimes(func, dims or {})
    plan = MemoryPlan(lives.places, lives.tensors, 0, lives.steps)
    if in_place:
        plan.joined = join_places(func, functions or {}, plan.places)
        share_places(func, functions or {}, plan.places, plan.tensors)
    plan.arena_bytes = assign_offsets(t for t in plan.tensors if t.kind == ARENA)
    return plan


def never_called(mod: IRModule) -> set[str]:
    """Names of the module's own loop functions that only join what lies in one piece already.

    Of functions with known sizes; for others, and where only a part of a function is planned, one
    of these may be called all the same.
    """
    joining: set[str] = set()
    called: set[str] = set()
    for func in mod.functions.values():
        if not isinstance(func, Function):
            continue
        calls: dict[Var, Any] = {
            b.var: b.value for b in bindings_of(func) if callee_of(b.value, mod.functions)
        }
        joined = plan_memory(func, mod.functions).joined if _may_copy(calls, mod) else ()
        for var, call in calls.items():
            (joining if var in joined else called).add(call.args[0].name_hint)
    return joining - called


def _may_copy(calls: Mapping[Var, Any], mod: IRModule) -> bool:
    """True if one of the calls is of what `ConcatInPlace` keeps for the plan."""
    callees = [callee_of(call, mod.functions) for call in calls.values()]
    kept = [f for f in callees if f and f.attrs.get("op_pattern") == int(OpPatternKind.OPAQUE)]
    return any("global_symbol" not in f.attrs and joined_at(f) for f in kept)


def assign_offsets(tensors: Iterable[PlannedTensor]) -> int:
    """Give each tensor an offset such that none overlaps another that lives with it.

    Tensors with `shares` or `inside` set lie where these say. Returns the bytes that all need
    together.
    """
    items = list(tensors)
    clusters: dict[int, list[PlannedTensor]] = {}
    for t in items:
        clusters.setdefault(id(t.root), []).append(t)
    placed = _Placed()
    end = 0
    for members in sorted(clusters.values(), key=_size_then_start):
        whole = _hull(members)
        near = sorted(placed.beside(whole), key=lambda p: p.offset)
        whole.offset = lowest_gap(near, whole.nbytes)
        for t in members:
            t.offset = whole.offset + t.distance
        placed.add(whole)
        end = max(end, whole.offset + whole.nbytes)
    return end


#: steps of a life that is looked up by its steps
_SHORT = 32


class _Placed:
    """Tensors that have their place, found by the steps of their lives: most live shortly."""

    def __init__(self) -> None:
        self.at: dict[int, list[PlannedTensor]] = {}
        self.long: list[PlannedTensor] = []
        self.all: list[PlannedTensor] = []

    def add(self, tensor: PlannedTensor) -> None:
        """One more."""
        self.all.append(tensor)
        if tensor.last - tensor.first >= _SHORT:
            self.long.append(tensor)
            return
        for step in range(tensor.first, tensor.last + 1):
            self.at.setdefault(step, []).append(tensor)

    def beside(self, tensor: PlannedTensor) -> list[PlannedTensor]:
        """Those that live with a tensor, in the order in which they were added."""
        if tensor.last - tensor.first >= _SHORT:
            return [p for p in self.all if p.lives_with(tensor)]
        steps = range(tensor.first, tensor.last + 1)
        short = {id(p): p for step in steps for p in self.at.get(step, ())}
        return [*(p for p in self.long if p.lives_with(tensor)), *short.values()]


def _size_then_start(members: list[PlannedTensor]) -> tuple[int, int]:
    return (-max(t.nbytes for t in members), min(t.first for t in members))


def _hull(members: list[PlannedTensor]) -> PlannedTensor:
    """One tensor that covers the lives of several in one place."""
    first, last = min(t.first for t in members), max(t.last for t in members)
    size = max(t.distance + t.nbytes for t in members)
    return PlannedTensor(members[0].name, None, ARENA, size, first, last)


def lowest_gap(near: list[PlannedTensor], size: int) -> int:
    """The lowest offset where `size` bytes are free between placed ones, in order of offset."""
    offset = 0
    for p in near:
        if p.offset - offset >= size:
            break
        offset = max(offset, p.offset + p.nbytes)
    return offset


Places = dict[Var, Any]


def join_places(func: Function, functions: Functions, places: Places) -> set[Var]:
    """Let the operands of concatenations lie inside of the results; gives these results."""
    joined = set()
    for step, binding in enumerate(func.body.bindings):
        result = places.get(binding.var)
        if not isinstance(result, PlannedTensor) or result.kind != ARENA or result.first != step:
            continue
        parts = _parts_to_join(binding.value, functions, places)
        if parts and all(_may_join(part, shift, step) for part, shift in parts):
            joined.add(binding.var)
            for part, shift in parts:
                part.inside, part.shift = result, shift
    return joined


def _parts_to_join(call: Any, functions: Functions, places: Places) -> list[tuple[Any, int]]:
    """The operands' places, with where they belong in the result; none if one lies there twice."""
    func = callee_of(call, functions)
    starts = None if func is None else joined_at(func)
    if starts is None:
        return []
    arguments: Any = call.args[1]
    parts = [places.get(arg) if isinstance(arg, Var) else None for arg in arguments.fields]
    if len({id(part) for part in parts}) != len(parts):
        return []
    return list(zip(parts, starts, strict=True))


def _may_join(part: Any, shift: int, step: int) -> bool:
    """A tensor of the arena that was made before, and lies in nothing else yet."""
    if not isinstance(part, PlannedTensor) or part.kind != ARENA or part.first >= step:
        return False
    return part.inside is None and part.shares is None and shift % ALIGNMENT == 0


def share_places(
    func: Function, functions: Functions, places: Places, tensors: list[PlannedTensor]
) -> None:
    """Let elementwise results take over the place of an operand that is read there last."""
    for step, binding in enumerate(func.body.bindings):
        result = places.get(binding.var)
        if not isinstance(result, PlannedTensor) or result.kind != ARENA or result.first != step:
            continue
        place = _place_to_take(binding.value, functions, result, step, places)
        if place is not None and not _is_seen_elsewhere(place, step, tensors):
            result.shares = place
            place.last = step - 1


def _is_seen_elsewhere(place: PlannedTensor, step: int, tensors: list[PlannedTensor]) -> bool:
    """True if a tensor that `place` is a part of, or a part of it, is read at the step or later."""
    if place.root.inside is None and all(t.inside is None for t in tensors):
        return False
    kin = [t for t in tensors if t is not place and t.root is place.root]
    return any(t.last >= step for t in kin)


def _place_to_take(
    call: Any, functions: Functions, result: PlannedTensor, step: int, places: Places
) -> PlannedTensor | None:
    """The place of an operand that ends at this step and is read where the result is written."""
    func = callee_of(call, functions)
    if func is None or result.inside is not None:
        return None
    arguments: Any = call.args[1]
    for index, arg in enumerate(arguments.fields):
        place = places.get(arg) if isinstance(arg, Var) else None
        if isinstance(place, PlannedTensor) and _ends_there(place, result, step):
            only = _only_operand(place, call, index, places)
            if only and reads_where_it_writes(func, index):
                return place
    return None


def _ends_there(place: PlannedTensor, result: PlannedTensor, step: int) -> bool:
    fits = place.kind == ARENA and place.last == step and place.nbytes == result.nbytes
    return fits and place is not result


def _only_operand(place: PlannedTensor, call: Any, index: int, places: Places) -> bool:
    """True where no other operand lies in the same place."""
    others = [a for i, a in enumerate(call.args[1].fields) if i != index]
    return all(places.get(o) is not place for o in others if isinstance(o, Var))


@lru_cache(maxsize=256)
def reads_where_it_writes(func: PrimFunc, index: int) -> bool:
    """True if `func` is one block that reads parameter `index` only at the element that it writes.

    Such a function gives the same result when the operand and the result are the same memory, but
    where rows are of open length: the last tile of one computes some elements of the tile before
    once more (`OverlapTiles`), from what would be results then.
    """
    buffers = func.buffers
    source, target = buffers[index], buffers[-1]
    row = next((d for d in reversed(target.shape) if as_int(d) != 1), 1)
    if source.dtype != target.dtype or as_int(row) is None or _has_several_nests(func):
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
