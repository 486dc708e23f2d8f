"""A bar for what takes longer than a second.

with progress_bar("compiling kernels", 54) as bar:
    bar.update(1)

In a notebook it is a line of text that goes when the work is done: a widget would stay in the saved
notebook, and be missing when that is opened again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import cache
from io import StringIO
from shutil import get_terminal_size
from typing import Any, TypeVar

from mlcnb.core import display

T = TypeVar("T")
#: characters of a bar in a notebook
WIDTH = 72


def progress_bar(what: str, total: int) -> Any:
    """A bar that appears after a second, in a notebook or a terminal, and goes when it is done."""
    aside = threading.current_thread() is not threading.main_thread()
    look: dict[str, Any] = {
        "leave": False,
        "bar_format": "{desc}: {percentage:3.0f}%|{bar}| {elapsed}",
        "delay": 1,
    }
    if display.in_notebook():
        bar = _in_cells()
        return bar(total=total, desc=what, disable=aside, ncols=WIDTH, file=StringIO(), **look)
    if aside or not sys.stderr.isatty():
        return nullcontext(_Unseen())
    from tqdm import tqdm

    # a terminal that does not know its width has 0 columns, and tqdm would print nothing there
    return tqdm(total=total, desc=what, ncols=get_terminal_size().columns, **look)


class _Unseen:
    """A bar that nobody would see, which needs no library."""

    def update(self, n: float = 1) -> None:
        """So much more is done."""


@cache
def _in_cells() -> type:
    """tqdm's bar as one output of a cell, which is empty in the end."""
    from IPython.display import display as show
    from tqdm import tqdm

    class CellBar(tqdm):
        _handle: Any = None

        def display(self, msg: str | None = None, pos: int | None = None) -> bool:
            """Show the bar as it is now, or `msg`."""
            bundle = {"text/plain": str(self) if msg is None else msg}
            if self._handle is not None:
                self._handle.update(bundle, raw=True)
            elif bundle["text/plain"]:
                self._handle = show(bundle, raw=True, display_id=True)
            return True

    return CellBar


def ticking(things: Iterable[T], bar: Any) -> Iterator[T]:
    """The things one by one; the bar moves on when the next is asked for."""
    for thing in things:
        yield thing
        bar.update(1)
