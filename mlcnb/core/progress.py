"""A bar for what takes longer than a second.

with progress_bar("compiling kernels", 54) as bar:
    bar.update(1)
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from shutil import get_terminal_size
from typing import Any, TypeVar

from mlcnb.core import display

T = TypeVar("T")


def progress_bar(what: str, total: int) -> Any:
    """A bar that appears after a second, in a notebook or a terminal, and goes when it is done."""
    from tqdm.auto import tqdm

    aside = threading.current_thread() is not threading.main_thread()
    quiet = aside or not (sys.stderr.isatty() or display.in_notebook())
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}"
    # a terminal that does not know its width has 0 columns, and tqdm would print nothing there
    width = None if quiet or display.in_notebook() else get_terminal_size().columns
    look = {"leave": False, "bar_format": form, "ncols": width}
    return tqdm(total=total, desc=what, delay=1, disable=quiet, **look)


def ticking(things: Iterable[T], bar: Any) -> Iterator[T]:
    """The things one by one; the bar moves on when the next is asked for."""
    for thing in things:
        yield thing
        bar.update(1)
