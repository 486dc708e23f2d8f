"""MultiLevelTiling: loops in tiles of tiles, "SSRSRS": spatial, spatial, reduce, spatial, …

for i, j, k in T.grid(…):     for i0, j0, i1, j1, k0, i2, j2, k1, i3, j3 in T.grid(…):
    C[i, j] += …          ->      C[i0 … i3, j0 … j3] += …

The sizes are draws. On a GPU the first tiles are bound to blocks and threads, and what is read is
copied to memory near by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.gpu.tensor_cores import SMALL, Tile, tensor_cores
from mlcnb.dlight.looking import is_reduction, is_spatial, is_there, kinds, note, reuses
from mlcnb.dlight.survey import Survey
from mlcnb.meta_schedule.auto_tensorize import TENSORIZE, tile_with_intrin
from mlcnb.meta_schedule.schedule_rule.rule import ReuseType, ScheduleRule, tried
from mlcnb.tir.schedule import Schedule

#: what marks a block whose loops are in tiles
STRUCTURE = "meta_schedule.tiling_structure"
#: what marks a copy that all threads of a block make together
COOPERATIVE = "meta_schedule.cooperative_fetch"


@dataclass
class Tiled:
    """A schedule half-way: the block, and the loops of each tile."""

    sch: Schedule
    block: Any
    tiles: list[list[Any]] = field(default_factory=list)

    def but(self, sch: Schedule) -> Tiled:
        """The same tiles in a copy of the schedule."""
        return Tiled(sch, self.block, [[*x] for x in self.tiles])

    def innermost(self, level: int) -> Any:
        """The last loop of the first `level` tiles that have one."""
        return [x for tile in self.tiles[:level] for x in tile][-1]


class MultiLevelTiling(ScheduleRule):
    """Blocks whose operands are read again are tiled.

    Args:
        structure: a letter for each tile: S over the spatial axes, R over the reduce axes.
        tile_binds: the threads of the first tiles, on a GPU.
        max_innermost_factor: of each axis' innermost tile; None: any.
        vector_load_lens: lengths that a copying thread may load at once.
        reuse_read: where what is read is copied to.
        reuse_write: where results are kept until a tile is done.
        filter_fn: block -> whether it is tiled; default: `looking.reuses`.
    """

    kind = "multi-level-tiling"
    structure: str = "SSRSRS"
    tile_binds: Sequence[str] | None = None
    max_innermost_factor: int | None = None
    vector_load_lens: Sequence[int] | None = None
    reuse_read: ReuseType | None = None
    reuse_write: ReuseType | None = None
    filter_fn: Callable[[Schedule, Any], bool] | None = None

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The tiled schedules: one for each way to keep results."""
        if not (self.filter_fn or reuses)(sch, block):
            return [sch]
        try:
            tiled = self.tile(Tiled(sch.copy(), block))
            made = [self.copied(x) for x in self.kept(tiled)]
        except ScheduleError:
            return [sch]
        return [x.sch for x in made if x is not None] or [sch]

    def tile(self, now: Tiled) -> Tiled:
        """The loops split, put in order and bound."""
        sch, block = now.sch, now.block
        sch.annotate(block, STRUCTURE, self.structure)
        loops = sch.get_loops(block)
        now.tiles = [[] for _ in self.structure]
        for loop, letter in zip(loops, kinds(sch, block, loops), strict=True):
            places = [n for n, x in enumerate(self.structure) if x == letter]
            if not places:
                raise ScheduleError(f"MultiLevelTiling: {self.structure} has no tile for {loop}")
            for place, part in zip(places, self._parts(sch, loop, len(places)), strict=True):
                now.tiles[place].append(part)
        sch.reorder(*(x for tile in now.tiles for x in tile))
        for place, thread in enumerate(self.tile_binds or ()):
            whole = sch.fuse(*now.tiles[place])
            sch.bind(whole, thread)
            now.tiles[place] = [whole]
        return now

    def _parts(self, sch: Schedule, loop: Any, count: int) -> list[Any]:
        if count == 1:
            return [loop]
        most = self.max_innermost_factor or 2**30
        factors = sch.sample_perfect_tile(loop, n=count, max_innermost_factor=most)
        return list(sch.split(loop, factors))

    def kept(self, now: Tiled) -> list[Tiled]:
        """Without and with results kept until tiles are done, as `reuse_write` says."""
        how = self.reuse_write
        if how is None or how.req == "no":
            return [now]
        found = []
        for level in how.levels:
            made = self._kept_at(now, level, how.scope)
            if made is not None:
                found.append(made)
        return found if how.req == "must" and found else [now, *found]

    def _kept_at(self, now: Tiled, level: int, scope: str) -> Tiled | None:
        """Results written out below a tile: by the consumer if there is one, else by a copy."""
        at = now.innermost(level)
        consumers = now.sch.get_consumers(now.block)
        own = scope == "global" and len(consumers) == 1
        if own and is_spatial(now.sch, consumers[0]):
            made = tried(now.sch, lambda s: s.reverse_compute_at(consumers[0], at))
            if made is not None:
                return now.but(made)

        def step(s: Schedule) -> None:
            s.reverse_compute_at(s.cache_write(now.block, 0, scope), at)

        made = tried(now.sch, step)
        return None if made is None else now.but(made)

    def copied(self, now: Tiled) -> Tiled | None:
        """What is read copied to near memory below a tile, as `reuse_read` says."""
        how = self.reuse_read
        if how is None or how.req == "no":
            return now
        sch, node = now.sch, now.sch.get(now.block)
        written = {w.buffer for w in node.writes}
        places = [n for n, r in enumerate(node.reads) if r.buffer not in written]
        for level in how.levels:
            for place in places:
                copy = sch.cache_read(now.block, place, how.scope)
                sch.compute_at(copy, now.innermost(level), preserve_unit_loops=True)
                own = sch.get_loops(copy)[-len(node.reads[place].buffer.shape) :]
                sch.fuse(*own)
                self._loads(sch, copy)
        return now

    def _loads(self, sch: Schedule, copy: Any) -> None:
        """Say that the threads of a block copy together, so many elements at a time."""
        lens = list(self.vector_load_lens or ())
        if lens:
            length = sch.sample_categorical(lens, [1 / len(lens)] * len(lens))
            sch.annotate(copy, COOPERATIVE, length)


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Blocks that compute what an intrinsic does: tiles around a tile of one instruction.

        for i, j, k in T.grid(…):         for i0, j0, k0, … in T.grid(…):
            C[i, j] += A[i, k] * …   ->       with T.block("C_o"):     meta_schedule.auto_tensorize
                                                  for j1, k1 in T.grid(16, 4): C[…] += …

    The block is matched by what its iterators index (`auto_tensorize`), padded where it must be.

    Args:
        structure, tile_binds, …: see `MultiLevelTiling`.
        intrin_name: of a registered `TensorIntrin`.
    """

    kind = "multi-level-tiling-with-intrin"
    intrin_name: str = "dot_16x4_vnni"

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedules with tiles around the intrinsic; `[sch]` where it does not match."""
        if note(sch, block, TENSORIZE) is not None:
            return [sch]
        made = sch.copy()
        try:
            outer = tile_with_intrin(made, block, self.intrin_name, allow_padding=True)
        except ScheduleError:
            return [sch]
        if outer is None:
            return [sch]
        rest = MultiLevelTiling(
            self.structure, self.tile_binds, self.max_innermost_factor, self.vector_load_lens,
            self.reuse_read, self.reuse_write, lambda _sch, _block: True,
        )  # fmt: skip
        rest.context = self.context
        found = rest.apply(made, outer)
        return found if found != [made] else [sch]


class MultiLevelTilingTensorCore(ScheduleRule):
    """Products of halves or bytes in tiles of warps, by `mma.sync`: a product (or convolution) of
    float16 or bfloat16 that is summed in float32, or of int8 that is summed in int32.

    The steps are those of `dlight.gpu.tensor_cores`; how many fragments a warp holds, and how many
    steps of k are fetched together, are draws.

    Args:
        tiles: the tiles of a block of threads that are tried.
        tf32: products of float32, too, of which tensor cores keep 11 bits of each operand.
    """

    kind = "multi-level-tiling-tensor-core"
    tiles: tuple[Tile, ...] = (Tile(), SMALL, Tile(rows=2), Tile(columns=2))
    tf32: bool = False

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """A schedule for each tile; `[sch]` where tensor cores do not take the block."""
        if not is_there(sch, block) or not is_reduction(sch, block):
            return [sch]
        found = [made for tile in self.tiles if (made := self._tiled(sch, tile)) is not None]
        return found or [sch]

    def _tiled(self, sch: Schedule, tile: Tile) -> Schedule | None:
        made = sch.copy()
        try:
            took = tensor_cores(made, Survey.of(made), self.target, tile, self.tf32)
            return made if took else None
        except ScheduleError:
            return None
