"""What cells show from now on.

    mlcnb.display("text")       text alone, as in a terminal
    mlcnb.display("static")     text and HTML without scripts
    mlcnb.display("auto")       HTML in a notebook, text in a terminal (the default)

The environment variable MLCNB_DISPLAY says it before the start.
"""

from __future__ import annotations

from mlcnb.core import options
from mlcnb.core.errors import MLCError

MODES = ("auto", "text", "static", "rich", "widget")


def display(mode: str = "auto") -> None:
    """Choose what cells show.

    Args:
        mode: "text"; "static" (HTML without scripts); "rich" and "widget" (more, where there is
            more, else as "static"); or "auto".

    Raises:
        MLCError: there is no such mode.
    """
    if mode not in MODES:
        raise MLCError(f"display: no mode {mode!r}", hint=f"one of {', '.join(MODES)}")
    options.set("display", mode)
