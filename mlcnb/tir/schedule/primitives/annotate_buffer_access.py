"""annotate_buffer_access: which part of a buffer a block touches, said by hand.

with T.block("resize"):                      with T.block("resize"):
    T.reads(A[0:32])                              T.reads(A[v // 2 - 1:v // 2 + 2])
    B[v] = A[index computed in floats]     ->     T.block_attr({"explicit_read_region": [0]})
                                                  B[v] = A[index computed in floats]

    gen_new_ranges = lambda v: [(v // 2 - 1, v // 2 + 2)]

A region that was found from the body is as large as the whole buffer where an index is beyond
integer arithmetic. What is said instead is checked: the indices are computed for all values of the
axes that they depend on.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.extremes import at_most
from mlcnb.arith.reading import of
from mlcnb.core import above, display
from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.analysis.escapes import escapes
from mlcnb.tir.buffer import BufferLoad, BufferRegion
from mlcnb.tir.index_map import RegionMap
from mlcnb.tir.schedule.edit.caching import chosen_index
from mlcnb.tir.schedule.edit.elementwise import axis_bounds
from mlcnb.tir.schedule.legality.regions import symbols
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block

#: values of axes that one index is computed for, at most
LARGEST = 1 << 17


@does(still=True)
def annotate_buffer_access(
    state: State, block: Block, buffer_index: int, buf_type: str, gen_new_ranges: Any
) -> Change:
    """Say what part of a buffer a block reads or writes, and mark the region as said by hand.

    Args:
        state: the program.
        block: the block.
        buffer_index: which of its reads or writes.
        buf_type: "read" or "write".
        gen_new_ranges: a function of the block's axes that gives, for each dimension, (begin, end)
            or a single index.

    Raises:
        ScheduleError: there is no such region; or the body touches elements outside of it, or
            may do so (`check="none"` trusts the caller).
    """
    name = "annotate_buffer_access"
    if buf_type not in ("read", "write"):
        raise state.refusal(f'{name}: buf_type is {buf_type!r}, not "read" or "write"', block)
    regions = block.reads if buf_type == "read" else block.writes
    index = chosen_index(state, name, block, regions, buffer_index)
    buffer = regions[index].buffer
    said, ranges = _said(state, name, block, gen_new_ranges)
    if len(ranges) != buffer.ndim:
        raise state.refusal(
            f"{name}: {len(ranges)} ranges are given, {buffer.name} has {buffer.ndim} dimensions",
            block,
        )
    region = BufferRegion(buffer, tuple(_range(low, end) for low, end in ranges))
    allowed = {*symbols(state.func), *(axis.var for axis in block.iter_vars)}
    others = [v.name for x in ranges for end in x for v in variables_of(end) if v not in allowed]
    if others:
        raise state.refusal(
            f"{name}: the ranges use {others[0]}, which is no axis of {name_of(block)}", block
        )
    if state.checks:
        _refuse_false(state, block, region, buf_type)
        _refuse_unseen(state, block, regions[index], region, buf_type)
    key = f"explicit_{buf_type}_region"
    marked = tuple(block.annotations.get(key, ()))
    marks = {**block.annotations, key: marked if index in marked else (*marked, index)}
    changed = tuple(region if n == index else r for n, r in enumerate(regions))
    fields: dict[str, Any] = {"annotations": FrozenDict(marks), f"{buf_type}s": changed}
    return state.updated(block, **fields).noting(buffer_index=index, gen_new_ranges=said)


def _said(
    state: State, name: str, block: Block, given: Any
) -> tuple[RegionMap, list[tuple[e.PrimExpr, e.PrimExpr]]]:
    axes = [axis.var for axis in block.iter_vars]
    try:
        said = given if isinstance(given, RegionMap) else RegionMap.from_func(given, axes)
        return said, said.ranges(axes)
    except (MLCError, TypeError) as error:
        raise state.refusal(
            f"{name}: gen_new_ranges does not take the {len(axes)} axes of {name_of(block)}: "
            f"{error}",
            block,
        ) from error


def _range(low: e.PrimExpr, end: e.PrimExpr) -> e.Range:
    return e.Range(low, of(end).minus(of(low)).expr(low.dtype))


def _refuse_false(state: State, block: Block, region: BufferRegion, buf_type: str) -> None:
    """Refuse a region that is not proved to hold what the body touches.

    It may hold more: a step that asks whether all of it is written looks at the stores.
    """
    found = detect_buffer_access(replace(block, reads=(), writes=()))[buf_type == "write"]
    for own in (r for r in found if r.buffer is region.buffer):
        for n, (inner, outer) in enumerate(zip(own.region, region.region, strict=True)):
            reason = _why_outside(block, inner, outer, "touches")
            _refuse_range(state, block, f"{n} of {region.buffer.name}", outer, reason)


def _refuse_unseen(
    state: State, block: Block, old: BufferRegion, new: BufferRegion, buf_type: str
) -> None:
    """Refuse less than was said of a buffer that is reached by a pointer, or more that is written.

    What happens behind the pointer is not seen: what the program says of it is all there is.
    """
    leaving = (x.writes if buf_type == "write" else x.reads
               for x in escapes(block) if x.data is new.buffer.data)  # fmt: skip
    if not any(leaving):
        return
    for n, (inner, outer) in enumerate(zip(old.region, new.region, strict=True)):
        reason = _why_outside(block, inner, outer, "says that it touches")
        if reason is None and buf_type == "write":
            reason = _why_outside(block, outer, inner, "does not say that it writes")
        which = f"{n} of {new.buffer.name}, of which a call gets a pointer,"
        _refuse_range(state, block, which, outer, reason)


def _refuse_range(
    state: State, block: Block, which: str, said: e.Range, reason: str | None
) -> None:
    if reason:
        raise state.refusal(
            f"annotate_buffer_access: range {which} cannot be {_text(said)}: {reason}",
            block,
            hint='a schedule with check="none" trusts the region',
        )


def _why_outside(block: Block, inner: e.Range, outer: e.Range, verb: str) -> str | None:
    """The reason why a range may not lie in another one, with an example where there is one."""
    ends = [outer.min, outer.min + outer.extent, inner.min, inner.min + inner.extent]
    low, end, first, last = map(of, ends)
    known = axis_bounds(block)
    if at_most(low, first, known) and at_most(last, end, known):
        return None
    mentioned = {v for x in ends for v in walk(x) if isinstance(v, e.Var)}
    axes = [axis for axis in block.iter_vars if axis.var in mentioned]
    loads = any(isinstance(n, BufferLoad) for x in ends for n in walk(x))
    if loads or len(mentioned) > len(axes):
        return f"the indices of {name_of(block)} depend on more than its axes"
    domains = [(p.as_int(axis.dom.min), p.as_int(axis.dom.extent)) for axis in axes]
    ranges = [range(a, a + n) for a, n in domains if a is not None and n is not None]
    if len(ranges) < len(axes) or prod(map(len, ranges)) > LARGEST:
        return f"{', '.join(a.var.name for a in axes)} take too many values to try them all"
    return _example(block, [axis.var for axis in axes], ranges, ends, verb)


def _example(
    block: Block, axes: list[e.Var], ranges: list[range], ends: list[e.PrimExpr], verb: str
) -> str | None:
    """The first values of axes for which first..last is not within low..end."""
    compiler = above.ask("ExpressionCompiler")()
    slots = [compiler.slot(axis) for axis in axes]
    closures = [compiler.compile(x) for x in ends]
    frame: list[Any] = [0] * len(compiler.slots)
    for point in product(*ranges):
        for slot, value in zip(slots, point, strict=True):
            frame[slot] = value
        low, end, first, last = (closure(frame) for closure in closures)
        if not (low <= first and last <= end):
            values = ", ".join(f"{a.name} = {x}" for a, x in zip(axes, point, strict=True))
            at = f"at {values} " if values else ""
            place = first if first < low else last - 1
            return f"{at}{name_of(block)} {verb} index {place}"
    return None


def _text(r: e.Range) -> str:
    low, end = r.min, r.min + r.extent
    return f"{display.text(low)}..{display.text(of(end).expr(low.dtype))}"
