"""SkipPadding: what adds nothing is tested for, before the loops that do not matter to it."""

from __future__ import annotations

import pytest

from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import LoopPartition, Simplify, SkipPadding
from tests.tir.transform.lowering import check, run_pass


@T.prim_func
def window(
    x: T.Buffer((6, 8), "float32"), w: T.Buffer((3, 3), "float32"), y: T.Buffer((8,), "float32")
):
    for ow in range(8):
        y[ow] = T.float32(0)
    for t in range(2):
        for kh in T.serial(3, annotations={"pragma_skip_padding": True}):
            for kw in T.unroll(3):
                for j in T.unroll(4):
                    y[t * 4 + j] = (
                        y[t * 4 + j]
                        + T.if_then_else(
                            1 <= kh and 1 <= t * 4 + j + kw and t * 4 + j + kw < 9,
                            x[kh - 1, t * 4 + j + kw - 1],
                            T.float32(0),
                        )
                        * w[kh, kw]
                    )


def test_a_sum_whose_schedule_does_not_ask_for_it_adds_its_padding():
    func = parse(window.script().replace(', annotations={"pragma_skip_padding": True}', ""))
    assert "pragma" not in func.script()
    assert run_pass(SkipPadding(), func) is func


def test_rows_are_tested_once_and_columns_in_the_first_and_last_tile():
    skipped = check(
        SkipPadding(),
        window,
        """
        for ow in range(8):
            y[ow] = T.float32(0.0)
        for t, kh in T.grid(2, 3):
            if 1 <= kh:
                for kw in T.unroll(3):
                    for j in T.unroll(4):
                        if 1 <= t * 4 + j + kw and t * 4 + j + kw < 9:
                            y[t * 4 + j] = y[t * 4 + j] + x[kh - 1, t * 4 + j + kw - 1] * w[kh, kw]
        """,
    )
    cut = run_pass(LoopPartition(), skipped)
    check(
        Simplify(),
        cut,
        """
        for ow in range(8):
            y[ow] = T.float32(0.0)
        for kh in range(1, 3):
            for kw in T.unroll(3):
                for j in T.unroll(4):
                    if 1 <= j + kw:
                        y[j] = y[j] + x[kh - 1, j + kw - 1] * w[kh, kw]
        for kh in range(1, 3):
            for kw in T.unroll(3):
                for j in T.unroll(4):
                    if j + kw < 5:
                        y[j + 4] = y[j + 4] + x[kh - 1, j + kw + 3] * w[kh, kw]
        """,
    )


MAXIMUM = """
@T.prim_func
def f(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(8):
        y[i] = T.float32("-inf")
    for i in range(8):
        for k in range(3):
            y[i] = T.max({first}, {second})
"""
INSIDE = "T.if_then_else(1 <= i + k and i + k < 9, x[i + k - 1], {otherwise})"


@pytest.mark.parametrize("swap", [False, True])
def test_a_maximum_with_the_least_number(swap):
    sides = ["y[i]", INSIDE.format(otherwise='T.float32("-inf")')]
    first, second = sides[::-1] if swap else sides
    inner = "x[i + k - 1], y[i]" if swap else "y[i], x[i + k - 1]"
    check(
        SkipPadding(),
        parse(MAXIMUM.format(first=first, second=second)),
        f"""
        for i in range(8):
            y[i] = T.float32("-inf")
        for i, k in T.grid(8, 3):
            if 1 <= i + k and i + k < 9:
                y[i] = T.max({inner})
        """,
    )


@pytest.mark.parametrize(
    "first, second",
    [
        ("y[i]", INSIDE.format(otherwise="T.float32(0)")),
        ("y[i]", INSIDE.format(otherwise="T.float32(-1)")),
        ("y[7 - i]", INSIDE.format(otherwise='T.float32("-inf")')),
        ("y[i]", 'T.if_then_else(x[0] < T.float32(0), x[i], T.float32("-inf"))'),
    ],
)
def test_what_is_not_padding_stays(first, second):
    func = parse(MAXIMUM.format(first=first, second=second))
    assert run_pass(SkipPadding(), func) is func
