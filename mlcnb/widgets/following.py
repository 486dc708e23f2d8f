"""Pages that follow: after each cell, those whose object a cell has changed show it as it is now.

    page = mlc.explore(sch)      a cell that does a step on `sch` changes this page too

IPython tells of the end of each cell. Pages are held weakly and asked for their `version`, which
costs nothing; only those where it is another one are made again, newest first, and within BUDGET
seconds, so that a cell is not slowed down by pages that nobody looks at any more.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, Protocol

from mlcnb.core import cells, options

#: seconds after a cell in which pages are made again; what is left comes after the next
BUDGET = 0.4


class Follower(Protocol):
    """A page, as far as it is followed."""

    def follow(self) -> bool:
        """Show what is true now, where that has changed."""


_pages: list[weakref.ref[Any]] = []


def keep(page: Follower) -> None:
    """Let a page follow, where IPython runs this code."""
    shell = cells.shell()
    if shell is None or not hasattr(shell, "events"):
        return
    shell.events.register("post_run_cell", after_cell)  # once, however often it is said
    _pages.append(weakref.ref(page, _forget))


def _forget(reference: weakref.ref[Any]) -> None:
    if reference in _pages:
        _pages.remove(reference)


def after_cell(*_: Any) -> None:
    """Bring pages up to date; what goes wrong in one is no matter of the cell that has just run."""
    end = time.perf_counter() + BUDGET
    for reference in reversed(_pages.copy()):
        page = reference()
        try:
            if page is not None:
                page.follow()
        except Exception:  # (a page that fails shows what it did before)
            if options.get("debug"):
                raise
        if time.perf_counter() > end:
            return
