"""LoopPartition and Simplify: tests leave the loops that do not need them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import LoopPartition, Simplify
from tests.tir.transform.lowering import check, run_pass, same_bits, statements


@T.prim_func
def fringe(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
    for i, j in T.grid(8, 4):
        if i * 4 + j < 30:
            B[i * 4 + j] = A[i * 4 + j]


def test_the_long_part_has_no_test():
    cut = check(
        LoopPartition(),
        fringe,
        """
        for i, j in T.grid(7, 4):
            B[i * 4 + j] = A[i * 4 + j]
        for j in range(2):
            B[28 + j] = A[28 + j]
        """,
    )
    check(
        Simplify(),
        cut,
        """
        for i, j in T.grid(7, 4):
            B[i * 4 + j] = A[i * 4 + j]
        for j in range(2):
            B[j + 28] = A[j + 28]
        """,
    )


@T.prim_func
def corner(A: T.Buffer((7, 7), "float32"), B: T.Buffer((7, 7), "float32")):
    for i, j, k, m in T.grid(2, 2, 4, 4):
        if i * 4 + k < 7 and j * 4 + m < 7:
            B[i * 4 + k, j * 4 + m] = A[i * 4 + k, j * 4 + m]


def test_behind_the_end_of_one_loop_the_next_is_cut():
    check(
        LoopPartition(),
        corner,
        """
        for k, m in T.grid(4, 4):
            B[k, m] = A[k, m]
        for k, m in T.grid(4, 3):
            B[k, 4 + m] = A[k, 4 + m]
        for k, m in T.grid(3, 4):
            B[4 + k, m] = A[4 + k, m]
        for k, m in T.grid(3, 3):
            B[4 + k, 4 + m] = A[4 + k, 4 + m]
        """,
    )


OTHER = """
@T.prim_func
def f(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for i in range(8):
        for j in range({extent}):
            if {condition}:
                B[i * 4 + j] = A[i * 4 + j]
            else:
                B[i * 4 + j] = 7
"""


@pytest.mark.parametrize(
    ("condition", "extent"),
    [
        ("A[i] < 5", "4"),
        ("i * 4 + j + A[0] < 30", "4"),
        ("30 - i * 4 < j", "4"),
        ("i * 4 + j < 30", "T.min(4, i + 1)"),
        ("(i * 4 + j) % 8 < 6", "4"),
    ],
)
def test_conditions_that_are_not_certain_stay(condition, extent):
    func = parse(OTHER.format(condition=condition, extent=extent))
    assert run_pass(LoopPartition(), func) is func


@pytest.mark.parametrize("condition", ["i * 4 + j < 30", "i * 4 + j <= 20", "i < 3", "j + i < 9"])
def test_both_branches_keep_their_iterations(condition):
    func = parse(OTHER.format(condition=condition, extent="4"))
    after = run_pass(LoopPartition(), func)
    same_bits(func, after)
    same_bits(func, run_pass(Simplify(), after))


@T.prim_func
def decided(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(4):
        for j in range(4):
            if i * 4 + j < 16:
                B[(i * 16 + j * 4) // 4] = A[i * 4 + j + 0] + (i * 4 + j) // 16
            else:
                B[0] = 5
        for j in range(0):
            B[j] = 1
        for j in range(1):
            B[i * 4 + j] = B[i * 4 + j] + j


def test_what_the_bounds_decide():
    check(
        Simplify(),
        decided,
        """
        for i, j in T.grid(4, 4):
            B[i * 4 + j] = A[i * 4 + j]
        """,
    )


@T.prim_func
def padded(A: T.Buffer((20,), "float32"), B: T.Buffer((12,), "float32")):
    for i in T.serial(12, annotations={"pragma_loop_partition_hint": True}):
        B[i] = T.if_then_else(1 <= i * 2 and i * 2 < 21, A[i * 2 - 1], T.float32(0.0))


def test_a_hint_cuts_a_loop_at_both_ends():
    cut = check(
        LoopPartition(),
        padded,
        """
        B[0] = T.float32(0.0)
        for i in range(1, 11):
            B[i] = T.if_then_else(1 <= i * 2 and i * 2 < 21, A[i * 2 - 1], T.float32(0.0))
        B[11] = T.float32(0.0)
        """,
    )
    check(
        Simplify(),
        cut,
        """
        B[0] = T.float32(0.0)
        for i in range(1, 11):
            B[i] = A[i * 2 - 1]
        B[11] = T.float32(0.0)
        """,
    )


@T.prim_func
def shared(A: T.Buffer((30, 5), "float32"), B: T.Buffer((30,), "float32")):
    for t in T.parallel(2):
        for i in range(4):
            for k in range(5):
                for j in T.unroll(4):
                    if t * 16 + i * 4 + j < 30:
                        B[t * 16 + i * 4 + j] = B[t * 16 + i * 4 + j] + A[t * 16 + i * 4 + j, k]


def test_a_parallel_loop_stays_whole_and_a_branch_decides_before_the_sum():
    check(
        LoopPartition(),
        shared,
        """
        for t in T.parallel(2):
            for i in range(4):
                if t * 4 + i <= 6:
                    for k in range(5):
                        for j in T.unroll(4):
                            B[t * 16 + i * 4 + j] = B[t * 16 + i * 4 + j] + A[t * 16 + i * 4 + j, k]
                else:
                    for k in range(5):
                        for j in T.unroll(4):
                            if j <= 1:
                                B[t * 16 + i * 4 + j] = B[t * 16 + i * 4 + j] + A[t * 16 + i * 4 + j, k]
        """,  # noqa: E501
    )


@T.prim_func
def fused(A: T.Buffer((14, 11), "float32"), B: T.Buffer((14, 11), "float32")):
    for t in T.parallel(12):
        for _k in range(3):
            for i in T.unroll(4):
                for j in T.unroll(4):
                    if t // 3 * 4 + i < 14 and t % 3 * 4 + j < 11:
                        B[t // 3 * 4 + i, t % 3 * 4 + j] = (
                            B[t // 3 * 4 + i, t % 3 * 4 + j] + A[t // 3 * 4 + i, t % 3 * 4 + j]
                        )


def test_both_axes_of_a_fused_parallel_loop():
    after = run_pass(LoopPartition(), fused)
    same_bits(fused, after)
    text = statements(after)
    assert text.count("T.parallel(12)") == 1
    assert text.count("for _k in") == 4
    tests = [line.strip() for line in text.splitlines() if "if " in line or "else" in line]
    assert tests == [
        "if t // 3 <= 2:",
        "if t % 3 <= 1:",
        "else:",
        "if j <= 2:",
        "elif t % 3 <= 1:",
        "if i <= 1:",
        "else:",
        "if i <= 1 and j <= 2:",
    ]


PARALLEL = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for t in T.{outer}({parts}):
        for i in range({tiles}):
            for k in range(3):
                for j in T.unroll(4):
                    if {condition}:
                        B[t * {tiles} * 4 + i * 4 + j] = (
                            B[t * {tiles} * 4 + i * 4 + j] + A[t * {tiles} * 4 + i * 4 + j] * k
                        )
"""


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["parallel", "serial"]),
    st.integers(2, 4),
    st.integers(1, 4),
    st.lists(
        st.sampled_from(
            [
                "t * {tiles} * 4 + i * 4 + j < {n}",
                "t * {tiles} * 4 + i * 4 + j <= {n}",
                "{n} <= t * {tiles} * 4 + i * 4 + j",
                "{n} < t * {tiles} * 4 + i * 4 + j",
                "t * 2 < {n}",
                "i + k < {n}",
                "1 <= t + k",
                "j - t < {n}",
                "{n} < i * 4 - t * 3 + j",
            ]
        ),
        min_size=1,
        max_size=3,
        unique=True,
    ),
    st.integers(-2, 60),
)
def test_any_tests_in_any_loops(outer, parts, tiles, tests, n):
    condition = " and ".join(tests).format(tiles=tiles, n=n)
    func = parse(PARALLEL.format(outer=outer, parts=parts, tiles=tiles, condition=condition))
    after = run_pass(LoopPartition(), func)
    same_bits(func, after)
    same_bits(func, run_pass(Simplify(), after))
    if outer == "parallel":
        assert statements(after).count("T.parallel") <= 1


