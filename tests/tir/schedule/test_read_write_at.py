"""read_at, write_at: whole programs and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.races import races
from mlcnb.core.errors import ScheduleError
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.carried import CARRIED, written_in_part
from tests.tir.schedule.peer.loops import CUDA
from tests.tir.schedule.programs import (
    becomes,
    elementwise,
    matmul,
    matmul_relu,
    numbers,
    only,
    refuses,
    row_sum,
    softmax,
    stencil,
)


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def in_place(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    C = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(4):
        for j in range(4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = C[vi, vj] * T.float32(2)
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = C[vi, vj] + T.float32(3)


@T.prim_func
def every_other(A: T.Buffer((8,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("zero"):
            v = T.axis.spatial(16, i)
            B[v] = T.float32(0)
    for i_0, i_1 in T.grid(2, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i_0 * 4 + i_1)
            B[v * 2] = A[v]


def test_read():
    sch = Schedule(matmul(4, 4, 8))
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    k_0, _ = sch.split(k, [2, 4])
    sch.reorder(k_0, i, j)
    copy = sch.read_at(k_0, C, 0, "local")
    assert repr(copy) == "block A_local"
    becomes(
        sch,
        """
        A_local = T.alloc_buffer((4, 8), scope="local")
        for k_0 in range(2):
            with T.block("A_local"):
                v0 = T.axis.spatial(2, k_0)
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(4, 4):
                    A_local[ax0, v0 * 4 + ax1] = A[ax0, v0 * 4 + ax1]
            for i, j, k_1 in T.grid(4, 4, 4):
                with T.block("C"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    v_k = T.axis.reduce(8, k_0 * 4 + k_1)
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A_local[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_read_of_neighbours():
    sch = Schedule(stencil(14))
    i_0, _ = sch.split(sch.get_loops("C")[0], [3, 4])
    sch.read_at(i_0, "C", 0, "shared")
    becomes(
        sch,
        """
        B = T.alloc_buffer((14,))
        B_shared = T.alloc_buffer((14,), scope="shared")
        for i in range(14):
            with T.block("B"):
                v_i = T.axis.spatial(14, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i_0 in range(3):
            with T.block("B_shared"):
                v0 = T.axis.spatial(3, i_0)
                T.block_attr({"auto_copy": True})
                for ax0 in range(6):
                    B_shared[v0 * 4 + ax0] = B[v0 * 4 + ax0]
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(12, i_0 * 4 + i_1)
                    C[v_i] = B_shared[v_i] + B_shared[v_i + 1] + B_shared[v_i + 2]
        """,
    )


def test_read_in_tiles_that_do_not_divide():
    sch = Schedule(stencil(13))
    i_0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.read_at(i_0, "C", 0, "local")
    becomes(
        sch,
        """
        B = T.alloc_buffer((13,))
        B_local = T.alloc_buffer((13,), scope="local")
        for i in range(13):
            with T.block("B"):
                v_i = T.axis.spatial(13, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i_0 in range(3):
            with T.block("B_local"):
                v0 = T.axis.spatial(3, i_0)
                T.reads(B[v0 * 4:v0 * 4 + T.min(6, 13 - v0 * 4)])
                T.writes(B_local[v0 * 4:v0 * 4 + T.min(6, 13 - v0 * 4)])
                T.block_attr({"auto_copy": True})
                for ax0 in range(T.min(6, 13 - v0 * 4)):
                    B_local[v0 * 4 + ax0] = B[v0 * 4 + ax0]
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(11, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 11)
                    C[v_i] = B_local[v_i] + B_local[v_i + 1] + B_local[v_i + 2]
        """,
    )


def test_read_beside_other_blocks():
    sch = Schedule(softmax(2, 3))
    i, _j = sch.get_loops("E")
    sch.reverse_compute_at("S", i)
    sch.read_at(i, "E", 0, "local")
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        A_local = T.alloc_buffer((2, 3), scope="local")
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i in range(2):
            with T.block("A_local"):
                v0 = T.axis.spatial(2, i)
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(1, 3):
                    A_local[v0 + ax0, ax1] = A[v0 + ax0, ax1]
            for j in range(3):
                with T.block("E"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    E[v_i, v_j] = T.exp(A_local[v_i, v_j] - M[v_i])
            for ax0 in range(3):
                with T.block("S"):
                    v_i, v_r = T.axis.remap("SR", [i, ax0])
                    with T.init():
                        S[v_i] = T.float32(0.0)
                    S[v_i] = S[v_i] + E[v_i, v_r]
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_read_into_shared_memory_for_all_threads():
    sch = Schedule(matmul(4, 4, 4))
    i, j, _k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [2, 2])
    sch.bind(i_0, "blockIdx.x")
    sch.bind(i_1, "threadIdx.x")
    sch.read_at(i_1, "C", 0, "shared")
    becomes(
        sch,
        """
        A_shared = T.alloc_buffer((4, 4), scope="shared")
        for i_0 in T.thread_binding(2, thread="blockIdx.x"):
            for i_1 in T.thread_binding(2, thread="threadIdx.x"):
                with T.block("A_shared"):
                    v0 = T.axis.spatial(2, i_0)
                    T.block_attr({"auto_copy": True})
                    for ax0, ax1 in T.grid(2, 4):
                        A_shared[v0 * 2 + ax0, ax1] = A[v0 * 2 + ax0, ax1]
                for j, k in T.grid(4, 4):
                    with T.block("C"):
                        v_i = T.axis.spatial(4, i_0 * 2 + i_1)
                        v_j, v_k = T.axis.remap("SR", [j, k])
                        with T.init():
                            C[v_i, v_j] = T.float32(0.0)
                        C[v_i, v_j] = C[v_i, v_j] + A_shared[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_write():
    sch = Schedule(matmul(4, 4, 4))
    i, j, k = sch.get_loops("C")
    _, j_1 = sch.split(j, [2, 2])
    sch.reorder(k, j_1)
    copy = sch.write_at(sch.get_loops("C")[1], "C", 0, "local")
    assert repr(copy) == "block C_local"
    becomes(
        sch,
        """
        C_local = T.alloc_buffer((4, 4), scope="local")
        for i, j_0 in T.grid(4, 2):
            for k, j_1 in T.grid(4, 2):
                with T.block("C"):
                    v_i = T.axis.spatial(4, i)
                    v_j = T.axis.spatial(4, j_0 * 2 + j_1)
                    v_k = T.axis.reduce(4, k)
                    with T.init():
                        C_local[v_i, v_j] = T.float32(0.0)
                    C_local[v_i, v_j] = C_local[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("C_local"):
                v0, v1 = T.axis.remap("SS", [i, j_0])
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(1, 2):
                    C[v0 + ax0, v1 * 2 + ax1] = C_local[v0 + ax0, v1 * 2 + ax1]
        """,
    )


def test_write_of_init_and_update():
    sch = Schedule(row_sum(4, 6))
    i, k = sch.get_loops("B")
    sch.decompose_reduction("B", k)
    sch.write_at(i, "B_update", 0, "local")
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((4,), scope="local")
        for i in range(4):
            with T.block("B_init"):
                v_i = T.axis.spatial(4, i)
                B_local[v_i] = T.float32(0.0)
            for k in range(6):
                with T.block("B_update"):
                    v_i, v_k = T.axis.remap("SR", [i, k])
                    B_local[v_i] = B_local[v_i] + A[v_i, v_k]
            with T.block("B_local"):
                v0 = T.axis.spatial(4, i)
                T.block_attr({"auto_copy": True})
                for ax0 in range(1):
                    B[v0 + ax0] = B_local[v0 + ax0]
        """,
    )


def test_write_in_tiles_that_do_not_divide():
    sch = Schedule(elementwise(10))
    i_0, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.write_at(i_0, "B", 0, "local")
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        B_local = T.alloc_buffer((10,), scope="local")
        for i_0 in range(3):
            for i_1 in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    B_local[v_i] = A[v_i] * T.float32(2.0)
            with T.block("B_local"):
                v0 = T.axis.spatial(3, i_0)
                T.reads(B_local[v0 * 4:v0 * 4 + T.min(4, 10 - v0 * 4)])
                T.writes(B[v0 * 4:v0 * 4 + T.min(4, 10 - v0 * 4)])
                T.block_attr({"auto_copy": True})
                for ax0 in range(T.min(4, 10 - v0 * 4)):
                    B[v0 * 4 + ax0] = B_local[v0 * 4 + ax0]
        for i in range(10):
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_a_condition_on_the_loop_is_one_of_the_copy():
    sch = Schedule(written_in_part)
    (i,) = sch.get_loops("B")
    sch.write_at(i, "B", 0, "local")
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((8,), scope="local")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.where(i < 5)
                B_local[v] = A[v] * T.float32(2.0)
            with T.block("B_local"):
                v0 = T.axis.spatial(8, i)
                T.where(i < 5)
                T.reads(B_local[v0:v0 + T.min(1, 5 - v0)])
                T.writes(B[v0:v0 + T.min(1, 5 - v0)])
                T.block_attr({"auto_copy": True})
                for ax0 in range(T.min(1, 5 - v0)):
                    B[v0 + ax0] = B_local[v0 + ax0]
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = A[v] + B[v]
        """,
    )


def test_inside_a_block_without_axes():
    sch = Schedule(row_sum(4, 6))
    i, k = sch.get_loops("B")
    sch.loop_partition(k, [2])
    sch.read_at(sch.get_loops("B_k1")[0], "B_k1", 1, "local")
    sch.split(i, [2, 2])
    becomes(
        sch,
        """
        for i_0, i_1 in T.grid(2, 2):
            with T.block("B_k_common"):
                T.reads(A[i_0 * 2 + i_1, 0:6])
                with T.block("B_k0_partition"):
                    for k0 in range(2):
                        with T.block("B_k0"):
                            v_i = T.axis.spatial(4, i_0 * 2 + i_1)
                            v_k = T.axis.reduce(6, k0)
                            with T.init():
                                B[v_i] = T.float32(0.0)
                            B[v_i] = B[v_i] + A[v_i, v_k]
                with T.block("B_k1_partition"):
                    T.reads(B[i_0 * 2 + i_1], A[i_0 * 2 + i_1, 2:6])
                    A_local = T.alloc_buffer((4, 6), scope="local")
                    for k1 in range(2, 6):
                        with T.block("A_local"):
                            v0 = T.axis.spatial(4, i_0 * 2 + i_1)
                            v1 = T.axis.spatial((2, 6), k1)
                            T.block_attr({"auto_copy": True})
                            for ax0, ax1 in T.grid(1, 1):
                                A_local[v0 + ax0, v1 + ax1] = A[v0 + ax0, v1 + ax1]
                        with T.block("B_k1"):
                            v_i = T.axis.spatial(4, i_0 * 2 + i_1)
                            v_k = T.axis.reduce((2, 6), k1)
                            B[v_i] = B[v_i] + A_local[v_i, v_k]
        """,
    )


def test_readers_behind_the_copy_read_the_old_buffer():
    sch = Schedule(matmul_relu())
    i, _j, _k = sch.get_loops("C")
    sch.reverse_compute_at("D", i)
    sch.write_at(i, "C", 0, "local")
    becomes(
        sch,
        """
        C = T.alloc_buffer((4, 4))
        C_local = T.alloc_buffer((4, 4), scope="local")
        for i in range(4):
            for j, k in T.grid(4, 4):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C_local[v_i, v_j] = T.float32(0.0)
                    C_local[v_i, v_j] = C_local[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("C_local"):
                v0 = T.axis.spatial(4, i)
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(1, 4):
                    C[v0 + ax0, ax1] = C_local[v0 + ax0, ax1]
            for ax0 in range(4):
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i, ax0])
                    D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_symbolic_shape():
    sch = Schedule(symbolic)
    i, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.read_at(i, "B", 0, "local")
    sch.write_at(i, "B", 0, "local")
    becomes(
        sch,
        """
        A_local = T.alloc_buffer((n, 4), scope="local")
        B_local = T.alloc_buffer((n, 4), scope="local")
        for i_0 in range((n + 3) // 4):
            with T.block("A_local"):
                v0 = T.axis.spatial((n + 3) // 4, i_0)
                T.reads(A[v0 * 4:v0 * 4 + T.min(4, n - v0 * 4), 0:4])
                T.writes(A_local[v0 * 4:v0 * 4 + T.min(4, n - v0 * 4), 0:4])
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(T.min(4, n - v0 * 4), 4):
                    A_local[v0 * 4 + ax0, ax1] = A[v0 * 4 + ax0, ax1]
            for i_1, j in T.grid(4, 4):
                with T.block("B"):
                    vi = T.axis.spatial(n, i_0 * 4 + i_1)
                    vj = T.axis.spatial(4, j)
                    T.where(i_0 * 4 + i_1 < n)
                    B_local[vi, vj] = A_local[vi, vj] + T.float32(1.0)
            with T.block("B_local"):
                v0 = T.axis.spatial((n + 3) // 4, i_0)
                T.reads(B_local[v0 * 4:v0 * 4 + T.min(4, n - v0 * 4), 0:4])
                T.writes(B[v0 * 4:v0 * 4 + T.min(4, n - v0 * 4), 0:4])
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(T.min(4, n - v0 * 4), 4):
                    B[v0 * 4 + ax0, ax1] = B_local[v0 * 4 + ax0, ax1]
        """,
    )


def test_read_then_written():
    sch = Schedule(matmul(4, 3, 2))
    i = sch.get_loops("C")[0]
    sch.read_at(i, "C", 1, "local")
    sch.write_at(i, "C", 0, "local")
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((2, 3), scope="local")
        C_local = T.alloc_buffer((4, 3), scope="local")
        for i in range(4):
            with T.block("B_local"):
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(2, 3):
                    B_local[ax0, ax1] = B[ax0, ax1]
            for j, k in T.grid(3, 2):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C_local[v_i, v_j] = T.float32(0.0)
                    C_local[v_i, v_j] = C_local[v_i, v_j] + A[v_i, v_k] * B_local[v_k, v_j]
            with T.block("C_local"):
                v0 = T.axis.spatial(4, i)
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(1, 3):
                    C[v0 + ax0, ax1] = C_local[v0 + ax0, ax1]
        """,
    )


def test_refuses_a_loop_elsewhere():
    sch = Schedule(elementwise())
    (i,), C = sch.get_loops("B"), sch.get_block("C")
    with refuses(sch, "read_at: block C is not under loop i"):
        sch.read_at(i, C, 0, "local")
    with refuses(sch, "write_at: block C is not under loop i"):
        sch.write_at(i, C, 0, "local")
    (j,) = sch.get_loops(C)
    with refuses(sch, "read_at: block C has no buffer 1 among its reads", hint=("it reads B")):
        sch.read_at(j, C, 1, "local")


def test_refuses_what_is_written_in_the_loop():
    sch = Schedule(in_place)
    D, (i, j) = sch.get_block("D"), sch.get_loops("D")
    with refuses(sch, "read_at: block D writes C under loop i, at or after the place of the copy"):
        sch.read_at(i, D, 0, "local")
    with refuses(
        sch,
        "write_at: block D may read elements of C that were written before this "
        "iteration of loop i",
    ):
        sch.write_at(i, D, 0, "local")


def test_refuses_a_triangle():
    sch = Schedule(CARRIED["triangle"])
    B, (i, _) = sch.get_block("B"), sch.get_loops("B")
    i_0, _ = sch.split(i, [3, 2])
    with refuses(
        sch,
        "write_at: what an iteration of loop i_0 writes of B is no full box, and a copy "
        "would overwrite the rest",
    ):
        sch.write_at(i_0, B, 0, "local")


def test_under_a_loop_of_the_reduction_the_copy_waits_for_the_last_iteration():
    sch = Schedule(matmul())
    C, (i, j, k) = sch.get_block("C"), sch.get_loops("C")
    k_0, k_1 = sch.split(k, [2, 2])
    sch.reorder(k_0, i, k_1, j)
    sch.write_at(k_1, C, 0, "local")
    becomes(
        sch,
        """
        C_local = T.alloc_buffer((4, 4), scope="local")
        for k_0, i, k_1 in T.grid(2, 4, 2):
            for j in range(4):
                with T.block("C"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    v_k = T.axis.reduce(4, k_0 * 2 + k_1)
                    with T.init():
                        C_local[v_i, v_j] = T.float32(0.0)
                    C_local[v_i, v_j] = C_local[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("C_local"):
                v0 = T.axis.spatial(4, i)
                T.where(1 <= k_0 and 1 <= k_1)
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(1, 4):
                    C[v0 + ax0, ax1] = C_local[v0 + ax0, ax1]
        """,
    )


def test_refuses_where_partial_sums_are_read():
    @T.prim_func
    def running(A: T.Buffer((4, 4), "float32"), D: T.Buffer((4, 4), "float32")):
        C = T.alloc_buffer((4,))
        for k in range(4):
            for i in range(4):
                with T.block("C"):
                    v_i, v_k = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[v_i] = T.float32(0)
                    C[v_i] = C[v_i] + A[v_i, v_k]
            for i in range(4):
                with T.block("D"):
                    v_k, v_i = T.axis.remap("SS", [k, i])
                    D[v_k, v_i] = C[v_i]

    sch = Schedule(running)
    C, (_k, i) = sch.get_block("C"), sch.get_loops("C")
    with refuses(
        sch,
        "write_at: block D touches C in loop k too, over which block C updates it",
        hint="choose a loop outside of loop k",
    ):
        sch.write_at(i, C, 0, "local")


def test_refuses_holes():
    sch = Schedule(every_other)
    B, (i_0, _) = sch.get_block("B"), sch.get_loops("B")
    with refuses(
        sch,
        "write_at: what an iteration of loop i_0 writes of B is no full box, and a copy "
        "would overwrite the rest",
    ):
        sch.write_at(i_0, B, 0, "local")


def test_a_thread_copies_out_of_shared_memory_what_it_wrote():
    before = matmul(4, 4, 4)
    sch = Schedule(before)
    i, j, k = sch.get_loops("C")
    k_0, k_1 = sch.split(k, [2, 2])
    sch.bind(i, "threadIdx.x")
    sch.reorder(k_0, j, k_1)
    sch.write_at(k_0, "C", 0, "shared")
    becomes(
        sch,
        """
        C_shared = T.alloc_buffer((4, 4), scope="shared")
        for i in T.thread_binding(4, thread="threadIdx.x"):
            for k_0 in range(2):
                for j, k_1 in T.grid(4, 2):
                    with T.block("C"):
                        v_i, v_j = T.axis.remap("SS", [i, j])
                        v_k = T.axis.reduce(4, k_0 * 2 + k_1)
                        with T.init():
                            C_shared[v_i, v_j] = T.float32(0.0)
                        C_shared[v_i, v_j] = C_shared[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
                with T.block("C_shared"):
                    v0 = T.axis.spatial(4, i)
                    T.where(1 <= k_0)
                    T.block_attr({"auto_copy": True})
                    for ax0, ax1 in T.grid(1, 4):
                        C[v0 + ax0, ax1] = C_shared[v0 + ax0, ax1]
        """,
    )
    expected, found = numbers(before), numbers(before, run=False)
    run_prim_func(only(sch.mod), list(found), simulate=True)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5)


def test_a_kernel_with_a_copy_out_of_shared_memory_has_no_races():
    sch = Schedule(parse(CUDA))
    sch.write_at(sch.get_loops("C")[5], sch.get_block("C"), 0, "shared")
    assert races(only(sch.mod)) == ()


def strided(n):
    """Threads that write every second row: what one of them writes is no box."""
    sch = Schedule(matmul(n, n, 4))
    i, _j, _k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [n // 2, 2])
    sch.reorder(i_1, i_0)
    sch.bind(i_1, "threadIdx.x")
    return sch, i_1


def test_refuses_threads_that_would_all_copy_out():
    sch, thread = strided(4)
    with refuses(
        sch,
        "write_at: loop i_1 is thread_binding, and then its iterations may touch the same "
        "elements of C_shared, which block C writes",
        hint="mark loops as parallel, vectorized or bound after they have their blocks",
    ):
        sch.write_at(thread, "C", 0, "shared")


def test_a_conflict_in_shared_memory_is_shown_by_its_iterations_alone():
    """What runs has barriers, which would hide it; to run it took three minutes."""
    sch, thread = strided(256)
    with pytest.raises(ScheduleError) as error:
        sch.write_at(thread, "C", 0, "shared")
    found = error.value.counterexample
    assert (found.first.buffer, found.second.buffer) == ("C_shared", "C_shared")
    assert found.first.iteration["i_1"] != found.second.iteration["i_1"]
    assert not found.is_certain


@T.prim_func
def summed_by_the_loop_outside(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for k in range(6):
        with T.block("outer"):
            T.reads(A[0:4, k])
            T.writes(B[0:4])
            for i in range(4):
                with T.block("B"):
                    v, r = T.axis.remap("SR", [i, k])
                    T.reads(A[v, r])
                    T.writes(B[v])
                    with T.init():
                        B[v] = T.float32(7.0)
                    B[v] = B[v] + A[v, r]


def test_write_at_of_a_sum_over_a_loop_outside_of_its_block_is_refused():
    """The buffer would live in the outer block, and lose what earlier rounds have added up."""
    sch = Schedule(summed_by_the_loop_outside)
    block = sch.get_block("B")
    (loop,) = sch.get_loops(block)
    with refuses(
        sch,
        "write_at: block B has not finished B when the copy is made: its reduce axis r runs over "
        "k, outside of block outer that it stands in",
        "choose a loop outside of block outer",
    ):
        sch.write_at(loop, block, 0, "global")
    outer = sch.get_block("outer")
    sch.write_at(sch.get_loops(outer)[0], outer, 0, "global")
    same = numbers(summed_by_the_loop_outside), numbers(only(sch.mod))
    np.testing.assert_array_equal(*(x[-1] for x in same))


@pytest.mark.parametrize(
    ("axis", "scope", "whose"),
    [("threadIdx.x", "local", "thread"), ("blockIdx.x", "shared", "block")],
)
def test_write_at_outside_of_the_threads_that_have_the_memory_is_refused(axis, scope, whose):
    """What a thread keeps for itself is gone, or another's, where the copy stands."""
    sch = Schedule(row_sum(4, 8))
    block = sch.get_block("B")
    outer, inner = sch.split(sch.get_loops(block)[0], [2, 2])
    sch.bind(inner, axis)
    with refuses(
        sch,
        f"write_at: block B writes B in loop i_1, where each {whose} has {scope} memory of its "
        "own, and the copy stands outside of it",
        "choose a loop inside of loop i_1, or another scope",
    ):
        sch.write_at(outer, block, 0, scope)
    sch.write_at(inner, block, 0, "local")
    assert races(only(sch.mod)) == ()
