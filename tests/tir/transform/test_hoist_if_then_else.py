"""HoistIfThenElse: tests leave the loops that they do not depend on."""

from __future__ import annotations

import pytest

from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import HoistIfThenElse
from tests.tir.transform.lowering import check, run_pass


@T.prim_func
def nest(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        for j in range(2):
            for k in range(4):
                if i < 3:
                    B[i, j * 4 + k] = A[i, j * 4 + k]
                else:
                    B[i, j * 4 + k] = T.float32(0)


def test_a_test_goes_as_far_out_as_it_may():
    check(
        HoistIfThenElse(),
        nest,
        """
        for i in range(4):
            if i < 3:
                for j, k in T.grid(2, 4):
                    B[i, j * 4 + k] = A[i, j * 4 + k]
            else:
                for j, k in T.grid(2, 4):
                    B[i, j * 4 + k] = T.float32(0.0)
        """,
    )


STAYS = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), n: T.int32, B: T.Buffer((8,), "int32")):
    for i in range(n):
        if {condition}:
            A[0] = 3
            B[i] = 1
"""


@pytest.mark.parametrize(
    "condition",
    ["i < 3", "A[0] < 3", "8 // n < 3", 'T.call_extern("bool", "ready")', "i // 8 < n"],
)
def test_what_may_change_or_stop_the_program_stays(condition):
    func = parse(STAYS.format(condition=condition))
    assert run_pass(HoistIfThenElse(), func) is func
