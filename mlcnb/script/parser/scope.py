"""Names in scope: what the program defines, then what stands around it.

A name of the program is bound in the innermost block of lines and is forgotten at its end.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MISSING = object()


class Scope:
    """Nested scopes over the names of the environment (globals, closure, namespaces)."""

    def __init__(self, environment: Mapping[str, Any]) -> None:
        self.environment = environment
        self.frames: list[dict[str, Any]] = [{}]

    def find(self, name: str) -> Any:
        """What a name stands for, or MISSING."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return self.environment.get(name, MISSING)

    def define(self, name: str, value: Any) -> None:
        """Bind a name in the innermost scope."""
        self.frames[-1][name] = value

    @contextmanager
    def inner(self) -> Iterator[dict[str, Any]]:
        """A scope inside; what it defined is forgotten at the end."""
        self.frames.append({})
        try:
            yield self.frames[-1]
        finally:
            self.frames.pop()

    def similar(self, name: str) -> str | None:
        """A known name that is spelled almost like `name`."""
        known = {n for frame in self.frames for n in frame} | set(self.environment)
        known = {n for n in known if not n.startswith("__")}
        found = difflib.get_close_matches(name, sorted(known), n=1)
        return found[0] if found else None


def names_in(function: ast.FunctionDef) -> set[str]:
    """All names of a function: what a new variable must not be called."""
    nodes = list(ast.walk(function))
    names = {n.id for n in nodes if isinstance(n, ast.Name)}
    return names | {n.arg for n in nodes if isinstance(n, ast.arg)}


def targets(line: ast.stmt) -> list[str]:
    """The names that a line binds."""
    if isinstance(line, ast.Assign):
        flat = [t for target in line.targets for t in getattr(target, "elts", [target])]
        return [t.id for t in flat if isinstance(t, ast.Name)]
    if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
        return [line.target.id]
    return [line.name] if isinstance(line, ast.FunctionDef) else []
