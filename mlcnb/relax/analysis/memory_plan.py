"""Static memory plan: where each intermediate tensor of a function lies in one arena.

    step 0  lv  = conv(x)      lv   [0, 0..1]      offset    0  ┌────┐
    step 1  lv1 = relu(lv)     lv1  [1, 1..2]      offset 4096  │lv1 │
    step 2  lv2 = add(lv1, x)  lv2  [2, 2..3]      offset    0  │lv, lv2 (one after the other)
    step 3  gv  = exp(lv2)     gv   is returned: memory of its own

A tensor lives from the step that makes it to its last use; two that live at the same time do not
overlap. Large tensors are placed first, each at the lowest place that is free for its life (greedy
by size, Pisarchyk and Lee 2020, arXiv 2001.03288). Views (reshape) lie where their tensor lies. An
elementwise result may take the place of an operand that ends there, and the operands of a
concatenation are made where they lie in its result (`memory_sharing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.relax.analysis.memory_lives import ARENA, PlannedTensor, aligned, lifetimes
from mlcnb.relax.analysis.memory_sharing import join_places, share_places
from mlcnb.relax.expr import Function, Var
from mlcnb.relax.infer import Functions


@dataclass(eq=False)
class MemoryPlan:
    """The tensors of a function, by variable, and the size of the arena.

    places: for each variable a PlannedTensor, or a tuple of such for a tuple; arena_bytes: size of
    the arena; total_bytes: what the tensors in it take together; steps: number of bindings; joined:
    the results of concatenations whose operands are made inside of them, which copy nothing.

    A tensor whose shape is not known is in `places` with kind `dynamic`, and never in the arena.
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
