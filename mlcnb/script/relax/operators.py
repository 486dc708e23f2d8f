"""The operators of R, derived from their declarations: `R.add`, `R.nn.relu`."""

from __future__ import annotations

from functools import cache
from typing import Any

from mlcnb.op import namespace
from mlcnb.script.plain_calls import PLAIN_CALLS
from mlcnb.script.relax.calls import plain_call
from mlcnb.script.words import Namespace


@cache
def operators() -> dict[str, Any]:
    """Name -> function or Namespace, for everything that follows `R.`"""
    tree: dict[str, Any] = {}
    for name in sorted({*PLAIN_CALLS, *namespace.names()}):
        found = namespace.function(name) or plain_call(name)
        *path, last = name.split(".")
        table = tree
        for i, part in enumerate(path):
            inside = table.setdefault(part, Namespace("R." + ".".join(path[: i + 1]), {}))
            table = inside.table
        table[last] = found
    return tree
