"""transform_layout: padding that the caller fills, and layouts by numbers that were drawn."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ExecutionError
from mlcnb.script import parse
from mlcnb.tir import IndexMap
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, copy_2d, only, refuses, replays, text

COPY = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi]
"""


def rows_of_four(i):
    return i // 4, i % 4


def test_the_padding_of_an_input_is_the_callers():
    sch = Schedule(parse(COPY))
    sch.transform_layout("B", "A", rows_of_four, pad_value=lambda i, j: i + j)
    assert (
        text(sch)
        == """
for ax0, ax1 in T.grid(4, 4):
    with T.block("buffer_A_assumption"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        T.reads(A[v0, v1])
        T.writes()
        T.assume(not (v0 == 3 and 2 <= v1) or A[v0, v1] == v0 + v1)
for i in range(14):
    with T.block("B"):
        vi = T.axis.spatial(14, i)
        T.reads(A[vi // 4, vi % 4])
        T.writes(B[vi])
        B[vi] = A[vi // 4, vi % 4]
""".strip()
    )
    replays(sch)
    given, out = np.arange(16, dtype="int32").reshape(4, 4), np.zeros(14, "int32")
    with pytest.raises(ExecutionError, match="what is assumed does not hold"):
        run_prim_func(only(sch.mod), [given, out])
    given[3, 2:] = 5, 6
    run_prim_func(only(sch.mod), [given, out])
    np.testing.assert_array_equal(out, np.arange(14))


UNWRITTEN = """
@T.prim_func
def main(B: T.Buffer((14,), "int32")):
    A = T.alloc_buffer((14,), "int32")
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi]
"""
STORED = COPY.replace("    for i in range(14):\n", "    for i in range(14):\n        A[i] = i\n")


@pytest.mark.parametrize("program", [UNWRITTEN, STORED])
def test_no_input_and_no_block_that_fills_it(program):
    sch = Schedule(parse(program))
    with refuses(
        sch,
        "transform_layout: no block writes A, so its padding cannot be filled",
        hint="cache_read it, and lay out the copy",
    ):
        sch.transform_layout("B", "A", rows_of_four, pad_value=0)


def test_a_layout_by_sizes_that_were_drawn():
    sch = Schedule(copy_2d(4, 12))
    _, inner = sch.sample_perfect_tile(sch.get_loops("B")[1], 2, decision=[3, 4])
    sch.transform_layout("B", ("read", 0), lambda i, j: (i, j // inner, j % inner))
    sch.transform_layout("B", "B", lambda i, j: (j // inner, IndexMap.AXIS_SEPARATOR, i, j % inner))
    sch.transform_block_layout("B", lambda i, j: (j // inner, i, j % inner))
    assert only(sch.mod).buffers[0].shape == (4, 3, 4)
    assert "B[v0, v1, v2] = A[v1, v0, v2] * T.float32(2.0)" in text(sch)
    assert only(sch.mod).buffers[1].axis_separators == (1,)
    replays(sch)


def test_a_cache_of_a_layout_by_drawn_sizes():
    sch = Schedule(copy_2d(4, 12))
    _, inner = sch.sample_perfect_tile(sch.get_loops("B")[1], 2, decision=[3, 4])
    sch.reindex_cache_read("B", 0, "global", lambda i, j: (j // inner, i, j % inner))
    becomes(
        sch,
        """
        A_global = T.alloc_buffer((3, 4, 4))
        for ax0, ax1 in T.grid(4, 12):
            with T.block("A_global"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_global[v1 // 4, v0, v1 % 4] = A[v0, v1]
        for i, j in T.grid(4, 12):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A_global[v_j // 4, v_i, v_j % 4] * T.float32(2.0)
        """,
    )
