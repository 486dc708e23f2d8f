"""Which cell of a notebook runs this code.

    current()      Run(cell="a1b2", number="…")     in a front end that says so (JupyterLab,
                                                    Notebook 7, VS Code)
                   None                             in a script, a terminal, or without cell ids

The front end sends the cell's id with each request to run it; what is run again has the same id and
another number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Run(NamedTuple):
    """One execution of one cell."""

    cell: str
    number: str


#: the last cell that IPython said it would run, for shells that no kernel drives
_announced: list[Any] = []
_listening: list[Any] = []
_outside: list[bool] = []


def shell() -> Any:
    """IPython's shell, where this code runs in one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def current() -> Run | None:
    """The cell that runs now, and which time it does; None where that is not known."""
    found = shell()
    if found is None or _outside:
        return None
    listen(found)
    parent = getattr(found, "parent_header", None) or {}
    cell = parent.get("metadata", {}).get("cellId")
    if cell:
        return Run(str(cell), str(parent.get("header", {}).get("msg_id", found.execution_count)))
    if _announced and getattr(_announced[0], "cell_id", None):
        return Run(str(_announced[0].cell_id), str(found.execution_count))
    return None


@contextmanager
def outside() -> Iterator[None]:
    """What is done in here is no cell's: a click in a page asks for it."""
    _outside.append(True)
    try:
        yield
    finally:
        _outside.pop()


def listen(found: Any) -> None:
    """Ask a shell to say which cell it is about to run (once)."""
    if not any(known is found for known in _listening):
        _listening.append(found)
        found.events.register("pre_run_cell", _remember)


def _remember(info: Any = None) -> None:
    _announced[:] = [info]
