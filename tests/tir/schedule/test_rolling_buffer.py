"""rolling_buffer: whole programs, one and two dimensions, refusals."""

from __future__ import annotations

import numpy as np

import mlcnb as mlc
from mlcnb import te
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.plan_buffer_allocation import PlanAndUpdateBufferAllocationLocation
from tests.tir.schedule.programs import (
    becomes,
    elementwise,
    numbers,
    only,
    refuses,
    replays,
    same_numbers,
    stencil,
)


def pools(n: int = 8, stride: int = 1, channels: int = 2):
    """Largest of 3 x 3 windows, twice."""
    wide = (n - 1) * stride + 3
    A = te.placeholder((channels, wide + 2, wide + 2), name="A")

    def pool(source, step, name, size):
        y, x = te.reduce_axis((0, 3), name="y"), te.reduce_axis((0, 3), name="x")
        value = lambda c, i, j: te.max(source[c, i * step + y, j * step + x], axis=[y, x])
        return te.compute((channels, size, size), value, name=name)

    B = pool(A, 1, "B", wide)
    return te.create_prim_func([A, pool(B, stride, "C", n)])


def upsampled(n: int = 6):
    """B, doubled, and sums of three neighbours of that."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    value = lambda i: B[i // 2] + B[i // 2 + 1] + B[i // 2 + 2]
    return te.create_prim_func([A, te.compute((2 * (n - 2),), value, name="C")])


@T.prim_func
def diagonal(A: T.Buffer((10, 10), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((10, 10))
    for i in range(8):
        for y, x in T.grid(3, 3):
            with T.block("B"):
                v = T.axis.spatial(10, i + y)
                w = T.axis.spatial(10, i + x)
                B[v, w] = A[v, w] * T.float32(2)
        for y, x in T.grid(3, 3):
            with T.block("C"):
                v, a, b = T.axis.remap("SRR", [i, y, x])
                with T.init():
                    C[v] = T.float32(0)
                C[v] = C[v] + B[v + a, v + b]


def tiled(sch: Schedule, *sizes: int) -> list:
    """The outer loops of C in tiles, with B computed in the innermost."""
    loops = sch.get_loops("C")[: len(sizes)]
    outer, inner = [], []
    for loop, size in zip(loops, sizes, strict=True):
        a, b = sch.split(loop, [None, size])
        outer.append(a)
        inner.append(b)
    sch.reorder(*outer, *inner)
    sch.compute_at("B", outer[-1])
    return outer


def test_stencil():
    sch = Schedule(stencil(14))
    tiled(sch, 4)
    sch.rolling_buffer("B", 0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((6,))
        for i_0 in range(3):
            for ax0 in range(6):
                with T.block("B"):
                    v_i = T.axis.opaque(14, i_0 * 4 + ax0)
                    T.where(i_0 < 1 or 2 <= ax0)
                    B[v_i % 6] = A[v_i] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(12, i_0 * 4 + i_1)
                    T.reads(B[0:6])
                    C[v_i] = B[v_i % 6] + B[(v_i + 1) % 6] + B[(v_i + 2) % 6]
        """,
    )


def test_tiles_that_do_not_divide():
    sch = Schedule(stencil(13))
    tiled(sch, 4)
    sch.rolling_buffer("B", 0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((6,))
        for i_0 in range(3):
            for ax0 in range(6):
                with T.block("B"):
                    v_i = T.axis.opaque(13, i_0 * 4 + ax0)
                    T.where(i_0 * 4 + ax0 < 13 and (i_0 < 1 or 2 <= ax0))
                    B[v_i % 6] = A[v_i] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(11, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 11)
                    T.reads(B[0:6])
                    C[v_i] = B[v_i % 6] + B[(v_i + 1) % 6] + B[(v_i + 2) % 6]
        """,
    )


def test_rows_of_pools():
    sch = Schedule(pools(4, channels=1))
    tiled(sch, 1, 2, 4)
    sch.rolling_buffer("B", 0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((1, 4, 6))
        for c_0, i_0, j_0 in T.grid(1, 2, 1):
            for ax0, ax1, ax2, ax3 in T.grid(4, 6, 3, 3):
                with T.block("B"):
                    v_c = T.axis.spatial(1, 0)
                    v_i = T.axis.opaque(6, i_0 * 2 + ax0)
                    v_j, v_y, v_x = T.axis.remap("SRR", [ax1, ax2, ax3])
                    T.where(i_0 < 1 or 2 <= ax0)
                    with T.init():
                        B[v_c, v_i % 4, v_j] = T.float32("-inf")
                    B[v_c, v_i % 4, v_j] = T.max(B[v_c, v_i % 4, v_j], A[v_c, v_i + v_y, v_j + v_x])
            for c_1, i_1, j_1, y, x in T.grid(1, 2, 4, 3, 3):
                with T.block("C"):
                    v_c = T.axis.spatial(1, c_0 + c_1)
                    v_i = T.axis.opaque(4, i_0 * 2 + i_1)
                    v_j = T.axis.spatial(4, j_0 * 4 + j_1)
                    v_y, v_x = T.axis.remap("RR", [y, x])
                    with T.init():
                        C[v_c, v_i, v_j] = T.float32("-inf")
                    C[v_c, v_i, v_j] = T.max(C[v_c, v_i, v_j], B[v_c, (v_i + v_y) % 4, v_j + v_x])
        """,
    )


