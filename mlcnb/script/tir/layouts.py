"""T.index_map: a layout as a lambda, `T.index_map(lambda i, j: [i // 4, j, i % 4])`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir.index_map import IndexMap


class IndexMapWord:
    """`T.index_map(lambda i: [i // 4, i % 4], inverse_index_map=lambda i, j: [i * 4 + j])`

    index_dtype: the dtype of the indices, or a list of one for each.
    """

    def __call__(
        self, mapping: Callable, *, inverse_index_map: Any = None, index_dtype: Any = "int64"
    ) -> IndexMap:
        """The map of a Python function."""
        return IndexMap.from_func(
            mapping, inverse_index_map=inverse_index_map, index_dtype=index_dtype
        )

    def read(self, evaluator: Any, node: ast.Call) -> IndexMap:
        """Reads the lambdas as the programs they are."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        kinds = evaluator.value(given.pop("index_dtype", ast.Constant("int64")))
        inverse = given.pop("inverse_index_map", None)
        if len(node.args) != 1 or given:
            raise evaluator.error(
                node, "T.index_map takes a lambda, inverse_index_map and index_dtype"
            )
        kind = kinds if isinstance(kinds, str) else "int64"
        back = None if inverse is None else self._map(evaluator, inverse, kind)
        return self._map(evaluator, node.args[0], kinds, back)

    def _map(self, evaluator: Any, node: ast.expr, kinds: Any, inverse: Any = None) -> IndexMap:
        if not isinstance(node, ast.Lambda):
            raise evaluator.error(node, "T.index_map needs a lambda")
        names = [a.arg for a in node.args.args]
        listed = [kinds] * len(names) if isinstance(kinds, str) else list(kinds)
        if len(listed) != len(names):
            raise evaluator.error(node, f"{len(listed)} dtypes are given for {len(names)} indices")
        with evaluator.blame(node):
            variables = tuple(Var(n, dtype(k)) for n, k in zip(names, listed, strict=True))
            with evaluator.scope.inner():
                for name, var in zip(names, variables, strict=True):
                    evaluator.scope.define(name, var)
                made = evaluator.value(node.body)
            final = made if isinstance(made, list | tuple) else [made]
            kind = dtype(listed[0] if listed else "int64")
            return IndexMap(
                variables, tuple(_counted(p.as_expr(x, kind), kind) for x in final), inverse
            )


def index_map_of(evaluator: Any, node: ast.Lambda) -> IndexMap:
    """The index map that a lambda of int64 indices says."""
    return IndexMapWord()._map(evaluator, node, "int64")


def _counted(x: PrimExpr, kind: DType) -> PrimExpr:
    """The index with its bare integers in the dtype of the indices."""
    if isinstance(x, e.IntImm):
        return p.const(x.value, kind)
    if isinstance(x, e.Cast) and x.dtype == kind and not any(isinstance(n, Var) for n in walk(x)):
        return _counted(x.value, kind)
    if isinstance(x, e.BinaryOp):
        return type(x)(_counted(x.a, kind), _counted(x.b, kind))
    return x
