"""Layouts in text: `T.index_map(lambda i: [i // 4, i % 4])`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb import tir
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.script.parser.source import SourceError

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[v])
            T.block_attr({"layout": LAYOUT})
            A[v] = T.float32(0)
"""


def annotated(layout):
    func = parse(PROGRAM.replace("LAYOUT", "1"))
    sch = tir.Schedule(func)
    sch.annotate(sch.get_block("B"), "layout", layout)
    return sch.mod["main"]


def layout_of(func):
    sch = tir.Schedule(func)
    return sch.get(sch.get_block("B")).annotations["layout"]


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (
            tir.IndexMap.from_func(lambda a: [a // 4, a % 4]),
            "T.index_map(lambda a: [a // 4, a % 4])",
        ),
        (
            tir.IndexMap.from_func(lambda a, b: [b, 0, a + b], index_dtype="int32"),
            'T.index_map(lambda a, b: [b, 0, a + b], index_dtype="int32")',
        ),
        (
            tir.IndexMap.from_func(
                lambda c: [c // 2, c % 2], inverse_index_map=lambda a, b: [a * 2 + b]
            ),
            "T.index_map(lambda c: [c // 2, c % 2], inverse_index_map=lambda a, b: [a * 2 + b])",
        ),
    ],
)
def test_layouts_read_back(layout, text):
    func = annotated(layout)
    assert text in func.script()
    assert_structural_equal(layout_of(parse(func.script())), layout)
    assert_structural_equal(layout_of(parse(PROGRAM.replace("LAYOUT", text))), layout)


def test_a_layout_in_a_cell():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        with T.block("B"):
            T.block_attr({"layout": T.index_map(lambda i: (i // 4, i % 4))})
            A[0] = T.float32(0)

    expected = tir.IndexMap.from_func(lambda i: [i // 4, i % 4])
    assert_structural_equal(layout_of(func), expected)
    assert_structural_equal(T.index_map(lambda i: [i // 4, i % 4]), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T.index_map(3)", "T.index_map needs a lambda"),
        ("T.index_map()", "T.index_map takes a lambda, inverse_index_map and index_dtype"),
        (
            'T.index_map(lambda i: [i], index_dtype=["int32", "int64"])',
            "2 dtypes are given for 1 indices",
        ),
        ("T.index_map(lambda i: [j])", "no name 'j' here"),
    ],
)
def test_what_is_no_layout(text, message):
    with pytest.raises(SourceError, match=message.replace("(", r"\(")):
        parse(PROGRAM.replace("LAYOUT", text))


def indices(variables):
    leaf = st.sampled_from(variables) | st.integers(-3, 9).map(lambda n: p.const(n, "int64"))
    return st.recursive(
        leaf,
        lambda x: (
            st.builds(tir.Add, x, x)
            | st.builds(tir.Mul, x, st.just(p.const(4, "int64")))
            | st.builds(tir.FloorDiv, x, st.just(p.const(4, "int64")))
            | st.builds(tir.FloorMod, x, st.just(p.const(4, "int64")))
        ),
        max_leaves=4,
    )


NAMES = [tir.Var(name, "int64") for name in ("i", "v", "A")]


@settings(max_examples=15)
@given(st.lists(indices(NAMES), min_size=1, max_size=3))
def test_random_layouts_read_back(final):
    layout = tir.IndexMap(tuple(NAMES), tuple(final))
    text = annotated(layout).script()
    assert_structural_equal(layout_of(parse(text)), layout)
