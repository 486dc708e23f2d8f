"""Caches in nested blocks have the size of the tile that one iteration of the block uses."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.script import tir as T
from mlcnb.tir import Schedule
from tests.tir.schedule.programs import becomes, text


@T.prim_func
def tiles(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    C = T.alloc_buffer((16, 16))
    for i, j in T.grid(4, 4):
        with T.block("scope"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            for x, y in T.grid(4, 4):
                with T.block("C"):
                    v_x = T.axis.spatial(16, v_i * 4 + x)
                    v_y = T.axis.spatial(16, v_j * 4 + y)
                    C[v_x, v_y] = A[v_x, v_y] * T.float32(2)
            for x, y in T.grid(4, 4):
                with T.block("D"):
                    v_x = T.axis.spatial(16, v_i * 4 + x)
                    v_y = T.axis.spatial(16, v_j * 4 + y)
                    D[v_x, v_y] = C[v_x, v_y] + T.float32(1)


def test_cache_read():
    sch = Schedule(tiles)
    sch.cache_read("D", 0, "local")
    becomes(
        sch,
        """
        C = T.alloc_buffer((16, 16))
        for i, j in T.grid(4, 4):
            with T.block("scope"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C_local = T.alloc_buffer((4, 4), scope="local")
                for x, y in T.grid(4, 4):
                    with T.block("C"):
                        v_x = T.axis.spatial(16, v_i * 4 + x)
                        v_y = T.axis.spatial(16, v_j * 4 + y)
                        C[v_x, v_y] = A[v_x, v_y] * T.float32(2.0)
                for ax0, ax1 in T.grid(4, 4):
                    with T.block("C_local"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        C_local[v0, v1] = C[v_i * 4 + v0, v_j * 4 + v1]
                for x, y in T.grid(4, 4):
                    with T.block("D"):
                        v_x = T.axis.spatial(16, v_i * 4 + x)
                        v_y = T.axis.spatial(16, v_j * 4 + y)
                        D[v_x, v_y] = C_local[v_x - v_i * 4, v_y - v_j * 4] + T.float32(1.0)
        """,
    )


def test_cache_write_of_a_block_inside_and_of_the_block():
    sch = Schedule(tiles)
    sch.cache_write("D", 0, "local")
    assert 'D_local = T.alloc_buffer((4, 4), scope="local")' in text(sch)
    assert "D[v_i * 4 + v0, v_j * 4 + v1] = D_local[v0, v1]" in text(sch)
    sch.cache_write("scope", 0, "global")
    becomes(sch, text(sch))
    assert "C_global = T.alloc_buffer((16, 16))" in text(sch)


def test_a_symbolic_number_of_tiles():
    @T.prim_func
    def main(a: T.handle, c: T.handle, n: T.int32):
        A = T.match_buffer(a, ((n + 3) // 4 * 4,))
        C = T.match_buffer(c, ((n + 3) // 4 * 4,))
        for i in range((n + 3) // 4):
            with T.block("scope"):
                v_i = T.axis.spatial((n + 3) // 4, i)
                T.reads(A[v_i * 4 : v_i * 4 + 4])
                T.writes(C[v_i * 4 : v_i * 4 + 4])
                for x in range(4):
                    with T.block("C"):
                        v_x = T.axis.spatial(4, x)
                        T.reads(A[v_i * 4 + v_x])
                        T.writes(C[v_i * 4 + v_x])
                        C[v_i * 4 + v_x] = A[v_i * 4 + v_x] + T.float32(1)

    sch = Schedule(main)
    sch.cache_read("C", 0, "shared")
    sch.cache_write("C", 0, "local")
    found = text(sch)
    assert 'A_shared = T.alloc_buffer((4,), scope="shared")' in found
    assert 'C_local = T.alloc_buffer((4,), scope="local")' in found
    assert "C_local[v_x] = A_shared[v_x] + T.float32(1.0)" in found
    assert "T.where" not in found


@pytest.mark.parametrize("use", ["read", "write"])
def test_what_is_no_full_tile_keeps_the_size_of_the_buffer(use):
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in range(4):
            with T.block("scope"):
                v_i = T.axis.spatial(4, i)
                T.reads(A[0:16])
                T.writes(C[v_i * 4 : v_i * 4 + 4])
                for x, k in T.grid(4, 16):
                    with T.block("C"):
                        v_x = T.axis.spatial(16, v_i * 4 + x)
                        v_k = T.axis.reduce(16, k)
                        with T.init():
                            C[v_x] = T.float32(0)
                        C[v_x] = C[v_x] + A[v_k]

    sch = Schedule(main)
    if use == "read":
        sch.cache_read("C", 0, "local")
        assert 'A_local = T.alloc_buffer((16,), scope="local")' in text(sch)
    else:
        sch.cache_write("C", 0, "local")
        assert 'C_local = T.alloc_buffer((4,), scope="local")' in text(sch)
    becomes(sch, text(sch))


def test_cache_write_with_all_consumers_copies_at_the_end():
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.float32(2)
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v] + T.float32(1)

    sch = Schedule(main)
    sch.cache_write("B", 0, "local", consumer_blocks=["C"])
    becomes(
        sch,
        """
        B = T.alloc_buffer((8,))
        B_local = T.alloc_buffer((8,), scope="local")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B_local[v] = A[v] * T.float32(2.0)
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B_local[v] + T.float32(1.0)
        for ax0 in range(8):
            with T.block("B_local"):
                v0 = T.axis.spatial(8, ax0)
                B[v0] = B_local[v0]
        """,
    )


@T.prim_func
def padded(A: T.Buffer((6,), "float32"), P: T.Buffer((9,), "float32")):
    with T.block("P_o"):
        vo = T.axis.spatial(1, 0)
        for i in range(9):
            with T.block("P"):
                v = T.axis.spatial(9, i)
                P[v] = T.if_then_else(2 <= v and v < 8, A[v - 2], T.float32(0))


def test_a_tile_that_reaches_outside_of_the_buffer_is_no_tile():
    """The tile was copied as it is, A[-2] and A[6] with it."""
    sch = Schedule(padded)
    sch.cache_read("P", 0, "shared")
    a, p = np.arange(1, 7, dtype="float32"), np.zeros(9, "float32")
    for target in ("interp", "llvm"):
        mlc.compile(sch.mod["main"], target=target)(a, p)
        np.testing.assert_array_equal(p, np.pad(a, (2, 1)))


@T.prim_func
def partitioned(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    for i in range(3):
        with T.block("part"):
            T.reads(A[i * 4 : i * 4 + 4])
            T.writes(C[i * 4 : i * 4 + 4])
            for j in range(4):
                with T.block("C"):
                    v = T.axis.spatial(12, i * 4 + j)
                    C[v] = A[v] * T.float32(2)


@pytest.mark.parametrize("write", [True, False])
def test_a_block_without_axes_has_no_tile_of_its_own(write):
    """Where its tile begins only a loop says, which blocks inside may not speak of: a later split
    of the loop left them with a variable that nobody defines."""
    sch = Schedule(partitioned)
    sch.cache_write("C", 0, "local") if write else sch.cache_read("C", 0, "local")
    sch.split(sch.get_loops("part")[0], [2, 2])
    assert "T.int32()" not in text(sch) and "alloc_buffer((12,), scope=" in text(sch)
    x, y = np.arange(12, dtype="f4"), np.zeros(12, "f4")
    mlc.compile(sch.mod, target="interp")(x, y)
    np.testing.assert_array_equal(y, 2 * x)
