"""Which tensors lie where another one lies.

lv1 = relu(lv)                      lv ends there: lv1 is written over it, element by element
lv4 = concat(lv2, lv3)              lv2 and lv3 are made inside of lv4: nothing is left to copy
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir.memory import ALIGNMENT
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.memory_lives import ARENA, PlannedTensor
from mlcnb.relax.expr import Call, Function, Var
from mlcnb.relax.infer import Functions
from mlcnb.tir.analysis.joining import joined_at
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, SeqStmt

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
    if not isinstance(call, Call) or getattr(call.op, "name", "") != "relax.call_tir":
        return []
    func = functions.get(call.args[0])  # type: ignore[call-overload]
    starts = joined_at(func) if isinstance(func, PrimFunc) else None
    arguments: Any = call.args[1]
    if starts is None:
        return []
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
    if not isinstance(call, Call) or getattr(call.op, "name", "") != "relax.call_tir":
        return None
    if result.inside is not None:
        return None
    func = functions.get(call.args[0])  # type: ignore[call-overload]
    arguments: Any = call.args[1]
    for index, arg in enumerate(arguments.fields):
        place = places.get(arg) if isinstance(arg, Var) else None
        if isinstance(place, PlannedTensor) and _ends_there(place, result, step):
            only = _only_operand(place, call, index, places)
            if only and isinstance(func, PrimFunc) and reads_where_it_writes(func, index):
                return place
    return None


def _ends_there(place: PlannedTensor, result: PlannedTensor, step: int) -> bool:
    fits = place.kind == ARENA and place.last == step and place.nbytes == result.nbytes
    return fits and place is not result


def _only_operand(place: PlannedTensor, call: Any, index: int, places: Places) -> bool:
    """True where no other operand lies in the same place."""
    others = [a for i, a in enumerate(call.args[1].fields) if i != index]
    return all(places.get(o) is not place for o in others if isinstance(o, Var))


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
