"""decide: where a rule could go several ways it asks here, and takes what its own reckoning says.

    rows = decide("rows together", (8, 4, 16))           the first, unless a search says otherwise
    tile = decide("tile", tiles, cost=cycles)               the cheapest, unless …

    with Decisions({"tile": "4x4"}) as made:
        sch = schedule_cpu(func, target)
    made.points      what was asked, what there was to choose from, what was taken

The default schedules and the space in which `mlc.tune` looks for better ones are so the same rules:
the default is the point of that space at which every decision is the rule's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

#: what a way costs that a rule has not reckoned, by the one that it takes by itself
UNRECKONED = 1.03


@dataclass(frozen=True)
class Point:
    """One decision.

    Attributes:
        name: what is decided; the second time that a rule asks it has "#2" behind it.
        options: labels of all ways.
        costs: of each way, by the cheapest one: 1.0 and more.
        taken: the number of the way that was taken.
        default: the number of the one that the rule takes by itself.
    """

    name: str
    options: tuple[str, ...]
    costs: tuple[float, ...]
    taken: int
    default: int

    @property
    def label(self) -> str:
        """What was taken."""
        return self.options[self.taken]


class Decisions:
    """Decisions that are made for the rules inside a `with` block; what is not said is default.

    Args:
        wanted: name of a point -> label of one of its options; one that is not there when the rule
            asks (it depends on what was decided before) leaves the rule its own way.
    """

    def __init__(self, wanted: Mapping[str, str] | None = None) -> None:
        self.wanted = dict(wanted or {})
        self.points: list[Point] = []

    def __enter__(self) -> Decisions:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_error: Any) -> None:
        _current.reset(self._token)

    def take(self, name: str, options: tuple[T, ...], costs: list[float] | None) -> T:
        """The option that is wanted, or the default; noted as a point."""
        labels = tuple(map(_label, options))
        default = 0 if costs is None else min(range(len(costs)), key=costs.__getitem__)
        count = 1 + sum(p.name.split("#")[0] == name for p in self.points)
        name = name if count == 1 else f"{name}#{count}"
        wanted = self.wanted.get(name)
        taken = labels.index(wanted) if wanted in labels else default
        if len(options) > 1:
            self.points.append(Point(name, labels, _relative(costs, len(labels)), taken, default))
        return options[taken]


_current: ContextVar[Decisions | None] = ContextVar("decisions", default=None)


def decide(name: str, options: Iterable[T], cost: Callable[[T], float] | None = None) -> T:
    """One of several ways.

    Args:
        name: what is decided, in a word or two.
        options: the ways, the rule's own first where `cost` is not given; equal ones count once.
        cost: what a way costs, in any unit, all above 0: the cheapest is the rule's own.
    """
    decisions = _current.get()
    if decisions is None:
        return min(options, key=cost) if cost is not None else next(iter(options))
    found: dict[str, T] = {}
    for option in options:
        found.setdefault(_label(option), option)
    unlike = tuple(found.values())
    costs = None if cost is None else [cost(option) for option in unlike]
    return decisions.take(name, unlike, costs)


def either(name: str, own: bool) -> bool:
    """Whether to do something: the rule's own answer, unless a search wants the other one."""
    return decide(name, (own, not own))


def _label(option: Any) -> str:
    if isinstance(option, bool):
        return "yes" if option else "no"
    return "x".join(map(str, option)) if isinstance(option, tuple) else str(option)


def _relative(costs: list[float] | None, count: int) -> tuple[float, ...]:
    if costs is None:
        return (1.0, *(UNRECKONED,) * (count - 1))
    least = min(costs)
    return tuple(c / least for c in costs)
