"""The syntax tree of a program, by TVM's name: here it is Python's own `ast`."""

from __future__ import annotations

import ast
from typing import Any

#: the part of it that TVM generates
doc_core = ast


def to_doc(node: ast.AST) -> ast.AST:
    """Python's tree as this module's: they are one."""
    return node


from_doc = to_doc


def __getattr__(name: str) -> Any:
    return getattr(ast, name)
