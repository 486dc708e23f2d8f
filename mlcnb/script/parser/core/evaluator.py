"""ExprEvaluator: what an expression of a program stands for."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from mlcnb.script.parser import evaluate
from mlcnb.script.parser.scope import Scope
from mlcnb.script.parser.source import Source


class ExprEvaluator:
    """Evaluates an expression whose names stand in a table."""

    @staticmethod
    def eval(parser: Any, value_table: Mapping[str, Any], node: ast.expr) -> Any:
        """The value of an expression.

        Args:
            parser: taken for the sake of TVM's callers.
            value_table: name -> value.
            node: the expression.

        Raises:
            ParseError: a name is missing, or the expression is none that a program may have.
        """
        source = Source(ast.unparse(node))
        place: Any = source.tree.body[0]
        return evaluate.Evaluator(source, Scope(value_table), True).value(place.value)
