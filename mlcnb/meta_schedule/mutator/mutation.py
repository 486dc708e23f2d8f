"""Mutator: what every mutator is, and the instructions that it looks for in a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlcnb.meta_schedule.part import Part
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.trace import Trace


class Mutator(Part):
    """A mutator; `PyMutator` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.mutator"

    def apply(self, trace: Trace, rng: np.random.Generator | None = None) -> Trace | None:
        """A trace with another decision; None where there is none to change.

        Args:
            trace: of a schedule.
            rng: random numbers; default: those of the context.
        """
        found = self.changed(trace, rng or self._own())
        return None if found is None else found

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """What `apply` gives, with random numbers at hand."""
        raise NotImplementedError(f"{type(self).__name__}.changed")

    def _own(self) -> np.random.Generator:
        return self.context.rng if self.context is not None else np.random.default_rng(0)


PyMutator = Mutator


def drawn(trace: Trace, name: str) -> list[Instruction]:
    """The instructions that draw by a primitive of that name."""
    return [i for i in trace.insts if i.name == name and i.decision is not None]


def users(trace: Trace, drawing: Instruction) -> Iterator[Instruction]:
    """The instructions that are told what another one drew."""
    made = {id(x) for x in drawing.outputs}
    for inst in trace.insts:
        if any(id(v) in made for x in inst.arguments.values() for v in _flat(x)):
            yield inst


def another(trace: Trace, inst: Instruction, rng: np.random.Generator) -> Trace | None:
    """The trace with another position drawn by a `sample_categorical`; None: there is one alone."""
    others = [n for n in range(len(inst.arguments["candidates"])) if n != int(inst.decision)]
    return trace.with_decision(inst, int(rng.choice(others)), True) if others else None


def _flat(x: Any) -> list[Any]:
    return [v for part in x for v in _flat(part)] if isinstance(x, list | tuple) else [x]
