"""Layouts that follow the loops, and loops that an intrinsic can take.

A[j % 4 * 2 + i] in loops i, j      suggest_index_map: x -> [x % 2, x // 2], i first and then j
C of 64 x 64 x 64, a 16 x 16 x 16   get_tensorize_loop_mapping: its loops i, j, k are those of
product of an intrinsic             the intrinsic
conv2d in n, h, w, c, rh, rw, rc    get_auto_tensorize_mapping_info: (n, h, w) is one, c is one,
                                    (rh, rw, rc) is one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith import Analyzer, detect_iter_map
from mlcnb.arith.iter_sum import IterSplit, IterSum
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.reduction import reduction_pattern
from mlcnb.tir.analysis.structure import blocks_of, loops_above
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule.analysis.blocks import find

#: a part of a loop variable: which loop, from which place, and what it is of the index
Digit = tuple[int, int, PrimExpr]


def suggest_index_map(
    buffer: Buffer, indices: Sequence[PrimExpr], loops: Sequence[s.For], predicate: Any = True
) -> IndexMap | None:
    """The layout in which an access runs through a buffer in the order of the loops.

    Args:
        buffer: the buffer, of constant shape.
        indices: how it is accessed, in variables of the loops.
        loops: the loops, outermost first.
        predicate: a condition on them.

    Returns:
        The map from old to new indices: one for each part that a loop variable has in an index.
        None where the indices are no splits and fusions of the loops.
    """
    domains = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    found = detect_iter_map(indices, domains, predicate, "nocheck")
    if not found:
        return None
    places = tuple(Var(f"i{n}", index.dtype) for n, index in enumerate(indices))
    order = {loop.loop_var: n for n, loop in enumerate(loops)}
    digits: list[Digit] = []
    for place, made in zip(places, found.indices, strict=True):
        parts = _digits(made, place - p.cast(place.dtype, made.base), order)
        if parts is None:
            return None
        digits += parts
    digits.sort(key=lambda digit: (digit[0], -digit[1]))
    sides = zip(places, buffer.shape, strict=True)
    analyzer = Analyzer({x: Range(p.const(0, x.dtype), p.fitted(x.dtype, n)) for x, n in sides})
    return IndexMap(places, tuple(analyzer.simplify(x) for _, _, x in digits))


def _digits(made: IterSum, value: PrimExpr, order: Mapping[Var, int]) -> list[Digit] | None:
    """The parts of loop variables in a sum whose value is given, each as its part of the value."""
    found: list[Digit] = []
    for split in made.splits:
        part = p.floormod(p.floordiv(value, split.scale), split.extent)
        inner = _inside(split, part, order)
        if inner is None:
            return None
        found += inner
    return found


def _inside(split: IterSplit, part: PrimExpr, order: Mapping[Var, int]) -> list[Digit] | None:
    if not isinstance(split.mark.source, IterSum):
        lower = p.as_int(split.lower)
        return None if lower is None else [(order[split.mark.source], lower, part)]
    is_whole = p.is_const(split.lower, 1) and split.extent is split.mark.extent
    return _digits(split.mark.source, part, order) if is_whole else None


@dataclass(frozen=True)
class TensorizeInfo:
    """Which loops of a block an intrinsic takes.

    loop_map: loop of the block -> loop of the description; desc_loop_indexer: loop of the
    description -> its number, outermost first; block_iter_paddings: for each axis of the block
    what its extent must be a multiple of, None where nothing is to be padded.
    """

    loop_map: dict[s.For, s.For]
    desc_loop_indexer: dict[s.For, int]
    block_iter_paddings: tuple[int, ...] | None


def get_tensorize_loop_mapping(
    sch: Any, block: Any, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """The loops of a block that an intrinsic may take, from the inside out by kind of axis.

    Args:
        sch: the schedule (or the function).
        block: the block.
        desc_func: what the intrinsic computes.
        allow_padding: also take axes whose extent is no multiple of the intrinsic's; they must then
            be padded (`block_iter_paddings`).

    Returns:
        The mapping, or None where an axis of the intrinsic has no loop.
    """
    tree, target = find(sch, block)
    innermost = blocks_of(desc_func)[-1]
    desc_loops = loops_above(desc_func, innermost)
    mine = _axes(tree.realize(target), tree.loops(target))
    theirs = _axes(innermost, desc_loops)
    mapping: dict[s.For, s.For] = {}
    paddings = [1] * len(target.iter_vars)
    at = len(mine) - 1
    for axis, loop in reversed(theirs):
        while at >= 0 and mine[at][0].iter_type is not axis.iter_type:
            at -= 1
        if at < 0 or loop is None:
            return None
        own, size = mine[at][1], p.as_int(loop.extent)
        extent = None if own is None else p.as_int(own.extent)
        if own is None or extent is None or size is None:
            return None
        if extent % size:
            if not allow_padding:
                return None
            paddings[at] = size
        mapping[own] = loop
        at -= 1
    numbers = {loop: n for n, loop in enumerate(desc_loops)}
    return TensorizeInfo(mapping, numbers, tuple(paddings) if max(paddings) > 1 else None)


def _axes(n: s.BlockRealize, loops: Sequence[s.For]) -> list[tuple[s.IterVar, s.For | None]]:
    """The axes of a block, each with the loop that it is, or is the innermost part of."""
    pairs = zip(n.block.iter_vars, n.iter_values, strict=True)
    return [(axis, _innermost(value, loops)) for axis, value in pairs]


def _innermost(value: PrimExpr, loops: Sequence[s.For]) -> s.For | None:
    """The loop that moves an axis by 1: `j` of `i * 4 + j`."""
    analyzer = Analyzer()
    form = analyzer.normal_form(value)
    for loop in reversed(loops):
        parts = form.coefficient_of(analyzer.context.var(loop.loop_var))
        if parts is not None and parts[0].is_const and parts[0].const == 1:
            return loop
    return None


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """How the axes of a block are to be fused to have the axes of an intrinsic.

    mappings: from the axes of the block to those before the intrinsic's (batches), and these.
    """

    mappings: tuple[IndexMap, ...]


def get_auto_tensorize_mapping_info(
    sch: Any, block: Any, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """Which axes of a block, fused, are those of an intrinsic: a convolution as a matrix product.

    An axis is told by its kind and by the operands that it indexes: n, h, w of a convolution index
    its image and its result, as i of `C[i, j] += A[i, k] * B[k, j]` does. Axes that index all
    operands are batches and stay as they are.

    Args:
        sch: the schedule (or the function).
        block: the block, a reduction that updates one buffer.
        desc_func: what the intrinsic computes.

    Returns:
        None where the operands have other dtypes, an axis of the intrinsic has no counterpart, or
        an axis of the block is none of the intrinsic's.
    """
    _, target = find(sch, block)
    mine, theirs = roles_of(target), roles_of(blocks_of(desc_func)[-1].block)
    if mine is None or theirs is None or _kinds(mine) != _kinds(theirs):
        return None
    batch = (s.IterType.SPATIAL, frozenset(range(len(mine[1]))))
    wanted = list(theirs[2].values())
    found = list(mine[2].values())
    known = [*wanted, batch]
    if len(set(known)) < len(known) or not set(wanted) <= set(found) <= set(known):
        return None
    places = tuple(Var(axis.var.name, axis.var.dtype) for axis in target.iter_vars)
    sides = list(zip(places, (axis.dom.extent for axis in target.iter_vars), found, strict=True))
    batches = [place for place, _, role in sides if role == batch]
    fused = [_fused([(x, extent) for x, extent, r in sides if r == role]) for role in wanted]
    return AutoTensorizeMappingInfo((IndexMap(places, (*batches, *fused)),))


#: what an axis is: its kind, and the operands that it indexes (0 is the result)
Role = tuple[s.IterType, frozenset[int]]


def roles_of(block: s.Block) -> tuple[Any, list[Any], dict[Var, Role]] | None:
    """Of a reduction of one store: its reducer, its operands (the store, then the loads in order),
    and the role of each axis; None for any other block.
    """
    found = reduction_pattern(block)
    if found is None or len(found.buffers) != 1 or not isinstance(block.body, s.BufferStore):
        return None
    result = block.body
    loads = [
        n for n in walk(result.value) if isinstance(n, BufferLoad) and n.buffer is not result.buffer
    ]
    operands: list[Any] = [result, *loads]
    used = [{n for index in x.indices for n in walk(index)} for x in operands]
    roles = {
        axis.var: (axis.iter_type, frozenset(n for n, at in enumerate(used) if axis.var in at))
        for axis in block.iter_vars
    }
    return found.reducer, operands, roles


def _kinds(found: tuple[Any, list[Any], Any]) -> tuple[Any, list[Any]]:
    return found[0], [x.buffer.dtype for x in found[1]]


def _fused(parts: Sequence[tuple[Var, PrimExpr]]) -> PrimExpr:
    """One number that runs through all parts, the last fastest."""
    total: PrimExpr = parts[0][0]
    for var, extent in parts[1:]:
        total = total * p.fitted(var.dtype, extent) + var
    return total
