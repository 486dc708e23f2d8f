"""cache_read, cache_write, set_scope, storage_align: whole programs and refusals."""

from __future__ import annotations

from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    refuses,
    replays,
    row_sum,
    softmax,
    stencil,
    text,
)


def test_cache_read_of_a_parameter():
    sch = Schedule(matmul())
    made = sch.cache_read("C", 0, "shared")
    assert repr(made) == "block A_shared"
    becomes(
        sch,
        """
        A_shared = T.alloc_buffer((4, 4), scope="shared")
        for ax0, ax1 in T.grid(4, 4):
            with T.block("A_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_shared[v0, v1] = A[v0, v1]
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A_shared[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_cache_read_goes_behind_the_producer():
    sch = Schedule(stencil(6))
    sch.cache_read("C", 0, "local")
    becomes(
        sch,
        """
        B = T.alloc_buffer((6,))
        B_local = T.alloc_buffer((6,), scope="local")
        for i in range(6):
            with T.block("B"):
                v_i = T.axis.spatial(6, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for ax0 in range(6):
            with T.block("B_local"):
                v0 = T.axis.spatial(6, ax0)
                B_local[v0] = B[v0]
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B_local[v_i] + B_local[v_i + 1] + B_local[v_i + 2]
        """,
    )


def test_cache_read_for_one_of_two_readers():
    sch = Schedule(softmax(2, 3))
    S = sch.get_block("S")
    sch.cache_read(S, 0, "shared", consumer_blocks=[S])
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        E_shared = T.alloc_buffer((2, 3), scope="shared")
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j in T.grid(2, 3):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
        for ax0, ax1 in T.grid(2, 3):
            with T.block("E_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                E_shared[v0, v1] = E[v0, v1]
        for i, r in T.grid(2, 3):
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                with T.init():
                    S[v_i] = T.float32(0.0)
                S[v_i] = S[v_i] + E_shared[v_i, v_r]
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_cache_read_then_compute_at():
    sch = Schedule(matmul(8, 8, 8))
    made = sch.cache_read("C", 1, "local")
    _i, j, k = sch.get_loops("C")
    _j0, j1 = sch.split(j, [2, 4])
    k0, _k1 = sch.split(k, [4, 2])
    sch.reorder(k0, j1)
    sch.compute_at(made, k0)
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((8, 8), scope="local")
        for i, j_0, k_0 in T.grid(8, 2, 4):
            for ax0, ax1 in T.grid(2, 4):
                with T.block("B_local"):
                    v0 = T.axis.spatial(8, k_0 * 2 + ax0)
                    v1 = T.axis.spatial(8, j_0 * 4 + ax1)
                    B_local[v0, v1] = B[v0, v1]
            for j_1, k_1 in T.grid(4, 2):
                with T.block("C"):
                    v_i = T.axis.spatial(8, i)
                    v_j = T.axis.spatial(8, j_0 * 4 + j_1)
                    v_k = T.axis.reduce(8, k_0 * 2 + k_1)
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B_local[v_k, v_j]
        """,
    )


def test_cache_write_of_a_reduction():
    sch = Schedule(matmul())
    made = sch.cache_write("C", 0, "local")
    assert repr(made) == "block C_local"
    becomes(
        sch,
        """
        C_local = T.alloc_buffer((4, 4), scope="local")
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_local[v_i, v_j] = T.float32(0.0)
                C_local[v_i, v_j] = C_local[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for ax0, ax1 in T.grid(4, 4):
            with T.block("C_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                C[v0, v1] = C_local[v0, v1]
        """,
    )


def test_cache_write_stands_before_readers_in_the_same_loop():
    sch = Schedule(softmax(2, 3))
    sch.reverse_compute_at("S", sch.get_loops("E")[0])
    sch.cache_write("E", 0, "local")
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        E_local = T.alloc_buffer((2, 3), scope="local")
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i in range(2):
            for j in range(3):
                with T.block("E"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    E_local[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
            for ax0, ax1 in T.grid(1, 3):
                with T.block("E_local"):
                    v0 = T.axis.spatial(2, i + ax0)
                    v1 = T.axis.spatial(3, ax1)
                    E[v0, v1] = E_local[v0, v1]
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


def test_cache_write_after_an_imperfect_split():
    sch = Schedule(copy_2d(7, 3))
    i, _j = sch.get_loops("B")
    sch.split(i, [None, 4])
    sch.cache_write("B", 0, "local")
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((7, 3), scope="local")
        for i_0, i_1, j in T.grid(2, 4, 3):
            with T.block("B"):
                v_i = T.axis.spatial(7, i_0 * 4 + i_1)
                v_j = T.axis.spatial(3, j)
                T.where(i_0 * 4 + i_1 < 7)
                B_local[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        for ax0, ax1 in T.grid(7, 3):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0, v1] = B_local[v0, v1]
        """,
    )


def test_cache_write_with_consumers():
    sch = Schedule(elementwise(4))
    C = sch.get_block("C")
    sch.cache_write("B", 0, "local", consumer_blocks=[C])
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        B_local = T.alloc_buffer((4,), scope="local")
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                B_local[v_i] = A[v_i] * T.float32(2.0)
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B_local[v_i] + T.float32(1.0)
        for ax0 in range(4):
            with T.block("B_local"):
                v0 = T.axis.spatial(4, ax0)
                B[v0] = B_local[v0]
        """,
    )


def test_set_scope():
    sch = Schedule(elementwise(4))
    sch.set_scope("B", 0, "shared")
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,), scope="shared")
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_storage_align():
    sch = Schedule(softmax(2, 3))
    sch.storage_align("E", 0, axis=-2, factor=32, offset=8)
    sch.storage_align("E", 0, axis=-2, factor=32, offset=4)
    marks = sch.get(sch.get_block("E")).annotations
    assert marks == {"buffer_dim_align": ((0, 0, 32, 4),)}


