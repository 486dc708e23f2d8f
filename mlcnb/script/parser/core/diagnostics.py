"""Source: the text of a function or class, where it stands, and its tree."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from typing import Any


class Source:
    """The source of a program.

    Args:
        program: a text, or a function or class whose source is read from its file.

    `source` is without indentation; `start_line` and `start_column` say where it stands in
    `full_source`, the text of the file `source_name`.
    """

    def __init__(self, program: Any) -> None:
        self.start_line, self.start_column = 0, 0
        if isinstance(program, str):
            self.source_name = "<str>"
            self.source = self.full_source = program
            return
        self.source_name = inspect.getsourcefile(program) or "<str>"
        lines, self.start_line = inspect.getsourcelines(program)
        self.start_column = len(lines[0]) - len(lines[0].lstrip())
        self.source = dedent("".join(lines))
        module = inspect.getmodule(program)
        self.full_source = self.source if module is None else inspect.getsource(module)

    def as_ast(self) -> ast.Module:
        """The tree; assignments and loops also have TVM's `lhs` and `rhs`."""
        tree = ast.parse(self.source)
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[target], value=value):
                    _name_sides(node, target, value)
                case ast.AnnAssign(target=target, value=value):
                    _name_sides(node, target, value)
                case ast.For(target=target, iter=value):
                    _name_sides(node, target, value)
        return tree


def _name_sides(node: Any, lhs: Any, rhs: Any) -> None:
    node.lhs, node.rhs = lhs, rhs
