"""Steps on a buffer that blocks look at through match_buffer: views follow, or it is refused."""

from __future__ import annotations

import pytest

from mlcnb.script import parse
from mlcnb.tir import IndexMap
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, refuses

VIEWED = """
@T.prim_func
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            V = T.match_buffer(B[vi, vj], (), offset_factor=1)
            V[()] = A[vi, vj] * T.float32(2)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            W = T.match_buffer(B[vi, 0:8], (8,), offset_factor=1)
            for j in range(8):
                C[vi, j] = W[j] + T.float32(1)
"""


def test_the_dtype_of_views():
    sch = Schedule(parse(VIEWED))
    sch.unsafe_set_dtype("B", 0, "float64")
    becomes(
        sch,
        """
        B = T.alloc_buffer((4, 8), "float64")
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                V = T.match_buffer(B[vi, vj], (), "float64", offset_factor=1)
                V[()] = T.Cast("float64", A[vi, vj] * T.float32(2.0))
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                W = T.match_buffer(B[vi, 0:8], (8,), "float64", offset_factor=1)
                for j in range(8):
                    C[vi, j] = T.Cast("float32", W[j]) + T.float32(1.0)
        """,
    )


@pytest.mark.parametrize("how", ["set_axis_separator", "transform_layout"])
def test_separators_of_views_count_their_own_dimensions(how):
    sch = Schedule(parse(VIEWED))
    if how == "set_axis_separator":
        sch.set_axis_separator("B", ("write", 0), [1])
    else:
        sch.transform_layout("B", "B", lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
    becomes(
        sch,
        """
        B = T.alloc_buffer((4, 8), axis_separators=[1])
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                V = T.match_buffer(B[vi, vj], (), offset_factor=1, axis_separators=[0])
                V[()] = A[vi, vj] * T.float32(2.0)
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                W = T.match_buffer(B[vi, 0:8], (8,), offset_factor=1, axis_separators=[0])
                for j in range(8):
                    C[vi, j] = W[j] + T.float32(1.0)
        """,
    )


def test_a_layout_that_moves_elements_leaves_views_behind():
    sch = Schedule(parse(VIEWED))
    with refuses(sch, "transform_layout: block B looks at B through match_buffer"):
        sch.transform_layout("B", "B", lambda i, j: [j, i])


def test_a_view_whose_pointer_is_handed_on():
    sch = Schedule(
        parse("""
@T.prim_func
def main(A: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    with T.block("B"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        V = T.match_buffer(B[0:8], (8,), offset_factor=1)
        T.evaluate(T.call_extern("void", "fill", V.data, A.data))
""")
    )
    with refuses(
        sch,
        "unsafe_set_dtype: block B passes on a pointer to B, behind which float32 is expected",
    ):
        sch.unsafe_set_dtype("B", 0, "float64")
