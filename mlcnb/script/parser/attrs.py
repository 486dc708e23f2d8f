"""Attribute values as nodes hold them: lists become tuples, dicts become FrozenDicts.

`T.bool(True)` is `True`: TVM writes attributes either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.node import FrozenDict
from mlcnb.ir.expr import IntImm


def frozen(value: Any) -> Any:
    """A Python value without lists and plain dicts."""
    if isinstance(value, Mapping):
        return FrozenDict({k: frozen(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in value)
    if isinstance(value, IntImm) and value.dtype.is_bool:
        return bool(value.value)
    return value
