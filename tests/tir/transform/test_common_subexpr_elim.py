"""CommonSubexprElimTIR: expressions that stand twice are computed once."""

from __future__ import annotations

import pytest

from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import tir as T
from mlcnb.tir.analysis import verify_well_formed
from mlcnb.tir.transform import CommonSubexprElimTIR, eliminate_common_subexpr, lower
from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import check, random_schedule, run_pass, same_bits


@T.prim_func
def repeated(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for i in range(4):
        for j in range(8):
            if i * 8 + j < 20:
                B[i * 8 + j] = A[i * 8 + j] + T.Cast("float32", i * 8)
            else:
                B[i * 8 + j] = A[(i + 3) % 7] * A[(i + 3) % 7]


def test_the_largest_come_first_and_stand_as_far_out_as_they_may():
    check(
        CommonSubexprElimTIR(),
        repeated,
        """
        for i in range(4):
            cse_v2: T.int32 = i * 8
            cse_v1: T.int32 = (i + 3) % 7
            for j in range(8):
                cse_v3: T.int32 = cse_v2 + j
                if cse_v3 < 20:
                    B[cse_v3] = A[cse_v3] + T.Cast("float32", cse_v2)
                else:
                    B[cse_v3] = A[cse_v1] * A[cse_v1]
        """,
    )


@T.prim_func
def different(I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        I[i] = I[i] + 1
        B[i] = I[i] + 1
    for i in range(8):
        if I[i] > 0:
            B[i] = B[i] + 5 // I[i] + 5 // I[i]


def test_what_reads_memory_or_may_divide_by_zero_stays():
    assert run_pass(CommonSubexprElimTIR(), different) is different


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_random_schedules_keep_every_bit(name):
    for seed in range(2):
        func = lower(random_schedule(name, seed))
        after = eliminate_common_subexpr(func)
        verify_well_formed(after)
        same_bits(func, after)


def test_what_a_blocks_axis_is_a_part_of_stays_in_the_block():
    @T.prim_func(private=True)
    def before(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[v * 4 + 1])
                T.writes(B[v * 4 + 1])
                B[v * 4 + 1] = A[v * 4 + 1]

    @T.prim_func(private=True)
    def after(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[v * 4 + 1])
                T.writes(B[v * 4 + 1])
                cse_v1: T.int32 = v * 4 + 1
                B[cse_v1] = A[cse_v1]

    done = eliminate_common_subexpr(before)
    assert_structural_equal(done, after)


def test_it_may_be_switched_off() -> None:
    assert run_pass(CommonSubexprElimTIR(enable_cse_tir=False), repeated) is repeated
    once = run_pass(CommonSubexprElimTIR(True, identify_equiv_terms=True), repeated)
    assert_structural_equal(once, eliminate_common_subexpr(repeated))
