"""Auto-tensorize: a block that computes what an instruction does is tiled around it.

    for n, h, w, c, rh, rw, rc: …            loops n_h_w, c, rh_rw_rc, padded to 16, 16, 4
    C[n, h, w, c] += X[n, h + rh, …] * W    ->   with T.block("C_o"): one tile of the intrinsic

Axes are told by what they index (`Match`), not by their order, number or extents: several that
index the same operands are fused. Operands are copied where their tiles do not lie together: over
the fused axes, with zeros up to whole tiles, tile by tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

from mlcnb.core.node import children
from mlcnb.dlight.gpu.axes import fused, over_axes
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.analysis.structure import blocks_of, loops_above
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc, TensorIntrin
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.analysis.mapping import Role, roles_of
from mlcnb.tir.stmt import Block, IterType

#: what marks a tile that one instruction computes
TENSORIZE = "meta_schedule.auto_tensorize"

#: expressions that are told apart by more than their operands
_TOLD = (e.Call, e.IntImm, e.FloatImm)


@dataclass(frozen=True)
class Operation:
    """A reduction as roles: operands (the result first), and what each axis indexes."""

    block: Block
    reducer: Any
    operands: tuple[Any, ...]
    roles: tuple[Role, ...]

    @staticmethod
    def of(block: Block) -> Operation | None:
        """The operation of a block with one store that is an update; None for any other."""
        found = roles_of(block)
        if found is None or len({x.buffer for x in found[1]}) < len(found[1]):
            return None
        reducer, operands, roles = found
        return Operation(block, reducer, tuple(operands), tuple(roles.values()))

    def with_operands(self, order: Sequence[int]) -> Operation:
        """The same with its operands in another order."""
        place = {old: new for new, old in enumerate(order)}
        roles = tuple((kind, frozenset(place[n] for n in at)) for kind, at in self.roles)
        return Operation(self.block, self.reducer, tuple(self.operands[n] for n in order), roles)

    def dtypes(self) -> tuple[Any, ...]:
        """What is computed, in which dtypes."""
        return (self.reducer, *(x.buffer.dtype for x in self.operands))


@dataclass(frozen=True)
class Match:
    """A block and the description of an intrinsic.

    Attributes:
        operation: of the block, its operands in the order of the description's.
        described: of the description.
        groups: numbers of the block's axes that are one axis: those that the intrinsic does not
            know first, each alone; then one group for each axis of the intrinsic, in its order.
        sizes: extents of the intrinsic's axes.
    """

    operation: Operation
    described: Operation
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

    @property
    def outer(self) -> int:
        """How many groups the intrinsic does not know."""
        return len(self.groups) - len(self.sizes)

    def paddings(self) -> list[int]:
        """For each group what its extent must be a multiple of."""
        return [*[1] * self.outer, *self.sizes]


def match(block: Block, desc: PrimFunc) -> Match | None:
    """How a block is what an intrinsic describes; None where it is not.

    Args:
        block: a reduction with one store, its extents known.
        desc: the description: loops around one block of that kind.
    """
    mine, theirs = Operation.of(block), Operation.of(blocks_of(desc)[-1].block)
    if mine is None or theirs is None or len(mine.operands) != len(theirs.operands):
        return None
    innermost = blocks_of(desc)[-1]
    extents: dict[Any, int | None] = {
        x.loop_var: as_int(x.extent) for x in loops_above(desc, innermost)
    }
    sizes = tuple(extents.get(v) for v in innermost.iter_values)
    if None in sizes or len(set(theirs.roles)) < len(theirs.roles):
        return None
    for order in permutations(range(1, len(mine.operands))):
        turned = mine.with_operands((0, *order))
        groups = _groups(turned, theirs)
        if groups is not None:
            return Match(turned, theirs, groups, sizes)  # type: ignore[arg-type]
    return None


def _groups(mine: Operation, theirs: Operation) -> tuple[tuple[int, ...], ...] | None:
    if mine.dtypes() != theirs.dtypes() or not _same_value(mine, theirs):
        return None
    known = [tuple(n for n, r in enumerate(mine.roles) if r == role) for role in theirs.roles]
    inside = {n for group in known for n in group}
    rest = [n for n in range(len(mine.roles)) if n not in inside]
    if not all(known) or any(mine.roles[n][0] is not IterType.SPATIAL for n in rest):
        return None
    return (*((n,) for n in rest), *known)


def _same_value(mine: Operation, theirs: Operation) -> bool:
    """Whether both combine their operands by the same operators, wherever the operands stand."""
    return _shape(mine) == _shape(theirs)


def _shape(operation: Operation) -> str:
    """The value as text in which operands are numbers; factors and terms are in one order."""
    number = {x.buffer: n for n, x in enumerate(operation.operands)}

    def text(x: Any) -> str:
        if isinstance(x, BufferLoad):
            return f"#{number[x.buffer]}" if x.buffer in number else "?"
        parts = [text(child) for child in children(x)]
        told = getattr(x, "op", getattr(x, "value", "")) if isinstance(x, _TOLD) else ""
        ordered = sorted(parts) if isinstance(x, e.Add | e.Mul) else parts
        return f"{type(x).__name__} {x.dtype} {told}({', '.join(ordered)})"

    return text(operation.operands[0].value)


def candidates(block: Block, names: Sequence[str]) -> Iterator[str]:
    """Which of the intrinsics of these names a block matches."""
    for name in names:
        found = TensorIntrin.get(name, allow_missing=True)
        if found is not None and match(block, found.desc) is not None:
            yield name


def tile_with_intrin(
    sch: Schedule, block: Any, name: str, allow_padding: bool = False
) -> Any | None:
    """Make a block one of tiles that an intrinsic computes, and note the intrinsic on it.

    Args:
        sch: the schedule.
        block: a reduction of it, whose axes are its loops.
        name: of a registered intrinsic.
        allow_padding: round axes up to whole tiles, with zeros around the operands.

    Returns:
        The block of tiles; None where it is not what the intrinsic computes.

    Raises:
        ScheduleError: a step is refused: the schedule is then somewhere in between; work on a copy.
    """
    intrinsic = TensorIntrin.get(name)
    found = match(sch.get(block), intrinsic.desc) if intrinsic is not None else None
    if found is None:
        return None
    infos = [b for b in Survey.of(sch).blocks if b.node is sch.get(block)]
    if not infos or None in infos[0].extents:
        return None
    info = infos[0]
    sizes = [prod(info.extents[n] or 1 for n in group) for group in found.groups]
    ragged = any(n % m for n, m in zip(sizes, found.paddings(), strict=True))
    if ragged and not allow_padding:
        return None
    copied = _copied(sch, info, found)
    sch.transform_block_layout(block, fused(info, range(len(info.extents)), found.groups))
    if ragged:
        _pad(sch, block, found)
    for which, groups in copied:
        _lay_out(sch, block, which, groups, found)
    return _tiles(sch, block, found, name)


def _copied(
    sch: Schedule, info: BlockInfo, found: Match
) -> list[tuple[tuple[str, Any], list[tuple[int, ...]]]]:
    """Operands written over the groups; for each that was, the groups that index it."""
    made = []
    for number, access in enumerate(found.operation.operands):
        groups = [g for g in found.groups if number in found.operation.roles[g[0]][1]]
        which = ("write", 0) if number == 0 else ("read", _place(info.node, access.buffer))
        tile = _tile(found, number)
        if _is_plain(info, access, groups) and len(tile) <= 1 and groups[-1] in found.groups[-2:]:
            if not tile or found.groups[found.outer + tile[0]] == groups[-1]:
                continue
        over_axes(sch, info, which, [list(g) for g in groups])
        made.append((which, groups))
    return made


def _place(node: Block, buffer: Any) -> int:
    return [r.buffer for r in node.reads].index(buffer)


def _tile(found: Match, number: int) -> list[int]:
    """The intrinsic's axes that index an operand, in the order of its description's indices."""
    axes = [v.var for v in found.described.block.iter_vars]
    indices = found.described.operands[number].indices
    return [axes.index(x) for x in indices if x in axes]


def _is_plain(info: BlockInfo, access: Any, groups: Sequence[tuple[int, ...]]) -> bool:
    """Whether an operand's indices are the axes themselves, one for each group, in that order."""
    wanted = [info.node.iter_vars[g[0]].var for g in groups if len(g) == 1]
    return len(wanted) == len(groups) and list(access.indices) == wanted