def test_two_dimensions_overlap_and_one_is_rolled():
    sch = Schedule(pools(4))
    tiled(sch, 1, 2, 2)
    sch.rolling_buffer("B", 0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((2, 4, 6))
        for c_0, i_0, j_0 in T.grid(2, 2, 2):
            for ax0, ax1, ax2, ax3 in T.grid(4, 4, 3, 3):
                with T.block("B"):
                    v_c = T.axis.spatial(2, c_0)
                    v_i = T.axis.opaque(6, i_0 * 2 + ax0)
                    v_j = T.axis.spatial(6, j_0 * 2 + ax1)
                    v_y, v_x = T.axis.remap("RR", [ax2, ax3])
                    T.where((i_0 < 1 or 2 <= ax0) and (j_0 < 1 or 2 <= ax1))
                    with T.init():
                        B[v_c, v_i % 4, v_j] = T.float32("-inf")
                    B[v_c, v_i % 4, v_j] = T.max(B[v_c, v_i % 4, v_j], A[v_c, v_i + v_y, v_j + v_x])
            for c_1, i_1, j_1, y, x in T.grid(1, 2, 2, 3, 3):
                with T.block("C"):
                    v_c = T.axis.spatial(2, c_0 + c_1)
                    v_i = T.axis.opaque(4, i_0 * 2 + i_1)
                    v_j = T.axis.spatial(4, j_0 * 2 + j_1)
                    v_y, v_x = T.axis.remap("RR", [y, x])
                    with T.init():
                        C[v_c, v_i, v_j] = T.float32("-inf")
                    C[v_c, v_i, v_j] = T.max(C[v_c, v_i, v_j], B[v_c, (v_i + v_y) % 4, v_j + v_x])
        """,
    )


def test_many_shapes():
    for n, sizes, stride in (
        (6, (2, 6, 3), 1),
        (5, (1, 2, 2), 1),
        (5, (2, 3, 2), 2),
        (4, (1, 1, 1), 1),
        (4, (2, 4, 1), 2),
    ):
        sch = Schedule(pools(n, stride))
        tiled(sch, *sizes)
        sch.rolling_buffer("B", 0)
        same_numbers(only(sch.steps[0].mod), only(sch.mod))
        replays(sch)


def test_half_a_step():
    sch = Schedule(upsampled())
    tiled(sch, 1)
    sch.rolling_buffer("B", 0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((3,))
        for i_0 in range(8):
            for ax0 in range(3):
                with T.block("B"):
                    v_i = T.axis.opaque(6, i_0 // 2 + ax0)
                    T.where(i_0 < 1 or 2 <= ax0)
                    B[v_i % 3] = A[v_i] * T.float32(2.0)
            for i_1 in range(1):
                with T.block("C"):
                    v_i = T.axis.spatial(8, i_0 + i_1)
                    T.reads(B[0:3])
                    C[v_i] = B[v_i // 2 % 3] + B[(v_i // 2 + 1) % 3] + B[(v_i // 2 + 2) % 3]
        """,
    )


def test_other_loops_around_the_tiles():
    sch = Schedule(pools(4, channels=2))
    outer = tiled(sch, 1, 2, 2)
    sch.rolling_buffer("B", 0)
    sch.unroll(outer[1])
    same_numbers(only(sch.steps[0].mod), only(sch.mod))


