"""How steps write programs: loops of one iteration, shifted loops, predicates."""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir import Schedule
from tests.tir.schedule.programs import becomes, refuses


@T.prim_func
def batched(A: T.Buffer((1, 12), "float32"), C: T.Buffer((1, 8), "float32")):
    B = T.alloc_buffer((1, 12))
    for n, i in T.grid(1, 12):
        with T.block("B"):
            v_n, v_i = T.axis.remap("SS", [n, i])
            B[v_n, v_i] = A[v_n, v_i] * T.float32(2)
    for n, i_0, i_1, k in T.grid(1, 4, 2, 3):
        with T.block("C"):
            v_n = T.axis.spatial(1, n)
            v_i = T.axis.spatial(8, i_0 * 2 + i_1)
            v_k = T.axis.reduce(3, k)
            with T.init():
                C[v_n, v_i] = T.float32(0)
            C[v_n, v_i] = C[v_n, v_i] + B[v_n, v_i + v_k]


def test_a_loop_of_one_iteration_is_its_number():
    sch = Schedule(batched)
    sch.compute_at("B", sch.get_loops("C")[1])
    becomes(
        sch,
        """
        B = T.alloc_buffer((1, 12))
        for n, i_0 in T.grid(1, 4):
            for ax0 in range(4):
                with T.block("B"):
                    v_n = T.axis.spatial(1, 0)
                    v_i = T.axis.spatial(12, i_0 * 2 + ax0)
                    B[v_n, v_i] = A[v_n, v_i] * T.float32(2.0)
            for i_1, k in T.grid(2, 3):
                with T.block("C"):
                    v_n = T.axis.spatial(1, n)
                    v_i = T.axis.spatial(8, i_0 * 2 + i_1)
                    v_k = T.axis.reduce(3, k)
                    with T.init():
                        C[v_n, v_i] = T.float32(0.0)
                    C[v_n, v_i] = C[v_n, v_i] + B[v_n, v_i + v_k]
        """,
    )


@T.prim_func
def border(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v_i = T.axis.spatial(8, i)
            B[v_i] = A[v_i] * T.float32(2)
    for i_0, i_1, k in T.grid(4, 2, 3):
        with T.block("C"):
            v_i = T.axis.spatial(8, i_0 * 2 + i_1)
            v_k = T.axis.reduce(3, k)
            with T.init():
                C[v_i] = T.float32(0)
            C[v_i] = C[v_i] + T.if_then_else(
                1 <= v_i + v_k and v_i + v_k < 9, B[v_i + v_k - 1], T.float32(0)
            )


def test_a_loop_that_starts_elsewhere_is_added_to_its_start():
    sch = Schedule(border)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert "v_i = T.axis.spatial(8, i_0 * 2 - 1 + ax0)" in sch.mod["main"].script()
    assert "T.where(1 <= i_0 * 2 + ax0 and i_0 * 2 + ax0 < 9)" in sch.mod["main"].script()


def test_a_kept_loop_of_one_iteration_is_in_no_condition():
    sch = Schedule(batched)
    sch.split(sch.get_loops("C")[1], [None, 3])
    sch.compute_at("B", sch.get_loops("C")[1], preserve_unit_loops=True)
    assert "T.where(i_0_0 * 6 + ax1 < 12)" in sch.mod["main"].script()


@T.prim_func
def guarded(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v_i = T.axis.spatial(8, i)
            B[v_i] = A[v_i] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            v_i = T.axis.spatial(8, i)
            T.where(B[i] < T.float32(10))
            C[v_i] = B[v_i] + T.float32(1)


def test_compute_inline_into_a_predicate():
    """The predicate is read where the loops are; a buffer that is gone must not stay in it."""
    sch = Schedule(guarded)
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i in range(8):
            with T.block("C"):
                v_i = T.axis.spatial(8, i)
                T.where(A[i] * T.float32(2.0) < T.float32(10.0))
                C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        """,
    )


@T.prim_func
def only_guarded(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v_i = T.axis.spatial(8, i)
            B[v_i] = A[v_i] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            v_i = T.axis.spatial(8, i)
            T.where(B[i] < T.float32(10))
            C[v_i] = A[v_i] + T.float32(1)


def test_compute_inline_of_what_only_a_predicate_reads():
    sch = Schedule(only_guarded)
    with refuses(sch, "compute_inline: block C reads B in its predicate alone"):
        sch.compute_inline("B")


@T.prim_func
def padded(A: T.Buffer((1, 6), "float32"), B: T.Buffer((1, 8), "float32")):
    for n, i in T.grid(1, 8):
        with T.block("B"):
            v_n, v_i = T.axis.remap("SS", [n, i])
            B[v_n, v_i] = T.if_then_else(v_i < 6, A[v_n, v_i], T.float32(0))


def test_decompose_padding_inside_of_a_loop_of_one_iteration():
    sch = Schedule(padded)
    sch.decompose_padding("B", sch.get_loops("B")[1])
    becomes(
        sch,
        """
        for n in range(1):
            for i in range(8):
                with T.block("B_pad_const"):
                    v_n = T.axis.spatial(1, 0)
                    v_i = T.axis.spatial(8, i)
                    B[v_n, v_i] = T.float32(0.0)
            for i in range(6):
                with T.block("B"):
                    v_n = T.axis.spatial(1, 0)
                    v_i = T.axis.spatial(6, i)
                    B[v_n, v_i] = A[v_n, v_i]
        """,
    )
