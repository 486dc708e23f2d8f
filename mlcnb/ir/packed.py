"""Programs as one compact text, arrays apart: quick to write and to read, for stores on disk.

    text, arrays = pack(mod)        [["tir.For", [0, 2]], …] | [[12, 7, "i", 8], …]
    mod = unpack(text, arrays)      of kind 12: its values in order, the first and third of which
                                    are those of the lines 7 and 8; the last line is the root

A line is a node, a tuple, a dict, or what JSON has no word for: a dtype, a float, an array.
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
from mlcnb.core.node import FrozenDict, Node, Record, values_getter
from mlcnb.core.recursion import roomy
from mlcnb.core.text import kind_of
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.json import class_named, enums, fields_of, key_of

#: classes whose values stand as they are, and those of texts and numbers that do not
_PLAIN = {int, str, bool, type(None)}
_NAMES = (DType, Enum)


@roomy
def pack(value: Any) -> tuple[str, list[np.ndarray]]:
    """The text of nodes (or tuples, dicts of them), and the arrays that they hold.

    The same program, built in the same way, gives the same text in every process.

    Raises:
        MLCError: a field holds something that is no part of a program.
    """
    writer = _Writer()
    writer.line("t", [value])
    return json.dumps([list(writer.kinds), writer.lines], separators=(",", ":")), writer.arrays


def unpack(text: str, arrays: Sequence[np.ndarray]) -> Any:
    """What `pack` was given.

    Raises:
        ValueError, LookupError, TypeError: the text was not written by `pack`.
    """
    kinds, lines = json.loads(text)
    makers = [(_maker(name, arrays), places) for name, places in kinds]
    made: list[Any] = []
    add = made.append
    for number, *values in lines:
        make, places = makers[number]
        for place in places:
            values[place] = made[values[place]]
        add(make(*values))
    return made[-1][0]


def _maker(name: str, arrays: Sequence[np.ndarray]) -> Any:
    """What makes the lines of a kind out of their values."""
    return arrays.__getitem__ if name == "a" else _MAKERS.get(name) or class_named(name)


#: the kinds that are no classes of nodes
_MAKERS: dict[str, Any] = {
    "t": lambda *values: values,
    "d": lambda *pairs: FrozenDict(zip(pairs[::2], pairs[1::2], strict=True)),
    "k": dtype,
    "f": float.fromhex,
    "e": lambda name, value: enums()[name](value),
    "g": lambda options, host: above.ask("Target")(dict(options), host),
}


class _Writer:
    def __init__(self) -> None:
        #: name and the places of values that are lines -> its number
        self.kinds: dict[tuple[str, tuple[int, ...]], int] = {}
        self.lines: list[tuple[Any, ...]] = []
        self.arrays: list[np.ndarray] = []
        #: id of what there is once, or what a line says that may be shared -> its number
        self.known: dict[Any, int] = {}
        #: class of nodes -> its name, and what gives the values of its fields
        self.classes: dict[type, tuple[str, Any]] = {}

    def number(self, value: Any) -> int:
        """The number of the line of a value that none is known of."""
        cls = type(value)
        if cls in self.classes or isinstance(value, Node | Record):
            name, values_of = self.classes.get(cls) or self.named(cls)
            return self.once(value, name, values_of(value))
        if isinstance(value, Mapping):
            return self.line("d", [part for pair in value.items() for part in pair])
        if callable(getattr(value, "export", None)):  # a target says itself what it is
            return self.line("g", [FrozenDict(value.export()), value.host])
        if isinstance(value, tuple | list):
            return self.line("t", value)
        if isinstance(value, DType):
            return self.once(value, "k", [str(value)])
        if isinstance(value, float):
            return self.line("f", [float(value).hex()])
        if isinstance(value, Enum):
            return self.once(value, "e", [cls.__name__, value.value])
        if isinstance(value, np.ndarray):
            self.arrays.append(value)
            return self.once(value, "a", [len(self.arrays) - 1])
        raise MLCError(f"pack: {kind_of(value)} is no part of a program: {value!r}")

    def once(self, value: Any, name: str, values: Sequence[Any]) -> int:
        """The line of what is known from then on: a node, a dtype, an array."""
        self.known[id(value)] = made = self.line(name, values)
        return made

    def named(self, cls: type) -> tuple[str, Any]:
        """A class of nodes by its name, and what gives the values of its fields."""
        name, fields = key_of(cls), fields_of(cls)
        if class_named(name) is not cls:
            raise MLCError(f"pack: nodes of class {cls.__name__} are not known by a name")
        values_of = cls.values_of if issubclass(cls, Node) else values_getter(fields)
        found = self.classes[cls] = name, values_of
        return found

    def line(self, name: str, values: Sequence[Any]) -> int:
        """A line's number; it is new where it has a value that JSON has a word for."""
        said: list[Any] = []
        places = []
        for place, value in enumerate(values):
            if type(value) in _PLAIN:
                said.append(value)
                continue
            number = self.known.get(id(value))
            if number is None and isinstance(value, str | int) and not isinstance(value, _NAMES):
                # a name that knows what it is: its node makes it again
                said.append(str(value) if isinstance(value, str) else int(value))
                continue
            places.append(place)
            said.append(self.number(value) if number is None else number)
        kind = self.kinds.setdefault((name, tuple(places)), len(self.kinds))
        line = (kind, *said)
        may_share = name in ("k", "f") or (name == "t" and len(places) == len(values))
        if may_share and line in self.known:
            return self.known[line]
        self.lines.append(line)
        if may_share:
            self.known[line] = len(self.lines) - 1
        return len(self.lines) - 1