def test_the_loop_stays_serial():
    sch = Schedule(stencil(14))
    (outer,) = tiled(sch, 4)
    sch.rolling_buffer("B", 0)
    with refuses(
        sch,
        "parallel: loop i_0 is not parallel: it runs over the reduce axis v_i of block "
        "B: its iterations update the same elements of B",
        hint="rfactor the loop first, or choose a spatial loop",
    ):
        sch.parallel(outer)
    B, C = sch.get_block("B"), sch.get_block("C")
    with refuses(
        sch, "compute_inline: block B is not elementwise: its axis v_i is opaque, not spatial"
    ):
        sch.compute_inline(B)
    with refuses(
        sch,
        "rolling_buffer: block B is neither complete nor a reduction block: its axis v_i "
        "is opaque, not spatial",
    ):
        sch.rolling_buffer(B, 0)
    sch.vectorize(sch.get_loops(C)[1])
    same_numbers(only(sch.steps[0].mod), only(sch.mod))


def test_refuses_without_a_shared_loop():
    sch = Schedule(stencil(14))
    B, C = sch.get_block("B"), sch.get_block("C")
    with refuses(
        sch,
        "rolling_buffer: no loop holds block B and block C, which read B",
        hint=("compute_at block B under a loop of its consumer first"),
    ):
        sch.rolling_buffer(B, 0)
    with refuses(sch, "rolling_buffer: block C writes C, an output of block root"):
        sch.rolling_buffer(C, 0)
    with refuses(
        sch, "rolling_buffer: block B has no buffer 1 among its writes", hint=("it writes B")
    ):
        sch.rolling_buffer(B, 1)


def test_refuses_tiles_that_do_not_overlap():
    sch = Schedule(elementwise(16))
    tiled(sch, 4)
    B = sch.get_block("B")
    with refuses(
        sch,
        "rolling_buffer: the parts of B that block B writes in the iterations of loop "
        "i_0 and the loops around it do not overlap",
    ):
        sch.rolling_buffer(B, 0)


def test_refuses_a_parallel_loop():
    sch = Schedule(stencil(14))
    (outer,) = tiled(sch, 4)
    sch.bind(outer, "blockIdx.x")
    B = sch.get_block("B")
    with refuses(
        sch,
        "rolling_buffer: loop i_0 is no serial loop from 0: tiles must come one after the other",
    ):
        sch.rolling_buffer(B, 0)


def test_refuses_a_diagonal():
    sch = Schedule(diagonal)
    B = sch.get_block("B")
    with refuses(sch, "rolling_buffer: tiles of B move in two dimensions at once with loop i"):
        sch.rolling_buffer(B, 0)


def test_refuses_tiles_of_tiles():
    sch = Schedule(stencil(14))
    i, _ = sch.split(sch.get_loops("C")[0], [None, 2])
    _, i_1 = sch.split(i, [2, 3])
    sch.compute_at("B", i_1)
    B = sch.get_block("B")
    with refuses(
        sch,
        "rolling_buffer: dimension 0 of what block B writes is no tile of fixed size "
        "that moves with one loop",
    ):
        sch.rolling_buffer(B, 0)


def test_the_buffer_lives_as_long_as_the_tiles():
    sch = Schedule(stencil(14))
    tiled(sch, 4)
    sch.rolling_buffer("B", 0)
    planned = PlanAndUpdateBufferAllocationLocation()(sch.mod)
    lines = repr(only(planned)).splitlines()
    allocated = next(n for n, line in enumerate(lines) if "alloc_buffer" in line)
    assert lines[allocated].strip() == "B = T.alloc_buffer((6,))"
    assert lines[allocated + 1].strip() == "for i_0 in range(3):"


def test_compiled():
    for func, sizes in ((stencil(13), (4,)), (pools(5, 2), (2, 3, 2)), (upsampled(), (1,))):
        sch = Schedule(func)
        tiled(sch, *sizes)
        sch.rolling_buffer("B", 0)
        *inputs, expected = numbers(only(sch.steps[0].mod))
        found = np.zeros_like(expected)
        mlc.compile(only(sch.mod), target="llvm")(*inputs, found)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
