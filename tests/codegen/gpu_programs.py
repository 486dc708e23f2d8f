"""Programs for a GPU, made with public primitives, and what NumPy says that they compute.

PROGRAMS["matmul_tiled"]()    (function as written, schedule, arguments in, expected result)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from mlcnb import te, tir
from mlcnb.script import parse
from mlcnb.tir import PrimFunc

RNG = np.random.default_rng(0)
_FRESH = RNG.bit_generator.state


@dataclass(frozen=True)
class Program:
    """A scheduled function, its inputs, and the result that NumPy computes."""

    before: PrimFunc
    schedule: Any
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray

    @property
    def func(self) -> PrimFunc:
        """The scheduled function."""
        return self.schedule.mod["main"]

    def arguments(self) -> list[np.ndarray]:
        """The inputs, and an output that nobody has written."""
        out = np.full(self.expected.shape, 77, self.expected.dtype)
        return [*(x.copy() for x in self.inputs), out]


def same_each_time(make: Callable[..., Program]) -> Callable[..., Program]:
    """The program with the same numbers, whichever tests ran before."""

    @wraps(make)
    def made(*args: Any, **options: Any) -> Program:
        RNG.bit_generator.state = _FRESH
        return make(*args, **options)

    return made


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Random numbers of mean 0."""
    return RNG.standard_normal(shape).astype(dtype)


def vector_add(n: int = 50, threads: int = 16) -> Program:
    """C = A + B, with a predicate in the last block."""
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    func = te.create_prim_func([A, B, C])
    sch = tir.Schedule(func)
    i0, i1 = sch.split(sch.get_loops("C")[0], [None, threads])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    a, b = random(n), random(n)
    return Program(func, sch, (a, b), a + b)


def matmul_func(n: int, m: int, k: int) -> PrimFunc:
    """C = A @ B"""
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_prim_func([A, B, C])


def matmul_naive(n: int = 8, m: int = 12, k: int = 10) -> Program:
    """One element for each thread."""
    func = matmul_func(n, m, k)
    sch = tir.Schedule(func)
    i, j, _ = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1)
    for loop, axis in zip((i0, j0, i1, j1), AXES, strict=True):
        sch.bind(loop, axis)
    a, b = random(n, k), random(k, m)
    return Program(func, sch, (a, b), a @ b)


AXES = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")


def matmul_tiled(n: int = 16, m: int = 16, k: int = 16, vthread: bool = False) -> Program:
    """Tiles of 8 x 8 by 4 x 4 threads; both inputs are fetched together into shared memory."""
    func = matmul_func(n, m, k)
    sch = tir.Schedule(func)
    C = sch.get_block("C")
    local = sch.cache_write(C, 0, "local")
    i, j, r = sch.get_loops(C)
    i0, iv, i1, i2 = sch.split(i, [None, 2 if vthread else 1, 4, 1 if vthread else 2])
    j0, jv, j1, j2 = sch.split(j, [None, 2 if vthread else 1, 4, 1 if vthread else 2])
    r0, r1 = sch.split(r, [None, 8])
    sch.reorder(i0, j0, iv, jv, i1, j1, r0, r1, i2, j2)
    for loop, axis in zip((i0, j0, i1, j1), AXES, strict=True):
        sch.bind(loop, axis)
    if vthread:
        sch.bind(iv, "vthread.y")
        sch.bind(jv, "vthread.x")
    sch.reverse_compute_at(local, j1)
    for index in (0, 1):
        fetch = sch.cache_read(C, index, "shared")
        sch.compute_at(fetch, r0)
        whole = sch.fuse(*sch.get_loops(fetch)[-2:])
        _, ty, tx, lanes = sch.split(whole, [None, 4, 4, 2])
        sch.bind(ty, "threadIdx.y")
        sch.bind(tx, "threadIdx.x")
        sch.vectorize(lanes)
    sch.decompose_reduction(C, r0)
    a, b = random(n, k), random(k, m)
    return Program(func, sch, (a, b), a @ b)


def matmul_virtual() -> Program:
    """The same with virtual threads."""
    return matmul_tiled(vthread=True)


def matmul_double_buffered() -> Program:
    """The next tiles are fetched while these are used: one barrier for each step."""
    made = matmul_tiled(k=32)
    for fetch in ("A_shared", "B_shared"):
        made.schedule.annotate(made.schedule.get_block(fetch), "double_buffer_scope", 0)
    return made


