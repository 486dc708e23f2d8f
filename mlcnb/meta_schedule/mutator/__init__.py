"""Mutators: a trace with one draw changed.

mutator.apply(trace, rng) -> Trace | None      None: there is nothing to change
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mlcnb.meta_schedule.part import Part, found
from mlcnb.meta_schedule.schedule_rule.parallelize_vectorize_unroll import PARALLEL
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.trace import Trace

#: places of a block: inline, where it stands, and as many loops as a nest may have
INLINE, DEEPEST = -2, 12


class Mutator(Part):
    """A mutator; `PyMutator` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.mutator"

    def apply(self, trace: Trace, rng: np.random.Generator | None = None) -> Trace | None:
        """A trace with another decision; None where there is none to change.

        Args:
            trace: of a schedule.
            rng: random numbers; default: those of the context.
        """
        return self.changed(trace, rng or self._own())

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """What `apply` gives, with random numbers at hand."""
        raise NotImplementedError(f"{type(self).__name__}.changed")

    def _own(self) -> np.random.Generator:
        return self.context.rng if self.context is not None else np.random.default_rng(0)


PyMutator = Mutator


class MutateComputeLocation(Mutator):
    """A block is computed at another loop of its consumer: one draw of `sample_compute_location`;
    a place that is not legal becomes the next outer.
    """

    kind = "mutate-compute-location"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another place drawn."""
        places = _drawn(trace, "sample_compute_location")
        if not places:
            return None
        inst = places[int(rng.integers(len(places)))]
        others = [n for n in range(INLINE, DEEPEST) if n != int(inst.decision)]
        return trace.with_decision(inst, int(rng.choice(others)), True)


class MutateParallel(Mutator):
    """More or fewer tasks: the note `meta_schedule.parallel`.

    Args:
        max_jobs_per_core: tasks for each core at most.
    """

    kind = "mutate-parallel"
    max_jobs_per_core: int = 16

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another number of tasks in the note."""
        kept = trace.simplified(remove_postproc=True).insts
        notes = [i for i in kept if i.arguments.get("ann_key") == PARALLEL]
        if not notes:
            return None
        now = int(notes[0].arguments["ann_val"])
        wanted = [self.target.num_cores * n for n in range(1, self.max_jobs_per_core + 1)]
        wanted = [n for n in wanted if n != now]
        if not wanted:
            return None
        told = {**notes[0].arguments, "ann_val": int(rng.choice(wanted))}
        new = Instruction.of(notes[0].name, told, notes[0].outputs, None)
        return Trace(new if i is notes[0] else i for i in kept)


class MutateThreadBinding(Mutator):
    """Blocks of more or fewer threads: a draw that a split is told whose part is bound to
    `threadIdx.x`.
    """

    kind = "mutate-thread-binding"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another number of threads drawn."""
        found = [i for i in _drawn(trace, "sample_categorical") if _is_threads(trace, i)]
        return _one_of(found, trace, rng)


def _is_threads(trace: Trace, inst: Instruction) -> bool:
    for split in _users(trace, inst):
        if split.name == "split" and any(
            u.name == "bind" and u.arguments.get("thread_axis") == "threadIdx.x"
            for u in _users(trace, split)
        ):
            return True
    return False


class MutateUnroll(Mutator):
    """Another number of steps is written out: the draw that a note `meta_schedule.unroll_…` is
    told.
    """

    kind = "mutate-unroll"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another number drawn."""
        found = [
            i
            for i in _drawn(trace, "sample_categorical")
            if any(".unroll_" in key for key in _noted(trace, i))
        ]
        return _one_of(found, trace, rng)


class MutateTileSize(Mutator):
    """A factor moves from one tile of an axis to another, [8, 4] -> [4, 8]: one draw of
    `sample_perfect_tile`, or of the length of loads of a copy.
    """

    kind = "mutate-tile-size"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with one factor moved; the innermost stays within its bound."""
        tiles = [i for i in _drawn(trace, "sample_perfect_tile") if np.prod(i.decision) >= 2]
        loads = [
            i
            for i in _drawn(trace, "sample_categorical")
            if any(key.endswith("cooperative_fetch") for key in _noted(trace, i))
        ]
        wanted = [*tiles, *loads]
        for at in rng.permutation(len(wanted)):
            inst = wanted[at]
            if inst in loads:
                made = _another(trace, inst, rng)
            else:
                most = int(inst.arguments.get("max_innermost_factor", 2**30))
                moved = _moved([int(x) for x in inst.decision], most, rng)
                made = trace.with_decision(inst, moved, True) if moved else None
            if made is not None:
                return made
        return None


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


def _drawn(trace: Trace, name: str) -> list[Instruction]:
    """The instructions that draw by a primitive of that name."""
    return [i for i in trace.insts if i.name == name and i.decision is not None]


def _users(trace: Trace, drawing: Instruction) -> Iterator[Instruction]:
    """The instructions that are told what another one drew."""
    made = {id(x) for x in drawing.outputs}
    for inst in trace.insts:
        if any(id(v) in made for x in inst.arguments.values() for v in _flat(x)):
            yield inst


def _noted(trace: Trace, drawing: Instruction) -> list[str]:
    """The keys of the notes that are told what an instruction drew."""
    return [str(u.arguments.get("ann_key", "")) for u in _users(trace, drawing)]


def _another(trace: Trace, inst: Instruction, rng: np.random.Generator) -> Trace | None:
    """The trace with another position drawn by a `sample_categorical`; None: there is one alone."""
    others = [n for n in range(len(inst.arguments["candidates"])) if n != int(inst.decision)]
    return trace.with_decision(inst, int(rng.choice(others)), True) if others else None


def _one_of(draws: Sequence[Instruction], trace: Trace, rng: np.random.Generator) -> Trace | None:
    """`_another` of one of the draws; None where there are none."""
    return _another(trace, draws[int(rng.integers(len(draws)))], rng) if draws else None


def _flat(x: Any) -> list[Any]:
    return [v for part in x for v in _flat(part)] if isinstance(x, list | tuple) else [x]


__all__ = ["Mutator", "PyMutator"]
__getattr__ = found(globals())
