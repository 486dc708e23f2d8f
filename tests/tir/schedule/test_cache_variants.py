"""cache_inplace and cache_index: whole programs and refusals."""

from __future__ import annotations

import pytest

from mlcnb import te
from mlcnb.core.errors import ScheduleError
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    refuses,
    stencil,
    text,
)


@T.prim_func
def scale(X: T.Buffer((32,), "float32")):
    for i in range(4):
        with T.block("scale"):
            v = T.axis.spatial(4, i)
            T.reads(X[v * 8 : v * 8 + 8])
            T.writes(X[v * 8 : v * 8 + 8])
            for j in range(8):
                X[v * 8 + j] = X[v * 8 + j] * T.float32(2)


@T.prim_func
def scale_even(X: T.Buffer((10,), "float32")):
    for i_0, i_1 in T.grid(2, 4):
        with T.block("scale"):
            v = T.axis.spatial(7, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 7)
            T.reads(X[v : v + 3])
            T.writes(X[v : v + 3])
            if v % 2 == 0:
                X[v + 1] = X[v + 1] * T.float32(2)


@T.prim_func
def scale_all(x: T.handle):
    n = T.int32()
    X = T.match_buffer(x, (n, 4), "float32")
    for i in range(n):
        with T.block("scale"):
            v = T.axis.spatial(n, i)
            T.reads(X[v, 0:4])
            T.writes(X[v, 0:4])
            for j in range(4):
                X[v, j] = X[v, j] * T.float32(2)


