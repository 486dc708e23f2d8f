"""The schedules that GPU courses and tutorials teach, each as its readers type it.

COURSES["matmul_fused_threads"]()     a Program: function, schedule, inputs, expected result

Tiles of the inputs are fetched into shared memory by all threads of a block together: the loops of
a copy are fused, split by the threads and bound to the axes that the loops around it have already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb import te, tir
from mlcnb.tir import Schedule
from tests.codegen.gpu_programs import Program, matmul_func, random, same_each_time

#: grid, virtual threads, threads: what loops i and j are bound to
GRID = ("blockIdx.y", "blockIdx.x")
VIRTUAL = ("vthread.y", "vthread.x")
THREADS = ("threadIdx.y", "threadIdx.x")


def bind_all(sch: Schedule, loops: list[Any], axes: tuple[str, ...]) -> None:
    """Bind each loop to its axis."""
    for loop, axis in zip(loops, axes, strict=True):
        sch.bind(loop, axis)


def fetch(sch: Schedule, copy: Any, threads: list[int], lanes: int = 4) -> None:
    """The two inner loops of a copy, shared out among the threads of a block."""
    whole = sch.fuse(*sch.get_loops(copy)[-2:])
    _, *shared, vector = sch.split(whole, [None, *threads, lanes])
    sch.vectorize(vector)
    bind_all(sch, shared, THREADS[-len(threads) :])


def blocking(
    shape: tuple[int, int, int],
    threads: tuple[int, int],
    tile: tuple[int, int],
    step: int,
    fused: bool = True,
    lanes: int = 4,
) -> Program:
    """Blocks of threads x tile elements, inputs through shared memory in steps along k."""
    n, m, k = shape
    func = matmul_func(n, m, k)
    sch = tir.Schedule(func)
    C = sch.get_block("C")
    local = sch.cache_write(C, 0, "local")
    i, j, r = sch.get_loops(C)
    i0, i1, i2 = sch.split(i, [None, threads[0], tile[0]])
    j0, j1, j2 = sch.split(j, [None, threads[1], tile[1]])
    k0, k1 = sch.split(r, [None, step])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(local, j1)
    bind_all(sch, [i0, j0], GRID)
    if fused:
        sch.bind(sch.fuse(i1, j1), "threadIdx.x")
    else:
        bind_all(sch, [i1, j1], THREADS)
    for index in (0, 1):
        copy = sch.cache_read(C, index, "shared")
        sch.compute_at(copy, k0)
        fetch(sch, copy, [threads[0] * threads[1]] if fused else list(threads), lanes)
    sch.decompose_reduction(C, k0)
    a, b = random(n, k), random(k, m)
    return Program(func, sch, (a, b), a @ b)


def matmul_fused_threads() -> Program:
    """Rows and columns of threads are one loop."""
    return blocking((16, 16, 8), (2, 2), (4, 4), 8)


def matmul_two_axes() -> Program:
    """Threads along y and x."""
    return blocking((16, 16, 8), (2, 2), (4, 4), 4, fused=False)


def matmul_of_any_size() -> Program:
    """Nothing divides: the last tiles are cut."""
    return blocking((15, 13, 7), (2, 2), (4, 4), 4)


def matmul_few_threads() -> Program:
    """The threads do not divide the tile that they fetch: the last round is cut."""
    return blocking((12, 12, 6), (3, 2), (2, 2), 3)


def matmul_many_threads() -> Program:
    """There are more threads than elements to fetch."""
    return blocking((16, 16, 8), (4, 4), (2, 2), 4, lanes=2)


def matmul_bound_first() -> Program:
    """The threads are bound first, and the memory comes after."""
    func = matmul_func(16, 16, 8)
    sch = tir.Schedule(func)
    C = sch.get_block("C")
    i, j, r = sch.get_loops(C)
    i0, i1, i2 = sch.split(i, [None, 2, 4])
    j0, j1, j2 = sch.split(j, [None, 2, 4])
    k0, k1 = sch.split(r, [None, 4])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    bind_all(sch, [i0, j0, i1, j1], (*GRID, *THREADS))
    sch.reverse_compute_at(sch.cache_write(C, 0, "local"), j1)
    sch.decompose_reduction(C, k0)
    for name in "AB":
        copy = sch.cache_read(C, name, "shared")
        sch.compute_at(copy, k0)
        fetch(sch, copy, [2, 2])
    a, b = random(16, 8), random(8, 16)
    return Program(func, sch, (a, b), a @ b)


def matmul_in_registers(virtual: int = 2) -> Program:
    """Shared memory, then registers; virtual threads; copies are made first and placed later."""
    func = matmul_func(16, 16, 8)
    sch = tir.Schedule(func)
    C = sch.get_block("C")
    shared = [sch.cache_read(C, n, "shared") for n in (0, 1)]
    registers = [sch.cache_read(C, n, "local") for n in (0, 1)]
    local = sch.cache_write(C, 0, "local")
    i, j, r = sch.get_loops(C)
    i0, iv, i1, i2 = sch.split(i, [None, virtual, 2, 2])
    j0, jv, j1, j2 = sch.split(j, [None, virtual, 2, 2])
    k0, k1 = sch.split(r, [None, 4])
    sch.reorder(i0, j0, iv, jv, i1, j1, k0, k1, i2, j2)
    bind_all(sch, [i0, j0, iv, jv, i1, j1], (*GRID, *VIRTUAL, *THREADS))
    sch.reverse_compute_at(local, j1)
    for copy in registers:
        sch.compute_at(copy, k1)
    for copy in shared:
        sch.compute_at(copy, k0)
        fetch(sch, copy, [2, 2], 2)
    sch.decompose_reduction(C, k0)
    a, b = random(16, 8), random(8, 16)
    return Program(func, sch, (a, b), a @ b)


def matmul_double_buffer() -> Program:
    """The next tiles are fetched while these are used."""
    made = blocking((16, 16, 16), (2, 2), (4, 4), 4)
    for name in ("A_shared", "B_shared"):
        made.schedule.annotate(made.schedule.get_block(name), "double_buffer_scope", 0)
    return made


def matmul_pipeline() -> Program:
    """Both fetches are a stage before the product."""
    made = blocking((16, 16, 16), (2, 2), (4, 4), 4)
    sch = made.schedule
    step = sch.get_loops("C_update")[-4]
    sch.annotate(step, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(step, "software_pipeline_order", [0, 1, 2])
    return made


def conv2d(virtual: int = 1) -> Program:
    """A convolution in layout HWCN: padding inlined, both inputs through shared memory."""
    size, channels, batch = 3, (4, 4), 4
    A = te.placeholder((size, size, channels[0], batch), name="A")
    W = te.placeholder((3, 3, *channels), name="W")

    def pad(y: Any, x: Any, c: Any, n: Any) -> Any:
        inside = tir.all(y >= 1, y < size + 1, x >= 1, x < size + 1)
        return tir.if_then_else(inside, A[y - 1, x - 1, c, n], 0.0)

    P = te.compute((size + 2, size + 2, channels[0], batch), pad, name="P")
    rc = te.reduce_axis((0, channels[0]), name="rc")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    B = te.compute(
        (size, size, channels[1], batch),
        lambda y, x, f, n: te.sum(P[y + ry, x + rx, rc, n] * W[ry, rx, rc, f], axis=[ry, rx, rc]),
        name="B",
    )
    func = te.create_prim_func([A, W, B])
    sch = tir.Schedule(func)
    sch.compute_inline("P")
    block = sch.get_block("B")
    shared = [sch.cache_read(block, n, "shared") for n in (0, 1)]
    registers = [sch.cache_read(block, n, "local") for n in (0, 1)]
    local = sch.cache_write(block, 0, "local")
    y, x, f, n, ly, lx, lc = sch.get_loops(block)
    pixel = sch.fuse(y, x)
    f0, fv, f1, f2 = sch.split(f, [None, virtual, 2, 2 // virtual])
    n0, nv, n1, n2 = sch.split(n, [None, virtual, 2, 2 // virtual])
    c0, c1 = sch.split(lc, [None, 2])
    sch.reorder(pixel, f0, n0, fv, nv, f1, n1, c0, ly, lx, c1, f2, n2)
    bind_all(sch, [pixel, f0, n0], ("blockIdx.z", *GRID))
    bind_all(sch, [fv, nv, f1, n1], (*VIRTUAL, *THREADS))
    sch.reverse_compute_at(local, n1)
    for copy in registers:
        sch.compute_at(copy, c1)
    for copy in shared:
        sch.compute_at(copy, lx)
        fetch(sch, copy, [2, 2], 2)
    sch.decompose_reduction(block, c0)
    a, w = random(size, size, channels[0], batch), random(3, 3, *channels)
    padded = np.pad(a, ((1, 1), (1, 1), (0, 0), (0, 0)))
    expected = sum(
        np.einsum("yxcn,cf->yxfn", padded[y : y + size, x : x + size], w[y, x])
        for y in range(3)
        for x in range(3)
    )
    return Program(func, sch, (a, w), expected)


def conv2d_virtual() -> Program:
    """The same with virtual threads."""
    return conv2d(virtual=2)


def transpose_in_rows() -> Program:
    """Square tiles by fewer rows of threads, padded against bank conflicts; nothing divides."""
    n, m, tile, rows = 15, 10, 8, 2
    A = te.placeholder((n, m), name="A")
    B = te.compute((m, n), lambda i, j: A[j, i], name="B")
    func = te.create_prim_func([A, B])
    sch = tir.Schedule(func)
    i, j = sch.get_loops("B")
    i0, i1, i2 = sch.split(i, [None, tile // rows, rows])
    j0, j1 = sch.split(j, [None, tile])
    sch.reorder(i0, j0, i1, i2, j1)
    bind_all(sch, [i0, j0, i2, j1], (*GRID, *THREADS))
    copy = sch.cache_read("B", 0, "shared")
    sch.compute_at(copy, j0)
    y, x = sch.get_loops(copy)[-2:]
    _, y1 = sch.split(y, [None, rows])
    bind_all(sch, [y1, x], THREADS)
    sch.storage_align(copy, 0, 0, 32, 1)
    a = random(n, m)
    return Program(func, sch, (a,), a.T.copy())


def row_sum_rfactor() -> Program:
    """Each thread sums a part of the row, then all parts are summed."""
    A, k = te.placeholder((6, 64), name="A"), te.reduce_axis((0, 64), name="k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    func = te.create_prim_func([A, B])
    sch = tir.Schedule(func)
    _, k1 = sch.split(sch.get_loops("B")[1], [None, 8])
    part = sch.rfactor(k1, 0)
    row, across = sch.get_loops("B")
    sch.bind(row, "blockIdx.x")
    sch.compute_at(part, row)
    sch.set_scope(part, 0, "local")
    sch.bind(across, "threadIdx.x")
    sch.bind(sch.get_loops(part)[1], "threadIdx.x")
    a = random(6, 64)
    return Program(func, sch, (a,), a.sum(1))


def softmax_in_shared() -> Program:
    """A row for each block: maximum and sum across its threads; the exponentials computed twice."""
    n, m = 4, 16
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    M = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    E = te.compute((n, m), lambda i, j: tir.exp(A[i, j] - M[i]), name="E")
    S = te.compute((n,), lambda i: te.sum(E[i, r], axis=r), name="S")
    D = te.compute((n, m), lambda i, j: E[i, j] / S[i], name="D")
    func = te.create_prim_func([A, D])
    sch = tir.Schedule(func)
    sch.compute_inline("E")
    row, _ = sch.get_loops("D")
    sch.bind(row, "blockIdx.x")
    for name in ("S", "M"):
        sch.compute_at(name, row)
        sch.set_scope(name, 0, "shared")
    for name in ("M", "S", "D"):
        _, inner = sch.split(sch.get_loops(name)[-1], [None, 8])
        sch.bind(inner, "threadIdx.x")
    a = random(n, m)
    e = np.exp(a - a.max(1, keepdims=True))
    return Program(func, sch, (a,), e / e.sum(1, keepdims=True))


#: by name
COURSES: dict[str, Callable[[], Program]] = {
    f.__name__: same_each_time(f)
    for f in (
        matmul_fused_threads, matmul_two_axes, matmul_of_any_size, matmul_few_threads,
        matmul_many_threads, matmul_bound_first, matmul_in_registers, matmul_double_buffer,
        matmul_pipeline, conv2d, conv2d_virtual, transpose_in_rows, row_sum_rfactor,
        softmax_in_shared,
    )
}  # fmt: skip
