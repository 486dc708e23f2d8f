"""Array dataflow: which write each read sees.

    for i in range(8):                        the read B[v - 1] at i sees
        B[v] = A[v] + B[v - 1]                    S0[i - 1]    where i > 0
                                                  what was there before the call, where i = 0

Paul Feautrier, Dataflow analysis of array and scalar references, 1991. isl computes it exactly for
affine programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlcnb.arith import isl
from mlcnb.arith.isl import target_name
from mlcnb.core.groups import grouped
from mlcnb.ir import expr as e
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule.legality.polyhedral.program import Part, Program, Statement
from mlcnb.tir.schedule.legality.polyhedral.writing import index


@dataclass(frozen=True)
class Source:
    """Where a value comes from: for iterations of the reader, iterations of a writer.

    map: reader -> writer (single valued). Where `writer` is None it is what was in memory before
    the call, and map is reader -> element.
    """

    writer: Statement | None
    map: Any
    memory: str = ""


class Flow:
    """The dataflow of one program, computed as it is asked for."""

    def __init__(self, part: Part) -> None:
        self.program = Program(part)
        self._known: dict[Any, list[Source]] = {}
        self._writers = grouped((target_name(x.written), x) for x in self.program.statements)

    def writers(self, memory: str) -> list[Statement]:
        """The statements that write a buffer."""
        return self._writers.get(memory, [])

    @cached_property
    def schedule(self) -> Any:
        """When each iteration of each statement runs."""
        return isl.union(x.time for x in self.program.statements)

    def sources(self, statement: Statement, load: BufferLoad) -> list[Source]:
        """What a load of a statement sees."""
        key = (statement, load)
        if key not in self._known:
            element = statement.element(load.buffer, load.indices)
            name = target_name(element)
            self._known[key] = self._last(element, self.writers(name), name)
        return self._known[key]

    def bases(self, statement: Statement) -> list[Source]:
        """What a reduction started from: the last write that is no update of the same kind."""
        key = (statement, None)
        if key not in self._known:
            name = target_name(statement.written)
            kind = kind_of(statement)
            others = [w for w in self.writers(name) if kind_of(w) != kind]
            self._known[key] = self._last(statement.written, others, name)
        return self._known[key]

    def last(self, memory: str, shape: tuple[e.PrimExpr, ...]) -> list[Source]:
        """The last write to each element of a parameter: maps from `End[element]`."""
        key = (None, memory)
        if key not in self._known:
            dims = [f"d{n}" for n in range(len(shape))]
            texts = [index(n, self.program.names) for n in shape]
            inside = [f"0 <= {d} < {n}" for d, n in zip(dims, texts, strict=True)]
            point = f"End[{', '.join(dims)}]"
            ends = self.program.set(f"{point} : {' and '.join(inside) or 'true'}")
            element = self.program.map(f"{point} -> {memory}[{', '.join(dims)}]")
            element = element.intersect_domain(ends)
            after_all = ", ".join(["2"] + ["0"] * (self.program.depth - 1))
            when = self.program.map(f"{point} -> [{after_all}]").intersect_domain(ends)
            self._known[key] = self._last(element, self.writers(memory), memory, when)
        return self._known[key]

    def _last(
        self, element: Any, writers: Iterable[Statement], memory: str, when: Any = None
    ) -> list[Source]:
        """The last of the writers before each access; `when` places accesses of no statement."""
        writers = list(writers)
        if not writers:
            return [Source(None, element, memory)]
        times = self.schedule if when is None else self.schedule.union(isl.union([when]))
        seen, missing = isl.last_writers(element, (w.written for w in writers), times)
        found = [Source(self.program.by_name(isl.target_name(m)), m) for m in seen]
        return found + [Source(None, m, memory) for m in missing]


def kind_of(statement: Statement) -> str | None:
    """`sum`, `max`, … for an update of a reduction; None for any other store."""
    return statement.update[0].name if statement.update else None