def _pad(sch: Schedule, block: Any, found: Match) -> None:
    """Whole tiles; copies that only fed the copies with zeros are computed in them."""
    before = {sch.get(x).name_hint for x in sch.get_producers(block)}
    after = {sch.get(x).name_hint for x in sch.get_consumers(block)}
    sch.pad_einsum(block, found.paddings())
    for fetch in sch.get_producers(block):
        for source in sch.get_producers(fetch):
            name = sch.get(source).name_hint
            if name in before and name.endswith("_reindex"):
                sch.compute_inline(source)
    for crop in sch.get_consumers(block):
        for last in sch.get_consumers(crop):
            if sch.get(last).name_hint in after:
                sch.compute_inline(crop)
                break


def _lay_out(
    sch: Schedule,
    block: Any,
    which: tuple[str, Any],
    groups: Sequence[tuple[int, ...]],
    found: Match,
) -> None:
    """A copied operand tile by tile: what an instruction takes lies together."""
    number = 0 if which[0] == "write" else None
    node = sch.get(block)
    region = node.writes[0] if number == 0 else node.reads[which[1]]
    tile = _tile(found, _number(found, which)) if number is None else _tile(found, 0)
    known = {found.groups[found.outer + n]: found.sizes[n] for n in tile}
    inner = [found.groups[found.outer + n] for n in tile]
    if len(region.region) != len(groups) or not known:
        return

    def indices(*at: Any) -> list[Any]:
        own = dict(zip(groups, at, strict=True))
        outer = [own[g] // known[g] if g in known else own[g] for g in groups]
        return [*outer, *(own[g] % known[g] for g in inner)]

    sch.transform_layout(block, which, IndexMap.from_func(indices, ndim=len(groups)))


def _number(found: Match, which: tuple[str, Any]) -> int:
    """The operand that a read of the block is."""
    buffers = [r.buffer for r in found.operation.block.reads]
    wanted = buffers[which[1]]
    return next(n for n, x in enumerate(found.operation.operands) if n and x.buffer is wanted)


def _tiles(sch: Schedule, block: Any, found: Match, name: str) -> Any:
    """The loops split by the intrinsic's extents, its own innermost and one block."""
    loops = sch.get_loops(block)[-len(found.groups) :]
    outer, inner = list(loops[: found.outer]), []
    for loop, size in zip(loops[found.outer :], found.sizes, strict=True):
        rest, own = sch.split(loop, [None, size])
        outer.append(rest)
        inner.append(own)
    sch.reorder(*outer, *inner)
    made = sch.blockize(inner[0])
    sch.annotate(made, TENSORIZE, name)
    return made
