"""MutateTileSize: a factor moves from one tile of an axis to another, [8, 4] -> [4, 8]."""

from __future__ import annotations

import numpy as np

from mlcnb.meta_schedule.mutator.mutation import Mutator, another, drawn, users
from mlcnb.tir.schedule.record.trace import Trace


class MutateTileSize(Mutator):
    """One draw of `sample_perfect_tile`, or of the length of loads of a copy."""

    kind = "mutate-tile-size"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with one factor moved; the innermost stays within its bound."""
        tiles = [i for i in drawn(trace, "sample_perfect_tile") if np.prod(i.decision) >= 2]
        loads = [i for i in drawn(trace, "sample_categorical") if _is_length(trace, i)]
        wanted = [*tiles, *loads]
        for at in rng.permutation(len(wanted)):
            inst = wanted[at]
            if inst in loads:
                made = another(trace, inst, rng)
            else:
                moved = _moved([int(x) for x in inst.decision], _most(inst), rng)
                made = trace.with_decision(inst, moved, True) if moved else None
            if made is not None:
                return made
        return None


def _is_length(trace: Trace, inst: object) -> bool:
    told = (u.arguments.get("ann_key", "") for u in users(trace, inst))  # type: ignore[arg-type]
    return any(str(x).endswith("cooperative_fetch") for x in told)


def _most(inst: object) -> int:
    return int(inst.arguments.get("max_innermost_factor", 2**30))  # type: ignore[attr-defined]


def _moved(tile: list[int], most: int, rng: np.random.Generator) -> list[int] | None:
    """A tile with a factor moved to another place; None where none may."""
    ways = [
        (x, y, f)
        for x in range(len(tile))
        for y in range(len(tile))
        if x != y
        for f in range(2, tile[x] + 1)
        if tile[x] % f == 0 and (y < len(tile) - 1 or tile[y] * f <= most)
    ]
    if not ways:
        return None
    x, y, f = ways[int(rng.integers(len(ways)))]
    made = [*tile]
    made[x] //= f
    made[y] *= f
    return made
