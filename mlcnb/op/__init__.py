"""The operators: one file for each family, one declaration for each operator.

`names()` lists them; `load_all()` imports every file of this folder, so a new file is found by
lying here.
"""

from __future__ import annotations

import importlib
import pkgutil

_loaded = False


def load_all() -> None:
    """Import every module of this folder (once)."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not info.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(info.name)


def names() -> list[str]:
    """The names of all declared operators, sorted."""
    from mlcnb.relax.operator import declarations

    return sorted(declarations())
