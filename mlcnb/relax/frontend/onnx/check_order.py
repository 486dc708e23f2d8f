"""Why a name is not known where it is used: nothing makes it, a later node does, or a circle.

c = Relu(b)        b is made only later, from c itself: c -> b -> c
b = Add(c, x)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from mlcnb.relax.frontend.onnx.protos import label


def first_of(names: Iterable[Hashable]) -> Any:
    """The first name that occurs a second time, or None."""
    seen: set[Hashable] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def why_unknown(nodes: Sequence[Any], at: int, name: str, place: str) -> str:
    """A sentence about node number `at`, which reads `name` before it is made."""
    made_by = {o: n for n, node in enumerate(nodes) for o in node.output if o}
    if name not in made_by:
        return f"{label(nodes[at])} reads {name!r}, which nothing in {place} makes"
    circle = circle_through(nodes, made_by, at)
    if circle:
        names = " -> ".join(label(nodes[n]) for n in circle[:6])
        more = f" -> … ({len(circle)} nodes)" if len(circle) > 6 else ""
        return f"{place} has a cycle: {names}{more} -> {label(nodes[at])}"
    return (
        f"{label(nodes[at])} reads {name!r}, which {label(nodes[made_by[name]])} makes only later: "
        "nodes must stand in the order in which they run"
    )


def circle_through(nodes: Sequence[Any], made_by: dict[str, int], at: int) -> list[int]:
    """Nodes that need each other in a circle, beginning with `at`; empty if there is none."""
    before: dict[int, int | None] = {at: None}
    stack = [at]
    while stack:
        here = stack.pop()
        for source in (made_by[i] for i in nodes[here].input if i in made_by):
            if source == at:
                return _path(before, here)
            if source not in before:
                before[source] = here
                stack.append(source)
    return []


def _path(before: dict[int, int | None], end: int) -> list[int]:
    """From the start of the search to `end`."""
    path: list[int] = []
    step: int | None = end
    while step is not None:
        path.append(step)
        step = before[step]
    return path[::-1]
