"""Which Chromium the tests drive, and with which flags.

MLCNB_CHROMIUM names its program; else it is looked for on PATH. Nothing of it is downloaded here:
`python -m tests.browser.install_chromium` installs it where it is missing.
"""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: nothing is fetched, reported or kept; no GPU and no sandbox, as in containers
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = "no Chromium: `python -m tests.browser.install_chromium`, or MLCNB_CHROMIUM=its path"


def find() -> str | None:
    """The path of the browser's program, or None where there is none."""
    named = os.environ.get("MLCNB_CHROMIUM")
    if named:
        return shutil.which(named)
    return next(filter(None, map(shutil.which, NAMES)), None)
