"""LLVM IR with names for fields: what is read or written somewhere is one line, its address is two.

    %n = load i64, Frame.n of %frame             a field of a struct
    %slot = load ptr, Input.slot of %input[%k]   a field of element k of an array of structs
    %arg = load ptr, ptr %k of %args             element k of an array of pointers
    store i64 %n, Frame.n of %frame

The first becomes `%n.at = getelementptr %Frame, ptr %frame, i64 0, i32 1` and
`%n = load i64, ptr %n.at`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_ACCESS = re.compile(
    r"^  (?P<does>(?:%(?P<name>[\w.]+) = load \w+|store \w+ \S+)), "
    r"(?:(?P<struct>[A-Z]\w+)\.(?P<field>\w+)|(?P<element>\w+) (?P<index>\S+)) "
    r"of (?P<base>[%@]\w+)(?:\[(?P<at>%\w+)\])?$",
    re.MULTILINE,
)


def expanded(text: str, structs: Mapping[str, Sequence[str]]) -> str:
    """The text in LLVM's own words.

    structs: name of a struct -> what its fields are called, in order.
    """

    def addressed(found: re.Match[str]) -> str:
        kind, place = found["element"], f"i64 {found['index']}"
        if found["struct"]:
            number = structs[found["struct"]].index(found["field"])
            kind, place = f"%{found['struct']}", f"i64 {found['at'] or 0}, i32 {number}"
        pointer = f"%{found['name'] or found['field'] or 'place'}.at"
        address = f"  {pointer} = getelementptr {kind}, ptr {found['base']}, {place}"
        return f"{address}\n  {found['does']}, ptr {pointer}"

    return _ACCESS.sub(addressed, text)