@T.prim_func
def resize(A: T.Buffer((1, 2, 4, 4), "float32"), B: T.Buffer((1, 2, 8, 8), "float32")):
    for i0, i1, i2, i3 in T.grid(1, 2, 8, 8):
        with T.block("A"):
            n, c, vi, vj = T.axis.remap("SSSS", [i0, i1, i2, i3])
            B[n, c, vi, vj] = A[n, c, vi // 4 + vj // 4, vj // 2]


@T.prim_func
def twice(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v // 2 + 1] * A[v // 2] + A[(v // 2 + 1) % 3]


def window_product(n=6):
    """C[i] = the sum of A[i + k] * W[k] over k in 0..3"""
    A, W = te.placeholder((n + 2,), name="A"), te.placeholder((3,), name="W")
    k = te.reduce_axis((0, 3), name="k")
    C = te.compute((n,), lambda i: te.sum(A[i + k] * W[k], axis=k), name="C")
    return te.create_prim_func([A, W, C])


@T.prim_func
def overlapping(X: T.Buffer((8,), "float32")):
    for i in range(6):
        with T.block("add"):
            v = T.axis.opaque(6, i)
            T.reads(X[v : v + 3])
            T.writes(X[v : v + 3])
            X[v] = X[v] + X[v + 2]


@T.prim_func
def looked_up(
    A: T.Buffer((4,), "float32"), J: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")
):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = A[J[(v + 1) % 4]]


def test_cache_inplace():
    sch = Schedule(scale)
    sch.cache_inplace("scale", 0, "local")
    becomes(
        sch,
        """
        X_local = T.alloc_buffer((32,), scope="local")
        for i in range(4):
            for ax0 in range(8):
                with T.block("X_local"):
                    v0 = T.axis.spatial(32, i * 8 + ax0)
                    X_local[v0] = X[v0]
            with T.block("scale"):
                v = T.axis.spatial(4, i)
                for j in range(8):
                    X_local[v * 8 + j] = X_local[v * 8 + j] * T.float32(2.0)
            for ax0 in range(8):
                with T.block("X_local"):
                    v0 = T.axis.spatial(32, i * 8 + ax0)
                    X[v0] = X_local[v0]
        """,
    )


def test_cache_inplace_of_predicated_instances_that_write_some_elements():
    sch = Schedule(scale_even)
    sch.cache_inplace("scale", "X", "shared")
    becomes(
        sch,
        """
        X_shared = T.alloc_buffer((10,), scope="shared")
        for i_0, i_1 in T.grid(2, 4):
            for ax0 in range(3):
                with T.block("X_shared"):
                    v0 = T.axis.spatial(10, i_0 * 4 + i_1 + ax0)
                    X_shared[v0] = X[v0]
            with T.block("scale"):
                v = T.axis.spatial(7, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < 7)
                T.reads(X_shared[v:v + 3])
                T.writes(X_shared[v:v + 3])
                if v % 2 == 0:
                    X_shared[v + 1] = X_shared[v + 1] * T.float32(2.0)
            for ax0 in range(3):
                with T.block("X_shared"):
                    v0 = T.axis.spatial(10, i_0 * 4 + i_1 + ax0)
                    T.where(i_0 * 4 + i_1 + ax0 < 9)
                    X[v0] = X_shared[v0]
        """,
    )


def test_cache_inplace_of_a_symbolic_number_of_rows():
    sch = Schedule(scale_all)
    sch.cache_inplace("scale", 0, "local")
    becomes(
        sch,
        """
        X_local = T.alloc_buffer((n, 4), scope="local")
        for i in range(n):
            for ax0, ax1 in T.grid(1, 4):
                with T.block("X_local"):
                    v0 = T.axis.spatial(n, i + ax0)
                    v1 = T.axis.spatial(4, ax1)
                    X_local[v0, v1] = X[v0, v1]
            with T.block("scale"):
                v = T.axis.spatial(n, i)
                for j in range(4):
                    X_local[v, j] = X_local[v, j] * T.float32(2.0)
            for ax0, ax1 in T.grid(1, 4):
                with T.block("X_local"):
                    v0 = T.axis.spatial(n, i + ax0)
                    v1 = T.axis.spatial(4, ax1)
                    X[v0, v1] = X_local[v0, v1]
        """,
    )


def test_cache_index():
    sch = Schedule(resize)
    made = sch.cache_index("A", "global", 1)
    assert repr(made) == "[block index_0, block index_1]"
    becomes(
        sch,
        """
        index_var_0 = T.alloc_buffer((8, 8), "int32")
        index_var_1 = T.alloc_buffer((8,), "int32")
        for ax0, ax1 in T.grid(8, 8):
            with T.block("index_0"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                index_var_0[v0, v1] = v0 // 4 + v1 // 4
        for ax0 in range(8):
            with T.block("index_1"):
                v0 = T.axis.spatial(8, ax0)
                index_var_1[v0] = v0 // 2
        for i0, i1, i2, i3 in T.grid(1, 2, 8, 8):
            with T.block("A"):
                n, c, vi, vj = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(A[n, c, vi // 4 + vj // 4, vj // 2], index_var_0[vi, vj], index_var_1[vj])
                B[n, c, vi, vj] = A[n, c, index_var_0[vi, vj], index_var_1[vj]]
        """,
    )


def test_cache_index_only_what_is_repeated():
    sch = Schedule(twice)
    sch.cache_index("B", "local", 2)
    becomes(
        sch,
        """
        index_var_0 = T.alloc_buffer((8,), "int32", scope="local")
        for ax0 in range(8):
            with T.block("index_0"):
                v0 = T.axis.spatial(8, ax0)
                index_var_0[v0] = v0 // 2 + 1
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[T.min(v // 2, (v // 2 + 1) % 3):T.min(v // 2, (v // 2 + 1) % 3) + (T.max(v // 2 - (v // 2 + 1) % 3, 0) + 2)], index_var_0[v])
                B[v] = A[index_var_0[v]] * A[v // 2] + A[index_var_0[v] % 3]
        """,  # noqa: E501
    )


def test_cache_index_of_a_reduction():
    sch = Schedule(window_product())
    sch.cache_index("C", "shared")
    becomes(
        sch,
        """
        index_var_0 = T.alloc_buffer((6, 3), "int32", scope="shared")
        for ax0, ax1 in T.grid(6, 3):
            with T.block("index_0"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                index_var_0[v0, v1] = v0 + v1
        for i, k in T.grid(6, 3):
            with T.block("C"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                T.reads(A[v_i + v_k], W[v_k], index_var_0[v_i, v_k])
                with T.init():
                    C[v_i] = T.float32(0.0)
                C[v_i] = C[v_i] + A[index_var_0[v_i, v_k]] * W[v_k]
        """,
    )


def test_cache_index_of_nothing():
    sch = Schedule(elementwise(4))
    assert sch.cache_index("B", "global") == []
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
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


def test_what_cache_inplace_makes_can_be_moved_on():
    sch = Schedule(scale)
    into, out = sch.cache_inplace("scale", 0, "local")
    assert [repr(x) for x in (into, out)] == ["block X_local", "block X_local"]
    sch.vectorize(sch.get_loops(into)[-1])
    sch.unroll(sch.get_loops(out)[-1])
    becomes(sch, text(sch))


def test_what_cache_index_makes_can_be_inlined_again():
    sch = Schedule(resize)
    before = text(sch)
    for made in sch.cache_index("A", "global"):
        sch.compute_inline(made)
    assert text(sch) == before


def test_cache_inplace_refusals():
    sch = Schedule(copy_2d())
    with refuses(
        sch,
        "cache_inplace: block B reads A and does not write it",
        hint="cache_read it",
    ):
        sch.cache_inplace("B", 0, "local")
    with refuses(
        sch,
        "cache_inplace: block B has no buffer 1 among its reads",
        hint="it reads A",
    ):
        sch.cache_inplace("B", 1, "local")
    with refuses(
        sch,
        "cache_inplace: block B has no buffer X among its reads",
        hint="it reads A",
    ):
        sch.cache_inplace("B", "X", "local")
    scopes = (
        "global, shared, shared.dyn, local, warp, wmma.matrix_a, wmma.matrix_b, wmma.accumulator"
    )
    with refuses(sch, "cache_inplace: 'lokal' is no memory scope", hint=scopes):
        sch.cache_inplace("B", 0, "lokal")


def test_cache_inplace_in_a_loop_whose_iterations_share_elements():
    """Rows overlap: run at once, one would carry out what the other has changed meanwhile."""
    sch = Schedule(overlapping)
    sch.cache_inplace("add", 0, "local")
    becomes(sch, text(sch))
    with pytest.raises(ScheduleError):
        sch.parallel(sch.get_loops("add")[0])


def test_cache_index_refusals():
    sch = Schedule(matmul())
    with refuses(
        sch,
        "cache_index: 'l2' is no memory scope",
        hint="global, shared, shared.dyn, local, warp, wmma.matrix_a, wmma.matrix_b, "
        "wmma.accumulator",
    ):
        sch.cache_index("C", "l2")


def test_indices_that_are_read_from_data_stay():
    sch = Schedule(looked_up)
    (made,) = sch.cache_index("B", "global")
    assert "index_var_0[v0] = (v0 + 1) % 4" in text(sch)
    assert "B[v] = A[J[index_var_0[v]]]" in text(sch)


def test_cache_read_gives_listed_readers_the_cache_and_no_others():
    sch = Schedule(stencil(6))
    sch.compute_inline("B")
    sch.cache_write("C", 0, "local")
    with refuses(
        sch,
        "cache_read: block C_local does not read A",
        hint="block C reads it",
    ):
        sch.cache_read("C", "A", "local", consumer_blocks=["C_local"])
