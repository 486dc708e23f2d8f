"""What cells show from now on.

    mlcnb.display("text")       text alone, as in a terminal
    mlcnb.display("static")     text and HTML without scripts, also of what mlcnb.explore gives
    mlcnb.display("rich")       the same, and the pages of mlcnb.explore run
    mlcnb.display("widget")     and whatever has such a page is shown as that page
    mlcnb.display("auto")       rich in a notebook, text in a terminal (the default)

The environment variable MLCNB_DISPLAY says it before the start.
"""

from __future__ import annotations

from mlcnb.core import options
from mlcnb.core.errors import MLCError


def display(mode: str = "auto") -> None:
    """Choose what cells show: of an array its shape and dtype, of a program its text or its view.

    Args:
        mode: "text", "static", "rich", "widget" or "auto".

    Raises:
        MLCError: there is no such mode.
    """
    if mode not in options.choices("display"):
        raise MLCError(
            f"display: no mode {mode!r}", hint=f"one of {', '.join(options.choices('display'))}"
        )
    options.set("display", mode)
