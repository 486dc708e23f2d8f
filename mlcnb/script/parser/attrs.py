"""Attribute values as nodes hold them: lists become tuples, dicts become FrozenDicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.node import FrozenDict


def frozen(value: Any) -> Any:
    """A Python value without lists and plain dicts."""
    if isinstance(value, Mapping):
        return FrozenDict({k: frozen(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in value)
    return value
