"""Names for people become names for Python: identifiers, none reserved, each used once in a scope.

    "1x.weight" -> v_1x_weight     "lambda" -> lambda_     a second "i" in the same scope -> i_1

A name is free again when the scope that defined it ends: two loops in a row are both `i`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: names that mean something else to a reader (or to the parser)
RESERVED = frozenset({*keyword.kwlist, "I", "R", "T", "cls", "metadata", "range", "float", "tvm"})
_OTHER = re.compile(r"[^0-9A-Za-z_]")


def identifier(name: str) -> str:
    """`name` as a Python identifier of ASCII letters, digits and `_`."""
    cleaned = _OTHER.sub("_", name) or "v"
    if cleaned[0].isdigit():
        cleaned = f"v_{cleaned}"
    return f"{cleaned}_" if keyword.iskeyword(cleaned) else cleaned


class Names:
    """Which object has which name, in nested scopes."""

    def __init__(self, reserved: frozenset[str] = RESERVED) -> None:
        self.names: dict[int, str] = {}
        self.used: set[str] = set(reserved)
        self.next_suffix: dict[str, int] = {}
        #: what is used and defined nowhere, in order
        self.free: list[Any] = []
        #: what each open scope defined: (object, name), the suffix counter to put back, and the
        #: name that the object had before
        self.scopes: list[list[tuple[Any, str, str, int, str | None]]] = [[]]

    def find(self, obj: Any) -> str | None:
        """The name of an object, or None where it is not defined."""
        return self.names.get(id(obj))

    def define(self, obj: Any, hint: str) -> str:
        """A new name for `obj` in the innermost scope."""
        base = identifier(hint)
        count = self.next_suffix.get(base, 0)
        name, before = base, count
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self.next_suffix[base] = count
        self.used.add(name)
        self.scopes[-1].append((obj, name, base, before, self.names.get(id(obj))))
        self.names[id(obj)] = name
        return name

    def define_free(self, obj: Any, hint: str) -> str:
        """A name for something that is used but defined nowhere: it stays to the end."""
        name = self.define(obj, hint)
        self.free.append(obj)
        self.scopes[0].append(self.scopes[-1].pop())
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is defined inside is forgotten afterwards."""
        self.scopes.append([])
        try:
            yield
        finally:
            for obj, name, base, before, known in reversed(self.scopes.pop()):
                del self.names[id(obj)]
                if known is not None:  # it is defined once more inside
                    self.names[id(obj)] = known
                self.used.discard(name)
                self.next_suffix[base] = before
