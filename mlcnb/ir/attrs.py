"""Attributes by TVM's constructor: `ir.make_node("ir.DictAttrs", key="value")`."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import FrozenDict


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
