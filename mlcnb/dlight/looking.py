"""What rules ask of a block: its loops and their kinds, whether its operands are read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.stmt import Block, For, ForKind, IterType

#: what marks a copy that is made once, before the function runs
PREPROC = "meta_schedule.layout_rewrite_preproc"


def tree(sch: Schedule) -> Tree:
    """The function that a schedule works on, as a tree."""
    return sch.state.tree(str(sch.state.working_on))


def is_root(sch: Schedule, block: Any) -> bool:
    """True for the block that is the whole function."""
    return sch.get(block) is tree(sch).root


def is_there(sch: Schedule, block: Any) -> bool:
    """True if a block has not been inlined or removed since."""
    found = sch.state.handles.get(block)
    return found is not None and isinstance(found[1], Block)


def extent(sch: Schedule, loop: Any) -> int | None:
    """Iterations of a loop; None where that is no number."""
    return as_int(sch.get(loop).extent)


def note(sch: Schedule, block: Any, key: str) -> Any:
    """The annotation of that name on a block (or loop), or None."""
    return sch.get(block).annotations.get(key)


def kinds(sch: Schedule, block: Any, loops: Sequence[Any] | None = None) -> str:
    """ "S" for each loop over spatial axes alone, "R" over reduce axes, "O" for the rest."""
    node = sch.get(block)
    values = tree(sch).realize(node).iter_values
    axes: dict[Any, set[str]] = {}
    for axis, value in zip(node.iter_vars, values, strict=True):
        letter = {IterType.SPATIAL: "S", IterType.REDUCE: "R"}.get(axis.iter_type, "O")
        for n in walk(value):
            axes.setdefault(n, set()).add(letter)
    found = (axes.get(sch.get(x).loop_var, {"O"}) for x in loops or sch.get_loops(block))
    return "".join(next(iter(x)) if len(x) == 1 else "O" for x in found)


def is_spatial(sch: Schedule, block: Any) -> bool:
    """True if all axes are spatial."""
    return all(v.iter_type is IterType.SPATIAL for v in sch.get(block).iter_vars)


def is_reduction(sch: Schedule, block: Any) -> bool:
    """True if there is a reduce axis, and no axis of another kind than the two."""
    found = {v.iter_type for v in sch.get(block).iter_vars}
    return IterType.REDUCE in found and found <= {IterType.REDUCE, IterType.SPATIAL}


def is_plainly_bound(sch: Schedule, block: Any) -> bool:
    """True if each axis is a loop of its own, and each loop an axis."""
    node = sch.get(block)
    loops = [sch.get(x).loop_var for x in sch.get_loops(block)]
    return list(tree(sch).realize(node).iter_values) == loops


def is_touched(sch: Schedule, block: Any) -> bool:
    """True if a loop around a block is parallel, a vector, unrolled or bound to a thread."""
    return any(sch.get(x).kind is not ForKind.SERIAL for x in sch.get_loops(block))


def reuses(sch: Schedule, block: Any) -> bool:
    """True if tiles pay: a spatial axis does not move an operand, which is so read again."""
    node: Block = sch.get(block)
    read = [r for r in node.reads if r.buffer not in {w.buffer for w in node.writes}]
    buffers = [r.buffer for r in read]
    if len(node.writes) != 1 or not read or len(set(buffers)) < len(buffers):
        return False
    if is_spatial(sch, block) or not is_plainly_bound(sch, block):
        return False
    spatial = {v.var for v in node.iter_vars if v.iter_type is IterType.SPATIAL}
    used = [{n for r in one.region for n in walk(r.min)} for one in read]
    return any(spatial - one for one in used)


@dataclass(frozen=True)
class Amounts:
    """How often the results, and the steps for each result, of a block are computed."""

    spatial: int
    reduce: int


def amounts(sch: Schedule, block: Any) -> Amounts | None:
    """The products of the extents of spatial and of reduce axes; None where one is no number."""
    found = {"S": 1, "R": 1}
    for axis in sch.get(block).iter_vars:
        size = as_int(axis.dom.extent)
        if size is None:
            return None
        found["R" if axis.iter_type is IterType.REDUCE else "S"] *= size
    return Amounts(found["S"], found["R"])


def wants_partial_sums(sch: Schedule, block: Any, cores: int) -> bool:
    """True if there are fewer results than keep all cores busy, and many steps for each."""
    count = amounts(sch, block)
    if count is None or not is_reduction(sch, block) or not is_plainly_bound(sch, block):
        return False
    if sch.get(block).init is None or len(sch.get(block).writes) != 1:
        return False
    return count.spatial < count.reduce and count.spatial <= cores


def layout_free(sch: Schedule) -> list[Buffer]:
    """The parameters that the function's `layout_free_buffers` names."""
    func = sch.mod[sch.func_working_on]
    places = func.attrs.get("layout_free_buffers", ())
    return [func.buffer_map[func.params[int(n)]] for n in places]


def thread_extent(sch: Schedule, axis: str) -> int | None:
    """Iterations of the loops that are bound to a thread axis; None where there are none."""
    found = (n for n in walk(sch.mod[sch.func_working_on].body) if isinstance(n, For))
    sizes = [as_int(n.extent) for n in found if n.thread_binding == axis]
    return max((x for x in sizes if x is not None), default=None)


@dataclass(frozen=True)
class Touch:
    """How one buffer is touched: of each axis (dimension, step) of the indices that it moves.

    place: among the block's reads; -1: the result; alone: of each axis whether it is all of an
    index.
    """

    place: int
    rank: int
    moves: tuple[tuple[tuple[int, int], ...], ...]
    alone: tuple[bool, ...]

    def dimension(self, axis: int) -> int | None:
        """The dimension that an axis moves, by one; None: none, or otherwise."""
        found = self.moves[axis]
        return found[0][0] if len(found) == 1 and found[0][1] == 1 else None

    def lies_along(self, axis: int) -> bool:
        """True if neighbours along an axis are neighbours in memory."""
        return self.dimension(axis) == self.rank - 1


def touch_of(place: int, region: Any, axes: Sequence[Var]) -> Touch | None:
    """What moves a buffer; None where more than one element is touched at a time."""
    if any(as_int(r.extent) != 1 for r in region.region):
        return None
    analyzer, found, alone = Analyzer(), [], []
    for axis in axes:
        moved = []
        for n, r in enumerate(region.region):
            if any(v is axis for v in walk(r.min)):
                parts = analyzer.normal_form(r.min).coefficient_of(analyzer.context.var(axis))
                step = parts[0].const if parts is not None and parts[0].is_const else 0
                moved.append((n, int(step)))
        found.append(tuple(moved))
        alone.append(
            [n for n, _ in moved] == [n for n, r in enumerate(region.region) if r.min is axis]
        )
    return Touch(place, len(region.region), tuple(found), tuple(alone))
