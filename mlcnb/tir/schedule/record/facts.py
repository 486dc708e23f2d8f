"""What a primitive is and does, said where it stands.

@does(still=True, near="reorder split", tries={"loops": chains})
def fuse(state, *loops, …):         facts_of("fuse").still

A function in `primitives/` with `@does` above it is a primitive. The judge of steps asks what it
moves and whether it may be proved, `offers` which arguments are worth trying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
#: arguments worth trying: the same everywhere, or those at a `Site`
Tries = Iterable[Any] | Callable[[Any], Iterable[Any]]


@dataclass(frozen=True)
class Facts:
    """What holds of a primitive; of one that says nothing, the careful answers."""

    #: it says how a loop runs: the loop alone is in question
    marks: bool = False
    #: it moves no accesses, nor gives a buffer to other threads; after any other, loops that were
    #: marked are looked at again
    still: bool = False
    #: its refusals are looked at twice: what the rules refuse may be proved
    again: bool = False
    #: it only looks, or draws a number: the program stays as it is
    pure: bool = False
    #: what else to try where it is refused: primitives about the same thing, best first
    near: str = ""
    #: parameter -> the values to try
    tries: Mapping[str, Tries] = field(default_factory=dict)


_facts: dict[str, Facts] = {}


def does(
    *,
    marks: bool = False,
    still: bool = False,
    again: bool = False,
    pure: bool = False,
    near: str = "",
    tries: Mapping[str, Tries] | None = None,
) -> Callable[[F], F]:
    """Decorator of a primitive: its facts. One that marks is still, and looked at twice."""

    def keep(function: F) -> F:
        made = Facts(marks, marks or still, marks or again, pure, near, tries or {})
        _facts[function.__name__] = made
        return function

    return keep


def is_primitive(name: str) -> bool:
    """True if a function of that name was given facts."""
    return name in _facts


def facts_of(primitive: str) -> Facts:
    """The facts of a primitive, by its name."""
    return _facts.get(primitive, Facts())