def pipelined(made: Program, ahead: int) -> Program:
    """A product in tiles whose operands are fetched asynchronously, so many steps ahead."""
    sch = made.schedule
    loop = sch.get_loops(sch.get_block("C_update"))[6]
    sch.annotate(loop, "software_pipeline_stage", [0, 0, ahead])
    sch.annotate(loop, "software_pipeline_order", [0, 1, 2])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    return made


def matmul_async() -> Program:
    """Tiles are fetched by `cp.async`, two steps ahead."""
    return pipelined(matmul_tiled(k=48), 2)


def matmul_padded() -> Program:
    """Rows in shared memory are one element longer, so that columns lie in different banks."""
    made = matmul_tiled()
    for fetch in ("A_shared", "B_shared"):
        made.schedule.storage_align(fetch, 0, 0, 8, 1)
    return made


ATOMICS = """
@T.prim_func
def main(A: T.Buffer((256,), "float32"), B: T.Buffer((8,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("B"):
                b, t = T.axis.remap("SS", [bx, tx])
                T.reads(A[b * 64 + t], B[0:8])
                T.writes(B[0:8])
                T.evaluate(T.call_intrin(
                    "float32", "tir.atomic_add", T.address_of(B[t % 8]), A[b * 64 + t]))
"""


def sums_by_atomics() -> Program:
    """B[n] goes up by every eighth number of A, by threads of several blocks: each atomically."""
    func = parse(ATOMICS)
    a = RNG.integers(-9, 9, 256).astype("float32")
    return Program(func, tir.Schedule(func), (a,), a.reshape(32, 8).sum(0) + 77)


def row_sum(n: int = 6, m: int = 40, threads: int = 8, axis: str = "threadIdx.x") -> Program:
    """B[i] = sum of A[i, :], each row by the threads of a block."""
    A, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    func = te.create_prim_func([A, B])
    sch = tir.Schedule(func)
    i, r = sch.get_loops("B")
    _, r1 = sch.split(r, [None, threads])
    sch.bind(i, "blockIdx.x")
    sch.bind(r1, axis)
    a = random(n, m)
    return Program(func, sch, (a,), a.sum(1))


def row_sum_in_memory() -> Program:
    """Threads that are no power of two combine in shared memory; the row ends within a step."""
    return row_sum(5, 32, 12)


def row_sum_of_warps() -> Program:
    """Two warps for a row: each by shuffles, their parts through shared memory."""
    return row_sum(3, 128, 64)


def softmax_func(n: int, m: int) -> PrimFunc:
    """Rows of exp(A - max) divided by their sums."""
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    M = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    E = te.compute((n, m), lambda i, j: tir.exp(A[i, j] - M[i]), name="E")
    S = te.compute((n,), lambda i: te.sum(E[i, r], axis=r), name="S")
    D = te.compute((n, m), lambda i, j: E[i, j] / S[i], name="D")
    return te.create_prim_func([A, D])


def softmax(n: int = 4, m: int = 16, threads: int = 8) -> Program:
    """A row for each block: two reductions over its threads, what they share in shared memory."""
    func = softmax_func(n, m)
    sch = tir.Schedule(func)
    i, j = sch.get_loops("D")
    sch.bind(i, "blockIdx.x")
    for name in ("S", "E", "M"):
        sch.set_scope(name, 0, "shared")
        sch.compute_at(name, i)
    for name in ("M", "E", "S", "D"):
        _, inner = sch.split(sch.get_loops(name)[-1], [None, threads])
        sch.bind(inner, "threadIdx.x")
    a = random(n, m)
    e = np.exp(a - a.max(1, keepdims=True))
    return Program(func, sch, (a,), e / e.sum(1, keepdims=True))


def transpose(n: int = 16, tile: int = 4) -> Program:
    """B = A.T, each tile through shared memory."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    func = te.create_prim_func([A, B])
    sch = tir.Schedule(func)
    i, j = sch.get_loops("B")
    i0, i1 = sch.split(i, [None, tile])
    j0, j1 = sch.split(j, [None, tile])
    sch.reorder(i0, j0, i1, j1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    fetch = sch.cache_read("B", 0, "shared")
    sch.compute_at(fetch, j0)
    for block in (fetch, "B"):
        y, x = sch.get_loops(block)[-2:]
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    a = random(n, n)
    return Program(func, sch, (a,), a.T.copy())


#: by the name of the snapshot
PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: same_each_time(f)
    for f in (
        vector_add, matmul_naive, matmul_tiled, matmul_virtual, matmul_double_buffered,
        matmul_async, matmul_padded, row_sum, row_sum_in_memory,
        row_sum_of_warps, softmax, sums_by_atomics, transpose,
    )
}  # fmt: skip
