"""What Simplify knows of a variable that is bound to a multiple."""

from __future__ import annotations

from mlcnb import tir
from mlcnb.tir import Var
from mlcnb.tir.stmt import BufferStore, LetStmt, SeqStmt
from mlcnb.tir.transform.simplify import Simplifier


def stored(value, bound, to):
    """let bound = to: B[value] = 0"""
    buffer = tir.decl_buffer((1000,), "float32", name="B")
    return LetStmt(bound, to, BufferStore(buffer, tir.const(0.0, "float32"), [value]))


def index_of(n):
    return str(n.body.indices[0])


def test_quotients_of_a_multiple_are_exact():
    start, i, n = (Var(name, "int64") for name in ("start", "i", "n"))
    to = tir.min(i * 16, n * 2 - 16)
    made = Simplifier().visit_stmt(stored((start + start + 3) // 4, start, to))
    assert index_of(made) == "start // T.int64(2)"


def test_another_value_of_the_same_variable_is_another():
    start, i = Var("start", "int64"), Var("i", "int64")
    parts = [stored((start + 1) // 2, start, to) for to in (i * 16, i + 1, i * 3)]
    first, *others = Simplifier().visit_stmt(SeqStmt(parts)).seq
    assert index_of(first) == "start // T.int64(16) * T.int64(8)"
    assert [index_of(x) for x in others] == ["(start + T.int64(1)) // T.int64(2)"] * 2
