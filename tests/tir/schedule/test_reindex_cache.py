"""reindex_cache_read and reindex_cache_write: whole programs and refusals."""

from __future__ import annotations

from mlcnb import te
from mlcnb.ir.dtype import dtype
from mlcnb.script import tir as T
from mlcnb.tir import IndexMap, Var
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    padded_sum,
    refuses,
    row_sum,
    stencil,
    text,
)


def window_product(n=6):
    """C[i] = the sum of A[i + k] * W[k] over k in 0..3"""
    A, W = te.placeholder((n + 2,), name="A"), te.placeholder((3,), name="W")
    k = te.reduce_axis((0, 3), name="k")
    C = te.compute((n,), lambda i: te.sum(A[i + k] * W[k], axis=k), name="C")
    return te.create_prim_func([A, W, C])


def symbolic_rows():
    """B = A * 2, C = B + 1, over a number of rows that is not known"""
    n = Var("n", dtype("int32"))
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, 4), lambda i, j: B[i, j] + 1.0, name="C")
    return te.create_prim_func([A, C])


def test_reindex_cache_read():
    sch = Schedule(copy_2d(4, 6))
    made = sch.reindex_cache_read("B", 0, "local", lambda vi, vj: (vj, vi))
    assert repr(made) == "block A_local"
    becomes(
        sch,
        """
        A_local = T.alloc_buffer((6, 4), scope="local")
        for ax0, ax1 in T.grid(4, 6):
            with T.block("A_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_local[v1, v0] = A[v0, v1]
        for i, j in T.grid(4, 6):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A_local[v_j, v_i] * T.float32(2.0)
        """,
    )


def test_reindex_cache_read_of_a_reduction():
    sch = Schedule(window_product())
    sch.reindex_cache_read("C", 0, "shared", lambda vi, vk: (vk, vi))
    becomes(
        sch,
        """
        A_shared = T.alloc_buffer((3, 6), scope="shared")
        for ax0, ax1 in T.grid(6, 3):
            with T.block("A_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_shared[v1, v0] = A[v0 + v1]
        for i, k in T.grid(6, 3):
            with T.block("C"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v_i] = T.float32(0.0)
                C[v_i] = C[v_i] + A_shared[v_k, v_i] * W[v_k]
        """,
    )


def test_reindex_cache_read_leaves_out_axes_that_do_not_index():
    sch = Schedule(matmul(4, 3, 2))
    sch.reindex_cache_read("C", "B", "local", lambda i, j, k: (j, k))
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((3, 2), scope="local")
        for ax0, ax1 in T.grid(3, 2):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B_local[v0, v1] = B[v1, v0]
        for i, j, k in T.grid(4, 3, 2):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B_local[v_j, v_k]
        """,
    )


def test_reindex_cache_read_into_a_padded_layout():
    sch = Schedule(copy_2d(5, 3))
    sch.reindex_cache_read("B", 0, "local", lambda i, j: (i // 2, j, i % 2))
    becomes(
        sch,
        """
        A_local = T.alloc_buffer((3, 3, 2), scope="local")
        for ax0, ax1 in T.grid(5, 3):
            with T.block("A_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_local[v0 // 2, v1, v0 % 2] = A[v0, v1]
        for i, j in T.grid(5, 3):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A_local[v_i // 2, v_j, v_i % 2] * T.float32(2.0)
        """,
    )


def test_reindex_cache_read_after_an_imperfect_split():
    sch = Schedule(copy_2d(5, 3))
    sch.split(sch.get_loops("B")[0], [None, 2])
    sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i))
    becomes(
        sch,
        """
        A_local = T.alloc_buffer((3, 5), scope="local")
        for ax0, ax1 in T.grid(5, 3):
            with T.block("A_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_local[v1, v0] = A[v0, v1]
        for i_0, i_1, j in T.grid(3, 2, 3):
            with T.block("B"):
                v_i = T.axis.spatial(5, i_0 * 2 + i_1)
                v_j = T.axis.spatial(3, j)
                T.where(i_0 * 2 + i_1 < 5)
                B[v_i, v_j] = A_local[v_j, v_i] * T.float32(2.0)
        """,
    )


def test_reindex_cache_read_of_a_symbolic_shape():
    sch = Schedule(symbolic_rows())
    sch.reindex_cache_read("C", 0, "local", lambda i, j: (j, i))
    becomes(
        sch,
        """
        B = T.alloc_buffer((n, 4))
        B_local = T.alloc_buffer((4, n), scope="local")
        for i, j in T.grid(n, 4):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        for ax0, ax1 in T.grid(n, 4):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B_local[v1, v0] = B[v0, v1]
        for i, j in T.grid(n, 4):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = B_local[v_j, v_i] + T.float32(1.0)
        """,
    )


def test_reindex_cache_write():
    sch = Schedule(copy_2d(4, 6))
    sch.reindex_cache_write("B", 0, "local", lambda vi, vj: (vi // 2, vi % 2, vj))
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((2, 2, 6), scope="local")
        for i, j in T.grid(4, 6):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B_local[v_i // 2, v_i % 2, v_j] = A[v_i, v_j] * T.float32(2.0)
        for ax0, ax1 in T.grid(4, 6):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0, v1] = B_local[v0 // 2, v0 % 2, v1]
        """,
    )


def test_reindex_cache_write_of_a_reduction():
    sch = Schedule(matmul(4, 3, 2))
    sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))
    becomes(
        sch,
        """
        C_local = T.alloc_buffer((3, 4), scope="local")
        for i, j, k in T.grid(4, 3, 2):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_local[v_j, v_i] = T.float32(0.0)
                C_local[v_j, v_i] = C_local[v_j, v_i] + A[v_i, v_k] * B[v_k, v_j]
        for ax0, ax1 in T.grid(4, 3):
            with T.block("C_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                C[v0, v1] = C_local[v1, v0]
        """,
    )


