"""Functions known by a global name, as TVM's `register_func` and `get_global_func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core import above
from mlcnb.core.errors import MLCError

#: before the name of a library that runs parts of graphs; ours register when first asked for
LIBRARY = "relax.ext."

_functions: dict[str, Callable] = {}


def register_func(name: str, f: Callable | None = None, override: bool = False) -> Any:
    """Register a Python function under a global name; usable as a decorator.

    `R.call_packed` gives it what stands in the call, `R.call_dps_packed` a last argument more: the
    array of the result's shape and dtype, into which it writes.

    Raises:
        MLCError: the name is taken and `override` is False.
    """

    def keep(fn: Callable) -> Callable:
        if name in _functions and not override:
            raise MLCError(
                f"global function {name!r} is registered already", hint="pass override=True"
            )
        _functions[name] = fn
        return fn

    return keep if f is None else keep(f)


def get_global_func(name: str, allow_missing: bool = False) -> Callable | None:
    """The function registered under `name`, as it is: no shape and no dtype is checked in a call.

    Raises:
        MLCError: there is none and `allow_missing` is False.
    """
    if name not in _functions and name.startswith(LIBRARY):
        above.ask("load library")(name.removeprefix(LIBRARY))
    if name not in _functions and not allow_missing:
        raise MLCError(f"no global function {name!r}", hint="register it with mlcnb.register_func")
    return _functions.get(name)


def list_global_func_names() -> list[str]:
    """All registered names, sorted."""
    return sorted(_functions)
