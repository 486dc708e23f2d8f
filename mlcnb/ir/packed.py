"""Programs as one compact text, arrays apart: quick to write and to read, for stores on disk.

    text, arrays = pack(mod)        ["tir.For", …] | [[12, "i", [7], …], …] | root
    mod = unpack(text, arrays)      a node of class 12: its fields in order; [7] is node number 7

All that `save_json` keeps is kept: spans, names, what is shared. Its text is for other programs,
and says and checks more; this one is read where it was written, by the same version, from a file
whose bytes were checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from mlcnb.core import above
from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, Node, Record
from mlcnb.core.recursion import roomy
from mlcnb.core.text import kind_of
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.json import class_named, enums, fields_of, key_of

#: classes whose values stand as they are
_PLAIN = {int, str, bool, type(None)}


@roomy
def pack(value: Any) -> tuple[str, list[np.ndarray]]:
    """The text of nodes (or tuples, dicts of them), and the arrays that they hold.

    The same program, built in the same way, gives the same text in every process.

    Raises:
        MLCError: a field holds something that is no part of a program.
    """
    writer = _Writer()
    root = writer.value(value)
    text = json.dumps([list(writer.classes), writer.nodes, root], separators=(",", ":"))
    return text, writer.arrays


def unpack(text: str, arrays: Sequence[np.ndarray]) -> Any:
    """What `pack` was given.

    Raises:
        ValueError, LookupError, TypeError: the text was not written by `pack`.
    """
    names, entries, root = json.loads(text)
    classes = [class_named(name) for name in names]
    nodes: list[Any] = []

    def read(value: Any) -> Any:
        if type(value) is not list:
            return value
        head = value[0]
        if type(head) is int:
            return nodes[head]
        if head == "t":
            return tuple([v if type(v) is not list else read(v) for v in value[1:]])
        return _READERS[head](value, read, arrays)

    add = nodes.append
    for number, *values in entries:
        add(classes[number](*[v if type(v) is not list else read(v) for v in values]))
    return read(root)


def _dict(value: list[Any], read: Any, _arrays: Any) -> FrozenDict:
    places = range(1, len(value), 2)
    return FrozenDict({read(value[i]): read(value[i + 1]) for i in places})


#: what the first word of a list says of the rest
_READERS: dict[str, Any] = {
    "d": _dict,
    "k": lambda value, _read, _arrays: dtype(value[1]),
    "f": lambda value, _read, _arrays: float.fromhex(value[1]),
    "a": lambda value, _read, arrays: arrays[value[1]],
    "e": lambda value, _read, _arrays: enums()[value[1]](value[2]),
    "g": lambda value, read, _arrays: above.ask("Target")(dict(read(value[1])), read(value[2])),
}


class _Writer:
    def __init__(self) -> None:
        self.classes: dict[str, int] = {}
        self.nodes: list[list[Any]] = []
        self.arrays: list[np.ndarray] = []
        #: id of a node or an array -> how it is named from then on
        self.known: dict[int, list[Any]] = {}
        self.shapes: dict[type, tuple[int, tuple[str, ...]]] = {}

    def value(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Mapping):
            return ["d", *(self.value(part) for pair in value.items() for part in pair)]
        if callable(getattr(value, "export", None)):  # a target says itself what it is
            return ["g", self.value(FrozenDict(value.export())), self.value(value.host)]
        if isinstance(value, Node | Record):
            return self.known.get(id(value)) or self.node(value)
        if isinstance(value, tuple | list):
            return ["t", *map(self.value, value)]
        if isinstance(value, DType):
            return ["k", str(value)]
        if isinstance(value, float):
            return ["f", float(value).hex()]
        if isinstance(value, Enum):
            return ["e", type(value).__name__, value.value]
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, str | int):  # a name that knows what it is: its node makes it again
            return str(value) if isinstance(value, str) else int(value)
        raise MLCError(f"pack: {kind_of(value)} is no part of a program: {value!r}")

    def node(self, n: Any) -> list[int]:
        cls = type(n)
        found = self.shapes.get(cls)
        if found is None:
            name = key_of(cls)
            if class_named(name) is not cls:
                raise MLCError(f"pack: nodes of class {cls.__name__} are not known by a name")
            number = self.classes.setdefault(name, len(self.classes))
            found = self.shapes[cls] = number, fields_of(cls)
        number, fields = found
        entry = [number, *(self.value(getattr(n, f)) for f in fields)]
        self.nodes.append(entry)
        place = self.known[id(n)] = [len(self.nodes) - 1]
        return place

    def array(self, a: np.ndarray) -> list[Any]:
        place = self.known.get(id(a))
        if place is None:
            self.arrays.append(a)
            place = self.known[id(a)] = ["a", len(self.arrays) - 1]
        return place
