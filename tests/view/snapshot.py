"""Long outputs kept as files, read in review like code.

same("module.html", html)        with MLCNB_UPDATE_SNAPSHOTS=1 the file is written instead
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def same(name: str, text: str, folder: Path = FOLDER) -> None:
    """Assert that the text is the one in the file."""
    path = folder / name
    if os.environ.get("MLCNB_UPDATE_SNAPSHOTS"):
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text(encoding="utf-8")