def test_reindex_cache_write_with_readers():
    sch = Schedule(elementwise(4))
    sch.reindex_cache_write("B", 0, "shared", lambda i: (i % 2, i // 2))
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        B_shared = T.alloc_buffer((2, 2), scope="shared")
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                B_shared[v_i % 2, v_i // 2] = A[v_i] * T.float32(2.0)
        for ax0 in range(4):
            with T.block("B_shared"):
                v0 = T.axis.spatial(4, ax0)
                B[v0] = B_shared[v0 % 2, v0 // 2]
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_with_an_index_map():
    sch = Schedule(copy_2d(4, 6))
    layout = IndexMap.from_func(lambda i, j: (i * 6 + j,), index_dtype="int32")
    sch.reindex_cache_read("B", 0, "local", layout)
    assert 'A_local = T.alloc_buffer((24,), scope="local")' in text(sch)
    becomes(sch, text(sch))


def test_refusals():
    sch = Schedule(matmul(4, 3, 2))
    with refuses(sch, "reindex_cache_read: the index map uses v_j, which does not index A"):
        sch.reindex_cache_read("C", 0, "local", lambda i, j, k: (i, j, k))
    with refuses(
        sch,
        "reindex_cache_read: the index map is no layout of [4, 2]: it takes [0, 0] and [0, 1] "
        "both to [0]",
    ):
        sch.reindex_cache_read("C", 0, "local", lambda i, j, k: (i,))
    with refuses(sch, "reindex_cache_read: the index map takes 2 indices, block C has 3 axes"):
        sch.reindex_cache_read("C", 0, "local", IndexMap.from_func(lambda i, j: (i, j)))
    with refuses(sch, "reindex_cache_write: the index map uses v_k, which does not index C"):
        sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (i, j, k))
    with refuses(
        sch,
        "reindex_cache_write: block C has no buffer A among its writes",
        hint="it writes C",
    ):
        sch.reindex_cache_write("C", "A", "local", lambda i, j, k: (i, j))


def test_refuses_accesses_at_several_places():
    sch = Schedule(stencil(6))
    with refuses(sch, "reindex_cache_read: block C accesses B with different indices"):
        sch.reindex_cache_read("C", 0, "local", lambda i: (i,))


def test_refuses_what_a_guard_keeps_inside():
    sch = Schedule(padded_sum(6))
    with refuses(
        sch,
        "reindex_cache_read: block pad may look outside of A, where a copy may not",
        hint="keep the padding in a block of its own",
    ):
        sch.reindex_cache_read("pad", 0, "local", lambda i: (i,))


def test_refuses_one_of_two_writers():
    sch = Schedule(row_sum(4, 4))
    sch.decompose_reduction("B", sch.get_loops("B")[1])
    with refuses(
        sch,
        "reindex_cache_write: block B_update cannot be cached: it updates what B held before",
    ):
        sch.reindex_cache_write("B_update", 0, "local", lambda i, k: (i,))


def test_refuses_to_read_through_a_cache_what_the_block_updates():
    @T.prim_func
    def update(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = A[v] * T.float32(2)

    sch = Schedule(update)
    with refuses(sch, "reindex_cache_read: block A writes A too", hint="cache_inplace"):
        sch.reindex_cache_read("A", 0, "local", lambda i: (i,))
