"""Symbolic dimensions in text: `("n * 2", 4)` in a signature, `n = T.int64()` in a body."""

from __future__ import annotations

import ast
from typing import Any

from mlcnb.core.node import Node, rewrite
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import SizeVar, Var
from mlcnb.script.frames import DimString
from mlcnb.script.parser.evaluate import Evaluator

DIM = dtype("int64")


def resolve_dims(ev: Evaluator, value: Any, place: ast.expr, sizes: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    """`value` with every string dimension read; unknown names become new int64 variables.

    Args:
        sizes: names that the body declares with `is_size_var=True`.
    """

    def rule(n: Node) -> Node | None:
        return _read(ev, n.text, place, sizes) if isinstance(n, DimString) else None

    return rewrite(value, rule) if isinstance(value, Node) else value


def _read(ev: Evaluator, text: str, place: ast.expr, sizes: set[str]) -> Any:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ev.error(place, f"dimension {text!r} is no expression") from None
    for part in ast.walk(tree):
        if isinstance(part, ast.Name) and not _is_symbol(ev, part.id):
            made = SizeVar if part.id in sizes else Var
            ev.scope.define(part.id, made(part.id, DIM))
        if hasattr(part, "lineno"):
            ast.copy_location(part, place)
    before, ev.int_dtype = ev.int_dtype, "int64"
    try:
        return ev.expr(tree)
    finally:
        ev.int_dtype = before


def _is_symbol(ev: Evaluator, name: str) -> bool:
    """True for a variable of the program; names of the Python around it do not count."""
    inside = [frame[name] for frame in ev.scope.frames if name in frame]
    return bool(inside) and isinstance(inside[-1], Var)


def declared_sizes(body: list[ast.stmt]) -> set[str]:
    """Names that lines of a body declare as `n = T.int64(is_size_var=True)`."""
    found = set()
    for line in body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call):
            if any(k.arg == "is_size_var" for k in line.value.keywords):
                found |= {t.id for t in line.targets if isinstance(t, ast.Name)}
    return found
