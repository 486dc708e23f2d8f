"""The classes of a syntax tree, by TVM's name: Python's own."""

from __future__ import annotations

import ast
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(ast, name)
