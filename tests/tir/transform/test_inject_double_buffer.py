"""InjectDoubleBuffer: the next buffer is filled while this one is used."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.script import tir as T
from mlcnb.tir.transform import InjectDoubleBuffer, inject_double_buffer
from tests.tir.transform.lowering import before_pass, check, check_lowering, run_pass


@T.prim_func
def rows(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    B = T.alloc_buffer((8, 4))
    for i in range(8):
        for j in range(4):
            with T.block("fill"):
                T.block_attr({"double_buffer_scope": 0})
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v, w] * T.float32(2)
        for j in range(4):
            with T.block("use"):
                v, w = T.axis.remap("SS", [i, j])
                C[v, w] = B[v, 3 - w] + T.float32(1)


def test_the_next_row_is_filled_while_this_one_is_used():
    after = check(
        InjectDoubleBuffer(),
        before_pass(rows, "InjectDoubleBuffer"),
        """
        with T.block("root"):
            T.reads()
            T.writes()
            with T.block(""):
                T.reads()
                T.writes()
                B = T.alloc_buffer((2, 1, 4))
                for j in range(4):
                    with T.block("fill"):
                        T.reads(A[0, j])
                        T.writes(B[0, 0, j])
                        B[0, 0, j] = A[0, j] * T.float32(2.0)
                for i in range(7):
                    for j in range(4):
                        with T.block("fill"):
                            T.reads(A[i + 1, j])
                            T.writes(B[(i + 1) % 2, 0, j])
                            B[(i + 1) % 2, 0, j] = A[i + 1, j] * T.float32(2.0)
                    for j in range(4):
                        with T.block("use"):
                            T.reads(B[i % 2, 0, 3 - j])
                            T.writes(C[i, j])
                            C[i, j] = B[i % 2, 0, 3 - j] + T.float32(1.0)
                for j in range(4):
                    with T.block("use"):
                        T.reads(B[1, 0, 3 - j])
                        T.writes(C[7, j])
                        C[7, j] = B[1, 0, 3 - j] + T.float32(1.0)
        """,
    )
    assert run_pass(InjectDoubleBuffer(), after) is after
    check_lowering(rows, rows)


@T.prim_func
def window(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("fill"):
            T.block_attr({"double_buffer_scope": 0})
            v = T.axis.spatial(8, i)
            B[v] = A[v]
        with T.block("use"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + T.if_then_else(v > 0, B[T.max(v - 1, 0)], T.float32(0))


def test_values_that_later_iterations_read_cannot_be_doubled():
    with pytest.raises(PassError) as error:
        inject_double_buffer(before_pass(window, "InjectDoubleBuffer"))
    assert error.value.message == (
        "InjectDoubleBuffer: B, which block fill writes, lives outside of the loops"
    )
    assert error.value.hint == (
        "every iteration of a loop must write all that it reads of the buffer"
    )


@T.prim_func
def feedback(A: T.Buffer((8,), "float32"), C: T.Buffer((9,), "float32")):
    B = T.alloc_buffer((8,))
    C[0] = A[0]
    for i in range(8):
        with T.block("fill"):
            T.block_attr({"double_buffer_scope": 0})
            v = T.axis.spatial(8, i)
            B[v] = A[v] + C[v]
        with T.block("use"):
            v = T.axis.spatial(8, i)
            C[v + 1] = B[v] * T.float32(2)


def test_what_needs_the_iteration_before_cannot_run_ahead():
    with pytest.raises(PassError) as error:
        inject_double_buffer(before_pass(feedback, "InjectDoubleBuffer"))
    assert error.value.message == (
        "InjectSoftwarePipeline: loop i hands values of C, which lives outside of it, to later "
        "iterations"
    )


@T.prim_func
def threads(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in T.parallel(8):
        with T.block("fill"):
            T.block_attr({"double_buffer_scope": 0})
            v = T.axis.spatial(8, i)
            B[v] = A[v]
        with T.block("use"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * T.float32(2)


def test_a_parallel_loop_has_no_next_iteration():
    with pytest.raises(PassError, match="loop i is parallel, not serial"):
        inject_double_buffer(before_pass(threads, "InjectDoubleBuffer"))
