"""Settings that a person changes: `mlcnb.options.set("display", "text")`, or an environment
variable.

Each option has a default, a sentence, and an environment variable `MLCNB_<NAME>`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mlcnb.core.text import suggestion

#: name -> default, what it is, and the words that it may be ((): any value)
_DEFAULTS: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "display": ("auto", "what a cell shows", ("auto", "text", "static", "rich", "widget")),
    "dialect": ("0.21", "the TVMScript spelling that is printed", ("0.21", "0.27")),
    "debug": (False, "raise where a view or a check would otherwise fall back", ()),
    "rerun": ("replace", "steps of a cell that is run again", ("replace", "stack")),
    "well_formed": (False, "check every module after every pass", ()),
    "max_tensor_bytes": (2 << 30, "largest tensor that an import or a constant fold may make", ()),
}
_values: dict[str, Any] = {}


def names() -> tuple[str, ...]:
    """All options."""
    return tuple(_DEFAULTS)


def choices(name: str) -> tuple[str, ...]:
    """The words that an option may be; () where it is no word."""
    return _DEFAULTS[_known(name)][2]


def describe() -> str:
    """A table of all options with value and meaning."""
    return "\n".join(
        f"{n:18} {get(n)!r:10} {text}{': ' if words else ''}{', '.join(words)}"
        for n, (_, text, words) in _DEFAULTS.items()
    )


def get(name: str) -> Any:
    """The value of an option: as set, else from the environment, else the default.

    Raises:
        ArgumentError: there is no such option, or the environment gives it another word than its.
    """
    if name in _values:
        return _values[name]
    default = _DEFAULTS[_known(name)][0]
    given = os.environ.get(f"MLCNB_{name.upper()}")
    return default if given is None else _checked(name, _convert(given, default))


def set(name: str, value: Any) -> None:
    """Set an option for this process.

    Raises:
        ArgumentError: there is no such option, or it is another word than its.
    """
    _values[_known(name)] = _checked(name, value)


@contextmanager
def scoped(**values: Any) -> Iterator[None]:
    """Set options inside a `with` block, and put them back after it."""
    before = dict(_values)
    for name, value in values.items():
        set(name, value)
    try:
        yield
    finally:
        _values.clear()
        _values.update(before)


def _known(name: str) -> str:
    if name not in _DEFAULTS:
        raise _refusal(f"no option {name!r}", suggestion(str(name), _DEFAULTS), names())
    return name


def _checked(name: str, value: Any) -> Any:
    words = choices(name)
    if words and value not in words:
        raise _refusal(f"no {name} {value!r}", suggestion(str(value), words), words)
    return value


def _refusal(message: str, near: str | None, known: Iterable[str]) -> Exception:
    from mlcnb.core.errors import ArgumentError  # how an error is shown is an option

    return ArgumentError(f"options: {message}", hint=near or f"one of {', '.join(known)}")


def _convert(given: str, default: Any) -> Any:
    if isinstance(default, bool):
        return given.lower() in ("1", "true", "yes", "on")
    return type(default)(given)
