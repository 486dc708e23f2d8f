"""What lays out graphs: the system's `dot`, or else the `graphviz-pure` that pip installs."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path


def find_engine() -> Path | None:
    """The program that lays out, None where there is none."""
    beside_python = sysconfig.get_path("scripts")
    for name, folder in (("dot", None), ("graphviz-pure", None), ("graphviz-pure", beside_python)):
        found = shutil.which(name, path=folder)
        if found:
            return Path(found)
    return None