SCOPES = "global, shared, shared.dyn, local, warp, wmma.matrix_a, wmma.matrix_b, wmma.accumulator"


def test_scopes_that_no_machine_has():
    sch = Schedule(elementwise(4))
    with refuses(sch, "set_scope: 'sharde' is no memory scope", hint=SCOPES):
        sch.set_scope("B", 0, "sharde")
    with refuses(sch, "cache_read: '' is no memory scope", hint=SCOPES):
        sch.cache_read("C", 0, "")
    with refuses(sch, "cache_write: 'wmma' is no memory scope", hint=SCOPES):
        sch.cache_write("C", 0, "wmma")
    sch.set_scope("B", "B", "shared.dyn")
    becomes(sch, text(sch))


def test_buffers_are_chosen_by_number_name_or_themselves():
    texts = set()
    for index in (1, "B", None):
        sch = Schedule(matmul())
        given = sch.get(sch.get_block("C")).reads[1].buffer if index is None else index
        sch.cache_read("C", given, "local")
        assert "read_buffer_index=1" in str(sch.trace)
        replays(sch)
        texts.add(text(sch))
    assert len(texts) == 1


def test_refusals():
    sch = Schedule(matmul())
    C = sch.get_block("C")
    with refuses(
        sch,
        "cache_read: block C has no buffer 2 among its reads",
        hint="it reads A, B",
    ):
        sch.cache_read(C, 2, "local")
    with refuses(
        sch,
        "cache_write: block C has no buffer 1 among its writes",
        hint="it writes C",
    ):
        sch.cache_write(C, 1, "local")
    with refuses(
        sch,
        "set_scope: C, which block C writes, is a parameter",
        hint="cache_write it into 'shared'",
    ):
        sch.set_scope(C, 0, "shared")
    with refuses(
        sch,
        "storage_align: C, which block C writes, is a parameter",
    ):
        sch.storage_align(C, 0, 0, 32, 8)


def test_refuses_to_cache_one_of_two_writers():
    sch = Schedule(row_sum())
    sch.decompose_reduction("B", sch.get_loops("B")[1])
    update = sch.get_block("B_update")
    with refuses(
        sch,
        "cache_write: block B_init also writes B, as block B_update does",
        hint="cache_write before decompose_reduction",
    ):
        sch.cache_write(update, 0, "local")
