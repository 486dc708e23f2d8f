"""Text that others wrote, made safe to show: a name from a model file may hold anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

#: characters that would end a text early, hide it or turn it around
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with control characters, direction marks and lone surrogates as `\\u202e`."""
    return _HIDDEN.sub(_spelled, text)


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """`did you mean 'x'?` for the closest of `known`, or None."""
    from difflib import get_close_matches  # loaded where something is wrong

    found = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {found[0]!r}?" if found else None


def plural(n: int, noun: str, several: str = "", shown: str = "") -> str:
    """`1 loop`, `2 loops`, `12 bodies`; `shown`: the number in another form."""
    return f"{shown or n} {noun if n == 1 else several or noun + 's'}"


def kind_of(value: Any) -> str:
    """What a value is, for a message: `an int`, `a Tensor`, `None`."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeio' else 'a'} {name}"


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