ROWS = """
@T.prim_func
def rows(A: T.Buffer((32,), "float32"), B: T.Buffer((30, 4), "float32")):
    for i in range(8):
        C = T.decl_buffer((4,), scope="{scope}")
{sums}
        for j in range(4):
            {inner}
"""
TERM = "A[i * 4 + JJ] * T.float32(0.5)"
INNER = "for k in T.unroll(4):\n                if {test}:\n                    {store}\n"


def of_rows(test="i * 4 + j < 30", store="B[i * 4 + j, k] = C[j]", terms=60, scope="global"):
    sum_of = f"        C[JJ] = {' + '.join([TERM] * terms)}"
    sums = "\n".join(sum_of.replace("JJ", str(j)) for j in range(4))
    inner = INNER.format(test=test, store=store)
    return parse(ROWS.format(sums=sums, scope=scope, inner=inner))


def test_a_large_body_is_not_copied_where_a_loop_in_it_can_end_sooner():
    func = of_rows()
    after = run_pass(LoopPartition(), func)
    text = statements(after)
    assert "for j in range(T.min(4, 30 - i * 4)):" in text
    assert "if " not in text and text.count("for i ") == 1
    same_bits(func, after)


def test_a_large_body_is_copied_where_that_does_not_do():
    for test in ("i * 4 + j < 30 and i * 4 + k < 29", "i * 4 + j + k < 30", "i * 4 + j * 2 < 30"):
        func = of_rows(test, store="B[T.min(i * 4 + j, 29), k] = C[j]")
        after = run_pass(LoopPartition(), func)
        assert "range(T.min" not in statements(after)
        assert statements(after).count("C_1[0] = ") == 2
        same_bits(func, after)
    registers = of_rows(scope="local")
    after = run_pass(LoopPartition(), registers)
    assert "range(T.min" not in statements(after)
    same_bits(registers, after)


def test_a_short_body_is_copied():
    after = run_pass(LoopPartition(), of_rows(terms=1))
    assert statements(after).count("C_1[0] = ") == 2


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                "i * 4 + j < {n}",
                "j + i * 3 <= {n}",
                "{n} <= i * 4 + j",
                "i * 4 - j < {n}",
                "j < {n}",
                "k + i < 9",
                "i * 2 + k < {n}",
            ]
        ),
        min_size=1,
        max_size=3,
        unique=True,
    ),
    st.integers(-3, 34),
)
def test_any_tests_around_a_large_body(tests, n):
    test = " and ".join(tests).format(n=n)
    store = "B[T.max(T.min(i * 4 + j, 29), 0), k] = C[j] + T.float32(k)"
    func = of_rows(test, store=store, terms=1)
    with patch("mlcnb.tir.transform.loop_partition.LARGE", 0):
        after = run_pass(LoopPartition(), func)
    same_bits(func, after)
    same_bits(func, run_pass(Simplify(), after))
