"""Settings that a person changes: `mlcnb.options.set("display", "text")`, or an environment
variable.

Each option has a default, a sentence, and an environment variable `MLCNB_<NAME>`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_DEFAULTS: dict[str, tuple[Any, str]] = {
    "display": ("auto", "what a cell shows: auto, text, static, rich or widget"),
    "dialect": ("0.21", "the TVMScript spelling that is printed: 0.21 or 0.27"),
    "debug": (False, "raise where a view or a check would otherwise fall back"),
    "rerun": ("ask", "steps of a cell that is run again: ask, replace or stack"),
    "well_formed": (False, "check every module after every pass"),
    "max_tensor_bytes": (2 << 30, "largest tensor that an import or a constant fold may make"),
}
_values: dict[str, Any] = {}


def names() -> tuple[str, ...]:
    """All options."""
    return tuple(_DEFAULTS)


def describe() -> str:
    """A table of all options with value and meaning."""
    return "\n".join(f"{n:18} {get(n)!r:10} {text}" for n, (_, text) in _DEFAULTS.items())


def get(name: str) -> Any:
    """The value of an option: as set, else from the environment, else the default."""
    if name in _values:
        return _values[name]
    default = _DEFAULTS[_known(name)][0]
    given = os.environ.get(f"MLCNB_{name.upper()}")
    return default if given is None else _convert(given, default)


def set(name: str, value: Any) -> None:
    """Set an option for this process."""
    _values[_known(name)] = value


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
        raise KeyError(f"no option {name!r}: there are {', '.join(_DEFAULTS)}")
    return name


def _convert(given: str, default: Any) -> Any:
    if isinstance(default, bool):
        return given.lower() in ("1", "true", "yes", "on")
    return type(default)(given)
