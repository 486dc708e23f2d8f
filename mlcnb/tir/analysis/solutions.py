"""Points of isl sets: the first one, and where that is in words.

{ [i, x] : 8 <= i < 16 and x = i }   ->   values (8, 8), " at i = 8"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.arith.isl import Point
from mlcnb.arith.presburger import Translator
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.tir.access.scope import Loop, loop_name
from mlcnb.tir.stmt import For


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
