"""Attributes as nodes hold them, and TVM's constructor: `ir.make_node("ir.DictAttrs", key=…)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import FrozenDict
from mlcnb.ir.expr import IntImm


def make_node(type_key: str, **fields: Any) -> FrozenDict:
    """The attributes of a function, from their names and values.

    Raises:
        ArgumentError: `type_key` is something else than `ir.DictAttrs`.
    """
    if type_key not in ("ir.DictAttrs", "DictAttrs"):
        raise ArgumentError(
            f"make_node: no {type_key!r} by name", hint="call the class of the node itself"
        )
    return FrozenDict(fields)


def frozen(value: Any) -> Any:
    """A Python value without lists and plain dicts; constants that Python's numbers stand for
    (`T.bool(True)`, int32) are those.
    """
    if isinstance(value, Mapping):
        return FrozenDict({k: frozen(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in value)
    if isinstance(value, IntImm) and value.dtype.is_bool:
        return bool(value.value)
    if isinstance(value, IntImm) and value.dtype == "int32":
        return value.value
    return value
