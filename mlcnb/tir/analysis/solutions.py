"""Points of isl sets: the first one, and where that is in words.

{ [i, x] : 8 <= i < 16 and x = i }   ->   values (8, 8), " at i = 8"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.presburger import PATIENT, Translator, ask
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.tir.analysis.relations import Loop, loop_name
from mlcnb.tir.stmt import For


@dataclass(frozen=True, slots=True)
class Point:
    """The values of the dimensions, and of the parameters by their isl names."""

    values: tuple[int, ...]
    params: dict[str, int]


def first_point(points: Any, effort: int = PATIENT) -> Point | None:
    """The lexicographically smallest point of a set; None where none is found."""
    found = ask(lambda: points.lexmin().sample_point(), effort)
    return None if found is None or found.is_void() else point_of(found)


def point_of(point: Any) -> Point:
    """The numbers of an isl point."""
    import islpy as isl

    kinds = isl.dim_type
    space = point.get_space()

    def numbers(kind: Any) -> tuple[int, ...]:
        each = (point.get_coordinate_val(kind, n) for n in range(space.dim(kind)))
        return tuple(int(value.to_python()) for value in each)

    params = numbers(kinds.param)
    names = [space.get_dim_name(kinds.param, n) for n in range(len(params))]
    return Point(numbers(kinds.set), dict(zip(names, params, strict=True)))


def iteration_of(loops: Sequence[Loop], values: Sequence[int]) -> dict[str, int]:
    """The values of loops, by name."""
    return {loop_name(x): value for x, value in zip(loops, values, strict=False)}


def sizes_of(point: Point, text: Translator, parts: Sequence[Any]) -> dict[str, int]:
    """The values of the symbolic sizes that stand in some of the expressions `parts`."""
    used = {n for part in parts for n in walk(part) if isinstance(n, Var)}
    names = {name: var.name for var, name in text.names.items() if var in used}
    return {names[name]: value for name, value in point.params.items() if name in names}


def told(point: Point, loops: Sequence[Loop], text: Translator, parts: Sequence[Any] = ()) -> str:
    """Where a point is: `n = 3, i = 8`; '' for nowhere in particular."""
    ranges = [x for loop in loops if isinstance(loop, For) for x in (loop.min, loop.extent)]
    values = {**sizes_of(point, text, [*parts, *ranges]), **iteration_of(loops, point.values)}
    return ", ".join(f"{name} = {value}" for name, value in values.items())
