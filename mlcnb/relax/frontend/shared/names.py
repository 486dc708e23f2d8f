"""Names of a model become names of a program, and scopes of names.

"input.1"  ->  input_1        "input_1" too  ->  input_11       a name that fits stays as it is
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.relax.emitter import Names
from mlcnb.script.names import RESERVED, identifier


def parameter_names(names: Iterable[str]) -> dict[str, str]:
    """An identifier for each name, all different; a name that is one stays as it is."""
    given = list(names)
    fitting = {n for n in given if is_plain(n)}
    supply = Names(fitting)
    return {n: n if n in fitting else supply.fresh(plain(n)) for n in given}


def is_plain(name: str) -> bool:
    """True for a name that may stand in a program as it is."""
    return name == identifier(name) and name not in RESERVED and len(name) <= 200


def plain(name: str) -> str:
    """A name as an identifier."""
    made = identifier(name[:200])
    return f"{made}_" if made in RESERVED else made


class Scope:
    """Names of tensors and what they stand for; those of an outer graph are seen from within."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.values: dict[str, Any] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        self.values[name] = value

    def find(self, name: str) -> Any:
        """What a name stands for (None: an input that was left out).

        Raises:
            KeyError: nothing.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise KeyError(name)
