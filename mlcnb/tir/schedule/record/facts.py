"""What a primitive does to a program, said where it stands; the judge of steps asks.

@does(still=True)
def split(state, loop, …):          facts_of("split").still
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


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


_facts: dict[str, Facts] = {}


def does(marks: bool = False, still: bool = False, again: bool = False) -> Callable[[F], F]:
    """Decorator of a primitive: its facts. One that marks is still, and looked at twice."""

    def keep(function: F) -> F:
        _facts[function.__name__] = Facts(marks, marks or still, marks or again)
        return function

    return keep


def facts_of(primitive: str) -> Facts:
    """The facts of a primitive, by its name."""
    return _facts.get(primitive, Facts())
