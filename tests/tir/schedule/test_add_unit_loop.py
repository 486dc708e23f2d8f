"""add_unit_loop: around blocks and loops, and as a place to compute at."""

from __future__ import annotations

from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, elementwise, matmul, row_sum, symbolic_chain


def test_around_a_block():
    sch = Schedule(matmul(2, 2, 2))
    C = sch.get_block("C")
    u = sch.add_unit_loop(C)
    assert repr(u) == "loop u in 0..1 of block C"
    assert repr(C) == "block C"
    becomes(
        sch,
        """
        for i, j, k, u in T.grid(2, 2, 2, 1):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_around_a_loop():
    sch = Schedule(row_sum(2, 3))
    i, k = sch.get_loops("B")
    sch.add_unit_loop(k)
    becomes(
        sch,
        """
        for i, u, k in T.grid(2, 1, 3):
            with T.block("B"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v_i] = T.float32(0.0)
                B[v_i] = B[v_i] + A[v_i, v_k]
        """,
    )


def test_around_all_with_any_number_of_elements():
    sch = Schedule(symbolic_chain())
    (i,) = sch.get_loops("C")
    u = sch.add_unit_loop(i)
    sch.compute_at("B", u)
    becomes(
        sch,
        """
        B = T.alloc_buffer((n,))
        for u in range(1):
            for ax0 in range(n):
                with T.block("B"):
                    v_i = T.axis.spatial(n, ax0)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i in range(n):
                with T.block("C"):
                    v_i = T.axis.spatial(n, i)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_it_is_bound_like_any_other():
    sch = Schedule(elementwise(4))
    (i,) = sch.get_loops("B")
    sch.bind(sch.add_unit_loop(i), "blockIdx.x")
    sch.bind(i, "threadIdx.x")
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        for u in T.thread_binding(1, thread="blockIdx.x"):
            for i in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("B"):
                    v_i = T.axis.spatial(4, i)
                    B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_it_is_fused_away():
    sch = Schedule(elementwise(4))
    (i,) = sch.get_loops("B")
    sch.fuse(sch.add_unit_loop(i), i)
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        for u_i_fused in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, u_i_fused)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )
