"""Programs and schedule steps, in words that both we and Apache TVM 0.27 understand.

    @item("rfactor/inner", MATMUL)      the name, the text of the program (0.21)
    def _(sch, tvm): ...                the steps; `tvm` is the library's `tir`-like namespace

This module imports nothing: it is read where mlcnb is, and where TVM is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Steps = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Item:
    """One program with its steps."""

    name: str
    text: str
    steps: Steps


ITEMS: dict[str, Item] = {}


def item(name: str, text: str) -> Callable[[Steps], Steps]:
    """Register the steps under a name."""

    def add(steps: Steps) -> Steps:
        assert name not in ITEMS, name
        ITEMS[name] = Item(name, text, steps)
        return steps

    return add
