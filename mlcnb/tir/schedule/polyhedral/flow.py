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

from mlcnb.ir import expr as e
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule.polyhedral.program import Part, Program, Statement
from mlcnb.tir.schedule.polyhedral.writing import index


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
        self._writers: dict[str, list[Statement]] = {}
        for statement in self.program.statements:
            name = memory_of(statement.written)
            self._writers.setdefault(name, []).append(statement)

    def writers(self, memory: str) -> list[Statement]:
        """The statements that write a buffer."""
        return self._writers.get(memory, [])

    @cached_property
    def schedule(self) -> Any:
        """When each iteration of each statement runs."""
        return union(x.time for x in self.program.statements)

    def sources(self, statement: Statement, load: BufferLoad) -> list[Source]:
        """What a load of a statement sees."""
        key = (statement, load)
        if key not in self._known:
            element = statement.element(load.buffer, load.indices)
            name = memory_of(element)
            self._known[key] = self._last(element, self.writers(name), name)
        return self._known[key]

    def bases(self, statement: Statement) -> list[Source]:
        """What a reduction started from: the last write that is no update of the same kind."""
        key = (statement, None)
        if key not in self._known:
            name = memory_of(statement.written)
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
        import islpy

        writers = list(writers)
        if not writers:
            return [Source(None, element, memory)]
        schedule = self.schedule
        if when is not None:
            schedule = schedule.union(islpy.UnionMap.from_map(when))
        access = islpy.UnionAccessInfo.from_sink(islpy.UnionMap.from_map(element))
        access = access.set_must_source(union(w.written for w in writers))
        flow = access.set_schedule_map(schedule).compute_flow()
        found = [
            Source(
                self.program.by_name(m.get_tuple_name(islpy.dim_type.in_)), m.reverse().coalesce()
            )
            for m in maps_of(flow.get_must_dependence())
        ]
        missing = maps_of(flow.get_must_no_source())
        return found + [Source(None, m.coalesce(), memory) for m in missing]


def kind_of(statement: Statement) -> str | None:
    """`sum`, `max`, … for an update of a reduction; None for any other store."""
    return statement.update[0].name if statement.update else None


def memory_of(element: Any) -> str:
    """The name of the memory that a map to elements leads to."""
    import islpy

    return element.get_tuple_name(islpy.dim_type.out)


def maps_of(union_map: Any) -> list[Any]:
    """The maps of a union that are not empty."""
    found: list[Any] = []
    union_map.foreach_map(found.append)
    return [m for m in found if not m.is_empty()]


def union(maps: Iterable[Any]) -> Any:
    """Maps of different spaces as one union."""
    import islpy

    first, *rest = (islpy.UnionMap.from_map(m) for m in maps)
    for m in rest:
        first = first.union(m)
    return first
