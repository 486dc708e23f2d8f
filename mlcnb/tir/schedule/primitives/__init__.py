"""The primitives of Schedule, found by lying in this folder: a function with `@does` above it, from
nodes to a Change (or, for looking, to nodes).
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from mlcnb.core.lazy import missing
from mlcnb.tir.schedule.record.facts import is_primitive

_modules = [importlib.import_module(f"{__name__}.{x.name}") for x in pkgutil.iter_modules(__path__)]
_found = {name: f for m in _modules for name, f in vars(m).items() if is_primitive(name)}
globals().update(_found)  # each in the place of the module of its name

__all__ = sorted(_found)


def __getattr__(name: str) -> Any:
    raise AttributeError(missing(f"module {__name__!r}", name, __all__))
