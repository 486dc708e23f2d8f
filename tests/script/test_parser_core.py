"""TVM's parser by its parts: source, tree, expressions; cprint."""

from __future__ import annotations

import ast
import inspect

import pytest

import mlcnb
from mlcnb.core.errors import ParseError
from mlcnb.script import tir as T
from mlcnb.script.highlight import cprint
from mlcnb.script.parser.core import doc_core as doc
from mlcnb.script.parser.core.diagnostics import Source
from mlcnb.script.parser.core.evaluator import ExprEvaluator


def matmul(a: T.handle) -> None:
    A = T.match_buffer(a, [128, 128])
    for i, j in T.grid(128, 128):
        A[i, j] = 0.0


def test_the_source_of_a_function():
    source = Source(matmul)
    assert source.source_name == inspect.getsourcefile(matmul)
    assert (source.start_line, source.start_column) == (inspect.getsourcelines(matmul)[1], 0)
    assert source.source == inspect.getsource(matmul)
    assert source.full_source == inspect.getsource(inspect.getmodule(matmul))


def test_its_tree():
    (function,) = Source(matmul).as_ast().body
    assert isinstance(function, doc.FunctionDef) and function.name == "matmul"
    assign, loop = function.body
    assert isinstance(assign, doc.Assign) and assign.lhs.id == "A"
    assert [x.id for x in loop.lhs.elts] == ["i", "j"] and isinstance(loop.rhs, doc.Call)


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("1, 3.14, True, 'str'", {}, (1, 3.14, True, "str")),
        ("1 + 2, 1 - 2, 1 * 2, 1 / 2", {}, (3, -1, 2, 0.5)),
        ("a + b, a - b", {"a": 1, "b": 2}, (3, -1)),
        ("f(1, 2)", {"f": lambda a, b: (a + b, a - b)}, (3, -1)),
        ("a[1:], a[:5], a[1:5:2]", {"a": [1, 2, 3]}, ([2, 3], [1, 2, 3], [2])),
    ],
)
def test_expressions_over_a_table_of_names(text, names, expected):
    (line,) = Source(text).as_ast().body
    assert isinstance(line, ast.Expr)
    assert ExprEvaluator.eval(None, names, line.value) == expected


def test_a_name_that_is_not_in_the_table():
    (line,) = Source("lenght + 1").as_ast().body
    with pytest.raises(ParseError, match="no name 'lenght' here"):
        ExprEvaluator.eval(None, {"length": 1}, line.value)


def test_cprint(capsys):
    @T.prim_func
    def func(n: T.int32):
        T.evaluate(n)

    cprint("a + 1")
    cprint(func, style="light")
    assert capsys.readouterr().out == "a + 1\n" + func.script() + "\n"
    assert mlcnb.script.highlight.cprint is cprint
